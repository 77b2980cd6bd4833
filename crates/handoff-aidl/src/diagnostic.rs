//! What is wrong with a file: where, why, and what to write instead.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use serde::Serialize;

use crate::source::{Sources, Span};

/// Past so many diagnostics nobody reads on; the rest is counted.
const MOST: usize = 200;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file can be used; something in it is probably not meant.
    Warning,
    /// The file cannot be used.
    Error,
}

/// A replacement that would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// What to replace; empty for an insertion.
    pub span: Span,
    /// What to write there.
    pub replacement: String,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where; `None` where no file is to blame.
    pub span: Option<Span>,
    /// What stands beside the caret.
    pub label: String,
    /// Other places that matter, with what they are.
    pub related: Vec<(Span, String)>,
    /// What to do about it.
    pub help: Option<String>,
    /// What to write instead.
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            span: Some(span),
            label: String::new(),
            related: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(span, message) }
    }

    /// An error without a place.
    pub fn general(message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            span: None,
            label: String::new(),
            related: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// With words beside the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With another place that matters.
    #[must_use]
    pub fn related(mut self, span: Span, what: impl Into<String>) -> Self {
        self.related.push((span, what.into()));
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With what to write instead, at a place.
    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, replacement: replacement.into() });
        self
    }
}

/// What was found to be wrong so far.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Diagnostics {
    /// Nothing wrong yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one. A second one of the same place and words is dropped.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.contains(&diagnostic) {
            return;
        }
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if self.list.len() < MOST {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
        }
    }

    /// True if something is an error.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What is wrong, in the order in which it was found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Sorts by place.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| diagnostic.span);
    }

    /// Text for people: the line with a caret, what is wrong and what to write instead.
    pub fn render(&self, sources: &Sources, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for diagnostic in &self.list {
            text.push_str(&renderer.render(&groups(diagnostic, sources)));
            text.push_str("\n\n");
        }
        if self.left_out > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} more were left out", self.left_out);
        }
        text
    }

    /// The same for programs.
    pub fn records(&self, sources: &Sources) -> Vec<Record> {
        self.list.iter().map(|diagnostic| Record::of(diagnostic, sources)).collect()
    }
}

fn groups<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str());
    let snippet = |span: Span, kind: AnnotationKind, label: &'a str| {
        let file = sources.file(span.file);
        let annotation = kind.span(visible(file.text(), span));
        let annotation = if label.is_empty() { annotation } else { annotation.label(label) };
        (file, annotation)
    };
    let Some(span) = diagnostic.span else {
        let group = Group::with_title(title);
        return vec![match &diagnostic.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }];
    };
    let (file, primary) = snippet(span, AnnotationKind::Primary, &diagnostic.label);
    let mut source = Snippet::source(file.text()).path(file.path().to_string_lossy()).annotation(primary);
    let mut others = Vec::new();
    for (place, what) in &diagnostic.related {
        let (other, annotation) = snippet(*place, AnnotationKind::Context, what);
        if place.file == span.file {
            source = source.annotation(annotation);
        } else {
            others.push(
                Snippet::source(other.text()).path(other.path().to_string_lossy()).annotation(annotation),
            );
        }
    }
    let mut group = title.element(source);
    for other in others {
        group = group.element(other);
    }
    match (&diagnostic.fix, &diagnostic.help) {
        (Some(fix), help) => {
            let file = sources.file(fix.span.file);
            let help = help.as_deref().unwrap_or("write");
            let patch = Patch::new(fix.span.range(), fix.replacement.as_str());
            vec![group, Level::HELP.secondary_title(help).element(Snippet::source(file.text()).patch(patch))]
        }
        (None, Some(help)) => vec![group.element(Level::HELP.message(help.as_str()))],
        (None, None) => vec![group],
    }
}

/// A span that has something to point at: the end of a file is its last character.
fn visible(text: &str, span: Span) -> std::ops::Range<usize> {
    let range = span.range();
    if range.start < text.len() || text.is_empty() {
        return range;
    }
    let last = text.trim_end().len();
    last..last
}

/// A diagnostic for programs: places counted from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// `error` or `warning`.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What stands beside the caret; may be empty.
    pub label: String,
    /// Where.
    pub at: Option<Place>,
    /// Other places that matter.
    pub related: Vec<Related>,
    /// What to do about it.
    pub help: Option<String>,
    /// What to write instead.
    pub fix: Option<Replacement>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Path of the file.
    pub file: String,
    /// Line of the first character.
    pub line: usize,
    /// Column of the first character.
    pub column: usize,
    /// Line of the character behind the last.
    pub end_line: usize,
    /// Column of the character behind the last.
    pub end_column: usize,
}

/// Another place that matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Where.
    pub at: Place,
    /// What it is.
    pub what: String,
}

/// What to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// What to replace; empty for an insertion.
    pub at: Place,
    /// What to write there.
    pub replacement: String,
}

impl Record {
    fn of(diagnostic: &Diagnostic, sources: &Sources) -> Self {
        let place = |span: Span| Place::of(span, sources);
        let fix = |fix: &Fix| Replacement { at: place(fix.span), replacement: fix.replacement.clone() };
        Record {
            severity: diagnostic.severity,
            message: diagnostic.message.clone(),
            label: diagnostic.label.clone(),
            at: diagnostic.span.map(place),
            related: diagnostic
                .related
                .iter()
                .map(|(span, what)| Related { at: place(*span), what: what.clone() })
                .collect(),
            help: diagnostic.help.clone(),
            fix: diagnostic.fix.as_ref().map(fix),
        }
    }
}

impl Place {
    /// Lines and columns of a span.
    pub fn of(span: Span, sources: &Sources) -> Self {
        let file = sources.file(span.file);
        let (line, column) = file.line_and_column(span.start);
        let (end_line, end_column) = file.line_and_column(span.end);
        Place { file: file.path().display().to_string(), line, column, end_line, end_column }
    }
}

/// The one of `known` that was probably meant by `word`.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *candidate != word)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Language;

    #[test]
    fn a_diagnostic_shows_the_place_and_what_to_write() {
        let mut sources = Sources::new();
        let file = sources.add("a/IFoo.aidl", "package a;\ninterface IFoo { Strng x(); }\n", Language::Aidl);
        let span = Span { file, start: 28, end: 33 };
        let mut found = Diagnostics::new();
        let one = Diagnostic::error(span, "there is no type `Strng`").label("unknown").fix(span, "String");
        found.push(one.clone());
        found.push(one);
        let text = found.render(&sources, false);
        assert!(text.contains("error: there is no type `Strng`"), "{text}");
        assert!(text.contains("a/IFoo.aidl:2:18"), "{text}");
        assert!(text.contains("^^^^^ unknown"), "{text}");
        assert_eq!(found.errors(), 1);
        let record = &found.records(&sources)[0];
        let at = record.at.as_ref().unwrap();
        assert_eq!((at.line, at.column, at.end_column), (2, 18, 23));
    }

    #[test]
    fn words_that_are_close_are_suggested() {
        assert_eq!(similar("Strng", ["String", "IBinder"]), Some("String"));
        assert_eq!(similar("xyz", ["String"]), None);
    }

    #[test]
    fn what_is_at_the_end_of_a_file_can_be_shown() {
        for text in ["", "\n", "interface IFoo {\n\n", "x"] {
            let mut sources = Sources::new();
            let file = sources.add("a.aidl", text, Language::Aidl);
            let end = text.len() as u32;
            let mut found = Diagnostics::new();
            found.push(Diagnostic::error(Span { file, start: end, end }, "the file ends too early"));
            assert!(found.render(&sources, false).contains("too early"));
        }
    }
}
