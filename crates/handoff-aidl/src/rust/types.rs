//! Types of a model as types of Rust, and how they are written, read and handed over.

use super::Generator;
use crate::model::{DefId, DefKind, Primitive, Type, TypeKind, Value};

/// How a parameter is handed to a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Passing {
    Value,
    /// `&str`
    Text,
    /// `&[T]`
    Slice,
    /// `&T`
    Reference,
}

impl Generator<'_> {
    /// The type that owns a value.
    pub(super) fn owned(&self, scope: DefId, ty: &Type) -> String {
        let inner = self.without_null(scope, ty);
        match (ty.nullable, ty.heap) {
            (true, true) => format!("{}<{}<{inner}>>", self.std("Option"), self.std("Box")),
            (true, false) => format!("{}<{inner}>", self.std("Option")),
            (false, _) => inner,
        }
    }

    /// The type of a value that is there.
    pub(super) fn without_null(&self, scope: DefId, ty: &Type) -> String {
        match &ty.kind {
            TypeKind::Void => "()".to_owned(),
            TypeKind::Primitive(primitive) => number(*primitive).to_owned(),
            TypeKind::String => self.std("String"),
            TypeKind::CharSequence => "::handoff_ipc::parcel::CharSequence".to_owned(),
            TypeKind::Binder => "::handoff_ipc::Binder".to_owned(),
            TypeKind::FileDescriptor => "::std::os::fd::OwnedFd".to_owned(),
            TypeKind::BareFileDescriptor => "::handoff_ipc::parcel::BareFd".to_owned(),
            TypeKind::Memory => "::handoff_ipc::SharedMemory".to_owned(),
            TypeKind::Queue { synchronized, item } => self.queue(scope, *synchronized, item),
            TypeKind::Named(id, _) => self.path_to(scope, *id),
            TypeKind::Bitfield(id) => self.path_to(scope, *id),
            TypeKind::Array(item) | TypeKind::List(item) => {
                format!("{}<{}>", self.std("Vec"), self.item(scope, item, ty.nullable))
            }
            TypeKind::Fixed(item, size) => format!("[{}; {size}]", self.item(scope, item, ty.nullable)),
            TypeKind::Parameter(name) => name.clone(),
            TypeKind::Unknown => String::new(),
        }
    }

    /// The items of an array: bytes are unsigned there, and what may be null is null by itself.
    pub(super) fn item(&self, scope: DefId, item: &Type, nullable: bool) -> String {
        match &item.kind {
            TypeKind::Primitive(Primitive::I8) => "u8".to_owned(),
            TypeKind::Array(_) | TypeKind::Fixed(..) | TypeKind::Primitive(_) | TypeKind::Bitfield(_) => {
                self.owned(scope, item)
            }
            TypeKind::Named(id, _) if matches!(self.model.def(*id).kind, DefKind::Enum(_)) => {
                self.owned(scope, item)
            }
            _ if nullable => format!("{}<{}>", self.std("Option"), self.without_null(scope, item)),
            _ => self.owned(scope, item),
        }
    }

    fn queue(&self, scope: DefId, synchronized: bool, item: &Type) -> String {
        let flavour = if synchronized { "Synchronized" } else { "Unsynchronized" };
        let item = self.item(scope, item, false);
        format!("::handoff_ipc::queue::Descriptor<{item}, ::handoff_ipc::queue::{flavour}>")
    }

    /// The type of a field: what has no default is there or not until it is set.
    pub(super) fn field(&self, scope: DefId, ty: &Type) -> String {
        let owned = self.owned(scope, ty);
        if self.model.has_default(ty) { owned } else { format!("{}<{owned}>", self.std("Option")) }
    }

    pub(super) fn passing(&self, ty: &Type) -> Passing {
        match &ty.kind {
            TypeKind::Primitive(_) | TypeKind::Bitfield(_) => Passing::Value,
            TypeKind::String => Passing::Text,
            TypeKind::Array(_) | TypeKind::List(_) => Passing::Slice,
            TypeKind::Named(id, _) if matches!(self.model.def(*id).kind, DefKind::Enum(_)) => Passing::Value,
            _ => Passing::Reference,
        }
    }

    /// The type of an `in` parameter.
    pub(super) fn borrowed(&self, scope: DefId, ty: &Type) -> String {
        let plain = match self.passing(ty) {
            Passing::Value => return self.owned(scope, ty),
            Passing::Text => "&str".to_owned(),
            Passing::Slice => match &ty.kind {
                TypeKind::Array(item) | TypeKind::List(item) => {
                    format!("&[{}]", self.item(scope, item, ty.nullable))
                }
                _ => String::new(),
            },
            Passing::Reference => format!("&{}", self.without_null(scope, ty)),
        };
        if ty.nullable { format!("{}<{plain}>", self.std("Option")) } else { plain }
    }

    /// The statement that writes an `in` parameter.
    pub(super) fn write_borrowed(&self, ty: &Type, name: &str) -> String {
        match (self.passing(ty), ty.nullable) {
            (Passing::Value, _) => format!("to.write(&{name})?;"),
            (Passing::Text, false) => format!("to.write_string16({name})?;"),
            (Passing::Text, true) => format!("to.write_nullable_string16({name})?;"),
            (Passing::Slice, false) if is_bytes(ty) => format!("to.write_bytes({name})?;"),
            (Passing::Slice, false) => format!("to.write_slice({name})?;"),
            (Passing::Slice, true) => format!("to.write_nullable_slice({name})?;"),
            (Passing::Reference, false) => format!("to.write({name})?;"),
            (Passing::Reference, true) => format!("to.write_nullable({name})?;"),
        }
    }

    /// What a stub hands to the service of what it has read as an owned value.
    pub(super) fn lend(&self, ty: &Type, name: &str) -> String {
        match (self.passing(ty), ty.nullable) {
            (Passing::Value, _) => name.to_owned(),
            (Passing::Reference, true) if !ty.heap => format!("{name}.as_ref()"),
            (_, true) => format!("{name}.as_deref()"),
            (_, false) => format!("&{name}"),
        }
    }

    /// A value as an expression of Rust.
    pub(super) fn value(&self, scope: DefId, ty: &Type, value: &Value) -> String {
        match (value, &ty.kind) {
            (Value::Bool(value), _) => value.to_string(),
            (Value::Integer(value), TypeKind::Primitive(Primitive::F32 | Primitive::F64)) => {
                format!("{value}.0")
            }
            (Value::Integer(value), _) => value.to_string(),
            (Value::Float(value), TypeKind::Primitive(Primitive::F32)) => float32(*value),
            (Value::Float(value), _) => format!("{value:?}"),
            (Value::Character(unit), _) => unit.to_string(),
            (Value::Text(text), _) => format!("{text:?}"),
            (Value::Enumerator(id, name, _), TypeKind::Named(..)) => {
                format!("{}::{}", self.path_to(scope, *id), super::names::shouty(name))
            }
            (Value::Enumerator(_, _, value), _) => value.to_string(),
            (Value::List(items), TypeKind::Array(item) | TypeKind::List(item) | TypeKind::Fixed(item, _)) => {
                let unsigned = item.kind == TypeKind::Primitive(Primitive::I8);
                // What may be null in an array that may be null.
                let optional = ty.nullable && self.item(scope, item, true) != self.item(scope, item, false);
                let items: Vec<String> = items
                    .iter()
                    .map(|one| match one {
                        Value::Integer(value) if unsigned => (*value as i8 as u8).to_string(),
                        Value::Text(text) => format!("{text:?}.to_owned()"),
                        one => self.value(scope, item, one),
                    })
                    .map(|one| if optional { format!("{}::Some({one})", self.std("Option")) } else { one })
                    .collect();
                let list = items.join(", ");
                if matches!(ty.kind, TypeKind::Fixed(..)) {
                    format!("[{list}]")
                } else {
                    format!("vec![{list}]")
                }
            }
            (Value::List(_), _) => "Default::default()".to_owned(),
        }
    }
}

/// Whether it is an array of bytes, and there.
pub(super) fn is_bytes(ty: &Type) -> bool {
    let is_byte = |item: &Type| matches!(item.kind, TypeKind::Primitive(Primitive::I8 | Primitive::U8));
    !ty.nullable && matches!(&ty.kind, TypeKind::Array(item) if is_byte(item))
}

/// The Rust type of a primitive.
pub(super) fn number(primitive: Primitive) -> &'static str {
    use Primitive::*;
    match primitive {
        Bool => "bool",
        I8 => "i8",
        U8 => "u8",
        I16 => "i16",
        U16 | Char => "u16",
        I32 => "i32",
        U32 => "u32",
        I64 => "i64",
        U64 => "u64",
        F32 => "f32",
        F64 => "f64",
    }
}

/// A `float` with no more digits than it has, which Rust would warn of.
fn float32(value: f64) -> String {
    format!("{:?}", value as f32)
}
