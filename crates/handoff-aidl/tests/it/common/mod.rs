//! The files of `corpus.txt`.
#![allow(dead_code, unreachable_pub)]

use std::sync::LazyLock;

use handoff_aidl::Options;

static CORPUS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let files = include_str!("../../corpus.txt").split("=== ").skip(1);
    files.map(|file| file.split_once('\n').expect("a name, then a file")).collect()
});

/// Paths and texts.
pub fn corpus() -> &'static [(&'static str, &'static str)] {
    &CORPUS
}

/// With every file of the corpus to be found below the root.
pub fn options() -> Options {
    let texts = corpus().iter().map(|(path, text)| ((*path).into(), (*text).to_owned())).collect();
    Options { includes: vec!["".into()], texts, ..Options::default() }
}
