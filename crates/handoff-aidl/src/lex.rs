//! Tokens and comments of a file; both languages have the same ones.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{FileId, Language, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword.
    Word,
    /// An integer as it is written, suffix included.
    Integer,
    /// A number with a point or an exponent.
    Float,
    /// A character in single quotes.
    Character,
    /// Text in double quotes.
    Text,
    /// HIDL's `@1.0`.
    Version,
    /// A sign, such as `{` or `::`. `<<` and `>>` are two signs each, as types may end in `>>`.
    Sign(&'static str),
    /// Behind the last token.
    End,
}

/// A token and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentKind {
    /// `// ...`
    Line,
    /// `/* ... */`
    Block,
    /// `/** ... */`: documentation of what follows.
    Doc,
}

/// A comment, and the token that it stands in front of.
#[derive(Debug, Clone, Copy)]
pub struct Comment {
    pub kind: CommentKind,
    pub span: Span,
    /// Index of the token that follows it.
    pub before: usize,
}

/// A file as tokens.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// The tokens; the last is [`TokenKind::End`].
    pub tokens: Vec<Token>,
    /// The comments in between.
    pub comments: Vec<Comment>,
}

/// Longer signs stand before those that they begin with.
const SIGNS: [&str; 34] = [
    "::", "&&", "||", "==", "!=", "{", "}", "(", ")", "[", "]", ";", ",", ".", "=", "@", "<", ">", "+", "-",
    "*", "/", "%", "&", "|", "^", "~", "!", "?", ":", "#", "$", "\\", "`",
];

/// Takes a text apart.
pub fn lex(file: FileId, text: &str, language: Language, diagnostics: &mut Diagnostics) -> Tokens {
    let mut lexer = Lexer { file, text, language, at: 0, diagnostics, tokens: Tokens::default() };
    while lexer.next_token() {}
    let end = lexer.span_from(text.len());
    lexer.tokens.tokens.push(Token { kind: TokenKind::End, span: end });
    lexer.tokens
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    language: Language,
    at: usize,
    diagnostics: &'a mut Diagnostics,
    tokens: Tokens,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn span_from(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    /// Moves over bytes that `is` says yes to. Only ASCII, so that it stops between characters.
    fn skip_while(&mut self, is: impl Fn(u8) -> bool) {
        while self.at < self.text.len() && self.byte(0).is_ascii() && is(self.byte(0)) {
            self.at += 1;
        }
    }

    fn push(&mut self, kind: TokenKind, start: usize) -> bool {
        let span = self.span_from(start);
        self.tokens.tokens.push(Token { kind, span });
        true
    }

    fn next_token(&mut self) -> bool {
        self.skip_blanks();
        let start = self.at;
        match self.byte(0) {
            _ if self.at >= self.text.len() => false,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                self.push(TokenKind::Word, start)
            }
            b'0'..=b'9' => self.number(start),
            b'.' if self.byte(1).is_ascii_digit() => self.number(start),
            b'@' if self.language == Language::Hidl && self.byte(1).is_ascii_digit() => {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit() || byte == b'.');
                self.push(TokenKind::Version, start)
            }
            b'"' => self.quoted(start, b'"', TokenKind::Text),
            b'\'' => self.quoted(start, b'\'', TokenKind::Character),
            _ => self.sign(start),
        }
    }

    fn sign(&mut self, start: usize) -> bool {
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) {
            self.at += sign.len();
            return self.push(TokenKind::Sign(sign), start);
        }
        let length = self.rest().chars().next().map_or(1, char::len_utf8);
        self.at += length;
        let what = &self.text[start..self.at];
        let diagnostic =
            Diagnostic::error(self.span_from(start), format!("{what:?} means nothing in this language"))
                .label("not expected here");
        self.diagnostics.push(diagnostic);
        true
    }

    fn number(&mut self, start: usize) -> bool {
        if self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X' | b'b' | b'B') {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            return self.push(TokenKind::Integer, start);
        }
        self.skip_while(|byte| byte.is_ascii_digit() || byte == b'_');
        let mut kind = TokenKind::Integer;
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            kind = TokenKind::Float;
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        let exponent = match (self.byte(0), self.byte(1), self.byte(2)) {
            (b'e' | b'E', b'+' | b'-', digit) => digit.is_ascii_digit(),
            (b'e' | b'E', digit, _) => digit.is_ascii_digit(),
            _ => false,
        };
        if exponent {
            kind = TokenKind::Float;
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        // Suffixes, and what should not stand there: whoever reads the number says so.
        let suffix = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if matches!(&self.text[suffix..self.at], "f" | "F" | "d" | "D") {
            kind = TokenKind::Float;
        }
        self.push(kind, start)
    }

    fn quoted(&mut self, start: usize, quote: u8, kind: TokenKind) -> bool {
        self.at += 1;
        loop {
            match self.byte(0) {
                _ if self.at >= self.text.len() => break,
                b'\n' => break,
                b'\\' if self.byte(1) != b'\n' && self.at + 1 < self.text.len() => {
                    self.at += 1;
                    self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                }
                byte if byte == quote => {
                    self.at += 1;
                    return self.push(kind, start);
                }
                _ => self.at += self.rest().chars().next().map_or(1, char::len_utf8),
            }
        }
        let span = self.span_from(start);
        let quote = quote as char;
        self.diagnostics.push(
            Diagnostic::error(span, "this text has no end")
                .label(format!("no {quote} before the end of the line"))
                .fix(span.after(), quote.to_string()),
        );
        self.push(kind, start)
    }

    /// Moves over white space and comments, and keeps the comments.
    fn skip_blanks(&mut self) {
        loop {
            self.skip_while(|byte| byte.is_ascii_whitespace());
            let start = self.at;
            if self.rest().starts_with('\u{feff}') {
                self.at += '\u{feff}'.len_utf8();
                continue;
            }
            let kind = if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                CommentKind::Line
            } else if self.rest().starts_with("/*") {
                let doc = self.rest().starts_with("/**") && !self.rest().starts_with("/**/");
                match self.rest()[2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        let opening = Span { end: start as u32 + 2, ..self.span_from(start) };
                        self.diagnostics.push(
                            Diagnostic::error(opening, "this comment has no end")
                                .label("begins here")
                                .help("close it with `*/`"),
                        );
                        self.at = self.text.len();
                        return;
                    }
                }
                if doc { CommentKind::Doc } else { CommentKind::Block }
            } else {
                return;
            };
            let before = self.tokens.tokens.len();
            let span = self.span_from(start);
            self.tokens.comments.push(Comment { kind, span, before });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sources;

    fn words(text: &str, language: Language) -> (Vec<String>, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let file = Sources::new().add("x", text, language);
        let tokens = lex(file, text, language, &mut diagnostics);
        let words = tokens.tokens.iter().map(|token| text[token.span.range()].to_owned()).collect();
        (words, diagnostics)
    }

    #[test]
    fn tokens_are_words_numbers_texts_and_signs() {
        let (found, wrong) = words(
            "package a.b; const long X = 0xFFL << 2; // end\nList<List<T>> y = 1.5e-3f + .5; 'a' \"b\\\"c\"",
            Language::Aidl,
        );
        assert!(wrong.is_empty());
        let expected = "package a . b ; const long X = 0xFFL < < 2 ; List < List < T > > y = 1.5e-3f + .5 ; 'a' \"b\\\"c\" ";
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn versions_are_tokens_of_hidl_only() {
        let (found, wrong) = words("import a.b@1.0::IFoo; @1.2::T", Language::Hidl);
        assert!(wrong.is_empty());
        assert_eq!(found.join(" "), "import a . b @1.0 :: IFoo ; @1.2 :: T ");
    }

    #[test]
    fn what_does_not_end_is_reported() {
        for (text, what) in [
            ("/* x", "comment"),
            ("\"abc\nd", "text"),
            ("'", "text"),
            ("\"\\", "text"),
            ("é", "means nothing"),
        ] {
            let (_, wrong) = words(text, Language::Aidl);
            assert!(wrong.iter().any(|one| one.message.contains(what)), "{text}: {wrong:?}");
        }
    }
}
