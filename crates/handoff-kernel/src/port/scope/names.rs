//! What a definition is, and its name, from the text in front of its brace.

use super::super::words::{is_identifier, split};
use super::ScopeKind;

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

/// Words that stand in front of a brace or a parenthesis and define nothing.
pub(super) fn is_control(word: &str) -> bool {
    const WORDS: [&str; 27] = [
        "if",
        "else",
        "elif",
        "elsif",
        "for",
        "foreach",
        "while",
        "until",
        "unless",
        "do",
        "try",
        "catch",
        "except",
        "finally",
        "switch",
        "case",
        "match",
        "when",
        "select",
        "with",
        "return",
        "throw",
        "new",
        "await",
        "yield",
        "synchronized",
        "loop",
    ];
    WORDS.contains(&word)
}

/// What a definition with this text in front of its brace is, and its name.
pub(super) fn classify(header: &str) -> (ScopeKind, String) {
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
pub(super) fn statement_name(header: &str) -> String {
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
