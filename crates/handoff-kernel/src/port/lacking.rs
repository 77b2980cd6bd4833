//! What a tree lacks: names that added lines use, that the series does not declare, and that stand nowhere in the tree.
//!
//! No C parser and no build: a name that the preprocessor puts together is reported although it exists, and one that
//! stands in the tree with another meaning is not. It is a list for a person to read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::words::{is_identifier, split};
use crate::patch::{FilePatch, Op, Series, text};

/// A name that added lines use and the tree does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// The function, field, macro, or `CONFIG_` symbol.
    pub name: String,
    /// The files whose added lines use it.
    pub used_in: Vec<String>,
    /// Where the source tree has it: the file and the line, those of headers and definitions first.
    pub source: Option<(String, usize)>,
}

/// Files larger than this are tables that a program wrote.
const LARGE: u64 = 4 << 20;

/// The names that the tree at `onto` lacks; `source` is the tree or repository that the series was made for.
pub fn lacking(series: &Series, onto: &Path, source: Option<&Path>) -> Vec<Lacking> {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for file in
        series.patches.iter().flat_map(|patch| &patch.files).filter(|file| is_code(file.path().as_str()))
    {
        collect(file, &mut used, &mut known);
    }
    used.retain(|name, _| !known.contains(name));
    let mut missing: BTreeSet<String> = used.keys().cloned().collect();
    walk(onto, &mut |path, content| {
        if is_kconfig(path) {
            for symbol in content.lines().filter_map(config_symbol) {
                missing.remove(&format!("CONFIG_{symbol}"));
            }
        } else {
            for word in names(content) {
                missing.remove(word);
            }
        }
        !missing.is_empty()
    });
    let places =
        source.filter(|source| source.is_dir()).map(|source| places(source, &missing)).unwrap_or_default();
    missing
        .into_iter()
        .map(|name| Lacking {
            used_in: used.remove(&name).unwrap_or_default().into_iter().collect(),
            source: places.get(&name).map(|(_, path, line)| (path.clone(), *line)),
            name,
        })
        .collect()
}

/// The names in the added lines of a file, and those that they declare.
fn collect(file: &FilePatch, used: &mut BTreeMap<String, BTreeSet<String>>, known: &mut BTreeSet<String>) {
    for hunk in &file.hunks {
        let mut comment = false;
        for line in &hunk.lines {
            let code = code_of(&line.text, &mut comment);
            if line.op != Op::Add {
                continue;
            }
            known.extend(declared(&code));
            known.extend(config_symbol(&line.text).map(|symbol| format!("CONFIG_{symbol}")));
            if is_kconfig(file.path().as_str()) {
                continue;
            }
            for name in names(&code).filter(|name| name.len() > 2 && !is_word_of_c(name)) {
                used.entry(name.to_owned()).or_default().insert(file.path().as_str().to_owned());
            }
        }
    }
}

/// The names that a line declares: what stands behind a type, a macro's name, a label, an enumerator of its own.
fn declared(code: &str) -> Vec<String> {
    const NO_TYPES: [&str; 12] =
        ["return", "case", "goto", "else", "sizeof", "if", "while", "for", "switch", "do", "in", "typeof"];
    let words: Vec<&str> = split(code).filter(|word| !word.trim().is_empty()).collect();
    let mut out = Vec::new();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| is_identifier(word)) {
        let before = words[..index].iter().rev().find(|word| **word != "*");
        let stars = index > 0 && words[index - 1] == "*";
        let typed = before.is_some_and(|before| is_identifier(before) && !NO_TYPES.contains(before));
        // `a * b` multiplies; `struct a *b` and `a *b` at the start of a line declare.
        let declares = typed
            && (!stars
                || words
                    .iter()
                    .take(index)
                    .all(|word| *word == "*" || is_identifier(word) || matches!(*word, "(" | ",")));
        let next = words.get(index + 1).copied();
        let alone = index == 0 && matches!(next, Some("," | "=" | ":") | None);
        if declares || alone || code.trim_start().starts_with("#define") && index == 2 {
            out.push((*word).to_owned());
        }
    }
    out
}

/// The symbol that a line of Kconfig defines.
fn config_symbol(line: &str) -> Option<&str> {
    line.strip_prefix("config ").or_else(|| line.strip_prefix("menuconfig ")).map(str::trim)
}

/// A line without its comments and strings.
pub(super) fn code_of(line: &str, comment: &mut bool) -> String {
    let mut out = String::new();
    let mut rest = line;
    loop {
        if *comment {
            let Some(end) = rest.find("*/") else { return out };
            (*comment, rest) = (false, &rest[end + 2..]);
        }
        let Some(at) = rest.find(['"', '/']) else { return out + rest };
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("/*") {
            (*comment, rest) = (true, &rest[2..]);
        } else if rest.starts_with("//") {
            return out;
        } else if let Some(inside) = rest.strip_prefix('"') {
            let end = inside.find('"').map_or(inside.len(), |end| end + 1);
            rest = &inside[end..];
        } else {
            out.push('/');
            rest = &rest[1..];
        }
    }
}

fn names(code: &str) -> impl Iterator<Item = &str> {
    split(code).filter(|word| is_identifier(word))
}

fn is_word_of_c(name: &str) -> bool {
    const WORDS: [&str; 40] = [
        "auto", "bool", "break", "case", "char", "const", "continue", "default", "define", "defined",
        "double", "elif", "else", "endif", "enum", "extern", "float", "for", "goto", "ifdef", "ifndef",
        "include", "inline", "int", "long", "register", "return", "short", "signed", "sizeof", "static",
        "struct", "switch", "typedef", "undef", "union", "unsigned", "void", "volatile", "while",
    ];
    WORDS.contains(&name)
}

fn is_kconfig(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("Kconfig"))
}

fn is_code(path: &str) -> bool {
    is_kconfig(path) || path.rsplit_once('.').is_some_and(|(_, end)| matches!(end, "c" | "h" | "S"))
}

/// Gives each file of code to `look` until it has seen enough.
pub(super) fn walk(root: &Path, look: &mut dyn FnMut(&str, &str) -> bool) {
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let below = folder.join(entry.file_name());
            let path = text::of_path(&below);
            if kind.is_dir() && entry.file_name() != ".git" {
                folders.push(below);
            } else if kind.is_file()
                && is_code(&path)
                && entry.metadata().is_ok_and(|meta| meta.len() <= LARGE)
                && let Ok(bytes) = fs::read(entry.path())
                && !look(&path, &text::decode(&bytes))
            {
                return;
            }
        }
    }
}

/// Where a tree has names: how little the line looks like a definition, the file, and the line.
fn places(source: &Path, missing: &BTreeSet<String>) -> BTreeMap<String, (u8, String, usize)> {
    let mut found: BTreeMap<String, (u8, String, usize)> = BTreeMap::new();
    walk(source, &mut |path, content| {
        for (number, line) in content.lines().enumerate() {
            let symbol =
                config_symbol(line).filter(|_| is_kconfig(path)).map(|symbol| format!("CONFIG_{symbol}"));
            for name in names(line).map(str::to_owned).chain(symbol).filter(|name| missing.contains(name)) {
                let rank = match (is_kconfig(path) || declared(line).contains(&name), path.ends_with(".h")) {
                    (true, true) => 0,
                    (true, false) => 1,
                    (false, header) => 3 - u8::from(header),
                };
                let place = (rank, path.to_owned(), number + 1);
                let best = found.entry(name).or_insert_with(|| place.clone());
                if place < *best {
                    *best = place;
                }
            }
        }
        true
    });
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::patch::{Limits, parse};

    /// A folder with these files.
    pub(in crate::port) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        folder
    }

    #[test]
    fn names_that_nobody_declares_are_told_with_their_place() {
        let patch = "--- a/net/q.c\n+++ b/net/q.c\n@@ -1,3 +1,9 @@\n int push(struct q *q)\n {\n+\tint room = q_room(q); /* not_a_name */\n+\n+\tif (IS_ENABLED(CONFIG_Q_CORK) && test_bit(Q_HELD, &q->q_flags))\n+\t\treturn queue_size * room;\n+\tcork_it(q, \"no_name %d\");\n+\tprintk(\"x\");\n \treturn 0;\n";
        let series = parse(patch.as_bytes(), &Limits::default()).unwrap();
        let onto = tree(&[
            ("net/q.c", "int push(struct q *q)\n{\n\treturn 0;\n}\nint q_room(struct q *q);\nprintk();\n"),
            ("include/x.h", "#define IS_ENABLED(x) x\nint test_bit(int);\nextern int queue_size;\n"),
            ("Kconfig", "config Q_OTHER\n\tbool\n"),
        ]);
        let source = tree(&[
            ("net/q.c", "\tif (Q_HELD)\n\t\tcork_it(q);\n"),
            ("include/q.h", "enum {\n\tQ_HELD,\n};\nstruct q {\n\tlong q_flags;\n};\n"),
            ("net/Kconfig", "config Q_CORK\n\tbool\n"),
        ]);
        let found = lacking(&series, onto.path(), Some(source.path()));
        let told: Vec<(&str, Option<(&str, usize)>)> = found
            .iter()
            .map(|one| (&*one.name, one.source.as_ref().map(|(path, line)| (&**path, *line))))
            .collect();
        assert_eq!(
            told,
            [
                ("CONFIG_Q_CORK", Some(("net/Kconfig", 1))),
                ("Q_HELD", Some(("include/q.h", 2))),
                ("cork_it", Some(("net/q.c", 2))),
                ("q_flags", Some(("include/q.h", 5))),
            ]
        );
        assert_eq!(found[0].used_in, ["net/q.c"]);
    }

    #[test]
    fn what_the_series_declares_is_not_lacking() {
        let patch = "--- a/net/q.c\n+++ b/net/q.c\n@@ -1,1 +1,8 @@\n int a;\n+#define NEW_MAX 7\n+static int new_one(struct new_type *first)\n+{\n+\treturn first->limit > NEW_MAX;\n+}\n+int user = new_one(0);\n+int limit;\n";
        let series = parse(patch.as_bytes(), &Limits::default()).unwrap();
        let onto = tree(&[("net/q.c", "int a;\n")]);
        assert_eq!(lacking(&series, onto.path(), None), []);
    }
}
