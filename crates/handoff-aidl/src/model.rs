//! What the files mean: every type with its members resolved and its constants computed. Both
//! languages come to this, and everything that is written (Rust, dumps, comparisons) starts here.

use std::collections::HashMap;
use std::fmt;

use crate::ast::{Direction, Docs, Version};
use crate::source::{FileId, Language, Span};

/// `IBinder::FIRST_CALL_TRANSACTION`: the code of the method with id 0.
pub const FIRST_CALL: u32 = 1;
/// Id of `getInterfaceVersion`, as Android's compiler numbers it.
pub const VERSION_ID: u32 = 0x00ff_fffe;
/// Id of `getInterfaceHash`.
pub const HASH_ID: u32 = VERSION_ID - 1;
/// Ids from here on are kept for methods that every interface has.
pub const FIRST_RESERVED_ID: u32 = VERSION_ID - 99;

/// The definition, brought along, that AIDL's type `ParcelableHolder` stands for.
pub(crate) const HOLDER: &str = "android.os.ParcelableHolder";
/// Values under names, of which every language here has a class.
pub(crate) const BUNDLE: &str = "android.os.PersistableBundle";

/// Number of a definition in its [`Model`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefId(pub(crate) usize);

/// Everything that was defined.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub(crate) defs: Vec<Def>,
    pub(crate) names: HashMap<String, DefId>,
}

impl Model {
    /// A definition.
    ///
    /// # Panics
    /// With an id of another model.
    pub fn def(&self, id: DefId) -> &Def {
        &self.defs[id.0]
    }

    /// Whether a value of a type can be made without being told which.
    pub fn has_default(&self, ty: &Type) -> bool {
        if ty.nullable {
            return true;
        }
        match &ty.kind {
            TypeKind::Binder
            | TypeKind::FileDescriptor
            | TypeKind::BareFileDescriptor
            | TypeKind::Memory
            | TypeKind::Queue { .. } => false,
            TypeKind::Named(id, _) => !matches!(self.def(*id).kind, DefKind::Interface(_)),
            TypeKind::Fixed(item, _) => self.has_default(item),
            _ => true,
        }
    }

    /// The definition of a full name, such as `a.b.IFoo` or `a.b@1.0::IFoo`.
    pub fn find(&self, name: &str) -> Option<&Def> {
        self.names.get(name).map(|id| self.def(*id))
    }

    /// Whether a definition is the enum that says which field of a union is set. Nobody wrote it.
    pub fn is_tag(&self, def: &Def) -> bool {
        let is_union = |parent: DefId| matches!(self.def(parent).kind, DefKind::Union(_));
        def.language == Language::Aidl && def.name.last() == "Tag" && def.parent.is_some_and(is_union)
    }

    /// Whether a type is AIDL's `ParcelableHolder`.
    pub fn is_holder(&self, ty: &Type) -> bool {
        matches!(&ty.kind, TypeKind::Named(id, _) if self.def(*id).is_holder())
    }

    /// Whether a definition, or one that it stands in, promises that it stays as it is. One without fields promises it
    /// for some language by an annotation of that language.
    pub fn is_stable(&self, def: &Def) -> bool {
        let is_class = matches!(def.kind, DefKind::Opaque { .. })
            && def.annotations.iter().any(|one| one.name.ends_with("OnlyStableParcelable"));
        is_class
            || def.has("VintfStability")
            || def.parent.is_some_and(|outer| self.is_stable(self.def(outer)))
    }

    /// Every definition, nested ones behind those that hold them.
    pub fn iter(&self) -> impl Iterator<Item = &Def> {
        self.defs.iter()
    }

    /// The definitions that are nested in another.
    pub fn nested(&self, parent: DefId) -> impl Iterator<Item = &Def> {
        self.defs.iter().filter(move |def| def.parent == Some(parent))
    }

    /// The methods of an interface with those that it inherits in front, each with its code.
    pub fn methods<'a>(&'a self, interface: &'a Interface) -> Vec<(u32, &'a Method)> {
        let mut chain = vec![interface];
        while let Some(base) = chain.last().and_then(|last| last.base) {
            match &self.def(base).kind {
                DefKind::Interface(base) if chain.len() < self.defs.len() => chain.push(base),
                _ => break,
            }
        }
        let inherited = chain.len() > 1;
        let all = chain.iter().rev().flat_map(|interface| &interface.methods);
        all.enumerate()
            .map(|(index, method)| (FIRST_CALL + if inherited { index as u32 } else { method.id }, method))
            .collect()
    }
}

/// The full name of a type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefName {
    /// The names of its package.
    pub package: Vec<String>,
    /// HIDL's version of the package.
    pub version: Option<Version>,
    /// The names of the types that hold it, then its own.
    pub names: Vec<String>,
}

impl DefName {
    pub fn last(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// Its package, as it is written.
    pub fn package_text(&self) -> String {
        match self.version {
            Some(version) => format!("{}@{version}", self.package.join(".")),
            None => self.package.join("."),
        }
    }
}

impl fmt::Display for DefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.join(".");
        match self.version {
            Some(_) => write!(f, "{}::{names}", self.package_text()),
            None if self.package.is_empty() => f.write_str(&names),
            None => write!(f, "{}.{names}", self.package_text()),
        }
    }
}

/// An annotation of a definition, its arguments as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationUse {
    /// Without the `@`.
    pub name: String,
    pub arguments: Vec<(String, Value)>,
}

/// A type that a file defines.
#[derive(Debug, Clone)]
pub struct Def {
    pub id: DefId,
    /// The language that it is written in.
    pub language: Language,
    pub name: DefName,
    /// What it is nested in.
    pub parent: Option<DefId>,
    pub docs: Docs,
    pub annotations: Vec<AnnotationUse>,
    /// Where it is defined.
    pub file: FileId,
    /// Where its name stands.
    pub span: Span,
    pub constants: Vec<Constant>,
    pub kind: DefKind,
}

impl Def {
    /// The name that an object of this interface answers with: `@Descriptor`, else its full name.
    pub fn descriptor(&self) -> String {
        let given = self.annotations.iter().find(|one| one.name == "Descriptor");
        match given.and_then(|one| one.arguments.first()) {
            Some((_, Value::Text(text))) => text.clone(),
            _ => self.name.to_string(),
        }
    }

    /// Whether it is what AIDL's type `ParcelableHolder` stands for.
    pub fn is_holder(&self) -> bool {
        self.name.to_string() == HOLDER
    }

    /// Whether it is Android's `PersistableBundle`.
    pub fn is_bundle(&self) -> bool {
        self.name.to_string() == BUNDLE
    }

    /// True if it has an annotation.
    pub fn has(&self, annotation: &str) -> bool {
        self.annotations.iter().any(|one| one.name == annotation)
    }
}

/// What a definition is.
#[derive(Debug, Clone)]
pub enum DefKind {
    Interface(Interface),
    /// A parcelable, or HIDL's struct.
    Parcelable(Parcelable),
    /// A parcelable whose inside is known to Rust only.
    Opaque {
        /// The path of the Rust type.
        rust_type: Option<String>,
        /// The header that has the class on the NDK.
        ndk_header: Option<String>,
    },
    Union(Vec<Field>),
    Enum(Enum),
    Typedef(Type),
}

impl DefKind {
    /// The keyword that declares it in AIDL.
    pub fn word(&self) -> &'static str {
        match self {
            DefKind::Interface(_) => "interface",
            DefKind::Parcelable(_) | DefKind::Opaque { .. } => "parcelable",
            DefKind::Union(_) => "union",
            DefKind::Enum(_) => "enum",
            DefKind::Typedef(_) => "typedef",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// The interface that it extends.
    pub base: Option<DefId>,
    pub methods: Vec<Method>,
}

#[derive(Debug, Clone)]
pub struct Method {
    pub name: String,
    pub docs: Docs,
    /// Where its name stands.
    pub span: Span,
    /// Nobody waits for it.
    pub oneway: bool,
    /// Its number, from 0.
    pub id: u32,
    /// The number is written beside it.
    pub explicit_id: bool,
    /// What it takes, and what comes back through its parameters.
    pub parameters: Vec<Parameter>,
    /// What it returns: nothing, one unnamed value, or several of HIDL.
    pub results: Vec<Field>,
}

/// A parameter of a method.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub name: String,
    pub ty: Type,
    /// Which way it goes.
    pub direction: Direction,
}

#[derive(Debug, Clone, Default)]
pub struct Parcelable {
    /// Names of its type parameters.
    pub parameters: Vec<String>,
    pub fields: Vec<Field>,
    /// `@FixedSize`: no field may ever be added.
    pub fixed_size: bool,
}

/// A field, or a result of a method.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name; empty for the result of a method of AIDL.
    pub name: String,
    pub docs: Docs,
    /// Where its name stands.
    pub span: Span,
    pub ty: Type,
    /// What it is without being set.
    pub default: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct Enum {
    /// The type of its values.
    pub backing: Primitive,
    /// Its values, in the order of declaration.
    pub enumerators: Vec<Enumerator>,
}

/// A value of an enum.
#[derive(Debug, Clone)]
pub struct Enumerator {
    pub name: String,
    pub docs: Docs,
    pub value: i128,
}

#[derive(Debug, Clone)]
pub struct Constant {
    pub name: String,
    pub docs: Docs,
    pub ty: Type,
    pub value: Value,
}

/// A type where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    pub kind: TypeKind,
    /// It may be null.
    pub nullable: bool,
    /// `@nullable(heap=true)`: held by a pointer, so that a type may contain itself.
    pub heap: bool,
    /// `@utf8InCpp`: C++ holds it in another form. Here and on the wire it changes nothing.
    pub utf8: bool,
}

impl Type {
    /// A type that is never null.
    pub fn plain(kind: TypeKind) -> Self {
        Type { kind, nullable: false, heap: false, utf8: false }
    }

    /// True for nothing at all.
    pub fn is_void(&self) -> bool {
        self.kind == TypeKind::Void
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    Void,
    /// A number, a character or a truth value.
    Primitive(Primitive),
    String,
    /// Java's text with styles.
    CharSequence,
    Binder,
    /// `ParcelFileDescriptor`.
    FileDescriptor,
    /// Java's bare `FileDescriptor`.
    BareFileDescriptor,
    /// HIDL's `memory`.
    Memory,
    /// A message queue's descriptor.
    Queue {
        /// With flow control and one reader.
        synchronized: bool,
        item: Box<Type>,
    },
    /// A type that a file defines, with its arguments.
    Named(DefId, Vec<Type>),
    /// HIDL's set of flags of an enum.
    Bitfield(DefId),
    /// An array of any length.
    Array(Box<Type>),
    /// AIDL's `List`, which travels as an array.
    List(Box<Type>),
    /// An array of one length.
    Fixed(Box<Type>, u32),
    /// A type parameter of the definition.
    Parameter(String),
    /// What could not be resolved, after it was reported: no rule says more about it.
    Unknown,
}

/// Types that hold a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// `boolean`
    Bool,
    /// `byte`
    I8,
    /// HIDL's `uint8_t`
    U8,
    /// HIDL's `int16_t`
    I16,
    /// HIDL's `uint16_t`
    U16,
    /// `char`: a UTF-16 unit
    Char,
    /// `int`
    I32,
    /// HIDL's `uint32_t`
    U32,
    /// `long`
    I64,
    /// HIDL's `uint64_t`
    U64,
    /// `float`
    F32,
    /// `double`
    F64,
}

impl Primitive {
    /// How AIDL calls it; unsigned types have no name of their own there.
    pub fn aidl(self) -> &'static str {
        use Primitive::*;
        match self {
            Bool => "boolean",
            I8 | U8 => "byte",
            U16 | Char => "char",
            I16 | I32 | U32 => "int",
            I64 | U64 => "long",
            F32 => "float",
            F64 => "double",
        }
    }

    /// How HIDL calls it.
    pub fn hidl(self) -> &'static str {
        use Primitive::*;
        match self {
            Bool => "bool",
            I8 => "int8_t",
            U8 => "uint8_t",
            I16 => "int16_t",
            U16 | Char => "uint16_t",
            I32 => "int32_t",
            U32 => "uint32_t",
            I64 => "int64_t",
            U64 => "uint64_t",
            F32 => "float",
            F64 => "double",
        }
    }

    /// The primitive that a name means.
    pub fn of(name: &str, language: Language) -> Option<Self> {
        use Primitive::*;
        let found = match (language, name) {
            (Language::Aidl, "boolean") | (Language::Hidl, "bool") => Bool,
            (Language::Aidl, "byte") | (Language::Hidl, "int8_t") => I8,
            (Language::Hidl, "uint8_t") => U8,
            (Language::Hidl, "int16_t") => I16,
            (Language::Hidl, "uint16_t") => U16,
            (Language::Aidl, "char") => Char,
            (Language::Aidl, "int") | (Language::Hidl, "int32_t") => I32,
            (Language::Hidl, "uint32_t") => U32,
            (Language::Aidl, "long") | (Language::Hidl, "int64_t") => I64,
            (Language::Hidl, "uint64_t") => U64,
            (_, "float") => F32,
            (_, "double") => F64,
            _ => return None,
        };
        Some(found)
    }

    /// Least and greatest value, of those that hold whole numbers.
    pub fn range(self) -> Option<(i128, i128)> {
        use Primitive::*;
        let range = match self {
            I8 => (i8::MIN.into(), i8::MAX.into()),
            U8 => (0, u8::MAX.into()),
            I16 => (i16::MIN.into(), i16::MAX.into()),
            U16 | Char => (0, u16::MAX.into()),
            I32 => (i32::MIN.into(), i32::MAX.into()),
            U32 => (0, u32::MAX.into()),
            I64 => (i64::MIN.into(), i64::MAX.into()),
            U64 => (0, u64::MAX.into()),
            Bool | F32 | F64 => return None,
        };
        Some(range)
    }
}

/// What is common to the names around an interface: `Foo` of `IFoo`.
pub(crate) fn stem(interface: &str) -> &str {
    match interface.strip_prefix('I') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_uppercase()) => rest,
        _ => interface,
    }
}

/// A value that was computed.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Integer(i128),
    /// A number with a point.
    Float(f64),
    /// A UTF-16 unit.
    Character(u16),
    Text(String),
    /// A value of an enum.
    Enumerator(DefId, String, i128),
    /// `{...}`
    List(Vec<Value>),
}

impl Eq for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) | Value::Enumerator(_, _, value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Character(unit) => {
                let character = char::from_u32(u32::from(*unit)).unwrap_or('\u{fffd}');
                match character {
                    '\'' | '\\' => write!(f, "'\\{character}'"),
                    _ => write!(f, "'{character}'"),
                }
            }
            Value::Text(text) => {
                write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
            }
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
        }
    }
}
