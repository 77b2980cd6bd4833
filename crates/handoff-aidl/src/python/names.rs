//! Names and texts of AIDL as those of Python.

use heck::{ToShoutySnakeCase as _, ToSnakeCase as _, ToUpperCamelCase as _};

use crate::ast::Docs;

/// Words that cannot be names.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];
/// What every proxy or stub has.
const OF_EVERY_OBJECT: [&str; 6] =
    ["binder", "find", "interface_hash", "interface_version", "register", "within"];
const OF_EVERY_UNION: [&str; 2] = ["tag", "value"];
/// What every enum or interface has.
const OF_EVERY_CLASS: [&str; 6] = ["DESCRIPTOR", "HASH", "VERSION", "mro", "name", "value"];

fn unless(name: String, taken: &[&str]) -> String {
    let bad = KEYWORDS.contains(&name.as_str()) || taken.contains(&name.as_str());
    if bad { format!("{name}_") } else { name }
}

/// `getFooBar` as `get_foo_bar`: a field or a parameter.
pub(super) fn member(name: &str) -> String {
    let snake = name.to_snake_case();
    match snake.chars().next() {
        None => "n_".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("n{snake}"),
        // Not `self`, which a method has already.
        Some(_) => unless(snake, &["self"]),
    }
}

/// A method of an interface.
pub(super) fn method(name: &str) -> String {
    unless(member(name), &OF_EVERY_OBJECT)
}

/// A field of a union.
pub(super) fn variant(name: &str) -> String {
    unless(member(name), &OF_EVERY_UNION)
}

/// A constant's name: as it is where it has no small letters.
pub(super) fn constant(name: &str) -> String {
    let small = name.chars().any(|c| c.is_ascii_lowercase());
    let shouted = if small { name.to_shouty_snake_case() } else { name.to_owned() };
    match shouted.chars().next() {
        // Names that begin with underscores are Python's.
        Some(first) if first.is_ascii_alphabetic() => unless(shouted, &OF_EVERY_CLASS),
        _ => format!("N{shouted}"),
    }
}

/// The name of a type: as it is, but for a first letter that is small.
pub(super) fn type_name(name: &str) -> String {
    let fine = name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains('_');
    let camel = if fine { name.to_owned() } else { name.to_upper_camel_case() };
    match camel.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => unless(camel, &[]),
        _ => format!("N{camel}"),
    }
}

/// Text as a literal.
pub(super) fn text(value: &str) -> String {
    let mut literal = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            ' '..='~' => literal.push(c),
            _ if u32::from(c) <= 0xffff => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    literal + "\""
}

/// A line of documentation that nothing in it can end before its time.
pub(super) fn in_docstring(line: &str) -> String {
    plain(&crate::rust::translated(line)).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Documentation as comments in front of what it is of.
pub(super) fn comment(docs: &Docs, code: &mut String) {
    for line in &docs.lines {
        code.push_str(format!("    # {}", plain(&crate::rust::translated(line))).trim_end());
        code.push('\n');
    }
    if let Some(reason) = &docs.deprecated {
        code.push_str(format!("    # Deprecated. {}", plain(reason)).trim_end());
        code.push('\n');
    }
}

/// Without characters that Python might take for the end of a line, or of the file.
fn plain(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_python() {
        assert_eq!(member("getFooBar"), "get_foo_bar");
        assert_eq!(
            (member("class"), member("self"), member("_3")),
            ("class_".into(), "self_".into(), "n3".into())
        );
        assert_eq!((method("find"), member("find")), ("find_".into(), "find".into()));
        assert_eq!((constant("darkRed"), constant("__A")), ("DARK_RED".into(), "N__A".into()));
        assert_eq!((type_name("my_type"), type_name("None")), ("MyType".into(), "None_".into()));
    }

    #[test]
    fn texts_stay_inside_of_their_quotes() {
        assert_eq!(text("a\"\\\n🦀é"), "\"a\\\"\\\\\\u000a\\U0001f980\\u00e9\"");
        assert_eq!(in_docstring("a\"\"\"\r\\"), "a\\\"\\\"\\\" \\\\");
    }
}
