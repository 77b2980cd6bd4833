//! Lays a file out: the same tokens and comments, in the way of Android's own interfaces.

use crate::diagnostic::Diagnostics;
use crate::lex::{Comment, CommentKind, Token, TokenKind, lex};
use crate::parse::parse;
use crate::source::{FileId, Sources};

/// Columns of an indentation.
const INDENT: usize = 4;
/// Columns of what continues a line.
const CONTINUED: usize = 8;
/// Columns that a line should not pass.
const WIDTH: usize = 100;
/// Words that begin a declaration, in front of which annotations have lines of their own.
const DECLARES: [&str; 8] =
    ["interface", "parcelable", "union", "enum", "struct", "safe_union", "typedef", "oneway"];

/// The text of a file, laid out.
///
/// # Errors
/// The diagnostics of a file that has errors: what is not understood is left alone.
pub fn format(sources: &Sources, file: FileId) -> Result<String, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    parse(sources, file, &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    let source = sources.file(file);
    let tokens = lex(file, source.text(), source.language(), &mut diagnostics);
    let mut layout = Layout {
        text: source.text(),
        tokens: &tokens.tokens,
        out: String::with_capacity(source.text().len()),
        line: Vec::new(),
        blocks: Vec::new(),
        parens: 0,
        angles: 0,
        lists: 0,
        after_equals: false,
        annotation: None,
        source_end: 0,
        separate: false,
        continues: false,
    };
    let mut comments = tokens.comments.iter().peekable();
    for (index, token) in tokens.tokens.iter().enumerate() {
        while let Some(comment) = comments.next_if(|comment| comment.before <= index) {
            layout.comment(comment);
        }
        layout.token(index, token);
    }
    Ok(layout.finish())
}

/// What a brace has opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Members,
    Values,
}

/// A part of a line, and whether a blank stands in front of it.
struct Piece {
    text: String,
    blank: bool,
    /// Behind it the line may be broken.
    breakable: bool,
    /// It stays where it is, and the line may be as long as it makes it.
    comment: bool,
}

struct Layout<'a> {
    text: &'a str,
    tokens: &'a [Token],
    out: String,
    line: Vec<Piece>,
    blocks: Vec<Block>,
    /// Parentheses that are open.
    parens: usize,
    /// Angle brackets of types that are open.
    angles: usize,
    /// Braces of values that are open.
    lists: usize,
    /// A value follows, in which `<` compares.
    after_equals: bool,
    /// How many parentheses were open where an annotation's began.
    annotation: Option<usize>,
    /// Where the last token or comment ended in the source.
    source_end: usize,
    /// A blank line must stand in front of what comes next.
    separate: bool,
    /// The next line continues a statement that a comment has interrupted.
    continues: bool,
}

impl Layout<'_> {
    fn word(&self, token: &Token) -> &str {
        &self.text[token.span.range()]
    }

    /// Line ends of the source between what came last and `start`.
    fn line_ends(&self, start: usize) -> usize {
        self.text
            .get(self.source_end..start)
            .map_or(0, |gap| gap.bytes().filter(|byte| *byte == b'\n').count())
    }

    fn indent(&self) -> usize {
        self.blocks.len() * INDENT + if self.continues { CONTINUED } else { 0 }
    }

    /// Writes the line that was collected, if there is one.
    fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let indent = self.indent();
        let pieces = std::mem::take(&mut self.line);
        let code = pieces.iter().filter(|piece| !piece.comment);
        let whole: usize = code.map(|piece| piece.text.chars().count() + usize::from(piece.blank)).sum();
        self.out.push_str(&" ".repeat(indent));
        let is_long = indent + whole > WIDTH && pieces.iter().any(|piece| piece.breakable);
        let mut broken = false;
        for (index, piece) in pieces.iter().enumerate() {
            if broken && !piece.comment {
                self.out.push('\n');
                self.out.push_str(&" ".repeat(indent + CONTINUED));
            } else if piece.blank && index > 0 {
                self.out.push(' ');
            }
            self.out.push_str(&piece.text);
            broken = is_long && index + 1 < pieces.len() && (piece.breakable || broken && piece.comment);
        }
        self.out.push('\n');
        self.continues = false;
    }

    /// A blank line, where the source has one and it separates something.
    fn keep_blank_line(&mut self, start: usize) {
        let first = self.out.is_empty() || self.out.ends_with("{\n");
        if !self.line.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.separate) || self.line_ends(start) > 1;
        if wanted && !first && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn comment(&mut self, comment: &Comment) {
        let text = &self.text[comment.span.range()];
        let start = comment.span.start as usize;
        // Documentation belongs to what follows it.
        let leads = comment.kind == CommentKind::Doc && self.line.is_empty();
        let same_line = self.line_ends(start) == 0 && self.source_end > 0 && !leads;
        if same_line && (!self.line.is_empty() || self.out.ends_with('\n')) {
            let lines = reindented(text, self.indent() + 1);
            if self.line.is_empty() {
                // Behind a line that was written.
                self.out.truncate(self.out.trim_end_matches('\n').len());
                self.out.push(' ');
                self.out.push_str(&lines);
                self.out.push('\n');
            } else {
                self.line.push(Piece { text: lines, blank: true, breakable: false, comment: true });
                if comment.kind == CommentKind::Line {
                    self.flush();
                    self.continues = true;
                }
            }
        } else {
            if !self.line.is_empty() {
                self.flush();
                self.continues = true;
            }
            self.keep_blank_line(start);
            let indent = self.indent();
            self.out.push_str(&" ".repeat(indent));
            self.out.push_str(&reindented(text, indent + 1));
            self.out.push('\n');
        }
        self.source_end = comment.span.end as usize;
    }

    fn token(&mut self, index: usize, token: &Token) {
        if token.kind == TokenKind::End {
            self.flush();
            return;
        }
        let start = token.span.start as usize;
        let closes = token.kind == TokenKind::Sign("}") && self.lists == 0;
        if closes {
            self.flush();
            self.blocks.pop();
            self.continues = false;
        } else {
            self.keep_blank_line(start);
        }
        if self.begins_declaration(index, token) {
            self.flush();
        }
        let blank = self.blank_before(index, token);
        let text = self.word(token).to_owned();
        let was_values = self.opens_values(token);
        self.track(index, token);
        let breakable = self.parens == 1
            && self.annotation.is_none()
            && self.lists == 0
            && self.angles == 0
            && matches!(token.kind, TokenKind::Sign("(" | ","));
        self.line.push(Piece { text, blank, breakable, comment: false });
        self.source_end = token.span.end as usize;
        match token.kind {
            TokenKind::Sign("{") if self.lists == 0 => {
                let block = if was_values { Block::Values } else { Block::Members };
                self.flush();
                self.blocks.push(block);
            }
            TokenKind::Sign(";") if self.parens == 0 => {
                self.flush();
                self.separate_head(index);
            }
            TokenKind::Sign("}") if closes && !self.is_sign(index + 1, ";") => self.flush(),
            TokenKind::Sign(",")
                if self.parens == 0 && self.lists == 0 && self.blocks.last() == Some(&Block::Values) =>
            {
                self.after_equals = false;
                self.flush();
            }
            _ => {}
        }
    }

    fn is_sign(&self, index: usize, sign: &str) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| matches!(token.kind, TokenKind::Sign(found) if found == sign))
    }

    /// Behind the package and the imports a blank line follows.
    fn separate_head(&mut self, index: usize) {
        self.after_equals = false;
        if !self.blocks.is_empty() {
            return;
        }
        let first = self.tokens[..index].iter().rposition(|token| token.kind == TokenKind::Sign(";"));
        let keyword = |at: usize| self.tokens.get(at).map(|token| self.word(token)).unwrap_or_default();
        let this = keyword(first.map_or(0, |first| first + 1));
        let next = keyword(index + 1);
        let ends = this == "package" || this == "import" && next != "import";
        self.separate |= ends && self.tokens.get(index + 1).is_some_and(|token| token.kind != TokenKind::End);
    }

    /// Whether a declaration begins here, behind annotations.
    fn begins_declaration(&self, index: usize, token: &Token) -> bool {
        self.parens == 0
            && self.lists == 0
            && token.kind == TokenKind::Word
            && self.line.first().is_some_and(|first| first.text == "@")
            && DECLARES.contains(&self.word(token))
            && self.tokens.get(index + 1).is_some_and(|next| next.kind == TokenKind::Word)
            && !(self.word(token) == "oneway"
                && self.tokens.get(index + 1).is_some_and(|next| self.word(next) != "interface"))
    }

    fn opens_values(&self, token: &Token) -> bool {
        token.kind == TokenKind::Sign("{") && self.line.iter().any(|piece| piece.text == "enum")
    }

    /// Follows what is open.
    fn track(&mut self, index: usize, token: &Token) {
        match token.kind {
            TokenKind::Sign("(" | "[") => {
                let named = index >= 2 && self.is_sign(index - 2, "@");
                if named && self.is_sign(index, "(") && self.annotation.is_none() {
                    self.annotation = Some(self.parens);
                }
                self.parens += 1;
            }
            TokenKind::Sign(")" | "]") => {
                self.parens = self.parens.saturating_sub(1);
                if self.annotation == Some(self.parens) {
                    self.annotation = None;
                }
            }
            TokenKind::Sign("<") if !self.after_equals && !self.in_brackets(index) => self.angles += 1,
            TokenKind::Sign(">") => self.angles = self.angles.saturating_sub(1),
            TokenKind::Sign("{") if self.after_equals || self.parens > 0 => self.lists += 1,
            TokenKind::Sign("}") if self.lists > 0 => self.lists -= 1,
            TokenKind::Sign("=") if self.annotation.is_none() => self.after_equals = true,
            TokenKind::Sign("{" | "}" | ";") => self.after_equals = false,
            _ => {}
        }
    }

    /// Whether a blank stands in front of a token.
    fn blank_before(&self, index: usize, token: &Token) -> bool {
        if self.line.is_empty() || index == 0 {
            return false;
        }
        let before = &self.tokens[index - 1];
        let adjacent = before.span.end == token.span.start;
        let in_brackets = self.after_equals || self.in_brackets(index);
        match (before.kind, token.kind) {
            (TokenKind::Sign("(" | "[" | "." | "@" | "::" | "~"), _) => false,
            (TokenKind::Sign("!"), _) => false,
            (_, TokenKind::Sign(")" | "]" | "," | ";" | "." | "::")) => false,
            // Versions and values of HIDL are written in one piece, and stay so.
            (TokenKind::Word, TokenKind::Version) => !adjacent,
            (_, TokenKind::Sign(":")) if in_brackets && adjacent => false,
            (TokenKind::Sign(":"), _) if in_brackets && adjacent => false,
            (TokenKind::Word, TokenKind::Sign("(")) => self.word(before) == "generates" || in_brackets,
            (TokenKind::Sign(">"), TokenKind::Sign("(")) => in_brackets,
            (_, TokenKind::Sign("[")) => false,
            (_, TokenKind::Sign("=")) | (TokenKind::Sign("="), _) if self.annotation.is_some() => false,
            (TokenKind::Sign("{"), _) | (_, TokenKind::Sign("}")) if self.lists > 0 => false,
            (TokenKind::Sign(one @ ("<" | ">")), TokenKind::Sign(other)) if in_brackets && adjacent => {
                // `<<` and `>>` are two tokens, `<=` and `>=` too.
                !(one == other || other == "=")
            }
            (TokenKind::Sign("="), _) if in_brackets && self.closes_comparison(index - 1) => true,
            (_, TokenKind::Sign("<" | ">")) if !in_brackets => false,
            (TokenKind::Sign("<"), _) if !in_brackets => false,
            (TokenKind::Sign("-" | "+"), _) => !self.is_unary(index - 1),
            _ => true,
        }
    }

    fn closes_comparison(&self, index: usize) -> bool {
        index > 0 && (self.is_sign(index - 1, "<") || self.is_sign(index - 1, ">"))
    }

    /// Whether the token lies between `[` and `]`.
    fn in_brackets(&self, index: usize) -> bool {
        let mut depth = 0i32;
        for token in self.tokens[..index].iter().rev() {
            match token.kind {
                TokenKind::Sign("[") if depth == 0 => return true,
                TokenKind::Sign("[" | "(") => depth -= 1,
                TokenKind::Sign("]" | ")") => depth += 1,
                TokenKind::Sign(";" | "{" | "}") => return false,
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
        false
    }

    /// Whether a sign stands in front of one operand instead of between two.
    fn is_unary(&self, index: usize) -> bool {
        match index.checked_sub(1).map(|before| self.tokens[before].kind) {
            Some(TokenKind::Sign(sign)) => !matches!(sign, ")" | "]" | "}"),
            _ => false,
        }
    }

    fn finish(mut self) -> String {
        self.flush();
        let end = self.out.trim_end().len();
        self.out.truncate(end);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }
}

/// A comment whose further lines are moved below its first one.
fn reindented(comment: &str, indent: usize) -> String {
    let mut lines = comment.lines().map(str::trim_end);
    let mut text = lines.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = lines.collect();
    let starred = rest.iter().all(|line| line.trim_start().starts_with('*'));
    for line in rest {
        text.push('\n');
        if starred {
            text.push_str(&" ".repeat(indent));
            text.push_str(line.trim_start());
        } else {
            // Somebody's own layout.
            text.push_str(line);
        }
    }
    text
}
