//! The scanner: finds definitions by braces, the first column and the preprocessor's halves.

use super::super::words::split;
use super::names::{classify, statement_name};
use super::{Scope, ScopeKind, Scopes, is_label};

/// The scanner's state between two lines.
#[derive(Clone, Default)]
struct State {
    depth: usize,
    parens: usize,
    header: String,
    header_start: usize,
    open: Option<usize>,
}

/// Deeper than any code: how deep a hunk starts inside a definition is not known.
const UNKNOWN_DEPTH: usize = 1000;

#[derive(Default)]
pub(super) struct Scanner {
    scopes: Vec<Scope>,
    depth: usize,
    parens: usize,
    /// Text at depth 0 since the last definition.
    header: String,
    header_start: usize,
    /// The scope whose braces are open.
    open: Option<usize>,
    comment: bool,
    /// The states at the open `#if`s.
    conditions: Vec<State>,
    /// Where a `#define` with continuation lines started.
    define: Option<(usize, String)>,
    /// True inside a preprocessor line that is continued.
    directive: bool,
}

impl Scanner {
    /// A scanner that may start in the middle of a comment.
    pub(super) fn in_comment(comment: bool) -> Self {
        Self { comment, ..Self::default() }
    }

    /// It starts in the middle of a macro whose name is not known.
    pub(super) fn start_in_macro(&mut self) {
        self.directive = true;
        self.define = Some((0, String::new()));
    }

    /// It starts in the middle of a definition. Only a brace in the first column ends it: how deep the
    /// start is not known.
    pub(super) fn start_inside(&mut self, kind: ScopeKind, name: String) {
        self.scopes.push(Scope { kind, name, start: 0, end: 0 });
        self.open = Some(0);
        self.depth = 2 * UNKNOWN_DEPTH;
    }

    /// Finds the scopes.
    pub(super) fn run<S: AsRef<str>>(mut self, lines: &[S]) -> Scopes {
        for (number, line) in lines.iter().enumerate() {
            self.line(number, line.as_ref());
        }
        let last = lines.len().saturating_sub(1);
        if let Some((start, name)) = self.define.take() {
            // A hunk may end inside a macro.
            self.scopes.push(Scope { kind: ScopeKind::Macro, name, start, end: last });
        }
        if let Some(open) = self.open {
            self.scopes[open].end = last;
        } else if !self.header.trim().is_empty() && self.header_start < lines.len() && self.parens > 0 {
            // A hunk may end inside the parameters of a function.
            self.close_statement(last);
        } else if let Some(name) = self.unfinished_header() {
            // ... or right after them, before the brace.
            self.scopes.push(Scope { kind: ScopeKind::Function, name, start: self.header_start, end: last });
        }
        let mut of_line = vec![None; lines.len()];
        self.scopes.sort_by_key(|scope| scope.start);
        for (index, scope) in self.scopes.iter().enumerate() {
            for slot in of_line.iter_mut().take(scope.end + 1).skip(scope.start) {
                *slot = Some(index);
            }
        }
        Scopes::new(self.scopes, of_line)
    }

    fn unfinished_header(&self) -> Option<String> {
        let header = self.header.trim();
        if !header.ends_with(')') || !header.contains(' ') {
            return None;
        }
        let (kind, name) = classify(header);
        (kind == ScopeKind::Function && !name.is_empty()).then_some(name)
    }

    fn line(&mut self, number: usize, line: &str) {
        let continued = line.ends_with('\\');
        if self.directive {
            self.directive = continued;
            if !continued && let Some((start, name)) = self.define.take() {
                self.scopes.push(Scope { kind: ScopeKind::Macro, name, start, end: number });
            }
            return;
        }
        if !self.comment && line.trim_start().starts_with('#') {
            self.directive = continued;
            self.preprocessor(number, line.trim_start(), continued);
            return;
        }
        if !self.comment {
            self.first_column(number, line);
        }
        self.characters(number, line);
        self.header.push(' ');
    }

    /// What the first column says: it puts the scanner right where macros confused it.
    fn first_column(&mut self, number: usize, line: &str) {
        let word = line.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if line.starts_with('}') && self.depth > 0 {
            self.depth = 1;
            self.parens = 0;
        } else if self.depth >= UNKNOWN_DEPTH && word && !is_label(line) {
            // What the heading named was no definition, but a declaration that ended above.
            if let Some(open) = self.open.take() {
                self.scopes[open].kind = ScopeKind::Statement;
                self.scopes[open].end = number.saturating_sub(1);
            }
            self.depth = 0;
            self.header.clear();
        } else if self.depth == 0 && self.parens == 0 && word {
            // `module_init(x)` without a semicolon is not part of the function below it.
            let header = self.header.trim();
            let attribute = line.starts_with("__") && !header.is_empty() && !line.contains(' ');
            if header.ends_with(')')
                && header.split('(').next().is_some_and(|h| !h.contains(' '))
                && !attribute
            {
                self.close_statement(number.saturating_sub(1));
            }
        }
    }

    fn preprocessor(&mut self, number: usize, line: &str, continued: bool) {
        let directive = line[1..].trim_start();
        if directive.starts_with("if") {
            self.conditions.push(State {
                depth: self.depth,
                parens: self.parens,
                header: self.header.clone(),
                header_start: self.header_start,
                open: self.open,
            });
        } else if directive.starts_with("el") {
            if let Some(state) = self.conditions.last().cloned() {
                // Each half continues from where the first one did.
                if let (Some(open), None) = (self.open, state.open) {
                    self.scopes[open].end = number.saturating_sub(1);
                }
                self.depth = state.depth;
                self.parens = state.parens;
                self.header = state.header;
                self.header_start = state.header_start;
                self.open = state.open;
            }
        } else if directive.starts_with("endif") {
            self.conditions.pop();
        } else if let Some(rest) = directive.strip_prefix("define")
            && continued
            && self.depth == 0
        {
            let name = split(rest.trim_start()).next().unwrap_or("").to_owned();
            self.define = Some((number, name));
        }
    }

    fn characters(&mut self, number: usize, line: &str) {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let two = &bytes[at..bytes.len().min(at + 2)];
            if self.comment {
                if two == b"*/" {
                    self.comment = false;
                    at += 1;
                }
                at += 1;
                continue;
            }
            match bytes[at] {
                b'/' if two == b"/*" => {
                    self.comment = true;
                    at += 2;
                    continue;
                }
                b'/' if two == b"//" => break,
                quote @ (b'"' | b'\'') => {
                    at = string_end(bytes, at, quote);
                    if self.depth == 0 {
                        self.header.push('"');
                    }
                    continue;
                }
                b'{' => self.open_brace(number),
                b'}' => self.close_brace(number, at == 0),
                b';' if self.depth == 0 && self.parens == 0 => {
                    if self.header_start < number {
                        self.close_statement(number);
                    }
                    self.header.clear();
                }
                byte if self.depth == 0 => {
                    match byte {
                        b'(' => self.parens += 1,
                        b')' => self.parens = self.parens.saturating_sub(1),
                        _ => {}
                    }
                    if self.header.trim().is_empty() && !byte.is_ascii_whitespace() {
                        self.header.clear();
                        self.header_start = number;
                    }
                    self.header.push(char::from(byte));
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn open_brace(&mut self, number: usize) {
        if self.depth == 0 {
            // Braces in the arguments of a macro call belong to its statement.
            if self.parens > 0 && !self.header.trim_end().ends_with(')') {
                return;
            }
            let header = std::mem::take(&mut self.header);
            let (kind, name) = classify(&header);
            if name == "extern" {
                return;
            }
            let start = if header.trim().is_empty() { number } else { self.header_start };
            self.scopes.push(Scope { kind, name, start, end: number });
            self.open = Some(self.scopes.len() - 1);
            self.parens = 0;
        }
        self.depth += 1;
    }

    fn close_brace(&mut self, number: usize, first_column: bool) {
        match self.depth {
            0 => {}
            1 => {
                self.depth = 0;
                self.header.clear();
                if let Some(open) = self.open.take() {
                    self.scopes[open].end = number;
                }
            }
            _ if first_column => {
                self.depth = 1;
                self.close_brace(number, false);
            }
            _ => self.depth -= 1,
        }
    }

    /// Ends a declaration or macro call of several lines.
    fn close_statement(&mut self, end: usize) {
        let header = std::mem::take(&mut self.header);
        if end > self.header_start {
            let name = statement_name(&header);
            if !name.is_empty() {
                self.scopes.push(Scope { kind: ScopeKind::Statement, name, start: self.header_start, end });
            }
        }
        self.parens = 0;
    }
}

/// The index behind the string or character constant that starts at `at`.
fn string_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 1,
            byte if byte == quote => return end + 1,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}
