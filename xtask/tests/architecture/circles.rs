//! Inside of a crate, files that import each other in a circle are few: whoever reads one must read all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Source, sources};

/// So many files may know each other, as types do that belong together.
const MOST_FILES: usize = 4;

/// The files of one crate by the paths of their modules, which are lists of names.
#[derive(Default)]
struct Crate {
    files: BTreeMap<Vec<String>, File>,
}

#[derive(Default)]
struct File {
    name: String,
    /// Paths as they are written, whose first name says where they begin.
    paths: Vec<Vec<String>>,
    /// What `use` makes known here under a name.
    names: BTreeMap<String, Vec<String>>,
}

/// The text without comments and without what is built for tests only.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if start.starts_with("#[cfg(test")
            || start.starts_with("#[cfg(all(test")
            || start.starts_with("#[cfg(loom")
        {
            skip_item(&mut lines);
        } else if !start.starts_with("//") {
            code.push_str(line.split_once(" // ").map_or(line, |(code, _)| code));
            code.push('\n');
        }
    }
    code
}

/// Passes over the item below an attribute: up to a `;`, a `,` or a closing brace with no bracket open.
fn skip_item(lines: &mut std::str::Lines<'_>) {
    let mut open = 0_i32;
    for line in lines.by_ref() {
        let code = line.trim();
        if open == 0 && (code.starts_with("#[") || code.starts_with("//")) {
            continue;
        }
        open += brackets(code);
        if open <= 0 && code.ends_with([';', ',', '}']) {
            return;
        }
    }
}

/// Brackets that a line opens, less those that it closes; those in texts and characters are none.
fn brackets(line: &str) -> i32 {
    let (mut open, mut in_text) = (0, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '"' => in_text = !in_text,
            '\'' if !in_text => {
                // A character ends with another quote, a lifetime does not.
                let mut ahead = chars.clone();
                if ahead.next() == Some('\\') {
                    let _ = chars.by_ref().skip(2).find(|c| *c == '\'');
                } else if ahead.next() == Some('\'') {
                    let _ = chars.nth(1);
                }
            }
            _ if in_text => {}
            '/' if chars.peek() == Some(&'/') => break,
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open -= 1,
            _ => {}
        }
    }
    open
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn flatten(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let body = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&body[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&body[begin..]);
    let joined = |part: &&str| flatten(part).into_iter().map(|path| format!("{}{path}", head.trim()));
    parts.iter().filter(|part| !part.trim().is_empty()).flat_map(joined).collect()
}

fn split(path: &str) -> Vec<String> {
    path.split("::").map(|name| name.trim().to_owned()).collect()
}

impl File {
    fn read(name: String, text: &str) -> Self {
        let mut file = File { name, ..File::default() };
        let mut others = String::new();
        for (at, statement) in code(text).split_inclusive(';').enumerate() {
            // `use` begins a line; what precedes it, attributes and visibility, is on lines of its own or before it.
            let found = statement.rfind("use ").filter(|found| {
                let before = statement[..*found].rsplit('\n').next().unwrap_or_default().trim();
                at == 0 && before.is_empty() || before.is_empty() || before.starts_with("pub")
            });
            let Some(found) = found else {
                others.push_str(statement);
                continue;
            };
            let line = statement[..found].rfind('\n').map_or(0, |line| line + 1);
            others.push_str(&statement[..line]);
            let is_handed_on = statement[line..found].trim_start().starts_with("pub");
            for tree in flatten(statement[found + 4..].trim_end_matches(';')) {
                let (path, known_as) =
                    tree.split_once(" as ").map_or((tree.as_str(), None), |(p, n)| (p, Some(n)));
                let mut path = split(path);
                path.pop_if(|last| last == "self");
                let known_as = known_as.map(|name| name.trim().to_owned()).or_else(|| path.last().cloned());
                file.names.extend(known_as.map(|name| (name, path.clone())));
                if !is_handed_on {
                    file.paths.push(path);
                }
            }
        }
        for begin in ["crate::", "super::"] {
            for (at, _) in others.match_indices(begin) {
                let rest = &others[at..];
                let end =
                    rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
                file.paths.push(split(rest[..end].trim_end_matches(':')));
            }
        }
        file
    }
}

impl Crate {
    /// `path`, as it is written in `module`, from the crate's root on. `None` if it leads out of the crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (mut from, mut rest) = (module.to_vec(), path);
        match path.first()?.as_str() {
            "crate" => (from, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                let child: Vec<_> = module.iter().cloned().chain([first.to_owned()]).collect();
                return self.files.contains_key(&child).then(|| [module, path].concat());
            }
        }
        while rest.first().is_some_and(|name| name == "super") {
            from.pop()?;
            rest = &rest[1..];
        }
        Some([from.as_slice(), rest].concat())
    }

    /// The module that defines what a path names, or that it is: names that are only handed on lead further.
    fn home<'a>(&'a self, path: &'a [String], depth: usize) -> Option<&'a [String]> {
        let (module, file) = (0..=path.len()).rev().find_map(|len| self.files.get_key_value(&path[..len]))?;
        if path.is_empty() {
            return None;
        }
        let Some(name) = path.get(module.len()) else { return Some(module) };
        let further = file.names.get(name).filter(|_| depth < 8);
        let further = further.and_then(|next| self.absolute(module, next));
        let Some(mut further) = further else { return Some(module) };
        further.extend_from_slice(&path[module.len() + 1..]);
        let found = self.home(&further, depth + 1)?.to_vec();
        self.files.get_key_value(&found).map(|(module, _)| module.as_slice())
    }

    fn arrows(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, file) in &self.files {
            let targets = arrows.entry(&file.name).or_default();
            for path in &file.paths {
                let absolute = self.absolute(module, path);
                let home = absolute.as_deref().and_then(|path| self.home(path, 0).map(<[String]>::to_vec));
                targets
                    .extend(home.and_then(|home| self.files.get(&home)).map(|target| target.name.as_str()));
            }
            targets.remove(file.name.as_str());
        }
        arrows
    }
}

/// Everything that a file reaches.
fn reached<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        left.extend(arrows[file].iter().filter(|next| seen.insert(**next)));
    }
    seen
}

/// Sets of files that all reach each other.
fn circles(arrows: &BTreeMap<&str, BTreeSet<&str>>) -> BTreeSet<Vec<String>> {
    let all: BTreeMap<_, _> = arrows.keys().map(|file| (*file, reached(arrows, file))).collect();
    let circle = |file: &&str| {
        let others = all[file].iter().filter(|other| all[**other].contains(file));
        others.map(|other| (*other).to_owned()).collect::<Vec<_>>()
    };
    all.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The crates of the workspace by their `src` folders.
fn crates(sources: &[Source]) -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.has_extension("rs")) {
        let name = source.path.display().to_string();
        let Some((folder, path)) = name.split_once("/src/") else { continue };
        let file = path.trim_end_matches(".rs");
        let last = file.rsplit('/').next().unwrap_or(file);
        if last == "tests" || last.ends_with("_tests") || last.ends_with("_loom") {
            continue;
        }
        let mut module: Vec<_> = file.split('/').map(str::to_owned).collect();
        module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        crates.entry(folder.to_owned()).or_default().files.insert(module, File::read(name, &source.text));
    }
    crates
}

#[test]
fn files_that_know_each_other_are_few() {
    let crates = crates(&sources());
    let ipc = &crates["crates/handoff-ipc"];
    let arrows = ipc.arrows().values().map(BTreeSet::len).sum::<usize>();
    assert!(arrows > 200, "only {arrows} arrows found: are paths still read?");
    let all = crates.values().flat_map(|found| circles(&found.arrows()));
    let wrong: Vec<_> =
        all.filter(|circle| circle.len() > MOST_FILES).map(|circle| circle.join("\n  ")).collect();
    assert!(wrong.is_empty(), "circles of more than {MOST_FILES} files:\n  {}", wrong.join("\n\n  "));
}

#[test]
fn an_item_ends_where_its_last_bracket_closes() {
    let text = "#[cfg(test)]\nfn one(\n    a: char,\n) -> usize {\n    let b = ['{', '\\'', '\"'];\n    b.len() // {\n}\nkept\n\
                #[cfg(all(test, unix))]\n// a word\n#[allow(dead_code)]\nuse x::{\n    y,\n    z,\n};\nalso\n\
                #[cfg(test)]\nmod tests;\nlast\n";
    assert_eq!(code(text), "kept\nalso\nlast\n");
}

#[test]
fn a_circle_is_found_through_modules() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let found = crates(&[
        source("x/src/lib.rs", "mod a;\nmod b;\n"),
        source("x/src/a.rs", "use crate::b;\nfn f() {\n    b::g();\n}\n"),
        source("x/src/b.rs", "use super::a;\nfn g() {\n    a::f();\n}\n"),
    ]);
    let circle = ["x/src/a.rs", "x/src/b.rs"].map(str::to_owned).to_vec();
    assert_eq!(circles(&found["x"].arrows()), BTreeSet::from([circle]));
}

#[test]
fn a_circle_is_found_through_names_that_are_handed_on() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let found = crates(&[
        source("x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use b::Far;\n"),
        source("x/src/a.rs", "use std::fmt;\nuse crate::Far;\n"),
        source("x/src/b/mod.rs", "mod low;\npub use self::low::Far;\n"),
        source(
            "x/src/b/low.rs",
            "// use crate::d::None;\nfn f() -> u8 {\n    crate::c::f(&[crate::c::N])\n}\n",
        ),
        source(
            "x/src/c.rs",
            "use crate::{a::{self, X}, Far};\n#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}\n",
        ),
        source("x/src/d.rs", "use super::{a, c::f as g};\nfn h() {\n    a::x();\n}\n"),
    ]);
    let circle = ["x/src/a.rs", "x/src/b/low.rs", "x/src/c.rs"].map(str::to_owned).to_vec();
    assert_eq!(circles(&found["x"].arrows()), BTreeSet::from([circle]));
}
