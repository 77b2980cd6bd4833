//! Why a kernel could not be built.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::config::{BadLine, Unmet};
use super::log::Diagnostic;
use handoff_guest::GuestError;

/// Why a kernel could not be built, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("{} cannot be built: {reason}", tree.display())]
    Tree { tree: PathBuf, reason: String },
    #[error("the build needs {}, not installed here: on Debian and Ubuntu run `apt-get install {}`",
        tools.join(", "), packages.join(" "))]
    MissingTools { tools: Vec<String>, packages: Vec<String> },
    /// A fragment or setting is not one.
    #[error(transparent)]
    Fragment(#[from] BadLine),
    #[error("{} of the asked symbols did not survive:{}", unmet.len(), list(unmet))]
    Unmet { unmet: Vec<Unmet> },
    /// The tree's own check refuses the Rust tool-chain.
    #[error(
        "this kernel cannot be built with Rust here: {reason}\n  \
             add `--fetch-toolchain` (Debian's compiler and bindgen, in the cache), or use the driver in C: `--fragment binder-c`"
    )]
    Rust { reason: String },
    #[error("`make {target}` failed: {reason}")]
    Configure { target: String, reason: String },
    #[error("the kernel did not build: {first}{}{}\n  the log, with this first: {}",
        if *more > 0 { format!("\n  ({more} more errors)") } else { String::new() },
        hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default(),
        log.display())]
    Compile { first: Box<Diagnostic>, more: usize, hint: Option<String>, log: PathBuf },
    #[error("make ended well, but left no {}: see {}", image.display(), log.display())]
    NoImage { image: PathBuf, log: PathBuf },
    #[error("{0}")]
    Options(String),
    #[error("the build was stopped on request; what was compiled so far is kept")]
    Cancelled,
    /// A package with sources could not be had.
    #[error(transparent)]
    Fetch(#[from] GuestError),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl BuildError {
    /// Makes a function for `map_err` that says what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

fn list(unmet: &[Unmet]) -> String {
    unmet.iter().fold(String::new(), |mut text, one| {
        let _ = write!(text, "\n  {one}");
        text
    })
}
