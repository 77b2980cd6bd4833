//! Files are short and say what they are for; `unsafe` is where the book says; no path of a machine.

use std::collections::BTreeSet;

use super::tree::{Source, root, sources};

/// Past this a file is more than one idea.
const MOST_LINES: usize = 700;

/// The page that lists each module with `unsafe`, what it rests on and the test that would notice.
const UNSAFE_PAGE: &str = "docs/book/src/design/unsafe.md";

fn rust() -> Vec<Source> {
    sources().into_iter().filter(|source| source.has_extension("rs")).collect()
}

/// `tests.rs`, or `NAME_tests.rs` beside `NAME.rs`.
fn is_tests(source: &Source) -> bool {
    source.path.file_stem().is_some_and(|name| name == "tests" || name.to_string_lossy().ends_with("_tests"))
}

fn assert_none(wrong: &[String], rule: &str) {
    assert!(wrong.is_empty(), "{rule}:\n{}", wrong.join("\n"));
}

#[test]
fn a_file_is_one_idea() {
    let long = |source: &Source| {
        let lines = source.text.lines().count();
        (lines > MOST_LINES).then(|| format!("{}: {lines} lines", source.path.display()))
    };
    let wrong: Vec<_> = rust().iter().filter_map(long).collect();
    assert_none(&wrong, &format!("no file has more than {MOST_LINES} lines: split it by ideas"));
}

#[test]
fn a_file_begins_with_what_it_is_for() {
    let begins = |source: &Source| {
        if is_tests(source) {
            return true; // Its name says it.
        }
        let first = source.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
        first.is_some_and(|line| line.starts_with("//!") && line.len() > "//! x".len())
    };
    let wrong: Vec<_> = rust()
        .iter()
        .filter(|source| !begins(source))
        .map(|source| source.path.display().to_string())
        .collect();
    assert_none(&wrong, "a file's first line says what it is for (`//! ...`)");
}

#[test]
fn unsafe_code_is_where_the_book_says() {
    let attribute = concat!("allow(", "unsafe_code)");
    let found: BTreeSet<String> = rust()
        .iter()
        .filter(|source| source.is_in("src") && !is_tests(source))
        .filter(|source| source.text.contains(attribute))
        .map(|source| source.path.display().to_string())
        .collect();
    assert!(found.len() > 5, "is the attribute still spelt {attribute}?");
    let page = std::fs::read_to_string(root().join(UNSAFE_PAGE)).expect("the page is there");
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(path, _)| path.to_owned())
        .collect();
    let mut wrong = Vec::new();
    wrong.extend(found.difference(&listed).map(|path| format!("{path} is not listed in {UNSAFE_PAGE}")));
    wrong.extend(listed.difference(&found).map(|path| format!("{path} is listed and has no unsafe code")));
    assert_none(&wrong, "unsafe code lives in few modules, each with what it rests on and a test");
}

#[test]
fn no_file_names_a_machines_own_path() {
    // Put together here, so that this file does not name them itself.
    let folders =
        [["/wo", "rk/"], ["/root", "/."], ["/tmp/tar", "get-"], ["/home/", "user/"], ["/Use", "rs/"]];
    let folders = folders.map(|parts| parts.concat());
    let mut wrong = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(folder) = folders.iter().find(|folder| line.contains(folder.as_str())) {
                wrong.push(format!("{}:{}: {folder}", source.path.display(), number + 1));
            }
        }
    }
    assert_none(&wrong, "a path that only one machine has helps nobody else");
}
