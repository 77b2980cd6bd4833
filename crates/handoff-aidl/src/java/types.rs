//! Names, types and values of a model as those of Java, and how a parcel holds them.

use super::Generator;
use crate::ast::Direction;
use crate::check::{QUEUE, SYNCHRONIZED, UNSYNCHRONIZED};
use crate::diagnostic::Diagnostic;
use crate::model::{Def, DefKind, Method, Primitive, Type, TypeKind, Value};
use crate::source::Span;

/// Words of Java that AIDL lets one use as names.
const KEYWORDS: [&str; 39] = [
    "abstract",
    "assert",
    "break",
    "case",
    "catch",
    "class",
    "continue",
    "default",
    "do",
    "else",
    "extends",
    "final",
    "finally",
    "for",
    "goto",
    "if",
    "implements",
    "instanceof",
    "native",
    "new",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "short",
    "static",
    "strictfp",
    "super",
    "switch",
    "synchronized",
    "this",
    "throw",
    "throws",
    "transient",
    "try",
    "volatile",
    "while",
    "null",
];

/// How a parcel holds values of a type.
enum ParcelForm {
    /// By functions of this name: `writeInt`, `readInt`, and for arrays `createIntArray`.
    Plain(&'static str),
    /// As what the class writes itself.
    Typed(String),
    /// As a reference to an object, which this class makes of it.
    Interface(String),
}

/// Whether every class of Java has a method with a name and parameters, which one that throws cannot take the place of.
fn is_of_every_class(method: &Method) -> bool {
    let numbers: Vec<&TypeKind> = method.parameters.iter().map(|one| &one.ty.kind).collect();
    let (long, int) = (TypeKind::Primitive(Primitive::I64), TypeKind::Primitive(Primitive::I32));
    match method.name.as_str() {
        "asBinder" | "clone" | "finalize" | "getClass" | "hashCode" | "notify" | "notifyAll" | "toString" => {
            numbers.is_empty()
        }
        "wait" => [&[][..], &[&long], &[&long, &int]].contains(&numbers.as_slice()),
        _ => false,
    }
}

impl Generator<'_> {
    pub(super) fn check_types(&mut self, def: &Def) {
        let mut wrong = crate::classes::wrong_types(def, "Java");
        let help = "write one for each type that it is used with";
        crate::check::each_type(def, &mut |ty, at| {
            let what = match &ty.kind {
                TypeKind::Parameter(_) => "a field of a type parameter",
                _ => return,
            };
            wrong.push((at, format!("{what} cannot be used from Java"), help));
        });
        if let DefKind::Interface(interface) = &def.kind {
            for method in &interface.methods {
                let is_bare = |ty: &Type| ty.kind == TypeKind::FileDescriptor;
                if method.parameters.iter().any(|one| one.direction != Direction::In && is_bare(&one.ty)) {
                    wrong.push((
                        method.span,
                        "Java has no empty ParcelFileDescriptor that a service could fill".to_owned(),
                        "let the method return it, or take an array",
                    ));
                }
            }
        }
        for (at, what, help) in wrong {
            self.diagnostics.push(Diagnostic::error(at, what).help(help));
        }
    }

    pub(super) fn check_names(&mut self, def: &Def) {
        let of = def.name.package.iter().map(|part| (part.as_str(), def.span));
        let mut names: Vec<(&str, Span)> = of.chain([(def.name.last(), def.span)]).collect();
        names.extend(def.constants.iter().map(|one| (one.name.as_str(), def.span)));
        let mut taken: Vec<(&str, Span)> = Vec::new();
        match &def.kind {
            DefKind::Interface(interface) => {
                for method in &interface.methods {
                    names.push((&method.name, method.span));
                    taken.extend(is_of_every_class(method).then_some((method.name.as_str(), method.span)));
                    names.extend(method.parameters.iter().map(|one| (one.name.as_str(), method.span)));
                }
            }
            DefKind::Parcelable(parcelable) => {
                names.extend(parcelable.fields.iter().map(|one| (one.name.as_str(), one.span)));
            }
            DefKind::Union(fields) => {
                names.extend(fields.iter().map(|one| (one.name.as_str(), one.span)));
                taken.extend(names.iter().copied().filter(|(name, _)| *name == "tag"));
            }
            DefKind::Enum(of) => {
                names.extend(of.enumerators.iter().map(|one| (one.name.as_str(), def.span)));
            }
            _ => {}
        }
        names.retain(|(name, _)| KEYWORDS.contains(name));
        let words = names.into_iter().map(|at| (at, "is a word of Java that cannot be a name"));
        let taken = taken.into_iter().map(|at| (at, "is something that every such class has in Java"));
        for ((name, at), why) in words.chain(taken) {
            let diagnostic = Diagnostic::error(at, format!("`{name}` {why}"))
                .help("rename it: Android's compiler would write Java that does not compile");
            self.diagnostics.push(diagnostic);
        }
    }

    /// The class of a definition, from anywhere.
    pub(super) fn full(&self, def: &Def) -> String {
        let parts: Vec<&str> = def.name.package.iter().chain(&def.name.names).map(String::as_str).collect();
        parts.join(".")
    }

    /// The type that holds a value.
    pub(super) fn ty(&self, ty: &Type) -> String {
        match &ty.kind {
            TypeKind::Primitive(primitive) => primitive.aidl().to_owned(),
            TypeKind::String => "java.lang.String".to_owned(),
            TypeKind::Binder => "android.os.IBinder".to_owned(),
            TypeKind::FileDescriptor => "android.os.ParcelFileDescriptor".to_owned(),
            TypeKind::Named(id, arguments) => match &self.model.def(*id).kind {
                DefKind::Enum(of) => of.backing.aidl().to_owned(),
                _ if arguments.is_empty() => self.full(self.model.def(*id)),
                _ => {
                    let arguments: Vec<String> = arguments.iter().map(|one| self.boxed(one)).collect();
                    format!("{}<{}>", self.full(self.model.def(*id)), arguments.join(", "))
                }
            },
            TypeKind::Queue { synchronized, item } => {
                let flavour = if *synchronized { SYNCHRONIZED } else { UNSYNCHRONIZED };
                format!("{QUEUE}<{}, {flavour}>", self.boxed(item))
            }
            TypeKind::Array(item) | TypeKind::Fixed(item, _) => format!("{}[]", self.ty(item)),
            TypeKind::List(item) => format!("java.util.List<{}>", self.boxed(item)),
            // Nothing, or reported.
            _ => "void".to_owned(),
        }
    }

    /// The class that holds a value where only classes can.
    fn boxed(&self, ty: &Type) -> String {
        let ty = self.ty(ty);
        match ty.as_str() {
            "boolean" => "java.lang.Boolean".to_owned(),
            "byte" => "java.lang.Byte".to_owned(),
            "char" => "java.lang.Character".to_owned(),
            "int" => "java.lang.Integer".to_owned(),
            "long" => "java.lang.Long".to_owned(),
            "float" => "java.lang.Float".to_owned(),
            "double" => "java.lang.Double".to_owned(),
            _ => ty,
        }
    }

    fn held(&self, ty: &Type) -> ParcelForm {
        use Primitive::*;
        let number = |primitive: Primitive| match primitive {
            Bool => "Boolean",
            I8 | U8 => "Byte",
            Char | U16 => "Char",
            I16 | I32 | U32 => "Int",
            I64 | U64 => "Long",
            F32 => "Float",
            F64 => "Double",
        };
        match &ty.kind {
            TypeKind::Primitive(primitive) => ParcelForm::Plain(number(*primitive)),
            TypeKind::String => ParcelForm::Plain("String"),
            TypeKind::Named(id, _) => {
                let def = self.model.def(*id);
                match &def.kind {
                    DefKind::Enum(of) => ParcelForm::Plain(number(of.backing)),
                    DefKind::Interface(_) => ParcelForm::Interface(self.full(def)),
                    _ => ParcelForm::Typed(self.full(def)),
                }
            }
            TypeKind::FileDescriptor => ParcelForm::Typed(self.ty(ty)),
            TypeKind::Queue { .. } => ParcelForm::Typed(QUEUE.to_owned()),
            _ => ParcelForm::Plain("Binder"),
        }
    }

    /// The item and the sizes of an array of fixed size.
    fn dimensions<'t>(&self, ty: &'t Type) -> (&'t Type, String) {
        let (mut item, mut sizes) = (ty, String::new());
        while let TypeKind::Fixed(inner, size) = &item.kind {
            sizes.push_str(&format!(", {size}"));
            item = inner;
        }
        (item, sizes)
    }

    /// What makes values of an array of fixed size, as arguments; empty for numbers and texts.
    fn maker(&self, item: &Type) -> String {
        match self.held(item) {
            ParcelForm::Plain(_) => String::new(),
            ParcelForm::Typed(class) => format!(", {class}.CREATOR"),
            ParcelForm::Interface(class) => format!(", {class}.Stub::asInterface"),
        }
    }

    /// A statement that writes a value.
    pub(super) fn write(&self, ty: &Type, parcel: &str, value: &str, flags: &str) -> String {
        match &ty.kind {
            TypeKind::Array(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.write{name}Array({value});"),
                ParcelForm::Typed(_) => format!("{parcel}.writeTypedArray({value}, {flags});"),
                ParcelForm::Interface(_) => format!("{parcel}.writeInterfaceArray({value});"),
            },
            TypeKind::List(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.write{name}List({value});"),
                ParcelForm::Typed(_) => format!("{parcel}.writeTypedList({value});"),
                ParcelForm::Interface(_) => format!("{parcel}.writeInterfaceList({value});"),
            },
            TypeKind::Fixed(..) => {
                format!("{parcel}.writeFixedArray({value}, {flags}{});", self.dimensions(ty).1)
            }
            _ => match self.held(ty) {
                ParcelForm::Plain("Char") => format!("{parcel}.writeInt({value});"),
                ParcelForm::Plain("Binder") => format!("{parcel}.writeStrongBinder({value});"),
                ParcelForm::Plain(name) => format!("{parcel}.write{name}({value});"),
                ParcelForm::Typed(_) => format!("{parcel}.writeTypedObject({value}, {flags});"),
                ParcelForm::Interface(_) => format!("{parcel}.writeStrongInterface({value});"),
            },
        }
    }

    /// An expression that reads a value.
    pub(super) fn read(&self, ty: &Type, parcel: &str) -> String {
        match &ty.kind {
            TypeKind::Array(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.create{name}Array()"),
                ParcelForm::Typed(class) => format!("{parcel}.createTypedArray({class}.CREATOR)"),
                ParcelForm::Interface(class) => {
                    format!("{parcel}.createInterfaceArray({class}[]::new, {class}.Stub::asInterface)")
                }
            },
            TypeKind::List(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.create{name}ArrayList()"),
                ParcelForm::Typed(class) => format!("{parcel}.createTypedArrayList({class}.CREATOR)"),
                ParcelForm::Interface(class) => {
                    format!("{parcel}.createInterfaceArrayList({class}.Stub::asInterface)")
                }
            },
            TypeKind::Fixed(..) => {
                let (item, sizes) = self.dimensions(ty);
                format!(
                    "{parcel}.createFixedArray({}.class{}{sizes})",
                    erased(&self.ty(ty)),
                    self.maker(item)
                )
            }
            _ => match self.held(ty) {
                ParcelForm::Plain("Char") => format!("(char) {parcel}.readInt()"),
                ParcelForm::Plain("Binder") => format!("{parcel}.readStrongBinder()"),
                ParcelForm::Plain(name) => format!("{parcel}.read{name}()"),
                ParcelForm::Typed(class) => format!("{parcel}.readTypedObject({class}.CREATOR)"),
                ParcelForm::Interface(class) => {
                    format!("{class}.Stub.asInterface({parcel}.readStrongBinder())")
                }
            },
        }
    }

    /// Statements that read a value into one that the caller has.
    pub(super) fn read_into(&self, ty: &Type, parcel: &str, value: &str) -> String {
        match &ty.kind {
            TypeKind::Array(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.read{name}Array({value});"),
                ParcelForm::Typed(class) => format!("{parcel}.readTypedArray({value}, {class}.CREATOR);"),
                ParcelForm::Interface(class) => {
                    format!("{parcel}.readInterfaceArray({value}, {class}.Stub::asInterface);")
                }
            },
            TypeKind::List(item) => match self.held(item) {
                ParcelForm::Plain(name) => format!("{parcel}.read{name}List({value});"),
                ParcelForm::Typed(class) => format!("{parcel}.readTypedList({value}, {class}.CREATOR);"),
                ParcelForm::Interface(class) => {
                    format!("{parcel}.readInterfaceList({value}, {class}.Stub::asInterface);")
                }
            },
            TypeKind::Fixed(..) => {
                let (item, _) = self.dimensions(ty);
                format!("{parcel}.readFixedArray({value}{});", self.maker(item))
            }
            _ => format!("if (0 != {parcel}.readInt()) {{\n{value}.readFromParcel({parcel});\n}}"),
        }
    }

    /// What an `out` parameter, or a field that is an array of fixed size, begins as; `length` is an array's.
    pub(super) fn empty(&self, ty: &Type, length: &str) -> String {
        match &ty.kind {
            TypeKind::Array(item) => {
                let item = erased(&self.ty(item));
                let (first, rest) = item.split_at(item.find('[').unwrap_or(item.len()));
                format!("new {first}[{length}]{rest}")
            }
            TypeKind::List(_) => "new java.util.ArrayList<>()".to_owned(),
            TypeKind::Fixed(..) => {
                let (item, sizes) = self.dimensions(ty);
                let sizes: String = sizes.split(", ").skip(1).map(|size| format!("[{size}]")).collect();
                format!("new {}{sizes}", erased(&self.ty(item)))
            }
            _ => format!("new {}()", self.ty(ty)),
        }
    }

    /// A value as an expression.
    pub(super) fn value(&self, ty: &Type, value: &Value) -> String {
        use Primitive::{F32, F64, I8, I64};
        match (value, &ty.kind) {
            (Value::Integer(value) | Value::Enumerator(_, _, value), TypeKind::Primitive(I64)) => {
                format!("{value}L")
            }
            (Value::Integer(value), TypeKind::Primitive(F32)) => format!("{value}.0f"),
            (Value::Integer(value), TypeKind::Primitive(F64)) => format!("{value}.0"),
            (Value::Float(value), TypeKind::Primitive(F32)) => {
                float(f64::from(*value as f32), "Float", &format!("{:?}f", *value as f32))
            }
            (Value::Float(value), _) => float(*value, "Double", &format!("{value:?}")),
            (Value::Character(unit), TypeKind::Primitive(I8)) => format!("{}", *unit as i8),
            (Value::Character(unit), _) => format!("(char) {unit}"),
            (Value::Text(value), _) => text(value),
            (Value::Enumerator(id, name, _), TypeKind::Named(..)) => {
                format!("{}.{name}", self.full(self.model.def(*id)))
            }
            (Value::List(items), TypeKind::Array(item) | TypeKind::Fixed(item, _)) => {
                let items: Vec<String> = items.iter().map(|one| self.value(item, one)).collect();
                format!("new {} {{{}}}", erased(&self.ty(ty)), items.join(", "))
            }
            (Value::List(items), TypeKind::List(item)) => {
                let items: Vec<String> = items.iter().map(|one| self.value(item, one)).collect();
                format!("new java.util.ArrayList<>(java.util.Arrays.asList({}))", items.join(", "))
            }
            (other, _) => other.to_string(),
        }
    }
}

/// A class without what it is used with: Java knows no arrays of classes that are.
fn erased(ty: &str) -> String {
    let mut depth = 0;
    let keep = |c: &char| {
        depth += i32::from(*c == '<');
        let is_outside = depth == 0;
        depth -= i32::from(*c == '>');
        is_outside
    };
    ty.chars().filter(keep).collect()
}

fn float(value: f64, class: &str, literal: &str) -> String {
    if value.is_nan() {
        format!("{class}.NaN")
    } else if value.is_infinite() {
        format!("{class}.{}_INFINITY", if value < 0.0 { "NEGATIVE" } else { "POSITIVE" })
    } else {
        literal.to_owned()
    }
}

/// Text as a literal, in characters that every compiler takes.
pub(super) fn text(value: &str) -> String {
    let mut literal = String::from("\"");
    for unit in value.encode_utf16() {
        match char::from_u32(unit.into()) {
            // Escapes by number are made characters before the literal is looked at: these would end it.
            Some('\n') => literal.push_str("\\n"),
            Some('\r') => literal.push_str("\\r"),
            Some(own @ ('"' | '\\')) => literal.extend(['\\', own]),
            Some(own @ ' '..='~') => literal.push(own),
            _ => literal.push_str(&format!("\\u{unit:04x}")),
        }
    }
    literal + "\""
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn literals_are_ascii() {
        assert_eq!(text("a\"\\\n\u{e9}\u{1d11e}"), "\"a\\\"\\\\\\n\\u00e9\\ud834\\udd1e\"");
    }
}
