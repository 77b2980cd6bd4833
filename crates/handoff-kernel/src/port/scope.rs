//! What encloses a line: the functions, types, tables and macros of a source file.
//!
//! No C parser: a kernel file need not even be complete C before the preprocessor ran, and a hunk
//! is a piece cut out of one. What is used is how kernel code is laid out: definitions start and
//! end in the first column, and `#else` halves open the same braces as their `#if` halves.

mod indented;
mod names;
mod scanner;

use std::cell::OnceCell;
use std::collections::HashMap;

use indented::{indented, indented_hunk};

pub(super) use indented::{column, definition, entry_name, has_lead};
use names::classify;
use scanner::Scanner;

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
    /// Each hunk of a file asks for names.
    by_name: OnceCell<HashMap<String, Vec<usize>>>,
}

/// How a file's scopes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// C and what is laid out like it (headers, device trees).
    C,
    /// All others: a line in the first column and indented ones under it.
    Indented,
}

impl Language {
    /// Chosen by the file's name.
    pub(super) fn of(path: &str) -> Self {
        // `config.h.in` becomes a header.
        let path = path.strip_suffix(".in").unwrap_or(path);
        let end = path.rsplit('/').next().unwrap_or(path).rsplit_once('.').map_or("", |(_, end)| end);
        match end {
            "c" | "h" | "S" | "dts" | "dtsi" | "y" | "l" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx"
            | "m" => Self::C,
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
            return indented_hunk(lines, heading);
        }
        let mut scanner = Scanner::in_comment(starts_in_comment(lines));
        if lines.first().is_some_and(|line| line.as_ref().ends_with('\\')) {
            // Headings never name the macro in whose middle a hunk starts.
            scanner.start_in_macro();
        } else if starts_inside(lines) {
            let (kind, name) = heading_name(heading).unwrap_or((ScopeKind::Function, String::new()));
            scanner.start_inside(kind, name);
        }
        scanner.run(lines)
    }

    /// The scope of a line.
    pub(super) fn at(&self, line: usize) -> Option<&Scope> {
        self.of_line.get(line).copied().flatten().map(|index| &self.all[index])
    }

    fn new(all: Vec<Scope>, of_line: Vec<Option<usize>>) -> Self {
        Self { all, of_line, by_name: OnceCell::new() }
    }

    /// The scopes of this name.
    pub(super) fn named(&self, name: &str) -> &[usize] {
        let by_name = self.by_name.get_or_init(|| {
            let mut map: HashMap<String, Vec<usize>> = HashMap::new();
            for (index, scope) in self.all.iter().enumerate() {
                map.entry(scope.name.clone()).or_default().push(index);
            }
            map
        });
        by_name.get(name).map_or(&[], Vec::as_slice)
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
    // A declaration encloses nothing: what the hunk stands in is not known.
    if heading.is_empty() || is_label(heading) || heading.ends_with(';') {
        return None;
    }
    let complete = heading.trim_end_matches('{');
    let (kind, name) = classify(complete);
    (!name.is_empty()).then_some((kind, name))
}

#[cfg(test)]
mod tests;
