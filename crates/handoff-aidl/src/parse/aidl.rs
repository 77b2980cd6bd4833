//! The grammar of AIDL.

use super::{Parsed, Parser};
use crate::ast::{
    Annotation, Const, Docs, Document, Enumerator, Field, Ident, Import, Item, ItemKind, Member, Method,
    Package,
};
use crate::diagnostic::Diagnostic;
use crate::lex::TokenKind;
use crate::source::Language;

const DECLARATIONS: [&str; 5] = ["interface", "parcelable", "enum", "union", "oneway"];

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Interface,
    Fields,
}

impl Parser<'_> {
    pub(super) fn aidl_document(&mut self) -> Document {
        let mut document =
            Document { language: Language::Aidl, package: None, imports: Vec::new(), items: Vec::new() };
        if self.is_word("package") {
            match self.aidl_package() {
                Ok(package) => document.package = Some(package),
                Err(_) => self.recover(),
            }
        }
        while self.is_word("import") {
            match self.aidl_import() {
                Ok(import) => document.imports.push(import),
                Err(_) => self.recover(),
            }
        }
        document.items = self.items(Self::aidl_top_item);
        document
    }

    fn aidl_package(&mut self) -> Parsed<Package> {
        let start = self.bump().span;
        let names = self.dotted("the name of a package")?;
        let span = start.to(self.expect_sign(";")?);
        Ok(Package { names, version: None, span })
    }

    fn aidl_import(&mut self) -> Parsed<Import> {
        self.bump();
        let path = self.path("the name of a type")?;
        if self.is_sign(".") && self.eat_sign(".").is_some() && self.is_sign("*") {
            let span = self.span();
            let diagnostic = Diagnostic::error(span, "AIDL imports one type at a time").help("name the type");
            return Err(self.error(diagnostic));
        }
        self.expect_sign(";")?;
        Ok(Import { path })
    }

    fn aidl_top_item(&mut self) -> Parsed<Item> {
        if self.is_word("package") || self.is_word("import") {
            let span = self.span();
            let what = if self.is_word("package") {
                "`package` stands first in a file, once"
            } else {
                "imports stand before declarations"
            };
            return Err(self.error(Diagnostic::error(span, what).label("too late")));
        }
        let docs = self.docs();
        let annotations = self.annotations()?;
        self.aidl_item(docs, annotations)
    }

    fn is_aidl_item(&self) -> bool {
        ["interface", "parcelable", "enum", "union"].iter().any(|word| self.is_word(word))
            && self.ahead(1).kind == TokenKind::Word
            || self.is_word("oneway") && self.is_word_ahead(1, "interface")
    }

    fn aidl_item(&mut self, docs: Docs, annotations: Vec<Annotation>) -> Parsed<Item> {
        if !self.is_aidl_item() {
            return Err(self.unknown_word("`interface`, `parcelable`, `enum` or `union`", &DECLARATIONS));
        }
        let start = self.span();
        let oneway = self.eat_word("oneway").is_some();
        let keyword = self.bump().span;
        let keyword = self.text_of(keyword).to_owned();
        let name = self.ident("the name of the type")?;
        let kind = self.nested(|parser| match keyword.as_str() {
            "interface" => parser.aidl_interface(oneway, &name),
            "parcelable" => parser.aidl_parcelable(),
            "enum" => parser.aidl_enum(),
            _ => {
                let parameters = parser.type_parameters()?;
                Ok(ItemKind::Union { parameters, members: parser.block(|p| p.aidl_member(Block::Fields))? })
            }
        })?;
        let span = start.to(self.last_span());
        // Java's habit; other compilers accept it too.
        self.eat_sign(";");
        Ok(Item { docs, annotations, name, kind, span })
    }

    fn aidl_interface(&mut self, oneway: bool, name: &Ident) -> Parsed<ItemKind> {
        if self.is_sign(";") {
            let diagnostic = Diagnostic::error(name.span, format!("`{}` has no methods here", name.text))
                .label("declared only")
                .help(format!("import the file that defines it: `import your.package.{};`", name.text));
            return Err(self.error(diagnostic));
        }
        if self.is_word("extends") {
            let span = self.span();
            let diagnostic = Diagnostic::error(span, "interfaces of AIDL do not extend others")
                .help("repeat the methods, or hand the other interface out by a method");
            return Err(self.error(diagnostic));
        }
        let members = self.block(|parser| parser.aidl_member(Block::Interface))?;
        Ok(ItemKind::Interface { oneway, extends: None, members })
    }

    fn type_parameters(&mut self) -> Parsed<Vec<Ident>> {
        match self.eat_sign("<") {
            Some(_) => self.list(">", |parser| parser.ident("a type parameter")),
            None => Ok(Vec::new()),
        }
    }

    fn aidl_parcelable(&mut self) -> Parsed<ItemKind> {
        let parameters = self.type_parameters()?;
        // `parcelable Outer.Inner;` declares a nested type of Java.
        while self.is_sign(".") && self.ahead(1).kind == TokenKind::Word {
            self.bump();
            self.bump();
        }
        if self.is_sign("{") {
            let members = self.block(|parser| parser.aidl_member(Block::Fields))?;
            return Ok(ItemKind::Parcelable { parameters, members });
        }
        let mut headers = Vec::new();
        while ["cpp_header", "ndk_header", "rust_type"].iter().any(|word| self.is_word(word)) {
            let key = self.ident("a header")?;
            if self.token().kind != TokenKind::Text {
                return Err(self.expected("text in double quotes"));
            }
            let span = self.bump().span;
            let text = self.text_of(span).trim_matches('"').to_owned();
            headers.push((key, Ident { text, span }));
        }
        self.expect_sign(";")?;
        Ok(ItemKind::Opaque { headers })
    }

    fn aidl_enum(&mut self) -> Parsed<ItemKind> {
        if let Some(span) = self.eat_sign(":") {
            let diagnostic = Diagnostic::error(span, "AIDL writes an enum's type as an annotation")
                .help("write `@Backing(type=\"int\")` in front of the enum");
            return Err(self.error(diagnostic));
        }
        Ok(ItemKind::Enum { backing: None, enumerators: self.enumerators()? })
    }

    /// `{ A, B = 2, }`, of both languages.
    pub(super) fn enumerators(&mut self) -> Parsed<Vec<Enumerator>> {
        self.expect_sign("{")?;
        self.list("}", |parser| {
            let docs = parser.docs();
            parser.annotations()?;
            let name = parser.ident("the name of a value")?;
            let value = match parser.eat_sign("=") {
                Some(_) => Some(parser.expr()?),
                None => None,
            };
            Ok(Enumerator { docs, name, value })
        })
    }

    fn aidl_member(&mut self, block: Block) -> Parsed<Member> {
        let docs = self.docs();
        let mut annotations = self.annotations()?;
        if self.is_aidl_item() {
            return self.aidl_item(docs, annotations).map(Member::Item);
        }
        if self.eat_word("const").is_some() {
            annotations.extend(self.annotations()?);
            let ty = self.bare_type(annotations)?;
            let name = self.ident("the constant's name")?;
            self.expect_sign("=")?;
            let value = self.expr()?;
            self.expect_sign(";")?;
            return Ok(Member::Const(Const { docs, ty, name, value }));
        }
        match block {
            Block::Interface => self.aidl_method(docs, annotations).map(Member::Method),
            Block::Fields => self.aidl_field(docs, annotations).map(Member::Field),
        }
    }

    fn aidl_method(&mut self, docs: Docs, mut annotations: Vec<Annotation>) -> Parsed<Method> {
        let oneway = self.eat_word("oneway");
        annotations.extend(self.annotations()?);
        // What stands in front of the result's type speaks of that type.
        let (of_type, of_method) = annotations
            .into_iter()
            .partition(|one| ["nullable", "utf8InCpp"].contains(&one.name.text.as_str()));
        let returns = self.bare_type(of_type)?;
        if self.is_sign("(") {
            let diagnostic = Diagnostic::error(returns.span, "this method has no type")
                .fix(returns.span.before(), "void ")
                .help("say what it returns");
            return Err(self.error(diagnostic));
        }
        let name = self.ident("the method's name")?;
        if self.is_sign(";") || self.is_sign("=") {
            let span = self.span();
            let diagnostic = Diagnostic::error(span, format!("expected `(`, found {}", self.found()))
                .label("expected `(`")
                .help("an interface has methods and constants; fields belong into a parcelable");
            return Err(self.error(diagnostic));
        }
        self.expect_sign("(")?;
        let parameters = self.list(")", Self::parameter)?;
        let id = match self.eat_sign("=") {
            Some(_) => Some(self.expr()?),
            None => None,
        };
        self.expect_sign(";")?;
        Ok(Method {
            docs,
            annotations: of_method,
            oneway,
            returns: Some(returns),
            name,
            parameters,
            results: Vec::new(),
            id,
        })
    }

    fn aidl_field(&mut self, docs: Docs, annotations: Vec<Annotation>) -> Parsed<Field> {
        let ty = self.bare_type(annotations)?;
        let name = self.ident("the field's name")?;
        if self.is_sign("(") {
            let diagnostic = Diagnostic::error(name.span, "only interfaces have methods")
                .help("a parcelable has fields and constants");
            return Err(self.error(diagnostic));
        }
        let default = match self.eat_sign("=") {
            Some(_) => Some(self.expr()?),
            None => None,
        };
        self.expect_sign(";")?;
        Ok(Field { docs, ty, name, default })
    }
}
