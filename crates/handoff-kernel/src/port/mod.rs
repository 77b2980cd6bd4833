//! Bringing patches to another tree, without ever placing a hunk wrongly in silence.
//!
//! Each hunk is tried in this order: word for word inside the definition that it names; by git's
//! three-way merge, where the file that the patch was made for is known; by aligning its lines with
//! those of that definition; and then it is a conflict. [`port`] says for each hunk which it was,
//! where it went and what differed.
//!
//! ```no_run
//! use handoff_kernel::patch::{Input, Limits, load};
//! use handoff_kernel::port::{Options, port};
//!
//! let series = load(&Input::Path("autocorking.patch".into()), &Limits::default())?;
//! let report = port(&series, "linux-3.4".as_ref(), &Options { dry_run: true, ..Options::default() })?;
//! for hunk in report.hunks() {
//!     println!("{}: {}", hunk.outcome.word(), hunk.asked);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod align;
mod anchor;
pub mod aside;
mod braces;
pub mod commit;
mod conflict;
mod contents;
mod ends;
mod exact;
mod file;
mod find;
pub(crate) mod git;
mod heading;
mod hunks;
mod includes;
mod lacking;
mod meaning;
mod merge;
mod outcome;
mod place;
mod present;
mod rename;
mod report;
pub mod review;
mod scope;
mod source;
mod store;
mod structure;
#[cfg(test)]
mod tests;
mod tree;
mod wanted;
mod words;

pub use lacking::{Lacking, lacking};
pub use meaning::{Difference, MemberHint, Side, hints};
pub use outcome::{Edit, Enclosing, How, HunkOutcome};
pub use report::{Counts, FileAction, FileReport, HunkReport, PatchReport, PortReport};
pub use scope::ScopeKind;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "c-sources")]
use crate::patch::text;
use crate::patch::{ChangeKind, FilePatch, Patch, PatchPath, Series};
use tree::Tree;

/// How to port.
#[derive(Clone, Debug)]
pub struct Options {
    /// Report only; write nothing.
    pub dry_run: bool,
    /// Write conflict markers into files, and `.rej` files where no place is known.
    pub markers: bool,
    /// The tree or repository that the patches were made for, when it is at hand.
    pub source: Option<PathBuf>,
    /// Fuzzy placements below this confidence (0 to 1) become conflicts.
    pub confidence: f64,
    /// Keep what [`PortReport::review_page`] shows of each doubtful hunk.
    pub review: bool,
    /// What a person decided of hunks.
    pub decisions: Vec<review::Decision>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dry_run: false,
            markers: true,
            source: None,
            confidence: place::ENOUGH,
            review: false,
            decisions: Vec::new(),
        }
    }
}

/// Why porting was given up before anything was written.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Analysing takes a parser of C, which this build was made without.
    #[error(
        "this build has no parser of C: it was made without the feature `c-sources`; \
         `cargo install --path crates/handoff --features full` builds a handoff that has everything"
    )]
    NotBuilt,
    /// No tree.
    #[error("{} is no source tree: {error}", path.display())]
    Tree {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A symbolic link in the way.
    #[error("`{path}` goes through the symbolic link {}, which a patch must not follow", link.display())]
    Link {
        /// The path that the patch names.
        path: PatchPath,
        /// The link.
        link: PathBuf,
    },
    /// Something else than a file in the way.
    #[error("`{path}` cannot be a file here: `{at}` is {what}")]
    InTheWay {
        /// The path that the patch names.
        path: PatchPath,
        /// What stands in the way: the path itself, or a part of it.
        at: String,
        /// What that is.
        what: &'static str,
    },
    /// A file that cannot be read.
    #[error("cannot read `{path}`: {error}")]
    Read {
        /// The file.
        path: PatchPath,
        /// Why.
        error: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write `{path}`: {error}")]
    Write {
        /// The file.
        path: PatchPath,
        /// Why.
        error: io::Error,
    },
}

/// Ports a series onto the tree at `onto`.
///
/// # Errors
///
/// [`PortError`] if the tree cannot be read or written; nothing was written then. Hunks that cannot be placed
/// are no error, nor are paths that lead through a symbolic link or to a folder, which are left alone: the report
/// names them.
pub fn port(series: &Series, onto: &Path, options: &Options) -> Result<PortReport, PortError> {
    let (report, tree) = place_series(series, onto, options)?;
    if !options.dry_run {
        tree.write()?;
    }
    Ok(report)
}

fn place_series(series: &Series, onto: &Path, options: &Options) -> Result<(PortReport, Tree), PortError> {
    let mut tree = Tree::open(onto)?;
    let bases = git::Bases::new(tree.root(), options.source.as_deref());
    let mut report = PortReport::new(onto, options.dry_run);
    for patch in &series.patches {
        report.patches.push(place_patch(patch, &mut tree, &bases, options)?);
    }
    report.finish(tree.changed().map(ToString::to_string).collect());
    Ok((report, tree))
}

fn place_patch(
    patch: &Patch,
    tree: &mut Tree,
    bases: &git::Bases,
    options: &Options,
) -> Result<PatchReport, PortError> {
    let mut placed = BTreeMap::new();
    for index in order(&patch.files) {
        placed.insert(index, file::port_file(&patch.files[index], patch, tree, bases, options)?);
    }
    let mut files: Vec<FileReport> = placed.into_values().collect();
    files.extend(patch.refused.iter().map(FileReport::refused));
    Ok(PatchReport {
        subject: patch.subject.clone(),
        commit: patch.commit.clone(),
        source: patch.source.clone(),
        files,
    })
}

/// The functions that the braces of a C file show, also where a parser does not get on: name, first and last line (from 1).
#[cfg(feature = "c-sources")]
pub(crate) fn functions_by_braces(content: &[u8]) -> impl Iterator<Item = (String, usize, usize)> {
    let content = text::decode(content);
    let lines: Vec<&str> = content.split('\n').collect();
    let all = scope::Scopes::of_file(&lines, scope::Language::C).all.into_iter();
    all.filter(|scope| scope.kind == ScopeKind::Function && !scope.name.is_empty())
        .map(|scope| (scope.name, scope.start + 1, scope.end + 1))
}

/// The order in which the files of a patch are placed.
///
/// What is copied or renamed is the file in front of the patch, so that is done before the patch changes that file or
/// puts another one in its place.
fn order(files: &[FilePatch]) -> Vec<usize> {
    let of = |kind: ChangeKind| (0..files.len()).filter(move |&index| files[index].kind == kind);
    let mut out: Vec<usize> = of(ChangeKind::Copy).collect();
    let mut renames: Vec<usize> = of(ChangeKind::Rename).collect();
    while !renames.is_empty() {
        // A file that takes the name of another renamed one waits for it.
        let is_free = |&index: &usize| {
            renames.iter().all(|&other| other == index || files[other].old_path != files[index].new_path)
        };
        let next = renames.iter().position(is_free).unwrap_or(0);
        out.push(renames.remove(next));
    }
    out.extend(
        (0..files.len()).filter(|index| !matches!(files[*index].kind, ChangeKind::Copy | ChangeKind::Rename)),
    );
    out
}

/// A file before and after.
pub(crate) type Versions = (Vec<u8>, Vec<u8>);

/// What a series makes of a tree, without writing it.
pub(crate) struct Preview {
    /// What became of each hunk.
    pub(crate) report: PortReport,
    /// Each changed file before and after; nothing where there is no such file.
    pub(crate) files: BTreeMap<String, Versions>,
}

/// Looks what a series makes of a tree.
pub(crate) fn preview(series: &Series, onto: &Path) -> Result<Preview, PortError> {
    let options = Options { dry_run: true, markers: false, ..Options::default() };
    let (report, tree) = place_series(series, onto, &options)?;
    let mut files = BTreeMap::new();
    for path in tree.changed() {
        let before = tree.on_disk(path)?.unwrap_or_default();
        files.insert(path.to_string(), (before, tree.read(path)?.unwrap_or_default()));
    }
    Ok(Preview { report, files })
}
