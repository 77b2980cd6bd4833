//! What encloses a line: the functions, types, tables and macros of a source file.
//!
//! No C parser: a kernel file need not even be complete C before the preprocessor ran, and a hunk
//! is a piece cut out of one. What is used is how kernel code is laid out: definitions start and
//! end in the first column, and `#else` halves open the same braces as their `#if` halves.

use std::collections::HashMap;

use super::words::{is_identifier, split};

/// What a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// A function's definition.
    Function,
    /// A `struct`, `union` or `enum`.
    Type,
    /// An initialised array or structure.
    Table,
    /// A `#define` of several lines.
    Macro,
    /// A declaration or a macro call of several lines.
    Statement,
    /// An entry of Kconfig, a section of a document: a line and what is indented under it.
    Entry,
}

/// A named part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// What it is.
    pub(super) kind: ScopeKind,
    /// Its name; empty where a hunk does not say it.
    pub(super) name: String,
    /// Its first line, counted from 0.
    pub(super) start: usize,
    /// Its last line, counted from 0.
    pub(super) end: usize,
}

/// The scopes of a file or of the lines of a hunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Scopes {
    /// In the order of the file; they do not overlap.
    pub all: Vec<Scope>,
    /// For each line, its scope.
    pub of_line: Vec<Option<usize>>,
}

/// How a file's scopes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// C and what is laid out like it (headers, device trees).
    C,
    /// Kconfig, documentation: a line in the first column and indented ones under it.
    Indented,
}

impl Language {
    /// Chosen by the file's name.
    pub(super) fn of(path: &str) -> Self {
        let end = path.rsplit('/').next().unwrap_or(path).rsplit_once('.').map_or("", |(_, end)| end);
        match end {
            "c" | "h" | "S" | "dts" | "dtsi" | "y" | "l" | "cc" | "cpp" | "rs" => Self::C,
            _ => Self::Indented,
        }
    }
}

impl Scopes {
    /// Finds the scopes of a whole file.
    pub(super) fn of_file<S: AsRef<str>>(lines: &[S], language: Language) -> Self {
        match language {
            Language::C => Scanner::default().run(lines),
            Language::Indented => indented(lines),
        }
    }

    /// Finds the scopes of a hunk's lines; `heading` is the text behind its second `@@`.
    pub(super) fn of_hunk<S: AsRef<str>>(lines: &[S], heading: &str, language: Language) -> Self {
        if language == Language::Indented {
            let mut scopes = indented(lines);
            let named = entry_name(heading);
            // Lines in front of the first entry belong to the one that the heading names.
            let lead = scopes.all.first().map_or(lines.len(), |scope| scope.start);
            if lead > 0 && !named.is_empty() {
                for index in scopes.of_line.iter_mut().flatten() {
                    *index += 1;
                }
                scopes.all.insert(0, Scope { kind: ScopeKind::Entry, name: named, start: 0, end: lead - 1 });
                scopes.of_line[..lead].fill(Some(0));
            }
            return scopes;
        }
        let mut scanner = Scanner { comment: starts_in_comment(lines), ..Scanner::default() };
        if lines.first().is_some_and(|line| line.as_ref().ends_with('\\')) {
            // Headings never name the macro in whose middle a hunk starts.
            scanner.directive = true;
            scanner.define = Some((0, String::new()));
        } else if starts_inside(lines) {
            let (kind, name) = heading_name(heading).unwrap_or((ScopeKind::Function, String::new()));
            scanner.scopes.push(Scope { kind, name, start: 0, end: 0 });
            scanner.open = Some(0);
            // Only a brace in the first column ends it: how deep the hunk starts is not known.
            scanner.depth = 2 * UNKNOWN_DEPTH;
        }
        scanner.run(lines)
    }

    /// The scope of a line.
    pub(super) fn at(&self, line: usize) -> Option<&Scope> {
        self.of_line.get(line).copied().flatten().map(|index| &self.all[index])
    }

    /// The scopes by name.
    pub(super) fn by_name(&self) -> HashMap<&str, Vec<usize>> {
        let mut map: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, scope) in self.all.iter().enumerate() {
            map.entry(scope.name.as_str()).or_default().push(index);
        }
        map
    }
}

/// True if the first line of a hunk lies inside a definition and not between two.
fn starts_inside<S: AsRef<str>>(lines: &[S]) -> bool {
    let mut comment = starts_in_comment(lines);
    let mut indented_comment = false;
    for line in lines {
        let line = line.as_ref();
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') || is_label(line) {
            continue;
        }
        if line.starts_with(['}', '{']) {
            return true;
        }
        // A comment in the first column is mostly between definitions, but what follows says more.
        if comment || trimmed.starts_with("/*") || trimmed.starts_with("//") {
            indented_comment |= !comment && line.starts_with('\t') || comment && line.starts_with("\t *");
            let open = line.rfind("/*").map_or(-1, |at| at.cast_signed());
            let close = line.rfind("*/").map_or(-1, |at| at.cast_signed());
            comment = if open == close { comment } else { open > close };
            continue;
        }
        return line.starts_with([' ', '\t']);
    }
    indented_comment
}

/// True if a hunk's first line is in the middle of a comment.
fn starts_in_comment<S: AsRef<str>>(lines: &[S]) -> bool {
    for line in lines {
        let line = line.as_ref();
        match (line.find("/*"), line.find("*/")) {
            (Some(open), Some(close)) => return close < open,
            (Some(_), None) => return false,
            (None, Some(_)) => return true,
            (None, None) => {}
        }
    }
    lines.iter().any(|line| !line.as_ref().trim().is_empty())
        && lines.iter().all(|line| {
            let line = line.as_ref().trim_start();
            line.is_empty() || line.starts_with('*')
        })
}

/// True for a label of `goto` in the first column.
pub(super) fn is_label(line: &str) -> bool {
    let line = line.trim_end();
    line.strip_suffix(':')
        .is_some_and(|name| !name.is_empty() && is_identifier(name) && split(name).count() == 1)
}

/// The scope that a hunk's heading names, if it names one.
pub(super) fn heading_name(heading: &str) -> Option<(ScopeKind, String)> {
    let heading = heading.trim();
    if heading.is_empty() || is_label(heading) {
        return None;
    }
    let complete = heading.trim_end_matches('{');
    let (kind, name) = classify(complete);
    (!name.is_empty()).then_some((kind, name))
}

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
struct Scanner {
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
    fn run<S: AsRef<str>>(mut self, lines: &[S]) -> Scopes {
        for (number, line) in lines.iter().enumerate() {
            self.line(number, line.as_ref());
        }
        let last = lines.len().saturating_sub(1);
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
        Scopes { all: self.scopes, of_line }
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

/// Macros that stand in front of or behind a function's name and are not it.
fn is_attribute(word: &str) -> bool {
    word.starts_with("__") && !word.starts_with("__init_or") && {
        const ATTRIBUTES: [&str; 19] = [
            "__attribute__",
            "__printf",
            "__scanf",
            "__acquires",
            "__releases",
            "__must_hold",
            "__section",
            "__aligned",
            "__alignof__",
            "__cond_lock",
            "__acquire",
            "__release",
            "__typeof__",
            "__no_sanitize",
            "__assume_aligned",
            "__alloc_size",
            "__nonnull",
            "__diag_ignore_all",
            "__bpf_kfunc_args",
        ];
        ATTRIBUTES.contains(&word)
    } || matches!(word, "typeof" | "asmlinkage" | "aligned" | "noinline_for_stack" | "ACPI_EXPORT_SYMBOL")
}

/// What a definition with this text in front of its brace is, and its name.
fn classify(header: &str) -> (ScopeKind, String) {
    let header = header.trim();
    let groups = paren_groups(header);
    let equals = top_level_equals(header);
    if let Some(equals) = equals {
        return (ScopeKind::Table, variable_name(&header[..equals]));
    }
    let call = groups.iter().find(|group| !is_attribute(group.name));
    if let Some(call) = call {
        // A function that returns a pointer to a function has its name inside.
        let inner = if call.inside.starts_with('*') { paren_groups(call.inside) } else { Vec::new() };
        return (ScopeKind::Function, function_name(inner.first().unwrap_or(call)));
    }
    let words: Vec<&str> = split(header).filter(|word| is_identifier(word)).collect();
    for (index, word) in words.iter().enumerate() {
        if matches!(*word, "struct" | "union" | "enum" | "namespace" | "class") {
            let name = words[index + 1..].iter().find(|name| !name.starts_with("__"));
            return (ScopeKind::Type, name.map_or(String::new(), |name| format!("{word} {name}")));
        }
    }
    if header.starts_with("extern") {
        return (ScopeKind::Statement, "extern".to_owned());
    }
    (ScopeKind::Statement, words.last().map_or(String::new(), |word| (*word).to_owned()))
}

/// A function's name; the macros that define system calls and the like carry it as an argument.
fn function_name(group: &Group<'_>) -> String {
    let first = || group.inside.split(',').next().unwrap_or("").trim().to_owned();
    let name = group.name;
    if name.starts_with("SYSCALL_DEFINE") {
        format!("sys_{}", first())
    } else if name.starts_with("COMPAT_SYSCALL_DEFINE") {
        format!("compat_sys_{}", first())
    } else if name.len() > 3 && !name.bytes().any(|b| b.is_ascii_lowercase()) && !group.inside.is_empty() {
        format!("{name}({})", first())
    } else {
        name.to_owned()
    }
}

/// The name of a declaration or macro call of several lines.
fn statement_name(header: &str) -> String {
    let header = header.trim();
    if let Some(equals) = top_level_equals(header) {
        return variable_name(&header[..equals]);
    }
    match paren_groups(header).iter().find(|group| !is_attribute(group.name)) {
        Some(group) => function_name(group),
        None => variable_name(header),
    }
}

/// The variable that a declaration without its initialiser declares.
fn variable_name(declaration: &str) -> String {
    let text = declaration.split('[').next().unwrap_or(declaration);
    let mut names = split(text).filter(|word| is_identifier(word)).collect::<Vec<_>>();
    if !declaration.contains('[') {
        while names.len() > 1 && names.last().is_some_and(|name| name.starts_with("__")) {
            names.pop();
        }
    }
    names.last().map_or(String::new(), |name| (*name).to_owned())
}

struct Group<'a> {
    name: &'a str,
    inside: &'a str,
}

/// The parenthesised groups of a header that follow a name, outermost ones only.
fn paren_groups(header: &str) -> Vec<Group<'_>> {
    let bytes = header.as_bytes();
    let (mut depth, mut start, mut groups) = (0usize, 0usize, Vec::new());
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'(' => {
                if depth == 0 {
                    start = index;
                }
                depth += 1;
            }
            b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && start < index {
                    push_group(header, start, index, &mut groups);
                }
            }
            _ => {}
        }
    }
    if depth > 0 {
        // A heading is cut where its line ends or after a number of characters.
        push_group(header, start, header.len(), &mut groups);
    }
    groups
}

fn push_group<'a>(header: &'a str, start: usize, end: usize, groups: &mut Vec<Group<'a>>) {
    let before = header[..start].trim_end();
    let name = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(before, |i| &before[i + before[i..].chars().next().map_or(1, char::len_utf8)..]);
    if !name.is_empty() && is_identifier(name) {
        groups.push(Group { name, inside: &header[(start + 1).min(end)..end] });
    }
}

/// Where a `=` stands outside of parentheses.
fn top_level_equals(header: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in header.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'=' if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

/// Scopes of a file that is laid out by indentation.
fn indented<S: AsRef<str>>(lines: &[S]) -> Scopes {
    let mut scopes: Vec<Scope> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            if let Some(last) = scopes.last_mut() {
                last.end = number;
            }
        } else {
            let name = entry_name(line);
            scopes.push(Scope { kind: ScopeKind::Entry, name, start: number, end: number });
        }
    }
    scopes.retain(|scope| scope.end > scope.start && !scope.name.is_empty());
    let mut of_line = vec![None; lines.len()];
    for (index, scope) in scopes.iter().enumerate() {
        of_line[scope.start..=scope.end].fill(Some(index));
    }
    Scopes { all: scopes, of_line }
}

/// The name of an entry: `FOO` of `config FOO`, the first word of anything else.
fn entry_name(line: &str) -> String {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    match first {
        "config" | "menuconfig" | "menu" | "choice" => format!("{first} {}", words.next().unwrap_or("")),
        _ => first.trim_end_matches([':', ',']).to_owned(),
    }
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
