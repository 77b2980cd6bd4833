//! Names, types, annotations and parameters.

use super::{DEEPEST, Parsed, Parser};
use crate::ast::{Annotation, Dimension, Direction, Ident, Parameter, Path, TypeExpr, Version};
use crate::diagnostic::Diagnostic;
use crate::lex::TokenKind;
use crate::source::{Language, Span};

/// Dimensions that one array may have.
const MOST_DIMENSIONS: usize = 16;

impl Parser<'_> {
    /// `a.b.C`, and HIDL's `a.b@1.0::C.D` and `@1.0::C`.
    pub(super) fn path(&mut self, what: &str) -> Parsed<Path> {
        let start = self.span();
        let mut names = Vec::new();
        let mut package = Vec::new();
        let mut version = None;
        if self.token().kind != TokenKind::Version {
            names = self.dotted(what)?;
        }
        if self.token().kind == TokenKind::Version {
            version = Some(self.version()?);
            self.expect_sign("::")?;
            package = names;
            names = self.dotted(what)?;
        }
        Ok(Path { package, version, names, span: start.to(self.last_span()) })
    }

    /// `a.b.c`
    pub(super) fn dotted(&mut self, what: &str) -> Parsed<Vec<Ident>> {
        let start = self.span();
        let mut names = vec![self.ident(what)?];
        while self.is_sign(".") && self.ahead(1).kind == TokenKind::Word {
            self.bump();
            names.push(self.ident(what)?);
        }
        // Each part is a module, a namespace or a folder in another.
        if names.len() > DEEPEST as usize {
            let span = start.to(self.last_span());
            return Err(self.error(Diagnostic::error(span, format!("a name of more than {DEEPEST} parts"))));
        }
        Ok(names)
    }

    /// `@1.0`
    pub(super) fn version(&mut self) -> Parsed<Version> {
        if self.token().kind != TokenKind::Version {
            return Err(self.expected("a version such as `@1.0`"));
        }
        let span = self.bump().span;
        let parts = self.text_of(span).strip_prefix('@').and_then(|text| text.split_once('.'));
        match parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))) {
            Some((major, minor)) => Ok(Version { major, minor }),
            None => {
                let diagnostic = Diagnostic::error(span, "a version is two numbers")
                    .help("write a major and a minor number, such as `@1.0`");
                Err(self.error(diagnostic))
            }
        }
    }

    /// `@nullable @Backing(type="int")`
    pub(super) fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut annotations = Vec::new();
        while let Some(start) = self.eat_sign("@") {
            let name = self.ident("the name of an annotation")?;
            let mut arguments = Vec::new();
            if self.eat_sign("(").is_some() {
                arguments = self.list(")", Self::annotation_argument)?;
            }
            annotations.push(Annotation { name, arguments, span: start.to(self.last_span()) });
        }
        Ok(annotations)
    }

    /// `name=value`; a value alone is called `value`.
    fn annotation_argument(&mut self) -> Parsed<(Ident, crate::ast::Expr)> {
        let named =
            self.token().kind == TokenKind::Word && matches!(self.ahead(1).kind, TokenKind::Sign("="));
        let name = if named {
            let name = self.ident("the name of a parameter")?;
            self.expect_sign("=")?;
            name
        } else {
            Ident { text: "value".to_owned(), span: self.span().before() }
        };
        Ok((name, self.expr()?))
    }

    /// A type, with the annotations in front of it.
    pub(super) fn ty(&mut self) -> Parsed<TypeExpr> {
        let annotations = self.annotations()?;
        self.bare_type(annotations)
    }

    /// A type whose annotations were read.
    pub(super) fn bare_type(&mut self, annotations: Vec<Annotation>) -> Parsed<TypeExpr> {
        self.nested(|parser| {
            let path = parser.path("a type")?;
            let start = path.span;
            let mut arguments = Vec::new();
            if parser.eat_sign("<").is_some() {
                arguments = parser.list(">", Self::ty)?;
            }
            let mut dimensions = Vec::new();
            while let Some(open) = parser.eat_sign("[") {
                if let Some(close) = parser.eat_sign("]") {
                    dimensions.push(Dimension::Open(open.to(close)));
                } else {
                    dimensions.push(Dimension::Fixed(parser.expr()?));
                    parser.expect_sign("]")?;
                }
                if dimensions.len() > MOST_DIMENSIONS {
                    let message = format!("an array of more than {MOST_DIMENSIONS} dimensions");
                    return Err(parser.error(Diagnostic::error(open, message)));
                }
            }
            Ok(TypeExpr { annotations, path, arguments, dimensions, span: start.to(parser.last_span()) })
        })
    }

    /// `in T name`, or `T name` in HIDL.
    pub(super) fn parameter(&mut self) -> Parsed<Parameter> {
        let early = self.annotations()?;
        let direction = self.direction();
        let mut annotations = early;
        annotations.extend(self.annotations()?);
        let ty = self.bare_type(annotations)?;
        let name = self.ident("the parameter's name")?;
        if let (Language::Aidl, Some(span)) = (self.language, self.eat_sign("[")) {
            let diagnostic = Diagnostic::error(span, "the brackets of an array stand behind its type")
                .fix(ty.span.after(), "[]")
                .help("write");
            return Err(self.error(diagnostic));
        }
        Ok(Parameter { direction, ty, name })
    }

    fn direction(&mut self) -> Option<(Direction, Span)> {
        if self.language == Language::Hidl {
            return None;
        }
        // A parameter may itself be called `in`; a direction is followed by a type.
        let is_followed = matches!(self.ahead(1).kind, TokenKind::Word | TokenKind::Sign("@"));
        [Direction::In, Direction::Out, Direction::InOut]
            .into_iter()
            .find(|direction| is_followed && self.is_word(direction.word()))
            .map(|direction| (direction, self.bump().span))
    }
}
