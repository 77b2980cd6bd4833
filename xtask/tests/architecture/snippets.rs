//! The book shows code as it stands in the sources: a page is readable where the repository shows it, and what it
//! shows is built and run with the examples.
//!
//! `<!-- from FILE -->` or `<!-- from FILE:ANCHOR -->` stands above a block of code. `HANDOFF_BLESS=1` writes the
//! blocks anew.

use std::path::Path;

use super::tree::{Source, root, sources};

const MARK: &str = "<!-- from ";

fn pages() -> Vec<Source> {
    sources().into_iter().filter(|source| source.has_extension("md")).collect()
}

/// The lines of a file, or of its part between `ANCHOR: name` and `ANCHOR_END: name`.
fn part(file: &str, anchor: Option<&str>) -> Result<String, String> {
    let text = std::fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
    let Some(anchor) = anchor else { return Ok(text.trim_end().to_owned()) };
    let is = |line: &str, mark: &str| line.trim_end().ends_with(&format!("{mark}: {anchor}"));
    let mut lines = text.lines().skip_while(|line| !is(line, "ANCHOR"));
    lines.next().ok_or_else(|| format!("{file} has no ANCHOR: {anchor}"))?;
    let mut kept = Vec::new();
    for line in lines {
        if is(line, "ANCHOR_END") {
            return Ok(outdented(&kept));
        }
        if !line.contains("ANCHOR") {
            kept.push(line);
        }
    }
    Err(format!("{file} has no ANCHOR_END: {anchor}"))
}

/// Lines without what all of them are indented by.
fn outdented(lines: &[&str]) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let all = lines.iter().filter(|line| !line.is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(all..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The page with each marked block as its source has it.
fn renewed(page: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = page;
    while let Some(at) = rest.find(MARK) {
        let (before, marked) = rest.split_at(at);
        let (target, _) =
            marked[MARK.len()..].split_once(" -->").ok_or("a mark is not closed by -->".to_owned())?;
        let open = marked.find("```").ok_or_else(|| format!("no code follows the mark of {target}"))?;
        let body = open + marked[open..].find('\n').ok_or("a fence without an end".to_owned())? + 1;
        let close = body + marked[body..].find("\n```").ok_or("a fence without an end".to_owned())?;
        let (file, anchor) = target.split_once(':').map_or((target, None), |(f, a)| (f, Some(a)));
        out.push_str(before);
        out.push_str(&marked[..body]);
        out.push_str(&part(file, anchor)?);
        rest = &marked[close..];
    }
    out.push_str(rest);
    Ok(out)
}

fn problem(page: &Source) -> Option<String> {
    let name = page.path.display();
    if page.text.contains("{{#include") {
        return Some(format!(
            "{name}: an include that only mdbook resolves; write the code and a mark above it"
        ));
    }
    match renewed(&page.text) {
        Err(why) => Some(format!("{name}: {why}")),
        Ok(text) if text == page.text => None,
        Ok(text) if std::env::var_os("HANDOFF_BLESS").is_some() => {
            let path: &Path = &page.path;
            std::fs::write(root().join(path), text).err().map(|error| format!("{name}: {error}"))
        }
        Ok(_) => Some(format!("{name}: a block differs from its source; HANDOFF_BLESS=1 writes it anew")),
    }
}

#[test]
fn code_in_the_book_is_that_of_its_source() {
    let pages = pages();
    let marks: usize = pages.iter().map(|page| page.text.matches(MARK).count()).sum();
    assert!(marks >= 9, "only {marks} blocks are marked: the rule is looking at the wrong files");
    let wrong: Vec<_> = pages.iter().filter_map(problem).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Blocks without a source that compiles, and why.
const WITHOUT_SOURCE: [(&str, &str, &str); 1] = [(
    "docs/book/src/how-to/android-hal.md",
    "find_package(binder_ndk REQUIRED)",
    "two lines for the reader's own target; handoff-ndk's test of installed libraries builds with the same two",
)];

/// The first lines of blocks of a language that a compiler takes, where no mark stands above the block.
fn unmarked(page: &str) -> Vec<&str> {
    const LANGUAGES: [&str; 8] = ["rust", "aidl", "c", "cpp", "cmake", "java", "kotlin", "python"];
    let (mut found, mut is_marked, mut in_block) = (Vec::new(), false, false);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        match line.strip_prefix("```") {
            Some(_) if in_block => (in_block, is_marked) = (false, false),
            Some(language) => {
                in_block = true;
                let language = language.split(',').next().unwrap_or_default();
                if !is_marked && LANGUAGES.contains(&language) {
                    found.extend(lines.peek().copied());
                }
            }
            None if line.starts_with(MARK) => is_marked = true,
            None => is_marked &= in_block || line.is_empty(),
        }
    }
    found
}

#[test]
fn all_code_in_the_book_is_compiled() {
    let pages = pages().into_iter().filter(|page| page.path.starts_with("docs/book/src"));
    let mut without: Vec<(String, String)> = Vec::new();
    for page in pages {
        let name = page.path.display().to_string();
        without.extend(unmarked(&page.text).into_iter().map(|line| (name.clone(), line.to_owned())));
    }
    let known: Vec<_> =
        WITHOUT_SOURCE.iter().map(|(page, line, _)| ((*page).to_owned(), (*line).to_owned())).collect();
    assert_eq!(
        without, known,
        "code in the book is taken from a file that is compiled: see this file's first lines"
    );
}

#[test]
fn a_block_that_differs_is_found() {
    let good = part("examples/src/bin/greeter_by_hand.rs", Some("interface")).expect("it is there");
    assert!(!good.contains("ANCHOR") && good.lines().count() > 1, "{good}");
    let page = |code: &str| {
        format!(
            "a\n\n{MARK}examples/src/bin/greeter_by_hand.rs:interface -->\n\n```rust,ignore\n{code}\n```\n\nb\n"
        )
    };
    assert_eq!(renewed(&page(&good)), Ok(page(&good)));
    assert_eq!(renewed(&page("let x = 1;")), Ok(page(&good)));
    assert!(renewed(&format!("{MARK}examples/src/bin/greeter_by_hand.rs:nothing -->\n```\n```\n")).is_err());
    assert!(renewed(&format!("{MARK}examples/src/bin/none.rs -->\n```\nx\n```\n")).is_err());
    assert_eq!(unmarked(&page("x")), [""; 0]);
    assert_eq!(unmarked("```sh\na\n```\n\n```rust,ignore\nb\n```\n"), ["b"]);
    assert_eq!(outdented(&["  a", "", "    b"]), "a\n\n  b");
}
