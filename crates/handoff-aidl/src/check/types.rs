//! Types where they are used.

use super::Checker;
use crate::ast::{Dimension, Expr, ItemKind, TypeExpr};
use crate::diagnostic::Diagnostic;
use crate::model::{DefId, HOLDER, Primitive, Type, TypeKind, Value};
use crate::source::Language;

/// The descriptor of a message queue in AIDL.
pub(crate) const QUEUE: &str = "android.hardware.common.fmq.MQDescriptor";
/// The flavour with flow control.
pub(crate) const SYNCHRONIZED: &str = "android.hardware.common.fmq.SynchronizedReadWrite";
/// The flavour without.
pub(crate) const UNSYNCHRONIZED: &str = "android.hardware.common.fmq.UnsynchronizedWrite";
/// What HIDL's `handle` is.
pub(crate) const NATIVE_HANDLE: &str = "android.hardware.common.NativeHandle";
/// Items that one fixed array may have, all dimensions together.
const MOST_ITEMS: u32 = 1 << 20;

impl Checker<'_> {
    /// What a type means inside of a definition.
    pub(super) fn resolve_type(&mut self, scope: DefId, ty: &TypeExpr) -> Type {
        self.check_type_annotations(scope, ty);
        let nullable = ty.annotations.iter().find(|one| one.name.text == "nullable");
        let heap = nullable.is_some_and(|one| {
            one.arguments.iter().any(|(name, value)| {
                name.text == "heap" && matches!(value.kind, crate::ast::ExprKind::Bool(true))
            })
        });
        let utf8 = ty.annotations.iter().any(|one| one.name.text == "utf8InCpp");
        let base = self.resolve_name(scope, ty);
        let is_handle = self.language(scope) == Language::Hidl && ty.path.text() == "handle";
        let kind = self.with_dimensions(scope, ty, base);
        let nullable = nullable.is_some() || is_handle && ty.dimensions.is_empty();
        Type { kind, nullable, heap, utf8 }
    }

    fn with_dimensions(&mut self, scope: DefId, ty: &TypeExpr, base: TypeKind) -> TypeKind {
        if ty.dimensions.is_empty() {
            return base;
        }
        if base == TypeKind::Void {
            self.error(Diagnostic::error(ty.span, "there is no array of `void`"));
            return TypeKind::Unknown;
        }
        let open = ty.dimensions.iter().filter(|one| matches!(one, Dimension::Open(_))).count();
        if open > 0 && ty.dimensions.len() > 1 {
            let diagnostic = Diagnostic::error(ty.span, "only arrays of fixed sizes have several dimensions")
                .help("give each dimension a size, or wrap the inner array in a parcelable");
            self.error(diagnostic);
            return TypeKind::Unknown;
        }
        if open > 0 && self.language(scope) == Language::Hidl {
            let inner = ty.path.text();
            let diagnostic = Diagnostic::error(ty.span, "arrays of HIDL have a size")
                .help("did you mean")
                .fix(ty.span, format!("vec<{inner}>"));
            self.error(diagnostic);
        }
        let item = |kind: TypeKind| Box::new(Type::plain(kind));
        let mut kind = base;
        let mut items = 1u32;
        // `T[2][3]` is two arrays of three.
        for dimension in ty.dimensions.iter().rev() {
            kind = match dimension {
                Dimension::Open(_) => TypeKind::Array(item(kind)),
                Dimension::Fixed(size) => {
                    let size = self.array_size(scope, size);
                    items = items.saturating_mul(size);
                    TypeKind::Fixed(item(kind), size)
                }
            };
        }
        if items > MOST_ITEMS {
            let diagnostic = Diagnostic::error(ty.span, format!("an array of more than {MOST_ITEMS} items"))
                .help("use an array without a size, or shared memory");
            self.error(diagnostic);
            return TypeKind::Unknown;
        }
        kind
    }

    fn array_size(&mut self, scope: DefId, size: &Expr) -> u32 {
        match self.evaluate(scope, size) {
            Some(Value::Integer(value) | Value::Enumerator(_, _, value))
                if value > 0 && value <= i128::from(MOST_ITEMS) =>
            {
                value as u32
            }
            Some(Value::Integer(value)) => {
                let diagnostic = Diagnostic::error(size.span, format!("{value} is no size of an array"))
                    .label(format!("from 1 to {MOST_ITEMS}"));
                self.error(diagnostic);
                1
            }
            Some(_) => {
                self.error(Diagnostic::error(size.span, "the size of an array is a whole number"));
                1
            }
            None => 1,
        }
    }

    fn resolve_name(&mut self, scope: DefId, ty: &TypeExpr) -> TypeKind {
        let name = ty.path.text();
        let language = self.language(scope);
        if let Some(primitive) = Primitive::of(&name, language) {
            self.no_arguments(ty);
            return TypeKind::Primitive(primitive);
        }
        if self.is_type_parameter(scope, &name) {
            self.no_arguments(ty);
            return TypeKind::Parameter(name);
        }
        match language {
            Language::Aidl => self.resolve_aidl_type(scope, ty, &name),
            Language::Hidl => self.resolve_hidl_type(scope, ty, &name),
        }
    }

    fn resolve_aidl_type(&mut self, scope: DefId, ty: &TypeExpr, name: &str) -> TypeKind {
        let unsupported = match name {
            "List" | "java.util.List" => {
                return match self.one_argument(scope, ty) {
                    Some(item) => TypeKind::List(Box::new(item)),
                    None => TypeKind::Unknown,
                };
            }
            "Map" | "java.util.Map" => "a `Map` can only be carried by Java: make it an array of parcelables",
            "ParcelableHolder" if self.names.contains_key(HOLDER) => {
                self.no_arguments(ty);
                return TypeKind::Named(self.names[HOLDER], Vec::new());
            }
            "PersistableBundle" if self.resolve(scope, &ty.path).is_none() => {
                "import it: `import android.os.PersistableBundle;`"
            }
            "Bundle" if self.resolve(scope, &ty.path).is_none() => {
                "a `Bundle` can only be carried by Java: use a `PersistableBundle`, or make a parcelable of it"
            }
            "void"
            | "String"
            | "CharSequence"
            | "IBinder"
            | "android.os.IBinder"
            | "FileDescriptor"
            | "ParcelFileDescriptor"
            | "android.os.ParcelFileDescriptor" => {
                self.no_arguments(ty);
                return match name.rsplit('.').next().unwrap_or(name) {
                    "void" => TypeKind::Void,
                    "String" => TypeKind::String,
                    "CharSequence" => TypeKind::CharSequence,
                    "IBinder" => TypeKind::Binder,
                    "FileDescriptor" => TypeKind::BareFileDescriptor,
                    _ => TypeKind::FileDescriptor,
                };
            }
            _ => return self.resolve_named(scope, ty),
        };
        self.error(Diagnostic::error(ty.span, format!("`{name}` cannot be used here")).help(unsupported));
        TypeKind::Unknown
    }

    fn resolve_hidl_type(&mut self, scope: DefId, ty: &TypeExpr, name: &str) -> TypeKind {
        let plain = match name {
            "string" => TypeKind::String,
            "memory" => TypeKind::Memory,
            "interface" => TypeKind::Binder,
            "handle" => match self.names.get(NATIVE_HANDLE) {
                Some(id) => TypeKind::Named(*id, Vec::new()),
                None => TypeKind::Unknown,
            },
            "vec" | "fmq_sync" | "fmq_unsync" => {
                let Some(item) = self.one_argument(scope, ty) else { return TypeKind::Unknown };
                let item = Box::new(item);
                return match name {
                    "vec" => TypeKind::Array(item),
                    _ => TypeKind::Queue { synchronized: name == "fmq_sync", item },
                };
            }
            "bitfield" => {
                let [argument] = ty.arguments.as_slice() else {
                    self.one_argument(scope, ty);
                    return TypeKind::Unknown;
                };
                return match self.resolve_type(scope, argument).kind {
                    TypeKind::Named(id, _) if self.is_enum(id) => TypeKind::Bitfield(id),
                    _ => {
                        let diagnostic = Diagnostic::error(argument.span, "`bitfield` takes an enum")
                            .help("name the enum whose values are the bits");
                        self.error(diagnostic);
                        TypeKind::Unknown
                    }
                };
            }
            "pointer" | "ref" => {
                let diagnostic =
                    Diagnostic::error(ty.span, format!("`{name}` means nothing in another process"))
                        .help("send what it points to, or `memory`");
                self.error(diagnostic);
                return TypeKind::Unknown;
            }
            "death_recipient" => {
                let diagnostic = Diagnostic::error(ty.span, "a death recipient is not sent")
                    .help("whoever holds an object links to its death with `Binder::link_to_death`");
                self.error(diagnostic);
                return TypeKind::Unknown;
            }
            _ => return self.resolve_named(scope, ty),
        };
        self.no_arguments(ty);
        plain
    }

    /// A type that a file defines.
    fn resolve_named(&mut self, scope: DefId, ty: &TypeExpr) -> TypeKind {
        let Some(id) = self.resolve(scope, &ty.path) else {
            self.unknown_type(scope, &ty.path);
            return TypeKind::Unknown;
        };
        if let ItemKind::Typedef { target } = &self.entry(id).item.kind {
            self.no_arguments(ty);
            if self.depth > super::eval::DEEPEST {
                let diagnostic = Diagnostic::error(ty.span, "this typedef stands for itself")
                    .label("leads back to itself");
                self.error(diagnostic);
                return TypeKind::Unknown;
            }
            self.depth += 1;
            let kind = self.resolve_type(id, target).kind;
            self.depth -= 1;
            return kind;
        }
        let full = self.entry(id).name.to_string();
        if full == QUEUE {
            return self.resolve_queue(scope, ty);
        }
        let wanted = match &self.entry(id).item.kind {
            ItemKind::Parcelable { parameters, .. } | ItemKind::Union { parameters, .. } => parameters.len(),
            _ => 0,
        };
        if wanted != ty.arguments.len() {
            let message = format!("`{full}` takes {wanted} type arguments, not {}", ty.arguments.len());
            self.error(Diagnostic::error(ty.span, message));
            return TypeKind::Unknown;
        }
        let arguments = ty.arguments.iter().map(|one| self.resolve_type(scope, one)).collect();
        TypeKind::Named(id, arguments)
    }

    /// `MQDescriptor<T, SynchronizedReadWrite>`
    fn resolve_queue(&mut self, scope: DefId, ty: &TypeExpr) -> TypeKind {
        let [item, flavour] = ty.arguments.as_slice() else {
            let diagnostic = Diagnostic::error(ty.span, "a queue's descriptor takes two type arguments")
                .help("write `MQDescriptor<byte, SynchronizedReadWrite>`");
            self.error(diagnostic);
            return TypeKind::Unknown;
        };
        let item = Box::new(self.resolve_type(scope, item));
        let name = self.resolve(scope, &flavour.path).map(|id| self.entry(id).name.to_string());
        match name.as_deref() {
            Some(SYNCHRONIZED) => TypeKind::Queue { synchronized: true, item },
            Some(UNSYNCHRONIZED) => TypeKind::Queue { synchronized: false, item },
            _ => {
                let diagnostic = Diagnostic::error(flavour.span, "this is no flavour of a queue")
                    .help(format!("import and write `{}` or `{}`", SYNCHRONIZED, UNSYNCHRONIZED));
                self.error(diagnostic);
                TypeKind::Unknown
            }
        }
    }

    fn one_argument(&mut self, scope: DefId, ty: &TypeExpr) -> Option<Type> {
        match ty.arguments.as_slice() {
            [item] => Some(self.resolve_type(scope, item)),
            arguments => {
                let name = ty.path.text();
                let message = format!("`{name}` takes one type, not {}", arguments.len());
                let diagnostic =
                    Diagnostic::error(ty.span, message).help(format!("write what it holds: `{name}<...>`"));
                self.error(diagnostic);
                None
            }
        }
    }

    fn no_arguments(&mut self, ty: &TypeExpr) {
        if let Some(first) = ty.arguments.first() {
            let message = format!("`{}` takes no type arguments", ty.path.text());
            self.error(Diagnostic::error(first.span, message));
        }
    }

    fn is_type_parameter(&self, scope: DefId, name: &str) -> bool {
        match &self.entry(scope).item.kind {
            ItemKind::Parcelable { parameters, .. } | ItemKind::Union { parameters, .. } => {
                parameters.iter().any(|parameter| parameter.text == name)
            }
            _ => false,
        }
    }

    pub(super) fn is_enum(&self, id: DefId) -> bool {
        matches!(self.entry(id).item.kind, ItemKind::Enum { .. })
    }
}
