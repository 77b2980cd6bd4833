//! Types and values of a model as those of C++.

use super::Generator;
use super::names::text;
use crate::ast::Direction;
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefKind, Parameter, Primitive, Type, TypeKind, Value};

impl Generator<'_> {
    /// Reports types that the NDK's C++ does not have.
    pub(super) fn check_types(&mut self, def: &Def) {
        for (at, what, help) in crate::classes::wrong_types(def, "C++") {
            self.error(Diagnostic::error(at, what).help(help));
        }
        if let DefKind::Opaque { ndk_header: None, .. } = &def.kind {
            let diagnostic =
                Diagnostic::error(def.span, "no header is known that has this parcelable's class").help(
                    format!(
                        "name it: `parcelable {} ndk_header \"a/b.h\";`, or give it fields",
                        def.name.last()
                    ),
                );
            self.error(diagnostic);
        }
    }

    /// The type that holds a value.
    pub(super) fn ty(&self, ty: &Type) -> String {
        let plain = match &ty.kind {
            TypeKind::Primitive(primitive) => number(*primitive).to_owned(),
            TypeKind::String => "std::string".to_owned(),
            TypeKind::Binder => return "::ndk::SpAIBinder".to_owned(),
            TypeKind::FileDescriptor => return "::ndk::ScopedFileDescriptor".to_owned(),
            TypeKind::Queue { synchronized, item } => {
                let [class, flavour] = self.queue(*synchronized).map(|def| self.full(def));
                format!("{class}<{}, {flavour}>", self.ty(item))
            }
            TypeKind::Parameter(name) => name.clone(),
            TypeKind::Named(id, arguments) if !arguments.is_empty() => {
                let arguments: Vec<String> = arguments.iter().map(|one| self.ty(one)).collect();
                format!("{}<{}>", self.full(self.model.def(*id)), arguments.join(", "))
            }
            TypeKind::Named(id, _) => {
                let def = self.model.def(*id);
                match &def.kind {
                    DefKind::Interface(_) => return format!("std::shared_ptr<{}>", self.full(def)),
                    DefKind::Enum(_) => return self.full(def),
                    _ if ty.nullable && ty.heap => return format!("std::unique_ptr<{}>", self.full(def)),
                    _ => self.full(def),
                }
            }
            TypeKind::Array(item) | TypeKind::List(item) => {
                format!("std::vector<{}>", self.item_ty(item, ty.nullable))
            }
            TypeKind::Fixed(item, size) => {
                format!("std::array<{}, {size}>", self.item_ty(item, ty.nullable))
            }
            // Nothing, or reported.
            _ => "void".to_owned(),
        };
        let is_number = matches!(ty.kind, TypeKind::Primitive(_));
        if ty.nullable && !is_number { format!("std::optional<{plain}>") } else { plain }
    }

    /// Items of an array: bytes are unsigned, and what may be null is so in an array that may be null.
    fn item_ty(&self, item: &Type, nullable: bool) -> String {
        match &item.kind {
            TypeKind::Primitive(Primitive::I8) => "uint8_t".to_owned(),
            _ => self.ty(&self.item(item, nullable)),
        }
    }

    pub(super) fn item(&self, item: &Type, nullable: bool) -> Type {
        // Of several dimensions the items of the last one are meant.
        if let TypeKind::Fixed(inner, size) = &item.kind {
            let kind = TypeKind::Fixed(Box::new(self.item(inner, nullable)), *size);
            return Type { kind, ..item.clone() };
        }
        let own = match &item.kind {
            TypeKind::String => true,
            TypeKind::Named(id, _) => {
                !matches!(self.model.def(*id).kind, DefKind::Enum(_) | DefKind::Interface(_))
            }
            _ => false,
        };
        Type { nullable: item.nullable || (nullable && own), ..item.clone() }
    }

    /// Whether values are small enough to be handed over as they are.
    fn is_scalar(&self, ty: &Type) -> bool {
        match &ty.kind {
            TypeKind::Primitive(_) => true,
            TypeKind::Named(id, _) => matches!(self.model.def(*id).kind, DefKind::Enum(_)),
            _ => false,
        }
    }

    /// A parameter of a method, with its name or without.
    pub(super) fn parameter(&self, parameter: &Parameter) -> String {
        let (ty, name) = (self.ty(&parameter.ty), argument(parameter));
        match parameter.direction {
            Direction::In if self.is_scalar(&parameter.ty) => format!("{ty} {name}"),
            Direction::In => format!("const {ty}& {name}"),
            _ => format!("{ty}* {name}"),
        }
    }

    /// The function that writes or reads values of a type.
    pub(super) fn codec(&self, ty: &Type, does: &str) -> String {
        let may_be_null = ty.nullable && !self.is_scalar(ty);
        format!("::ndk::AParcel_{does}{}Data", if may_be_null { "Nullable" } else { "" })
    }

    /// What a field is without being set, as an initialiser; empty where the type knows.
    pub(super) fn initial(&self, ty: &Type, default: Option<&Value>) -> String {
        if let Some(value) = default {
            return format!(" = {}", self.value(ty, value));
        }
        match &ty.kind {
            TypeKind::Primitive(Primitive::Bool) => " = false".to_owned(),
            TypeKind::Primitive(Primitive::F32) => " = 0.0f".to_owned(),
            TypeKind::Primitive(Primitive::F64) => " = 0.0".to_owned(),
            TypeKind::Primitive(Primitive::Char) => " = u'\\0'".to_owned(),
            TypeKind::Primitive(_) => " = 0".to_owned(),
            TypeKind::Named(..) if self.is_scalar(ty) => format!(" = static_cast<{}>(0)", self.ty(ty)),
            TypeKind::Fixed(..) if !ty.nullable => " = {}".to_owned(),
            _ => String::new(),
        }
    }

    /// A value as an expression.
    pub(super) fn value(&self, ty: &Type, value: &Value) -> String {
        match (value, &ty.kind) {
            (Value::Bool(value), _) => value.to_string(),
            (Value::Integer(value), TypeKind::Primitive(Primitive::F32)) => format!("{value}.0f"),
            (Value::Integer(value), TypeKind::Primitive(Primitive::F64)) => format!("{value}.0"),
            (Value::Integer(value), TypeKind::Primitive(primitive)) => integer(*primitive, *value),
            (Value::Float(value), TypeKind::Primitive(Primitive::F32)) => {
                float(f64::from(*value as f32), &format!("{:?}f", *value as f32))
            }
            (Value::Float(value), _) => float(*value, &format!("{value:?}")),
            (Value::Character(unit), TypeKind::Primitive(Primitive::I8)) => format!("{}", *unit as i8),
            (Value::Character(unit), _) => format!("static_cast<char16_t>({unit})"),
            (Value::Text(value), _) if value.contains('\0') => {
                format!("std::string({}, {})", text(value), value.len())
            }
            (Value::Text(value), _) => text(value),
            (Value::Enumerator(id, name, _), TypeKind::Named(..)) => {
                format!("{}::{name}", self.full(self.model.def(*id)))
            }
            (Value::Enumerator(_, _, value), TypeKind::Primitive(primitive)) => integer(*primitive, *value),
            (Value::List(items), TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _)) => {
                let inner = self.item(item, ty.nullable);
                let is_byte = matches!(inner.kind, TypeKind::Primitive(Primitive::I8));
                let items: Vec<String> = items
                    .iter()
                    .map(|one| match one {
                        Value::Integer(value) | Value::Enumerator(_, _, value) if is_byte => {
                            (*value as u8).to_string()
                        }
                        one => self.value(&inner, one),
                    })
                    .collect();
                let plain = self.ty(&Type { nullable: ty.nullable, ..ty.clone() });
                let plain = plain
                    .strip_prefix("std::optional<")
                    .and_then(|rest| rest.strip_suffix('>'))
                    .unwrap_or(&plain);
                // An array is a class with an array in it.
                let (open, close) =
                    if matches!(ty.kind, TypeKind::Fixed(..)) { ("{{", "}}") } else { ("{", "}") };
                format!("{plain}{open}{}{close}", items.join(", "))
            }
            (other, _) => other.to_string(),
        }
    }
}

fn float(value: f64, literal: &str) -> String {
    if value.is_nan() {
        "__builtin_nan(\"\")".to_owned()
    } else if value.is_infinite() {
        format!("{}__builtin_inf()", if value < 0.0 { "-" } else { "" })
    } else {
        literal.to_owned()
    }
}

/// A whole number, where the least one of a type is no literal.
pub(super) fn integer(primitive: Primitive, value: i128) -> String {
    match primitive {
        Primitive::I64 if value == i64::MIN.into() => "INT64_MIN".to_owned(),
        Primitive::I64 => format!("INT64_C({value})"),
        Primitive::I32 if value == i32::MIN.into() => "INT32_MIN".to_owned(),
        _ => value.to_string(),
    }
}

/// The name of a parameter.
pub(super) fn argument(parameter: &Parameter) -> String {
    let prefix = if parameter.direction == Direction::Out { "out" } else { "in" };
    format!("{prefix}_{}", parameter.name)
}

/// The type of a number: HIDL's names are those of `<cstdint>`, but AIDL's `char` is a UTF-16 unit.
pub(super) fn number(primitive: Primitive) -> &'static str {
    if primitive == Primitive::Char { "char16_t" } else { primitive.hidl() }
}
