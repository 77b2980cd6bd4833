//! The port corpus: in `port-corpus/`, one folder a case, with the file before (`a`) and after
//! (`b`) the change, the tree to port it to, and what that tree should become (`want`).

mod drift;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Case {
    /// The folder's name.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// The change from `a` to `b`.
    pub(crate) patch: Vec<u8>,
    /// For each hunk: its file, its number in it, and the outcomes that are right.
    pub(crate) expect: Vec<(String, usize, Vec<String>)>,
}

/// All cases, by name.
#[allow(dead_code, reason = "not every user of the corpus looks at them")]
pub(crate) fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/port-corpus");
    let mut folders: Vec<PathBuf> = fs::read_dir(&root)
        .expect("the corpus is part of the source")
        .map(|entry| entry.expect("its folders can be read").path())
        .collect();
    folders.sort();
    folders.into_iter().map(case).collect()
}

/// The cases of `drift.rs`, written below `root`, by name.
#[allow(dead_code, reason = "not every user of the corpus looks at them")]
pub(crate) fn made(root: &Path) -> Vec<Case> {
    drift::write_all(root);
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .expect("it was just written")
        .map(|entry| entry.expect("its folders can be read").path())
        .collect();
    folders.sort();
    folders.into_iter().map(case).collect()
}

/// The change from `a` to `b` of a case, with so many lines of context.
pub(crate) fn patch(folder: &Path, context: usize) -> Vec<u8> {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["diff", "--no-index", "--no-prefix", "--no-color", &format!("-U{context}"), "a", "b"])
        .output()
        .expect("git makes the patches of the corpus");
    assert_eq!(output.status.code(), Some(1), "{}: a and b do not differ", folder.display());
    output.stdout
}

fn case(folder: PathBuf) -> Case {
    let patch = patch(&folder, 3);
    let expect = fs::read_to_string(folder.join("expect")).expect("each case says what is right");
    let expect = expect
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [file, number, outcomes] = fields[..] else { panic!("`{line}` is no expectation") };
            let outcomes = outcomes.split('|').map(str::to_owned).collect();
            (file.to_owned(), number.parse().expect("a hunk has a number"), outcomes)
        })
        .collect();
    let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
    Case { name, folder, patch, expect }
}

/// The files of a folder with their content.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, out: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).expect("a folder that was just made") {
            let path = entry.expect("its entries can be read").path();
            if path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if path.is_dir() {
                walk(root, &path, out);
            } else {
                let name =
                    path.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
                out.insert(name, fs::read(&path).expect("the file can be read"));
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(folder, folder, &mut out);
    out
}

/// Copies the files of a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    for (name, content) in files(from) {
        let target = to.join(name);
        fs::create_dir_all(target.parent().expect("it is below the root")).expect("the folder can be made");
        fs::write(target, content).expect("the file can be written");
    }
}
