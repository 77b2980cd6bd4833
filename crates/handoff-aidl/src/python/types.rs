//! Types of a model as annotations, codecs and values of Python.

use super::Generator;
use super::names::{constant, text};
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefId, DefKind, Primitive, Type, TypeKind, Value};
use crate::source::Span;

impl Generator<'_> {
    /// Reports what Python cannot say of the types of a definition.
    pub(super) fn expressible(&mut self, def: &Def) {
        let mut wrong: Vec<(Span, &str, &str)> = Vec::new();
        crate::check::each_type(def, &mut |ty, at| match &ty.kind {
            TypeKind::Memory => wrong.push((
                at,
                "`memory` cannot be used from Python",
                "use a `handle`, or AIDL's ParcelFileDescriptor and a size",
            )),
            TypeKind::Queue { .. } if self.model.find(crate::check::QUEUE).is_none() => wrong.push((
                at,
                "a message queue of HIDL cannot be used from Python",
                "convert the package with `handoff aidl from-hidl`: Python passes AIDL's MQDescriptor on",
            )),
            TypeKind::Parameter(_) if def.name.to_string() != crate::check::QUEUE => wrong.push((
                at,
                "parcelables with type parameters are not supported",
                "write one for each type that it is used with",
            )),
            _ => {}
        });
        for (at, what, help) in wrong {
            self.error(Diagnostic::error(at, what).help(help));
        }
    }

    /// The type that a value is of, seen where `shadowed` are other things.
    pub(super) fn annotation(&self, ty: &Type, shadowed: &[String]) -> String {
        let builtin = |name: &str| {
            let hidden =
                shadowed.iter().any(|other| other == name) || self.names.values().any(|other| other == name);
            if hidden { format!("_builtins.{name}") } else { name.to_owned() }
        };
        let plain = match &ty.kind {
            TypeKind::Void => "None".to_owned(),
            TypeKind::Primitive(Primitive::Bool) => builtin("bool"),
            TypeKind::Primitive(Primitive::F32 | Primitive::F64) => builtin("float"),
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => builtin("int"),
            TypeKind::String | TypeKind::CharSequence => builtin("str"),
            TypeKind::Binder => "_handoff.Remote".to_owned(),
            TypeKind::FileDescriptor | TypeKind::BareFileDescriptor => "_handoff.FileDescriptor".to_owned(),
            TypeKind::Named(id, _) => self.name(*id),
            TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) if is_byte(item) => {
                builtin("bytes")
            }
            TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _) => {
                let item = self.annotation(&self.item(item, ty.nullable), shadowed);
                format!("{}[{item}]", builtin("list"))
            }
            TypeKind::Queue { .. } => self.queue().map(|def| self.name(def)).unwrap_or_default(),
            TypeKind::Memory | TypeKind::Parameter(_) | TypeKind::Unknown => "_typing.Any".to_owned(),
        };
        if ty.nullable { format!("_typing.Optional[{plain}]") } else { plain }
    }

    /// The items of an array: what may be null in an array that may be null.
    fn item(&self, item: &Type, nullable: bool) -> Type {
        let own = match &item.kind {
            TypeKind::Array(_) | TypeKind::Fixed(..) | TypeKind::Primitive(_) | TypeKind::Bitfield(_) => {
                false
            }
            TypeKind::Named(id, _) => !matches!(self.model.def(*id).kind, DefKind::Enum(_)),
            _ => true,
        };
        Type { nullable: item.nullable || (nullable && own), ..item.clone() }
    }

    fn queue(&self) -> Option<DefId> {
        self.model.find(crate::check::QUEUE).map(|def| def.id)
    }

    /// The expression that knows how values of a type travel.
    pub(super) fn codec(&self, ty: &Type) -> String {
        let plain = match &ty.kind {
            TypeKind::Primitive(primitive) => number(*primitive).to_owned(),
            TypeKind::Bitfield(id) => match &self.model.def(*id).kind {
                DefKind::Enum(of) => number(of.backing).to_owned(),
                _ => number(Primitive::I32).to_owned(),
            },
            TypeKind::String => "_aidl.STRING".to_owned(),
            TypeKind::CharSequence => "_aidl.CHAR_SEQUENCE".to_owned(),
            TypeKind::Binder => "_aidl.OBJECT".to_owned(),
            TypeKind::FileDescriptor => "_aidl.FILE".to_owned(),
            TypeKind::BareFileDescriptor => "_aidl.BARE_FILE".to_owned(),
            TypeKind::Named(id, _) if self.model.def(*id).is_bundle() => "_aidl.BUNDLE".to_owned(),
            TypeKind::Named(id, _) => format!("_{}", self.name(*id)),
            TypeKind::Queue { .. } => {
                format!("_{}", self.queue().map(|def| self.name(def)).unwrap_or_default())
            }
            TypeKind::Array(item) | TypeKind::List(item) if is_byte(item) => "_aidl.BYTES".to_owned(),
            TypeKind::Array(item) | TypeKind::List(item) => {
                format!("_aidl.array({})", self.codec(&self.item(item, ty.nullable)))
            }
            TypeKind::Fixed(item, size) if is_byte(item) => format!("_aidl.fixed_bytes({size})"),
            TypeKind::Fixed(item, size) => {
                format!("_aidl.fixed({}, {size})", self.codec(&self.item(item, ty.nullable)))
            }
            // Reported, or never asked for.
            TypeKind::Void | TypeKind::Memory | TypeKind::Parameter(_) | TypeKind::Unknown => String::new(),
        };
        if ty.nullable { format!("_aidl.nullable({plain})") } else { plain }
    }

    /// What a field is without being set.
    pub(super) fn default(&self, ty: &Type) -> String {
        if ty.nullable || !self.model.has_default(ty) {
            return "None".to_owned();
        }
        match &ty.kind {
            TypeKind::Primitive(Primitive::Bool) => "False".to_owned(),
            TypeKind::Primitive(Primitive::F32 | Primitive::F64) => "0.0".to_owned(),
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => "0".to_owned(),
            TypeKind::Array(item) | TypeKind::List(item) if is_byte(item) => "b\"\"".to_owned(),
            TypeKind::Array(_) | TypeKind::List(_) => "[]".to_owned(),
            TypeKind::Fixed(item, size) if is_byte(item) => format!("_builtins.bytes({size})"),
            TypeKind::Fixed(item, size) => {
                format!("[{} for _ in _builtins.range({size})]", self.default(item))
            }
            TypeKind::Named(id, _) => match &self.model.def(*id).kind {
                DefKind::Enum(_) => format!("{}(0)", self.name(*id)),
                _ => format!("{}()", self.name(*id)),
            },
            _ => "\"\"".to_owned(),
        }
    }

    /// A value as an expression; `fixed` for one that never changes.
    pub(super) fn value(&self, ty: &Type, value: &Value, fixed: bool) -> String {
        match (value, &ty.kind) {
            (Value::Bool(true), _) => "True".to_owned(),
            (Value::Bool(false), _) => "False".to_owned(),
            (Value::Integer(value), TypeKind::Primitive(Primitive::F32 | Primitive::F64)) => {
                format!("{value}.0")
            }
            (Value::Integer(value), _) => value.to_string(),
            (Value::Float(value), _) if !value.is_finite() => format!("_builtins.float(\"{value}\")"),
            (Value::Float(value), TypeKind::Primitive(Primitive::F32)) if (*value as f32).is_finite() => {
                format!("{:?}", *value as f32)
            }
            (Value::Float(value), _) => format!("{value:?}"),
            (Value::Character(unit), _) => unit.to_string(),
            (Value::Text(value), _) => text(value),
            (Value::Enumerator(id, name, _), TypeKind::Named(..)) => {
                format!("{}.{}", self.name(*id), constant(name))
            }
            (Value::Enumerator(_, _, value), _) => value.to_string(),
            (Value::List(items), TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _)) => {
                if is_byte(item) {
                    let byte = |one: &Value| match one {
                        Value::Integer(value) | Value::Enumerator(_, _, value) => (*value as u8).to_string(),
                        Value::Character(unit) => (*unit as u8).to_string(),
                        _ => "0".to_owned(),
                    };
                    let bytes: Vec<String> = items.iter().map(byte).collect();
                    return format!("_builtins.bytes([{}])", bytes.join(", "));
                }
                let items: Vec<String> = items.iter().map(|one| self.value(item, one, fixed)).collect();
                match (fixed, items.as_slice()) {
                    (true, [one]) => format!("({one},)"),
                    (true, several) => format!("({})", several.join(", ")),
                    (false, several) => format!("[{}]", several.join(", ")),
                }
            }
            (Value::List(_), _) => "None".to_owned(),
        }
    }
}

/// Whether an array of such items is `bytes`.
pub(super) fn is_byte(item: &Type) -> bool {
    matches!(item.kind, TypeKind::Primitive(Primitive::I8 | Primitive::U8))
}

/// The expression of a number's codec.
pub(super) fn number(primitive: Primitive) -> &'static str {
    use Primitive::*;
    match primitive {
        Bool => "_aidl.BOOL",
        I8 => "_aidl.BYTE",
        U8 => "_aidl.UBYTE",
        I16 => "_aidl.SHORT",
        U16 | Char => "_aidl.CHAR",
        I32 => "_aidl.INT",
        U32 => "_aidl.UINT",
        I64 => "_aidl.LONG",
        U64 => "_aidl.ULONG",
        F32 => "_aidl.FLOAT",
        F64 => "_aidl.DOUBLE",
    }
}
