//! The grammar of HIDL.

use super::{Parsed, Parser};
use crate::ast::{Annotation, Docs, Document, Field, Import, Item, ItemKind, Member, Method, Package, Path};
use crate::lex::TokenKind;
use crate::source::Language;

const DECLARATIONS: [&str; 6] = ["interface", "struct", "union", "safe_union", "enum", "typedef"];

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Interface,
    Fields,
}

impl Parser<'_> {
    pub(super) fn hidl_document(&mut self) -> Document {
        let mut document =
            Document { language: Language::Hidl, package: None, imports: Vec::new(), items: Vec::new() };
        match self.hidl_package() {
            Ok(package) => document.package = Some(package),
            Err(_) => self.recover(),
        }
        while self.is_word("import") {
            match self.hidl_import() {
                Ok(import) => document.imports.push(import),
                Err(_) => self.recover(),
            }
        }
        document.items = self.items(|parser| {
            let docs = parser.docs();
            let annotations = parser.annotations()?;
            if !parser.is_hidl_item() {
                return Err(
                    parser.unknown_word("a declaration such as `interface` or `struct`", &DECLARATIONS)
                );
            }
            parser.hidl_item(docs, annotations)
        });
        document
    }

    fn hidl_package(&mut self) -> Parsed<Package> {
        let start = self.span();
        if self.eat_word("package").is_none() {
            return Err(self.expected("`package name@1.0;`"));
        }
        let names = self.dotted("the name of a package")?;
        let version = self.version()?;
        let span = start.to(self.expect_sign(";")?);
        Ok(Package { names, version: Some(version), span })
    }

    fn hidl_import(&mut self) -> Parsed<Import> {
        self.bump();
        let start = self.span();
        let mut package = Vec::new();
        let mut names = Vec::new();
        if self.token().kind != TokenKind::Version {
            names = self.dotted("what is imported")?;
        }
        let mut version = None;
        if self.token().kind == TokenKind::Version {
            version = Some(self.version()?);
            package = std::mem::take(&mut names);
            if self.eat_sign("::").is_some() {
                names = self.dotted("the name of a type")?;
            }
        }
        let span = start.to(self.last_span());
        self.expect_sign(";")?;
        Ok(Import { path: Path { package, version, names, span } })
    }

    fn is_hidl_item(&self) -> bool {
        DECLARATIONS.iter().any(|word| self.is_word(word))
            && matches!(self.ahead(1).kind, TokenKind::Word | TokenKind::Version)
    }

    fn hidl_item(&mut self, docs: Docs, annotations: Vec<Annotation>) -> Parsed<Item> {
        let start = self.bump().span;
        let keyword = self.text_of(start).to_owned();
        if keyword == "typedef" {
            let target = self.ty()?;
            let name = self.ident("the new name of the type")?;
            let span = start.to(self.expect_sign(";")?);
            return Ok(Item { docs, annotations, name, kind: ItemKind::Typedef { target }, span });
        }
        let name = self.ident("the name of the type")?;
        let kind = self.nested(|parser| match keyword.as_str() {
            "interface" => {
                let extends = match parser.eat_word("extends") {
                    Some(_) => Some(parser.path("the name of an interface")?),
                    None => None,
                };
                let members = parser.block(|p| p.hidl_member(Block::Interface))?;
                Ok(ItemKind::Interface { oneway: false, extends, members })
            }
            "struct" => {
                let members = parser.block(|p| p.hidl_member(Block::Fields))?;
                Ok(ItemKind::Parcelable { parameters: Vec::new(), members })
            }
            "enum" => {
                parser.expect_sign(":")?;
                let backing = Some(parser.ty()?);
                Ok(ItemKind::Enum { backing, enumerators: parser.enumerators()? })
            }
            _ => {
                let members = parser.block(|p| p.hidl_member(Block::Fields))?;
                Ok(ItemKind::Union { parameters: Vec::new(), members })
            }
        })?;
        let span = start.to(self.expect_sign(";")?);
        Ok(Item { docs, annotations, name, kind, span })
    }

    fn hidl_member(&mut self, block: Block) -> Parsed<Member> {
        let docs = self.docs();
        let annotations = self.annotations()?;
        if self.is_hidl_item() {
            return self.hidl_item(docs, annotations).map(Member::Item);
        }
        match block {
            Block::Interface => self.hidl_method(docs, annotations).map(Member::Method),
            Block::Fields => {
                let ty = self.bare_type(annotations)?;
                let name = self.ident("the field's name")?;
                self.expect_sign(";")?;
                Ok(Member::Field(Field { docs, ty, name, default: None }))
            }
        }
    }

    fn hidl_method(&mut self, docs: Docs, annotations: Vec<Annotation>) -> Parsed<Method> {
        let oneway = match self.ahead(1).kind {
            TokenKind::Word => self.eat_word("oneway"),
            _ => None,
        };
        let name = self.ident("a method")?;
        if self.token().kind == TokenKind::Word {
            let diagnostic =
                crate::diagnostic::Diagnostic::error(name.span, "methods of HIDL have no type in front")
                    .label("not expected here")
                    .help("write what it returns as `name(...) generates (type result);`");
            return Err(self.error(diagnostic));
        }
        self.expect_sign("(")?;
        let parameters = self.list(")", Self::parameter)?;
        let mut results = Vec::new();
        if self.eat_word("generates").is_some() {
            self.expect_sign("(")?;
            results = self.list(")", Self::parameter)?;
        } else if self.token().kind == TokenKind::Word {
            return Err(self.unknown_word("`generates` or `;`", &["generates"]));
        }
        self.expect_sign(";")?;
        Ok(Method { docs, annotations, oneway, returns: None, name, parameters, results, id: None })
    }
}
