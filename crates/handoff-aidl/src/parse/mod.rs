//! From text to a tree: what both parsers share. They go on after an error, so that a file's faults
//! are told at once.

mod aidl;
mod docs;
mod expr;
mod hidl;
mod types;

use crate::ast::{Document, Ident};
use crate::diagnostic::{Diagnostic, Diagnostics, similar};
use crate::lex::{CommentKind, Token, TokenKind, Tokens, lex};
use crate::source::{FileId, Language, Sources, Span};

/// Types, expressions and declarations nest no deeper: more is nobody's interface, and would
/// otherwise be a way to exhaust the stack of whoever compiles it.
const DEEPEST: u32 = 64;
/// A definition has no more members, for the same reason: languages that it is written in compare each with each.
const MOST_MEMBERS: usize = 16_384;
/// Larger files are nobody's interface.
const LARGEST: usize = 4 << 20;

/// Something was wrong and has been reported.
pub(crate) struct Reported;

/// What a rule gives: what it read, or that it has reported why not.
pub(crate) type Parsed<T> = Result<T, Reported>;

/// Parses a file, in the language that it was added with.
pub fn parse(sources: &Sources, file: FileId, diagnostics: &mut Diagnostics) -> Document {
    let source = sources.file(file);
    let language = source.language();
    if source.text().len() > LARGEST {
        let span = Span { file, start: 0, end: 0 };
        let message = format!("the file is larger than {} MiB", LARGEST >> 20);
        diagnostics.push(Diagnostic::error(span, message));
        return Document { language, package: None, imports: Vec::new(), items: Vec::new() };
    }
    let tokens = lex(file, source.text(), language, diagnostics);
    let mut parser = Parser { text: source.text(), language, tokens, at: 0, depth: 0, diagnostics };
    match language {
        Language::Aidl => parser.aidl_document(),
        Language::Hidl => parser.hidl_document(),
    }
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    language: Language,
    tokens: Tokens,
    at: usize,
    depth: u32,
    diagnostics: &'a mut Diagnostics,
}

impl Parser<'_> {
    fn token(&self) -> Token {
        self.ahead(0)
    }

    /// A token further on; the end where there are no more.
    fn ahead(&self, by: usize) -> Token {
        let last = self.tokens.tokens.len() - 1;
        self.tokens.tokens[(self.at + by).min(last)]
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// Where the token before the present one is.
    fn last_span(&self) -> Span {
        self.tokens.tokens[self.at.saturating_sub(1)].span
    }

    fn text_of(&self, span: Span) -> &str {
        &self.text[span.range()]
    }

    fn is_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    fn bump(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token().kind, TokenKind::Sign(found) if found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_ahead(0, word)
    }

    fn is_word_ahead(&self, by: usize, word: &str) -> bool {
        let token = self.ahead(by);
        token.kind == TokenKind::Word && self.text_of(token.span) == word
    }

    fn eat_sign(&mut self, sign: &str) -> Option<Span> {
        self.is_sign(sign).then(|| self.bump().span)
    }

    fn eat_word(&mut self, word: &str) -> Option<Span> {
        self.is_word(word).then(|| self.bump().span)
    }

    /// How the present token is called in a message.
    fn found(&self) -> String {
        match self.token().kind {
            TokenKind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", self.text_of(self.span())),
        }
    }

    fn error(&mut self, diagnostic: Diagnostic) -> Reported {
        self.diagnostics.push(diagnostic);
        Reported
    }

    fn expected(&mut self, what: &str) -> Reported {
        let message = format!("expected {what}, found {}", self.found());
        let span = self.span();
        self.error(Diagnostic::error(span, message).label(format!("expected {what}")))
    }

    /// A sign that must stand here. Where one is missing, the place is behind what came before.
    fn expect_sign(&mut self, sign: &str) -> Parsed<Span> {
        if let Some(span) = self.eat_sign(sign) {
            return Ok(span);
        }
        let message = format!("expected `{sign}`, found {}", self.found());
        let span = if sign == ";" { self.last_span().after() } else { self.span() };
        let mut diagnostic = Diagnostic::error(span, message).label(format!("expected `{sign}`"));
        if matches!(sign, ";" | ")" | "}" | ">" | "]") && self.at > 0 {
            diagnostic = diagnostic.fix(self.last_span().after(), sign);
        }
        Err(self.error(diagnostic))
    }

    fn ident(&mut self, what: &str) -> Parsed<Ident> {
        if self.token().kind != TokenKind::Word {
            return Err(self.expected(what));
        }
        let span = self.bump().span;
        Ok(Ident { text: self.text_of(span).to_owned(), span })
    }

    /// A keyword that is probably one of `known`, in place of one of them.
    fn unknown_word(&mut self, what: &str, known: &[&'static str]) -> Reported {
        let span = self.span();
        let word = self.text_of(span).to_owned();
        let mut diagnostic = Diagnostic::error(span, format!("expected {what}, found {}", self.found()))
            .label("not expected here");
        if let Some(meant) = similar(&word, known.iter().copied()) {
            diagnostic = diagnostic.help("did you mean").fix(span, meant);
        }
        self.error(diagnostic)
    }

    /// Runs a rule that may contain itself, not too deep.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST {
            let span = self.span();
            let diagnostic = Diagnostic::error(span, format!("this is nested deeper than {DEEPEST} levels"))
                .help("give the inner part a name of its own");
            return Err(self.error(diagnostic));
        }
        self.depth += 1;
        let outcome = rule(self);
        self.depth -= 1;
        outcome
    }

    /// After an error: moves behind the next `;` or block of this level, and stops in front of a `}`
    /// that closes the level.
    fn recover(&mut self) {
        let mut depth = 0u32;
        while !self.is_end() {
            match self.token().kind {
                TokenKind::Sign("}") if depth == 0 => return,
                TokenKind::Sign("}") => {
                    depth -= 1;
                    self.bump();
                    if depth == 0 {
                        self.eat_sign(";");
                        return;
                    }
                }
                TokenKind::Sign("{") => {
                    depth += 1;
                    self.bump();
                }
                TokenKind::Sign(";") if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => drop(self.bump()),
            }
        }
    }

    /// An error at the present token if so many members or items stand in front of it that there may be no more.
    fn room_behind(&mut self, count: usize) -> Parsed<()> {
        if count < MOST_MEMBERS {
            return Ok(());
        }
        let diagnostic = Diagnostic::error(self.span(), format!("more than {MOST_MEMBERS} members"));
        Err(self.error(diagnostic.label("one too many")))
    }

    /// `{ member* }`, where each error costs one member.
    fn block<T>(&mut self, mut member: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let open = self.expect_sign("{")?;
        let mut members = Vec::new();
        loop {
            if self.eat_sign("}").is_some() {
                return Ok(members);
            }
            if self.is_end() {
                let span = self.span();
                let diagnostic = Diagnostic::error(span, "the file ends before its last `}`")
                    .label("expected `}`")
                    .related(open, "this block is open");
                self.error(diagnostic);
                return Ok(members);
            }
            self.room_behind(members.len())?;
            let before = self.at;
            match member(self) {
                Ok(member) => members.push(member),
                Err(Reported) => self.recover(),
            }
            if self.at == before && !self.is_sign("}") {
                self.bump();
            }
        }
    }

    /// `item, item` up to a closing sign, which is taken too. A comma may stand behind the last.
    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        loop {
            if self.eat_sign(close).is_some() {
                return Ok(items);
            }
            self.room_behind(items.len())?;
            items.push(item(self)?);
            if self.eat_sign(",").is_none() {
                self.expect_sign(close)?;
                return Ok(items);
            }
        }
    }

    /// The items of a file, each error costing one.
    fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Vec<T> {
        let mut items = Vec::new();
        while !self.is_end() {
            let before = self.at;
            match item(self) {
                Ok(item) => items.push(item),
                Err(Reported) => {
                    self.recover();
                    // A `}` that closes nothing.
                    if self.is_sign("}") {
                        self.bump();
                        self.eat_sign(";");
                    }
                }
            }
            if self.at == before {
                self.bump();
            }
        }
        items
    }

    /// The documentation that stands in front of the present token.
    fn docs(&self) -> crate::ast::Docs {
        let comments = &self.tokens.comments;
        let end = comments.partition_point(|comment| comment.before <= self.at);
        match comments[..end].last() {
            Some(comment) if comment.before == self.at && comment.kind == CommentKind::Doc => {
                docs::read(self.text_of(comment.span))
            }
            _ => Default::default(),
        }
    }
}
