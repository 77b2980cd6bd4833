//! A series placed without touching a work tree: as commits on a new branch, or as a quilt series in a folder.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::commit::{self, CommitError, CommitReport, Committed, Git};
use super::conflict;
use super::tree::{Change, Tree};
use super::{HunkOutcome, Options, PatchReport, PortReport, git, place_patch};
use crate::patch::{Patch, Series, text};

/// What a series is placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Onto {
    /// The files of a folder.
    Folder(PathBuf),
    /// The files of a commit, as they are in the object database.
    Commit {
        /// What the user called it.
        name: String,
        /// Its id.
        id: String,
        /// The repository's folder of objects and references.
        repository: PathBuf,
    },
}

impl Onto {
    /// The commit that `name` is in the repository around `folder`; `None` if it is none there.
    pub fn commit(folder: &Path, name: &str) -> Option<Self> {
        let git = Git { tree: folder };
        let commit = format!("{name}^{{commit}}");
        let id = git.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).ok()?;
        let repository = git.run(&["rev-parse", "--path-format=absolute", "--git-common-dir"]).ok()?;
        Some(Self::Commit {
            name: name.to_owned(),
            id: id.trim().to_owned(),
            repository: PathBuf::from(repository.trim_end_matches('\n')),
        })
    }

    fn open(&self) -> Result<(Tree, PortReport), CommitError> {
        let (tree, name) = match self {
            Self::Folder(folder) => (Tree::open(folder)?, folder.clone()),
            Self::Commit { name, id, repository } => (Tree::of_commit(repository, id)?, PathBuf::from(name)),
        };
        Ok((tree, PortReport::new(&name, true)))
    }
}

/// Says what a series would make of it, and writes nothing.
///
/// # Errors
///
/// [`CommitError`] if it cannot be read.
pub fn look(series: &Series, onto: &Onto, options: &Options) -> Result<PortReport, CommitError> {
    let report = each(series, onto, options, |_, _, _| Ok(true))?;
    Ok(report)
}

/// Places one patch after the other, until `take` has enough; each starts from what the one before left.
fn each(
    series: &Series,
    onto: &Onto,
    options: &Options,
    mut take: impl FnMut(&Patch, &PatchReport, Vec<Change>) -> Result<bool, CommitError>,
) -> Result<PortReport, CommitError> {
    let (mut tree, mut report) = onto.open()?;
    let bases = git::Bases::new(tree.root(), options.source.as_deref());
    let options = Options { markers: false, ..options.clone() };
    let mut written = Vec::new();
    for patch in &series.patches {
        let placed = place_patch(patch, &mut tree, &bases, &options)?;
        let changes = tree.seal()?;
        written.extend(changes.iter().map(|change| change.path.to_string()));
        let goes_on = take(patch, &placed, changes)?;
        report.patches.push(placed);
        if !goes_on {
            break;
        }
    }
    written.sort();
    written.dedup();
    report.finish(written);
    Ok(report)
}

/// Places a series on a commit and makes a branch of it; stops in front of the first patch with a conflict.
///
/// # Errors
///
/// [`CommitError`]; the branch is made only when all commits are.
pub fn to_branch(
    series: &Series,
    onto: &Onto,
    branch: &str,
    options: &Options,
) -> Result<CommitReport, CommitError> {
    let Onto::Commit { id, repository, .. } = onto else { return Err(CommitError::Nothing) };
    let git = Git { tree: repository };
    git.run(&["check-ref-format", "--branch", branch])?;
    let full = format!("refs/heads/{branch}");
    if git.run(&["rev-parse", "--verify", "--quiet", &full]).is_ok() {
        return Err(CommitError::BranchExists(branch.to_owned()));
    }
    let index = Index::of(&git, id)?;
    let (mut head, mut commits, mut stopped) = (id.clone(), Vec::new(), None);
    let report = each(series, onto, options, |patch, placed, changes| {
        if is_in_conflict(placed) {
            stopped = Some(patch.subject.clone());
            return Ok(false);
        }
        let subject = commit::subject(patch).to_owned();
        if changes.is_empty() {
            commits.push(Committed { id: None, subject });
            return Ok(true);
        }
        let tree = index.with(&git, &changes)?;
        let message = commit::message(patch, &commit::notes(std::slice::from_ref(placed)));
        let words = ["commit-tree", &tree, "-p", &head, "-F", "-"];
        let made = git.run_with(&words, &commit::author(patch), Some(&text::encode(&message)))?;
        head = made.trim().to_owned();
        commits.push(Committed { id: Some(head.clone()), subject });
        Ok(true)
    })?;
    let remaining = series.patches.len() - report.patches.len();
    let mut all = CommitReport::new(report, commits);
    all.report.dry_run = false;
    (all.stopped, all.remaining, all.detached) = (stopped, remaining, true);
    if head != *id {
        // An empty old value: it must not have been made meanwhile.
        git.run(&["update-ref", "-m", "handoff kernel port", &full, &head, ""])?;
        all.branch = Some(branch.to_owned());
    }
    Ok(all)
}

fn is_in_conflict(report: &PatchReport) -> bool {
    report.files.iter().any(|file| {
        file.outcome == HunkOutcome::Conflict
            || file.hunks.iter().any(|hunk| hunk.outcome == HunkOutcome::Conflict)
    })
}

/// An index of its own, so that nobody's is touched.
struct Index {
    folder: tempfile::TempDir,
}

impl Index {
    fn of(git: &Git<'_>, commit: &str) -> Result<Self, CommitError> {
        let write = |error| CommitError::Write { path: std::env::temp_dir(), error };
        let index = Self { folder: tempfile::tempdir().map_err(write)? };
        index.run(git, &["read-tree", commit], None)?;
        Ok(index)
    }

    fn run(&self, git: &Git<'_>, words: &[&str], input: Option<&[u8]>) -> Result<String, CommitError> {
        let file = self.folder.path().join("index");
        let file = file.to_string_lossy();
        git.run_with(words, &[("GIT_INDEX_FILE", &*file)], input)
    }

    /// The tree with changes made in it.
    fn with(&self, git: &Git<'_>, changes: &[Change]) -> Result<String, CommitError> {
        let mut lines = Vec::new();
        for change in changes {
            let (mode, id) = match &change.after {
                Some((bytes, mode)) => {
                    let id = git.run_with(&["hash-object", "-w", "--stdin"], &[], Some(bytes))?;
                    (if mode & 0o111 == 0 { "100644" } else { "100755" }, id.trim().to_owned())
                }
                None => ("0", "0".repeat(40)),
            };
            lines.extend_from_slice(&text::encode(&format!("{mode} {id}\t{}\0", change.path)));
        }
        self.run(git, &["update-index", "-z", "--index-info"], Some(&lines))?;
        Ok(self.run(git, &["write-tree"], None)?.trim().to_owned())
    }
}

/// What was written into a folder.
#[derive(Debug, Serialize)]
pub struct WriteReport {
    /// What became of the hunks.
    #[serde(flatten)]
    pub report: PortReport,
    /// The folder.
    pub folder: PathBuf,
    /// The patches in it, in order.
    pub wrote: Vec<Written>,
}

/// A patch that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The file; `None` if the tree already is as the patch wants it, or nothing of it has a place.
    pub file: Option<String>,
    /// The file with the hunks that have no place.
    pub rejects: Option<String>,
    /// Its subject.
    pub subject: String,
}

impl fmt::Display for WriteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        for one in &self.wrote {
            match &one.file {
                Some(file) => write!(f, "\nwrote {file}")?,
                None => write!(f, "\nwrote no patch for `{}`: it changes nothing here", one.subject)?,
            }
            if let Some(rejects) = &one.rejects {
                write!(f, "; its hunks in conflict are in {rejects}")?;
            }
        }
        write!(f, "\nthe series is in {}, and the tree is as it was", self.folder.display())
    }
}

/// Places a series and writes it, as it fits there, as a quilt series: patches and the file `series`.
///
/// Hunks in conflict are left out of a patch and written beside it, in a `.rej` file.
///
/// # Errors
///
/// [`CommitError`]; `folder` must be new or empty.
pub fn to_folder(
    series: &Series,
    onto: &Onto,
    folder: &Path,
    options: &Options,
) -> Result<WriteReport, CommitError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error| CommitError::Write { path, error }
    };
    fs::create_dir_all(folder).map_err(fail(folder))?;
    if fs::read_dir(folder).map_err(fail(folder))?.next().is_some() {
        return Err(CommitError::FolderInUse(folder.to_owned()));
    }
    let mut wrote: Vec<Written> = Vec::new();
    let mut report = each(series, onto, options, |patch, placed, changes| {
        let stem = format!("{:04}-{}", wrote.len() + 1, slug(commit::subject(patch)));
        let mut one = Written { file: None, rejects: None, subject: commit::subject(patch).to_owned() };
        if !changes.is_empty() {
            let name = format!("{stem}.patch");
            let mut bytes = text::encode(&head(patch, placed));
            let sides: Vec<git::Sides<'_>> = changes.iter().map(Change::sides).collect();
            bytes.extend(git::diff(&sides).map_err(fail(&folder.join(&name)))?);
            fs::write(folder.join(&name), bytes).map_err(fail(&folder.join(&name)))?;
            one.file = Some(name);
        }
        let rejects = rejects(patch, placed);
        if !rejects.is_empty() {
            let name = format!("{stem}.rej");
            fs::write(folder.join(&name), rejects).map_err(fail(&folder.join(&name)))?;
            one.rejects = Some(name);
        }
        wrote.push(one);
        Ok(true)
    })?;
    let listed: String = wrote.iter().filter_map(|one| Some(format!("{}\n", one.file.as_ref()?))).collect();
    fs::write(folder.join("series"), listed).map_err(fail(&folder.join("series")))?;
    report.dry_run = false;
    Ok(WriteReport { report, folder: folder.to_owned(), wrote })
}

/// What stands above a patch's diff, as a mail has it.
fn head(patch: &Patch, placed: &PatchReport) -> String {
    let message = commit::message(patch, &commit::notes(std::slice::from_ref(placed)));
    let (subject, body) = message.split_once('\n').unwrap_or((&message, ""));
    let mut out = String::new();
    for (name, value) in [("From", patch.author.as_deref()), ("Date", patch.date.as_deref())] {
        if let Some(value) = value {
            out.push_str(&format!("{name}: {value}\n"));
        }
    }
    out.push_str(&format!("Subject: [PATCH] {subject}\n\n{}\n---\n\n", body.trim()));
    out
}

/// The hunks that have no place, as they stood in the patch.
fn rejects(patch: &Patch, placed: &PatchReport) -> Vec<u8> {
    let mut out = Vec::new();
    for (file, report) in patch.files.iter().zip(&placed.files) {
        let open = |number: &usize| {
            report.hunks.get(*number).is_none_or(|hunk| hunk.outcome == HunkOutcome::Conflict)
        };
        let hunks: Vec<_> = (0..file.hunks.len())
            .filter(|number| report.outcome == HunkOutcome::Conflict && open(number))
            .map(|number| &file.hunks[number])
            .collect();
        if !hunks.is_empty() {
            out.extend(conflict::rejected(file, &hunks));
        }
    }
    out
}

/// A subject as a file's name, as `git format-patch` makes it.
fn slug(subject: &str) -> String {
    const LONGEST: usize = 52;
    let mut out = String::new();
    for c in subject.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') {
            out.push(c);
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
        if out.len() >= LONGEST {
            break;
        }
    }
    out.trim_end_matches(['-', '.']).to_owned()
}
