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
            return Ok(kept.join("\n"));
        }
        if !line.contains("ANCHOR") {
            kept.push(line);
        }
    }
    Err(format!("{file} has no ANCHOR_END: {anchor}"))
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
}
