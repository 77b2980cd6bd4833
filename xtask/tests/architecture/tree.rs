//! The files of the workspace, as a fresh clone has them.

use std::path::{Path, PathBuf};

/// What the chores use; its own tests run once more here.
#[path = "../../src/root.rs"]
mod root;

pub(crate) use root::root;

/// A text file, with its path below the root.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Whether the path has `folder` as one of its parts.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.path.iter().any(|part| part == folder)
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|own| own == extension)
    }
}

/// Every text file of the project. What is built, learned by a fuzzer or kept by git is none of it.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    walk(root(), &mut found);
    assert!(found.len() > 50, "only {} files found: is the root right?", found.len());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // In a further work tree of git `.git` is a file.
        let made = name.starts_with("target") || [".git", "corpus", "artifacts", "coverage"].contains(&name);
        if path.is_symlink() || made {
            continue;
        } else if path.is_dir() {
            walk(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let path = path.strip_prefix(root()).expect("it is below the root").to_owned();
            found.push(Source { path, text });
        }
    }
}
