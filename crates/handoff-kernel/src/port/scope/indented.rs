//! Scopes of files that are laid out by indentation: Python, Go, Java, shell, Kconfig, YAML, documents.
//!
//! A line in the first column and what is indented below it is a scope. Inside of one that is no function, so are
//! the definitions one step further in: the methods of a class. Their names are put together, as `Class.method`.

use super::super::words::{is_identifier, split};
use super::names::is_control;
use super::{Scope, ScopeKind, Scopes};

/// A scope that is not closed yet.
struct Open {
    scope: usize,
    /// The column in which its first line starts.
    column: usize,
    /// The smallest column in which a line inside of it starts.
    inside: usize,
}

/// Finds the scopes of a file that is laid out by indentation.
pub(super) fn indented<S: AsRef<str>>(lines: &[S]) -> Scopes {
    read(lines, None)
}

/// Finds the scopes of a hunk; its first lines stand inside of what `heading` names, if they are indented.
pub(super) fn indented_hunk<S: AsRef<str>>(lines: &[S], heading: &str) -> Scopes {
    let heading = heading.trim();
    let (kind, name) = match definition(heading) {
        Some(found) => found,
        // What encloses the lines is not known.
        None if heading.is_empty() => (ScopeKind::Function, String::new()),
        None => (ScopeKind::Entry, entry_name(heading)),
    };
    read(lines, has_lead(lines).then_some(Scope { kind, name, start: 0, end: 0 }))
}

/// True if a hunk's first lines stand inside of something that starts above it. It is the first of its scopes.
pub(crate) fn has_lead<S: AsRef<str>>(lines: &[S]) -> bool {
    let first = lines.iter().map(AsRef::as_ref).find(|line| !says_nothing(line));
    first.is_some_and(|line| column(line) > 0 || closes(line))
}

fn read<S: AsRef<str>>(lines: &[S], lead: Option<Scope>) -> Scopes {
    let mut scopes: Vec<Scope> = lead.into_iter().collect();
    let mut open: Vec<Open> =
        (0..scopes.len()).map(|scope| Open { scope, column: 0, inside: usize::MAX }).collect();
    let has_lead = !open.is_empty();
    for (number, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        if line.trim().is_empty() {
            continue;
        }
        let column = column(line);
        if says_nothing(line) {
            open.iter().filter(|open| open.column < column).for_each(|open| scopes[open.scope].end = number);
            continue;
        }
        let ends = |open: &Open| open.column == column && (closes(line) || line.trim() == "{");
        if open.last().is_some_and(ends) {
            open.iter().for_each(|open| scopes[open.scope].end = number);
            // `):` and `) {` end the parameters, and the body follows.
            if closes(line) && !line.trim_end().ends_with(['{', ':', '(', '[']) {
                open.pop();
            }
            continue;
        }
        while open.last().is_some_and(|open| open.column >= column) {
            open.pop();
        }
        open.iter().for_each(|open| scopes[open.scope].end = number);
        let parent = open.last_mut();
        let direct = parent.as_ref().is_none_or(|parent| column <= parent.inside);
        let home = parent.map(|parent| {
            parent.inside = parent.inside.min(column);
            parent.scope
        });
        let home = home.map(|home| &scopes[home]);
        let found = match home {
            None if column == 0 => {
                Some(definition(line).unwrap_or_else(|| (ScopeKind::Entry, entry_name(line))))
            }
            None => definition(line),
            // What encloses a hunk without a heading may be a function or not.
            Some(home) if direct && (home.kind != ScopeKind::Function || home.name.is_empty()) => {
                definition(line)
            }
            Some(_) => None,
        };
        if let Some((kind, own)) = found {
            let name = match home.filter(|home| home.kind == ScopeKind::Type) {
                Some(home) => format!("{}.{own}", home.name),
                None => own,
            };
            open.push(Open { scope: scopes.len(), column, inside: usize::MAX });
            scopes.push(Scope { kind, name, start: number, end: number });
        }
    }
    let mut lead = has_lead;
    scopes.retain(|scope| {
        std::mem::take(&mut lead)
            || !scope.name.is_empty() && (scope.end > scope.start || scope.kind != ScopeKind::Entry)
    });
    let mut of_line = vec![None; lines.len()];
    // An inner scope comes behind the one that it stands in.
    for (index, scope) in scopes.iter().enumerate() {
        of_line[scope.start..=scope.end].fill(Some(index));
    }
    Scopes::new(scopes, of_line)
}

/// True for a blank line or a comment: code that was commented out stands in the first column anywhere.
fn says_nothing(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty()
        || text.starts_with("//")
        || text.starts_with('#')
        || text.len() < line.len() && text.starts_with('*')
}

/// The column in which a line's text starts.
pub(crate) fn column(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).fold(0, |column, c| match c {
        '\t' => column / 8 * 8 + 8,
        _ => column + 1,
    })
}

/// True for a line that ends what stands above it and is indented.
fn closes(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(['}', ')', ']']) || matches!(line, "end" | "fi" | "done" | "esac" | "endef")
}

/// The name of an entry: `FOO` of `config FOO`, the first word of anything else.
pub(crate) fn entry_name(line: &str) -> String {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    let is_sign = !first.contains(|c: char| c.is_alphanumeric());
    match first {
        "config" | "menuconfig" | "menu" | "choice" => format!("{first} {}", words.next().unwrap_or("")),
        _ if is_sign => format!("{first} {}", words.next().unwrap_or("")).trim_end().to_owned(),
        _ => first.trim_end_matches([':', ',']).to_owned(),
    }
}

/// What a line defines, and its name, as far as most languages write it alike: a word such as `class` or `def` and the
/// name, or a name with parameters and a brace.
pub(crate) fn definition(line: &str) -> Option<(ScopeKind, String)> {
    const MODIFIERS: [&str; 20] = [
        "pub",
        "public",
        "private",
        "protected",
        "internal",
        "static",
        "final",
        "abstract",
        "sealed",
        "async",
        "export",
        "default",
        "override",
        "virtual",
        "inline",
        "unsafe",
        "open",
        "data",
        "local",
        "declare",
    ];
    let line = line.trim();
    let line = if line.starts_with("pub(") {
        line.split_once(')').map_or(line, |(_, rest)| rest.trim())
    } else {
        line
    };
    let words: Vec<&str> = split(line).filter(|word| !word.trim().is_empty()).collect();
    let at = words.iter().position(|word| !MODIFIERS.contains(word))?;
    let name = |from: usize| words[from.min(words.len())..].iter().find(|word| is_identifier(word));
    match words[at] {
        // `func (receiver Type) name(`.
        "func" if words.get(at + 1) == Some(&"(") => {
            let end = words.iter().position(|word| *word == ")")?;
            let of = words[..end].iter().rev().find(|word| is_identifier(word))?;
            Some((ScopeKind::Function, format!("{of}.{}", name(end)?)))
        }
        "def" | "func" | "fn" | "function" | "sub" | "proc" | "fun" => {
            Some((ScopeKind::Function, (*name(at + 1)?).to_owned()))
        }
        "impl" => Some((ScopeKind::Type, line.split('{').next().unwrap_or(line).trim().to_owned())),
        "class" | "interface" | "trait" | "struct" | "enum" | "mod" | "module" | "namespace" | "package"
        | "type" => Some((ScopeKind::Type, (*name(at + 1)?).to_owned())),
        word => with_brace(line, word, at > 0),
    }
}

/// A method without such a word in front of it, or a call that names by a text what its braces hold: `test "name" {`.
///
/// The brace of a method may follow on another line if a modifier such as `public` stands in front.
fn with_brace(line: &str, first: &str, has_modifier: bool) -> Option<(ScopeKind, String)> {
    let goes_on = line.ends_with('{') || has_modifier && line.ends_with([')', ',', '(']);
    if !goes_on || is_control(first) || line.starts_with(['}', '{']) {
        return None;
    }
    let quote = line.find(['"', '\'', '`']);
    if let Some(from) = quote {
        let mark = &line[from..=from];
        let end = line[from + 1..].find(mark)? + from + 2;
        return (!line[..from].contains('=')).then(|| (ScopeKind::Type, line[..end].to_owned()));
    }
    let (before, _) = line.split_once('(')?;
    let name =
        split(before).filter(|word| !word.trim().is_empty()).last().filter(|word| is_identifier(word))?;
    let is_type = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_<>[],&*:.@?~".contains(c);
    (before.chars().all(is_type) && !is_control(name)).then(|| (ScopeKind::Function, name.to_owned()))
}
