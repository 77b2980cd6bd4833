//! Constant expressions, by precedence.

use super::{Parsed, Parser};
use crate::ast::{Expr, ExprKind, Ident, Path};
use crate::diagnostic::Diagnostic;
use crate::lex::TokenKind;
use crate::source::Language;

/// Operators from the loosest to the tightest.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let condition = parser.binary(0)?;
            if parser.language == Language::Hidl && parser.eat_sign("?").is_some() {
                let then = parser.expr()?;
                parser.expect_sign(":")?;
                let otherwise = parser.expr()?;
                let span = condition.span.to(otherwise.span);
                let kind = ExprKind::Choice(Box::new(condition), Box::new(then), Box::new(otherwise));
                return Ok(Expr { kind, span });
            }
            Ok(condition)
        })
    }

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        // A long sum makes a tree that is as deep as it is long, which whoever walks it must survive.
        let mut length = 0;
        while let Some(operator) = operators.iter().copied().find(|operator| self.is_operator(operator)) {
            length += 1;
            if length > super::DEEPEST {
                let span = self.span();
                let message = format!("more than {} operators in one expression", super::DEEPEST);
                return Err(self.error(Diagnostic::error(span, message)));
            }
            self.bump();
            if matches!(operator, "<<" | ">>" | "<=" | ">=") {
                self.bump();
            }
            let right = self.binary(level + 1)?;
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), span };
        }
        Ok(left)
    }

    fn is_operator(&self, operator: &str) -> bool {
        // Those of two equal or different signs without a blank in between.
        let two = |first: &str, second: &str| {
            let (one, other) = (self.ahead(0), self.ahead(1));
            matches!(one.kind, TokenKind::Sign(sign) if sign == first)
                && matches!(other.kind, TokenKind::Sign(sign) if sign == second)
                && one.span.end == other.span.start
        };
        match operator {
            "<<" => two("<", "<"),
            ">>" => two(">", ">"),
            "<=" => two("<", "="),
            ">=" => two(">", "="),
            "<" => self.is_sign("<") && !two("<", "<") && !two("<", "="),
            ">" => self.is_sign(">") && !two(">", ">") && !two(">", "="),
            other => self.is_sign(other),
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        for operator in ["-", "+", "~", "!"] {
            if let Some(start) = self.eat_sign(operator) {
                let operand = self.nested(Self::unary)?;
                let span = start.to(operand.span);
                return Ok(Expr { kind: ExprKind::Unary(operator, Box::new(operand)), span });
            }
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let text = self.text_of(token.span).to_owned();
        let kind = match token.kind {
            TokenKind::Integer => ExprKind::Integer(text),
            TokenKind::Float => ExprKind::Float(text),
            TokenKind::Text => ExprKind::Text(self.unescaped(&text)),
            TokenKind::Character => return self.character(&text),
            TokenKind::Word if text == "true" || text == "false" => ExprKind::Bool(text == "true"),
            TokenKind::Word | TokenKind::Version => {
                let path = self.value_path()?;
                let span = path.span;
                return Ok(Expr { kind: ExprKind::Name(path), span });
            }
            TokenKind::Sign("(") => {
                let open = self.bump().span;
                let inner = self.expr()?;
                let close = self.expect_sign(")")?;
                return Ok(Expr { kind: inner.kind, span: open.to(close) });
            }
            TokenKind::Sign("{") => {
                let open = self.bump().span;
                let items = self.list("}", Self::expr)?;
                let span = open.to(self.last_span());
                return Ok(Expr { kind: ExprKind::List(items), span });
            }
            _ => return Err(self.expected("a value")),
        };
        self.bump();
        Ok(Expr { kind, span: token.span })
    }

    fn character(&mut self, text: &str) -> Parsed<Expr> {
        let span = self.bump().span;
        let inner = self.unescaped(text);
        let mut characters = inner.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) => Ok(Expr { kind: ExprKind::Character(one), span }),
            _ => {
                let diagnostic = Diagnostic::error(span, "there is not one character between these quotes")
                    .help("text stands in double quotes");
                Err(self.error(diagnostic))
            }
        }
    }

    /// The inside of quotes.
    fn unescaped(&self, quoted: &str) -> String {
        let inner = &quoted[1..];
        let quote = &quoted[..1];
        let inner = inner.strip_suffix(quote).unwrap_or(inner);
        let mut text = String::with_capacity(inner.len());
        let mut characters = inner.chars();
        while let Some(character) = characters.next() {
            text.push(match character {
                '\\' => match characters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('0') => '\0',
                    Some(other) => other,
                    None => '\\',
                },
                other => other,
            });
        }
        text
    }

    /// A constant's name; HIDL writes `Enum:VALUE` for a value of an enum.
    fn value_path(&mut self) -> Parsed<Path> {
        let mut path = self.path("a value")?;
        if self.language == Language::Hidl
            && self.is_sign(":")
            && self.ahead(1).kind == TokenKind::Word
            && self.span().start == path.span.end
        {
            self.bump();
            let Ident { text, span } = self.ident("a value of the enum")?;
            path.span = path.span.to(span);
            path.names.push(Ident { text, span });
        }
        Ok(path)
    }
}
