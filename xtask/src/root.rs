//! Where the workspace is: asked when the program runs, because a target folder that two checkouts share
//! hands the program that one of them compiled to the other.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The root of the workspace.
///
/// # Panics
///
/// If there is none; a program that calls [`find`] first says so as an error.
pub(crate) fn root() -> &'static Path {
    find().unwrap_or_else(|problem| panic!("{problem}"))
}

/// The root of the workspace that cargo runs this program in, or else of the one around the current folder.
pub(crate) fn find() -> Result<&'static Path, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let here = std::env::current_dir().unwrap_or_default();
        around(from_cargo.as_deref(), &here)
    });
    found.as_deref().map_err(Clone::clone)
}

/// The workspace around the package that cargo names, or else around `here`.
fn around(from_cargo: Option<&Path>, here: &Path) -> Result<PathBuf, String> {
    let starts = from_cargo.into_iter().chain([here]);
    let mut above = starts.clone().flat_map(Path::ancestors);
    above.find(|folder| is_workspace(folder)).map(Path::to_owned).ok_or_else(|| {
        let tried: Vec<_> = starts.map(|start| format!("`{}`", start.display())).collect();
        format!(
            "there is no workspace with an `xtask` around {}: run `cargo xtask` inside a checkout",
            tried.join(" or ")
        )
    })
}

/// Whether `folder` holds the workspace's own manifest: those of its packages have no `[workspace]`, and a
/// fuzzer's, which has, no `xtask` beside it.
fn is_workspace(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line.trim() == "[workspace]") && folder.join("xtask/Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two checkouts, `one` and `two`, each with a package and a fuzzer that is a workspace by itself.
    fn checkouts() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for checkout in ["one", "two"] {
            let write = |file: &str, text: &str| {
                let file = folder.path().join(checkout).join(file);
                std::fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
                std::fs::write(file, text).expect("written");
            };
            write("Cargo.toml", "[workspace]\nmembers = [\"xtask\", \"crates/a\"]\n");
            write("xtask/Cargo.toml", "[package]\n");
            write("crates/a/Cargo.toml", "[package]\n");
            write("crates/a/fuzz/Cargo.toml", "[package]\n[workspace]\n");
        }
        folder
    }

    #[test]
    fn the_checkout_that_cargo_runs_in_is_the_root() {
        let folder = checkouts();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        assert_eq!(around(Some(&two.join("xtask")), &one), Ok(two));
    }

    #[test]
    fn without_cargo_the_checkout_around_the_current_folder_is_the_root() {
        let folder = checkouts();
        let two = folder.path().join("two");
        for inner in ["", "xtask", "crates/a", "crates/a/fuzz"] {
            assert_eq!(around(None, &two.join(inner)), Ok(two.clone()), "{inner}");
        }
        // Cargo may run a package of elsewhere that starts this program.
        assert_eq!(around(Some(folder.path()), &two), Ok(two));
    }

    #[test]
    fn outside_a_checkout_the_error_says_where_it_looked() {
        let folder = checkouts();
        let problem = around(None, folder.path()).expect_err("there is none");
        assert!(problem.contains(&folder.path().display().to_string()), "{problem}");
        assert!(problem.contains("inside a checkout"), "{problem}");
    }

    #[test]
    fn this_workspace_is_found() {
        assert!(root().join("xtask/src/root.rs").is_file());
    }
}
