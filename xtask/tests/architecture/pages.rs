//! The book and the other Markdown files: every page is in the table of contents, every link leads
//! somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::tree::{Source, root, sources};

const BOOK: &str = "docs/book/src";

fn pages() -> Vec<Source> {
    sources().into_iter().filter(|source| source.has_extension("md")).collect()
}

/// The targets of the links in a page: `[text](target)` and `[name]: target`, outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let without_code: String = line.split('`').step_by(2).collect();
            for rest in without_code.split("](").skip(1) {
                found.extend(rest.split_once(')').map(|(target, _)| target.to_owned()));
            }
            if let Some((_, target)) =
                without_code.strip_prefix('[').and_then(|definition| definition.split_once("]: "))
            {
                found.push(target.trim().to_owned());
            }
        }
    }
    found
}

/// What GitHub and mdbook make of a heading, so that a link can point at it.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim_start_matches('#').trim().chars().filter_map(kept).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// "In `folder`" says where the files are that the lines behind it name; others stand beside the one named before.
#[test]
fn the_ways_through_the_house_lead_from_file_to_file() {
    let page = std::fs::read_to_string(root().join(BOOK).join("design/house.md")).expect("the page is read");
    let (_, ways) = page.split_once("## Two ways through").expect("the page has the ways");
    let (mut folder, mut beside) = (PathBuf::new(), PathBuf::new());
    let (mut named, mut wrong) = (0, Vec::new());
    for word in ways.split('`').skip(1).step_by(2) {
        if word.starts_with("crates/") && !word.ends_with(".rs") {
            (folder, beside) = (word.into(), word.into());
        } else if word.ends_with(".rs") {
            named += 1;
            let possible = [folder.as_path(), beside.as_path(), Path::new("crates"), Path::new("")]
                .map(|from| from.join(word));
            match possible.into_iter().find(|path| root().join(path).is_file()) {
                Some(path) => beside = path.parent().unwrap_or(Path::new("")).to_owned(),
                None => wrong.push(format!("{word}, below {}", folder.display())),
            }
        }
    }
    assert!(named > 25, "only {named} files are named");
    assert!(wrong.is_empty(), "house.md names files that are not there: {wrong:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        for link in links(&page.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').map_or((link.as_str(), None), |(f, h)| (f, Some(h)));
            let target = match file {
                "" => page.path.clone(),
                file => plain(&page.path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let exists = root().join(&target).exists();
            let heading_exists = heading.is_none_or(|heading| {
                std::fs::read_to_string(root().join(&target))
                    .is_ok_and(|text| anchors(&text).contains(heading))
            });
            if !exists || !heading_exists {
                wrong.push(format!("{}: {link}", page.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary =
        std::fs::read_to_string(root().join(BOOK).join("SUMMARY.md")).expect("the summary is there");
    let listed: BTreeSet<PathBuf> =
        links(&summary).into_iter().map(|link| plain(&Path::new(BOOK).join(link))).collect();
    let wrong: Vec<_> = pages()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path.starts_with(BOOK) && !path.ends_with("SUMMARY.md") && !listed.contains(path))
        .map(|path| path.display().to_string())
        .collect();
    assert!(wrong.is_empty(), "pages that SUMMARY.md does not list:\n{}", wrong.join("\n"));
}

#[test]
fn every_dependency_has_its_reason() {
    let page = std::fs::read_to_string(root().join(BOOK).join("design/dependencies.md")).expect("the page");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let (_, table) = manifest.split_once("[workspace.dependencies]\n").expect("the workspace's dependencies");
    let names =
        table.lines().take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    let wrong: Vec<_> = names
        .map(|(name, _)| name.trim())
        .filter(|name| !name.starts_with("handoff-") && !page.contains(&format!("`{name}`")))
        .collect();
    assert!(wrong.is_empty(), "design/dependencies.md does not say why these: {wrong:?}");
}

#[test]
fn links_are_found_outside_code_only() {
    let text = "See [a](b.md) and `[not](this)`, [c](d.md#e).\n```\n[no](no.md)\n```\n[name]: f.md\n";
    assert_eq!(links(text), ["b.md", "d.md#e", "f.md"]);
    assert_eq!(anchor("## Real-time priorities, without `root`"), "real-time-priorities-without-root");
    assert_eq!(plain(Path::new("a/b/../c/./d.md")), Path::new("a/c/d.md"));
}
