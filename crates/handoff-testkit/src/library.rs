//! The libraries that tests of bindings load.

use std::path::PathBuf;

/// The library `lib{name}*{extension}` that cargo built last for the test that asks.
///
/// # Panics
///
/// If there is none: the crate whose test asks must have a `crate-type` that makes one.
#[must_use]
pub fn built_library(name: &str, extension: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let folder = test.parent().expect("a file is in a folder");
    let prefix = format!("lib{name}");
    let is_wanted = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&prefix) && file.ends_with(extension)
    };
    let files = std::fs::read_dir(folder).expect("its folder can be read");
    let found = files.filter_map(|entry| Some(entry.ok()?.path())).filter(is_wanted);
    let changed = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    found
        .max_by_key(changed)
        .unwrap_or_else(|| panic!("cargo made no {prefix}*{extension} in {}", folder.display()))
}
