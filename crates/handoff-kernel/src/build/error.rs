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
    /// The folder is not the source of a kernel, or is not fit to be built from.
    #[error("{} cannot be built: {reason}", tree.display())]
    Tree {
        /// The folder.
        tree: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Programs that a kernel build needs are not installed.
    #[error("the build needs {}, not installed here: on Debian and Ubuntu run `apt-get install {}`",
        tools.join(", "), packages.join(" "))]
    MissingTools {
        /// The programs.
        tools: Vec<String>,
        /// Debian's packages with them.
        packages: Vec<String>,
    },
    /// A fragment or setting is not one.
    #[error(transparent)]
    Fragment(#[from] BadLine),
    /// The configuration does not have what was asked for.
    #[error("{} of the asked symbols did not survive:{}", unmet.len(), list(unmet))]
    Unmet {
        /// Each with the reason.
        unmet: Vec<Unmet>,
    },
    /// make failed before it compiled anything.
    #[error("`make {target}` failed: {reason}")]
    Configure {
        /// The target.
        target: String,
        /// The end of what it said.
        reason: String,
    },
    /// The kernel did not compile or link.
    #[error("the kernel did not build: {first}{}{}\n  the log, with this first: {}",
        if *more > 0 { format!("\n  ({more} more errors)") } else { String::new() },
        hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default(),
        log.display())]
    Compile {
        /// What went wrong first.
        first: Box<Diagnostic>,
        /// How many errors there are besides.
        more: usize,
        /// What usually helps.
        hint: Option<String>,
        /// The whole log.
        log: PathBuf,
    },
    /// make said that all is well, but there is no kernel.
    #[error("make ended well, but left no {}: see {}", image.display(), log.display())]
    NoImage {
        /// Where it should be.
        image: PathBuf,
        /// The whole log.
        log: PathBuf,
    },
    /// An option makes no sense for this tree.
    #[error("{0}")]
    Options(String),
    /// Somebody asked for the build to be stopped.
    #[error("the build was stopped on request; what was compiled so far is kept")]
    Cancelled,
    /// A package with sources could not be had.
    #[error(transparent)]
    Fetch(#[from] GuestError),
    /// A file of the host failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
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
