//! A file as it is written: the tree that both parsers make, and printers and formatters read.

use crate::source::{Language, Span};

/// A name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

/// HIDL's `@major.minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Raised by changes that break.
    pub major: u32,
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The name of a type or a constant: `a.b.IFoo`, `IFoo.Inner`, `a.b@1.0::IFoo`, `@1.0::IFoo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The package in front of `@1.0::`; empty without, and for a package of the same name.
    pub package: Vec<Ident>,
    pub version: Option<Version>,
    /// The names, packages of AIDL included.
    pub names: Vec<Ident>,
    pub span: Span,
}

impl Path {
    /// As it is written, without blanks.
    pub fn text(&self) -> String {
        let join =
            |names: &[Ident]| names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(".");
        match self.version {
            Some(version) => format!("{}@{version}::{}", join(&self.package), join(&self.names)),
            None => join(&self.names),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Document {
    pub language: Language,
    pub package: Option<Package>,
    pub imports: Vec<Import>,
    pub items: Vec<Item>,
}

/// `package a.b;` or `package a.b@1.0;`.
#[derive(Debug, Clone)]
pub struct Package {
    /// The names between the dots.
    pub names: Vec<Ident>,
    pub version: Option<Version>,
    pub span: Span,
}

/// `import a.b.C;`, `import a.b@1.0::IC;` or `import a.b@1.0;`, which has no names behind the version.
#[derive(Debug, Clone)]
pub struct Import {
    pub path: Path,
}

/// Documentation: the text of a `/** ... */` without its stars.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Docs {
    /// The lines, without those of `@deprecated`.
    pub lines: Vec<String>,
    /// What `@deprecated` says; empty if it stands alone.
    pub deprecated: Option<String>,
}

/// `@nullable`, `@Backing(type="int")`.
#[derive(Debug, Clone)]
pub struct Annotation {
    /// Without the `@`.
    pub name: Ident,
    /// What stands in parentheses.
    pub arguments: Vec<(Ident, Expr)>,
    pub span: Span,
}

/// A type where it is used.
#[derive(Debug, Clone)]
pub struct TypeExpr {
    /// `@nullable`, `@utf8InCpp`.
    pub annotations: Vec<Annotation>,
    pub path: Path,
    /// What stands in `<...>`.
    pub arguments: Vec<TypeExpr>,
    /// `[]`, `[3]`, from left to right.
    pub dimensions: Vec<Dimension>,
    /// All of it, without annotations.
    pub span: Span,
}

/// One pair of brackets.
#[derive(Debug, Clone)]
pub enum Dimension {
    /// `[]`
    Open(Span),
    /// `[3]`
    Fixed(Expr),
}

/// A declaration of a type.
#[derive(Debug, Clone)]
pub struct Item {
    pub docs: Docs,
    /// What stands in front of it.
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub kind: ItemKind,
    /// From the keyword to the closing brace.
    pub span: Span,
}

/// What a declaration declares.
#[derive(Debug, Clone)]
pub enum ItemKind {
    /// `interface`
    Interface {
        /// All methods are oneway.
        oneway: bool,
        /// HIDL's `extends`.
        extends: Option<Path>,
        /// Methods, constants, nested types.
        members: Vec<Member>,
    },
    /// AIDL's `parcelable`, HIDL's `struct`.
    Parcelable {
        /// Names between `<` and `>`.
        parameters: Vec<Ident>,
        /// Fields, constants, nested types.
        members: Vec<Member>,
    },
    /// `parcelable Foo;`: what it holds is known elsewhere.
    Opaque {
        /// `rust_type "crate::Foo"`, `cpp_header "foo.h"`.
        headers: Vec<(Ident, Ident)>,
    },
    /// AIDL's `union`, HIDL's `safe_union` and `union`.
    Union {
        /// Names between `<` and `>`.
        parameters: Vec<Ident>,
        /// Fields, constants, nested types.
        members: Vec<Member>,
    },
    /// `enum`
    Enum {
        /// HIDL's `: uint8_t`.
        backing: Option<TypeExpr>,
        enumerators: Vec<Enumerator>,
    },
    /// HIDL's `typedef`.
    Typedef {
        /// What the name stands for.
        target: TypeExpr,
    },
}

/// What stands between the braces of a declaration.
#[derive(Debug, Clone)]
pub enum Member {
    Method(Method),
    Const(Const),
    Field(Field),
    Item(Item),
}

#[derive(Debug, Clone)]
pub struct Method {
    pub docs: Docs,
    /// What stands in front of it.
    pub annotations: Vec<Annotation>,
    /// Where `oneway` stands.
    pub oneway: Option<Span>,
    /// AIDL's type of the result.
    pub returns: Option<TypeExpr>,
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    /// HIDL's `generates (...)`.
    pub results: Vec<Parameter>,
    /// AIDL's `= 12`.
    pub id: Option<Expr>,
}

/// Which way an argument goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    In,
    /// From the service.
    Out,
    /// There and back.
    InOut,
}

impl Direction {
    pub fn word(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }
}

/// A parameter of a method, or a result of a method of HIDL.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Which way it goes, where that is said.
    pub direction: Option<(Direction, Span)>,
    pub ty: TypeExpr,
    pub name: Ident,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub docs: Docs,
    pub ty: TypeExpr,
    pub name: Ident,
    /// What it is without being set.
    pub default: Option<Expr>,
}

#[derive(Debug, Clone)]
pub struct Const {
    pub docs: Docs,
    pub ty: TypeExpr,
    pub name: Ident,
    pub value: Expr,
}

/// A value of an enum.
#[derive(Debug, Clone)]
pub struct Enumerator {
    pub docs: Docs,
    pub name: Ident,
    /// Its value; one more than that before it otherwise.
    pub value: Option<Expr>,
}

#[derive(Debug, Clone)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

/// What an expression is.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A number as it is written.
    Integer(String),
    /// A number as it is written.
    Float(String),
    Character(char),
    Text(String),
    /// `true`, `false`.
    Bool(bool),
    /// A constant or an enumerator.
    Name(Path),
    /// `{1, 2}`
    List(Vec<Expr>),
    /// `-a`
    Unary(&'static str, Box<Expr>),
    /// `a + b`
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
}
