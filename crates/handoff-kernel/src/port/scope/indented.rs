//! Scopes of files that are laid out by indentation: Kconfig, documents.

use super::{Scope, ScopeKind, Scopes};

/// Scopes of a file that is laid out by indentation.
pub(super) fn indented<S: AsRef<str>>(lines: &[S]) -> Scopes {
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
pub(super) fn entry_name(line: &str) -> String {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    match first {
        "config" | "menuconfig" | "menu" | "choice" => format!("{first} {}", words.next().unwrap_or("")),
        _ => first.trim_end_matches([':', ',']).to_owned(),
    }
}
