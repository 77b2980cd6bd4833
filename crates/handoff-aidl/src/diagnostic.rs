//! What is wrong with a file: where, why, and what to write instead.

use std::fmt::Write as _;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet};
use serde::Serialize;

use crate::source::{Sources, Span};

/// Past so many diagnostics nobody reads on; the rest is counted.
const MOST: usize = 200;

/// Names among which the one that was meant is looked for.
const MOST_CANDIDATES: usize = 2000;

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
    let help = |group: Group<'a>| match &diagnostic.help {
        Some(help) => group.element(Level::HELP.message(help.as_str())),
        None => group,
    };
    let Some(span) = diagnostic.span else { return vec![help(Group::with_title(title))] };
    let places: Vec<Span> =
        std::iter::once(span).chain(diagnostic.related.iter().map(|(at, _)| *at)).collect();
    let Some(window) = Window::over(span, &places, sources) else {
        // A line that nobody could read anyway.
        let Location { file, line, column, .. } = Location::of(span, sources);
        let origin = Origin::path(file).line(line).char_column(column);
        return vec![help(title.element(origin))];
    };
    let mut source =
        window.snippet(sources).annotation(window.mark(AnnotationKind::Primary, span, &diagnostic.label));
    let mut others = Vec::new();
    for (place, what) in &diagnostic.related {
        if window.holds(*place) {
            source = source.annotation(window.mark(AnnotationKind::Context, *place, what));
        } else if let Some(window) = Window::over(*place, &[], sources) {
            others.push(window.snippet(sources).annotation(window.mark(
                AnnotationKind::Context,
                *place,
                what,
            )));
        }
    }
    let mut group = title.element(source);
    for other in others {
        group = group.element(other);
    }
    match &diagnostic.fix {
        Some(fix) if window.holds(fix.span) => {
            let what = diagnostic.help.as_deref().unwrap_or("write");
            let start = window.start;
            let range = fix.span.range();
            let patch = Patch::new(range.start - start..range.end - start, fix.replacement.as_str());
            let file = sources.file(span.file);
            let source = Snippet::source(&file.text()[window.start..window.end]).line_start(window.line);
            vec![group, Level::HELP.secondary_title(what).element(source.patch(patch))]
        }
        _ => vec![help(group)],
    }
}

/// The lines of a file that a diagnostic shows.
struct Window {
    file: crate::source::FileId,
    start: usize,
    end: usize,
    /// Number of the first line.
    line: usize,
}

/// Bytes of a line that can be shown.
const LONGEST_LINE: usize = 1000;
/// Bytes of a window: what is further away gets one of its own.
const WIDEST: usize = 4000;

impl Window {
    /// The lines of a place, and of the others that are near. `None` if a line is too long to be shown.
    fn over(main: Span, others: &[Span], sources: &Sources) -> Option<Self> {
        let source = sources.file(main.file);
        let text = source.text();
        let lines = |span: Span| {
            let from = text[..span.range().start.min(text.len())].rfind('\n').map_or(0, |end| end + 1);
            let to = span.range().end.min(text.len());
            (from, text[to..].find('\n').map_or(text.len(), |length| to + length))
        };
        let (mut start, mut end) = lines(main);
        for other in others.iter().filter(|other| other.file == main.file) {
            let (from, to) = lines(*other);
            if end.max(to) - start.min(from) <= WIDEST {
                (start, end) = (start.min(from), end.max(to));
            }
        }
        let fits = text[start..end].split('\n').all(|line| line.len() <= LONGEST_LINE);
        let line = source.line_and_column(start as u32).0;
        fits.then_some(Window { file: main.file, start, end, line })
    }

    fn holds(&self, span: Span) -> bool {
        span.file == self.file && span.range().start >= self.start && span.range().end <= self.end
    }

    fn snippet<'a>(&self, sources: &'a Sources) -> Snippet<'a, Annotation<'a>> {
        let file = sources.file(self.file);
        Snippet::source(&file.text()[self.start..self.end])
            .line_start(self.line)
            .path(file.path().to_string_lossy())
    }

    fn mark<'a>(&self, kind: AnnotationKind, span: Span, label: &'a str) -> Annotation<'a> {
        let range = span.range();
        let annotation = kind.span(range.start - self.start..range.end - self.start);
        if label.is_empty() { annotation } else { annotation.label(label) }
    }
}

/// A diagnostic for programs: places counted from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// `error` or `warning`.
    pub severity: Severity,
    pub message: String,
    /// What stands beside the caret; may be empty.
    pub label: String,
    pub at: Option<Location>,
    /// Other places that matter.
    pub related: Vec<Related>,
    /// What to do about it.
    pub help: Option<String>,
    /// What to write instead.
    pub fix: Option<Replacement>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Location {
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
    pub at: Location,
    pub what: String,
}

/// What to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// What to replace; empty for an insertion.
    pub at: Location,
    /// What to write there.
    pub replacement: String,
}

impl Record {
    fn of(diagnostic: &Diagnostic, sources: &Sources) -> Self {
        let place = |span: Span| Location::of(span, sources);
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

impl Location {
    /// Lines and columns of a span.
    pub fn of(span: Span, sources: &Sources) -> Self {
        let file = sources.file(span.file);
        let (line, column) = file.line_and_column(span.start);
        let (end_line, end_column) = file.line_and_column(span.end);
        Location { file: file.path().display().to_string(), line, column, end_line, end_column }
    }
}

/// The one of `known` that was probably meant by `word`.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer is no slip of the pen, and comparing takes the product of the lengths.
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .take(MOST_CANDIDATES)
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= 3)
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
