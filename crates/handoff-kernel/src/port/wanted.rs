//! A hunk as the locator sees it: the lines it expects, where they belong, and what it changes.

use std::cell::LazyCell;

use super::align::{Expected, Label};
use super::heading;
use super::scope::{Language, Scope, ScopeKind, Scopes, has_lead, heading_name, is_label};
use super::source::Source;
use super::words::Line;
use crate::patch::{Hunk, HunkLine, Op};

/// Lines that a hunk changes together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Index of the first expected line that is removed, or in front of which lines are added.
    pub at: usize,
    /// How many expected lines are removed.
    pub removed: usize,
    /// The lines that are added.
    pub added: Vec<String>,
}

/// A hunk, seen against one file.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The lines in the file before the change.
    pub expected: Vec<Expected>,
    /// The lines in the file after the change.
    pub after: Vec<String>,
    /// The changes.
    pub groups: Vec<Group>,
    /// For each expected line, what encloses it as far as the hunk says.
    pub scopes: Scopes,
    /// Number of the first expected line in the file that the patch was made for, from 0.
    pub asked: usize,
    /// True if the last expected line is the last of its file.
    pub to_end: bool,
    /// True if the first expected line is the first of its file.
    pub from_start: bool,
    /// Whether the file is to end without an end of line, where the hunk speaks of it.
    pub lacks_final_newline: Option<bool>,
    /// The text behind the second `@@`.
    pub heading: String,
}

impl Wanted {
    /// Prepares a hunk for `source`, which is called `path`.
    pub(super) fn new(hunk: &Hunk, source: &Source, path: &str) -> Self {
        let before: Vec<&HunkLine> = hunk.before().collect();
        let text: Vec<&str> = before.iter().map(|line| line.text.as_str()).collect();
        let scopes = Scopes::of_hunk(&text, &hunk.heading, Language::of(path));
        let asked = hunk.old_start.saturating_sub(1);
        Self::labelled(hunk, source, scopes, asked)
    }

    fn labelled(hunk: &Hunk, source: &Source, scopes: Scopes, asked: usize) -> Self {
        let before: Vec<&HunkLine> = hunk.before().collect();
        let text: Vec<&str> = before.iter().map(|line| line.text.as_str()).collect();
        let has_lead = has_lead(&text);
        let below = LazyCell::new(|| heading::below(source, &hunk.heading));
        let labels: Vec<Label> = scopes
            .all
            .iter()
            .enumerate()
            .map(|(index, scope)| {
                let lead = index == 0 && scope.start == 0;
                if source.language == Language::Indented {
                    let line = if lead && has_lead { &hunk.heading } else { text[scope.start] };
                    return indented_label(scope, line, lead && has_lead, &below, source);
                }
                if lead
                    && scope.name.is_empty()
                    && let Some(scope) = with_label(&hunk.heading, source)
                {
                    return Label::Known(vec![scope]);
                }
                label(scope, source, lead, lead && is_cut(&hunk.heading))
            })
            .collect();
        let undecided = undecided_lead(&before, &hunk.heading);
        let expected = before
            .iter()
            .enumerate()
            .map(|(index, line)| Expected {
                text: line.text.clone(),
                line: Line::new(&line.text),
                label: match scopes.of_line[index] {
                    Some(scope) => labels[scope].clone(),
                    None if index < undecided => Label::Unknown,
                    None => Label::Top,
                },
            })
            .collect();
        let is_context = |line: &&HunkLine| line.op == Op::Context;
        let leading = hunk.lines.iter().take_while(is_context).count();
        let trailing = hunk.lines.iter().rev().take_while(is_context).count();
        Self {
            expected,
            after: hunk.after().map(|line| line.text.clone()).collect(),
            groups: groups(hunk),
            scopes,
            asked,
            // A diff has three lines of context wherever the file has them, and at least one.
            to_end: trailing == 0 && leading > 0 || trailing < 3 && leading >= 3,
            from_start: hunk.old_start <= 1 && leading == 0 && trailing > 0,
            lacks_final_newline: hunk.lacks_final_newline(),
            heading: hunk.heading.clone(),
        }
    }

    /// True if the hunk adds lines in front of all others of its file.
    pub(super) fn begins_file(&self) -> bool {
        self.from_start && self.groups.first().is_some_and(|group| group.at == 0 && group.removed == 0)
    }

    /// What the change makes of the expected lines `from..to`, which cut no group.
    pub(super) fn changed(&self, from: usize, to: usize) -> Vec<String> {
        let mut out = Vec::new();
        let mut at = from;
        for group in self.groups.iter().filter(|group| from <= group.at && group.at + group.removed <= to) {
            out.extend(self.expected[at..group.at].iter().map(|line| line.text.clone()));
            out.extend(group.added.iter().cloned());
            at = group.at + group.removed;
        }
        out.extend(self.expected[at..to].iter().map(|line| line.text.clone()));
        out
    }

    /// What encloses the hunk's first change, as far as the hunk says.
    pub(super) fn scope(&self) -> Option<&Scope> {
        let group = self.groups.first()?;
        let at = group.at.min(self.expected.len().saturating_sub(1));
        let scope = self.scopes.at(at).or_else(|| {
            let insertion = group.removed == 0;
            insertion.then(|| group.at.checked_sub(1).and_then(|above| self.scopes.at(above))).flatten()
        })?;
        (!scope.name.is_empty()).then_some(scope)
    }

    /// Number of the first changed line in the file that the patch was made for, from 0.
    pub(super) fn asked_change(&self) -> usize {
        self.asked + self.groups.first().map_or(0, |group| group.at)
    }
}

/// GNU diff cuts a heading after 40 characters, git after 80.
fn is_cut(heading: &str) -> bool {
    heading.len() >= 39 && !heading.ends_with(['{', ')', ',', ';'])
}

/// The only function of the file that has the label which a heading names.
///
/// Older diffs name the last line that started in the first column, and that may be a label.
fn with_label(heading: &str, source: &Source) -> Option<usize> {
    const COMMON: [&str; 14] = [
        "out",
        "err",
        "error",
        "fail",
        "failed",
        "done",
        "unlock",
        "end",
        "exit",
        "again",
        "retry",
        "drop",
        "next",
        "out_unlock",
    ];
    let heading = heading.trim();
    if !is_label(heading) || COMMON.contains(&heading.trim_end_matches(':')) {
        return None;
    }
    let mut with = (0..source.text.len()).filter(|&line| source.text[line].trim_end() == heading);
    let scope = source.scopes.of_line[with.next()?]?;
    with.all(|line| source.scopes.of_line[line] == Some(scope)).then_some(scope)
}

fn label(scope: &Scope, source: &Source, lead: bool, cut: bool) -> Label {
    if scope.name.is_empty() {
        let unknown = matches!(scope.kind, ScopeKind::Function | ScopeKind::Macro);
        return if unknown { Label::Unknown } else { Label::Missing(scope.kind) };
    }
    let code = |kind| matches!(kind, ScopeKind::Function | ScopeKind::Macro);
    let fits = |index: &usize| {
        let other = source.scopes.all[*index].kind;
        // A heading is one line: the parentheses of `static ssize_t wdm_write` may stand on the next.
        other == scope.kind
            || code(other) && code(scope.kind)
            || lead && scope.kind == ScopeKind::Statement && code(other)
    };
    let same: Vec<usize> = source.scopes.named(&scope.name).iter().copied().filter(fits).collect();
    if !same.is_empty() {
        return Label::Known(same);
    }
    if cut {
        let longer: Vec<usize> = (0..source.scopes.all.len())
            .filter(|index| source.scopes.all[*index].name.starts_with(&scope.name) && fits(index))
            .collect();
        if !longer.is_empty() {
            return Label::Known(longer);
        }
        return Label::Unknown;
    }
    match scope.kind {
        ScopeKind::Statement => Label::Top,
        kind => Label::Missing(kind),
    }
}

/// Where the lines of a scope belong in a file that is laid out by indentation. `line` is the scope's first line, or
/// the heading if that stands above the hunk (`lead`); `below` is what stands below that heading.
fn indented_label<F: FnOnce() -> Vec<usize>>(
    scope: &Scope,
    line: &str,
    lead: bool,
    below: &LazyCell<Vec<usize>, F>,
    source: &Source,
) -> Label {
    if scope.name.is_empty() {
        return Label::Unknown;
    }
    if lead {
        return match scope.kind {
            _ if !below.is_empty() => Label::Known(Vec::clone(below)),
            ScopeKind::Entry if !line.starts_with(['c', 'm']) => Label::Unknown,
            kind => Label::Missing(kind),
        };
    }
    let indent = |text: &str| text.len() - text.trim_start().len();
    let of_kind = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let all = source.scopes.all.iter().enumerate();
        // A function inside of a method may have the name of another method.
        let fits = |other: &Scope| {
            other.kind == scope.kind && fits(&other.name) && indent(&source.text[other.start]) == indent(line)
        };
        all.filter(|(_, other)| fits(other)).map(|(index, _)| index).collect()
    };
    let inner = format!(".{}", scope.name);
    let same = of_kind(&|name| name == scope.name);
    let same = if same.is_empty() { of_kind(&|name| name.ends_with(&inner)) } else { same };
    if !same.is_empty() {
        return Label::Known(same);
    }
    // A function that stands inside of another is no scope of its own.
    if source.count(&Line::new(line)) > 0 && !below.is_empty() {
        return Label::Known(Vec::clone(below));
    }
    Label::Missing(scope.kind)
}

/// How many leading lines say nothing of whether they stand inside a definition or not.
fn undecided_lead(before: &[&HunkLine], heading: &str) -> usize {
    let silent = |line: &&HunkLine| {
        let text = line.text.trim_start();
        text.is_empty() || text.starts_with('#') || is_label(&line.text) || text.starts_with('*')
    };
    let lead = before.iter().take_while(|line| silent(line)).count();
    // Without any name to go by, lines up to the first that starts a definition say nothing.
    if heading_name(heading).is_none() && lead > 0 || lead == before.len() { lead } else { 0 }
}

fn groups(hunk: &Hunk) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    let mut open = false;
    for line in &hunk.lines {
        if line.op == Op::Context {
            open = false;
            at += 1;
            continue;
        }
        if !open {
            groups.push(Group { at, removed: 0, added: Vec::new() });
            open = true;
        }
        let group = groups.last_mut().expect("one was pushed");
        if line.op == Op::Remove {
            group.removed += 1;
            at += 1;
        } else {
            group.added.push(line.text.clone());
        }
    }
    groups
}
