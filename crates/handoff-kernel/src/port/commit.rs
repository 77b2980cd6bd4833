//! A series as commits: one for each patch, with its author, its date, and where it came from.
//!
//! A patch with a conflict stops the series. The series and how far it has come are kept in git's own folder, and it is
//! taken up, left out or taken back as with `git am`: [`resume`], [`skip`], [`abort`]. What a patch will write is on
//! record before it is written, so that all three work after the porter was killed, too.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{
    FileReport, How, HunkOutcome, HunkReport, Options, PatchReport, PortError, PortReport, place_series,
};
use crate::patch::{Patch, PatchPath, Series, text};

/// What was committed, and where the series stopped.
#[derive(Debug, Serialize)]
pub struct CommitReport {
    /// What became of the hunks.
    #[serde(flatten)]
    pub report: PortReport,
    /// The commits that were made.
    pub commits: Vec<Committed>,
    /// The subject of the patch that waits for a person.
    pub stopped: Option<String>,
    /// How many patches come after it.
    pub remaining: usize,
    /// The branch that was made, where the series was placed without a checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// True if there is no work tree in which the patch that stopped could be resolved.
    #[serde(skip)]
    pub(super) detached: bool,
}

/// A commit that was made of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Its id; `None` if the tree already was as the patch wants it.
    pub id: Option<String>,
    /// Its subject.
    pub subject: String,
}

impl CommitReport {
    pub(super) fn new(report: PortReport, commits: Vec<Committed>) -> Self {
        Self { report, commits, stopped: None, remaining: 0, branch: None, detached: false }
    }
}

impl fmt::Display for CommitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        for commit in &self.commits {
            match &commit.id {
                Some(id) => write!(f, "\ncommitted {} {}", id.get(..12).unwrap_or(id), commit.subject)?,
                None => write!(f, "\nnothing to commit for `{}`: it is there already", commit.subject)?,
            }
        }
        if let Some(branch) = &self.branch {
            write!(f, "\nthey are on the new branch `{branch}`; no work tree was touched")?;
        }
        if let Some(subject) = self.stopped.as_ref().filter(|_| self.detached) {
            write!(
                f,
                "\nstopped at `{subject}`, {} more to come: check the branch out and port the rest onto it with \
                 --commit, or look at its conflicts with --dry-run --review",
                self.remaining
            )?;
        } else if let Some(subject) = &self.stopped {
            write!(
                f,
                "\nstopped at `{subject}`, {} more to come: resolve its conflicts and remove its .rej files, then \
                 --continue; or --skip, or --abort",
                self.remaining
            )?;
        }
        Ok(())
    }
}

/// Why a series could not be committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The tree could not be read or written.
    #[error(transparent)]
    Port(#[from] PortError),
    /// git could not be run, or refused.
    #[error("git {what} failed in {}: {message}", tree.display())]
    Git {
        /// The tree.
        tree: PathBuf,
        /// What was asked of it.
        what: String,
        /// What it said.
        message: String,
    },
    /// Changes that would be mixed with those of the patches.
    #[error("files have changes that are not committed: {}", .0.join(", "))]
    Dirty(Vec<String>),
    /// A series that stopped is not finished.
    #[error("a series is under way in this tree: --continue, --skip or --abort it first")]
    UnderWay,
    /// A branch that would be overwritten.
    #[error("the branch `{0}` exists already: name another one, or delete it first")]
    BranchExists(String),
    /// A folder that would be mixed with the patches.
    #[error("{} is there already and holds files: name a new folder", .0.display())]
    FolderInUse(PathBuf),
    /// A patch that cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nothing that could be continued.
    #[error("no series is under way in this tree")]
    Nothing,
    /// A conflict that is still there.
    #[error("`{0}` still holds a conflict: resolve it, and remove its .rej file")]
    Unresolved(String),
    /// Somebody else's commits stand on top of the series.
    #[error("HEAD is not where the series left it: {0} was expected")]
    Moved(String),
    /// What is left of the series cannot be kept or read.
    #[error("the state of the series cannot be kept in {}: {error}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A series that is under way, which is written once, and how far it has come.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The commit on which the series started.
    start: String,
    patches: Series,
    #[serde(skip)]
    at: Progress,
    /// git's own folder.
    #[serde(skip)]
    folder: PathBuf,
}

/// How far a series has come; written before each patch is.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The commit onto which the patch goes.
    head: String,
    /// How many patches are done with.
    done: usize,
    /// The files that the patch writes.
    written: Vec<String>,
    /// What is to be said of them in the commit.
    notes: Vec<String>,
    /// True if the patch waits for a person; if not, it was being written and committed.
    stopped: bool,
}

impl State {
    const SERIES: &str = "handoff-port.json";
    const PROGRESS: &str = "handoff-port-progress.json";

    fn patch(&self) -> Option<&Patch> {
        self.patches.patches.get(self.at.done)
    }

    /// Reads what is under way.
    fn read(folder: PathBuf) -> Result<Self, CommitError> {
        if !folder.join(Self::SERIES).exists() {
            return Err(CommitError::Nothing);
        }
        let state: Self = get(folder.join(Self::SERIES))?;
        Ok(Self { at: get(folder.join(Self::PROGRESS))?, folder, ..state })
    }

    /// Keeps how far the series has come; it is under way from the first time on.
    fn keep(&self) -> Result<(), CommitError> {
        self.put(Self::PROGRESS, &self.at)?;
        if self.folder.join(Self::SERIES).exists() { Ok(()) } else { self.put(Self::SERIES, self) }
    }

    /// Writes a file at once, so that it is never half there.
    fn put(&self, name: &str, content: &impl Serialize) -> Result<(), CommitError> {
        let path = self.folder.join(name);
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&serde_json::to_vec(content)?)?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| CommitError::State { path: path.clone(), error })
    }

    fn forget(&self) -> Result<(), CommitError> {
        for path in [Self::SERIES, Self::PROGRESS].map(|name| self.folder.join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(CommitError::State { path, error });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a file of the state.
fn get<T: for<'a> Deserialize<'a>>(path: PathBuf) -> Result<T, CommitError> {
    let read = fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other));
    read.map_err(|error| CommitError::State { path, error })
}

/// The files of a work tree that git follows and that have changes; `None` if it is no work tree.
pub fn changed_files(tree: &Path) -> Option<Vec<String>> {
    let git = Git { tree };
    let listed = git.run(&["status", "--porcelain", "--untracked-files=no", "--", "."]).ok()?;
    Some(listed.lines().filter_map(|line| line.get(3..)).map(str::to_owned).collect())
}

/// Ports a series onto the work tree at `onto` and commits each patch; stops at the first conflict.
///
/// # Errors
///
/// [`CommitError`]; nothing is written if the tree has changes of its own or another series is under way.
pub fn port_and_commit(series: &Series, onto: &Path, options: &Options) -> Result<CommitReport, CommitError> {
    let git = Git { tree: onto };
    let folder = git.folder()?;
    if folder.join(State::SERIES).exists() {
        return Err(CommitError::UnderWay);
    }
    git.check_clean()?;
    let patches = series.clone();
    let mut state = State { start: git.head()?, patches, folder, at: Progress::default() };
    git.commit_all(&mut state, options, Vec::new())
}

/// Commits what a person made of the patch that stopped, and goes on with the series.
///
/// A patch at which the porter was killed is placed anew.
///
/// # Errors
///
/// [`CommitError`], if conflicts are left.
pub fn resume(onto: &Path, options: &Options) -> Result<CommitReport, CommitError> {
    let git = Git { tree: onto };
    let mut state = State::read(git.folder()?)?;
    if !state.at.stopped {
        git.settle(&mut state)?;
        return git.commit_all(&mut state, options, Vec::new());
    }
    for path in &state.at.written {
        let Ok(content) = fs::read(onto.join(text::to_path(path))) else { continue };
        let marked = text::decode(&content).lines().any(|line| line.starts_with("<<<<<<< tree"));
        if path.ends_with(".rej") || marked {
            return Err(CommitError::Unresolved(path.clone()));
        }
    }
    let Some(patch) = state.patch() else { return Err(CommitError::Nothing) };
    git.run(&["add", "--update", "--", "."])?;
    git.add(&state.at.written)?;
    let mut notes = state.at.notes.clone();
    notes.push("conflicts were resolved by hand".to_owned());
    let committed = git.commit(patch, &notes)?;
    state.at.done += 1;
    git.commit_all(&mut state, options, vec![committed])
}

/// Leaves the patch that stopped out, with what was made of it, and goes on with the series.
///
/// # Errors
///
/// [`CommitError`].
pub fn skip(onto: &Path, options: &Options) -> Result<CommitReport, CommitError> {
    let git = Git { tree: onto };
    let mut state = State::read(git.folder()?)?;
    let patch = state.at.done;
    git.settle(&mut state)?;
    state.at.done = patch + 1;
    git.commit_all(&mut state, options, Vec::new())
}

/// Takes the series back: the tree is as it was before.
///
/// # Errors
///
/// [`CommitError::Moved`] if somebody else's commits would be lost.
pub fn abort(onto: &Path) -> Result<(), CommitError> {
    let git = Git { tree: onto };
    let mut state = State::read(git.folder()?)?;
    git.settle(&mut state)?;
    git.run(&["reset", "-q", "--hard", &state.start])?;
    state.forget()
}

/// git, in one work tree or repository.
pub(super) struct Git<'a> {
    pub(super) tree: &'a Path,
}

impl Git<'_> {
    fn fail(&self, what: &[&str], message: impl fmt::Display) -> CommitError {
        let what = what.first().copied().unwrap_or_default().to_owned();
        CommitError::Git { tree: self.tree.to_owned(), what, message: message.to_string().trim().to_owned() }
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<String, CommitError> {
        self.run_with(words, &[], None)
    }

    pub(super) fn run_with(
        &self,
        words: &[&str],
        environment: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> Result<String, CommitError> {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(self.tree)
            // A file may be called `*`: as a pattern, it would add what nobody asked for.
            .args(["-c", "core.quotePath=off", "--literal-pathspecs"])
            // Names of files and people need not be UTF-8.
            .args(words.iter().map(|word| text::to_path(word)))
            .envs(environment.iter().map(|(name, value)| (name, text::to_path(value))))
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        tracing::debug!("starting {command:?}");
        let mut child = command.spawn().map_err(|error| self.fail(words, error))?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            stdin.write_all(input).map_err(|error| self.fail(words, error))?;
        }
        let output = child.wait_with_output().map_err(|error| self.fail(words, error))?;
        if output.status.success() {
            Ok(text::decode(&output.stdout))
        } else {
            Err(self.fail(words, String::from_utf8_lossy(&output.stderr)))
        }
    }

    fn head(&self) -> Result<String, CommitError> {
        Ok(self.run(&["rev-parse", "--verify", "HEAD"])?.trim().to_owned())
    }

    fn check_clean(&self) -> Result<(), CommitError> {
        let changed = self.run(&["status", "--porcelain", "--untracked-files=no", "--", "."])?;
        let changed: Vec<String> =
            changed.lines().filter_map(|line| line.get(3..)).map(str::to_owned).collect();
        if changed.is_empty() { Ok(()) } else { Err(CommitError::Dirty(changed)) }
    }

    /// git's own folder of this work tree.
    fn folder(&self) -> Result<PathBuf, CommitError> {
        Ok(self.run(&["rev-parse", "--absolute-git-dir"])?.trim_end_matches('\n').into())
    }

    /// Takes back what a patch wrote that stopped, or at which the porter was killed; if it was committed, the series
    /// goes on behind it.
    fn settle(&self, state: &mut State) -> Result<(), CommitError> {
        let at = &state.at;
        if self.head()? != at.head {
            let is_its = |patch| {
                let last = self.run(&["log", "-1", "--format=%P%n%s"]);
                last.is_ok_and(|last| {
                    last.trim_end() == format!("{}\n{}", at.head, subject(patch).trim_end())
                })
            };
            if at.stopped || !state.patch().is_some_and(is_its) {
                return Err(CommitError::Moved(at.head.clone()));
            }
            state.at.done += 1;
        } else if at.stopped {
            self.run(&["reset", "-q", "--hard", &at.head])?;
        }
        for path in state.at.written.iter().filter(|path| PatchPath::new(path).is_ok()) {
            if self.run(&["ls-tree", "--name-only", "HEAD", "--", path])?.is_empty() {
                self.run(&["rm", "-q", "--cached", "--ignore-unmatch", "--", path])?;
                drop(fs::remove_file(self.tree.join(text::to_path(path))));
            } else {
                self.run(&["checkout", "-q", "HEAD", "--", path])?;
            }
            super::tree::remove_unfinished(&self.tree.join(text::to_path(path)));
        }
        self.check_clean()
    }

    /// Ports and commits the patches that are left, up to the first that is in conflict.
    fn commit_all(
        &self,
        state: &mut State,
        options: &Options,
        commits: Vec<Committed>,
    ) -> Result<CommitReport, CommitError> {
        let mut all = CommitReport::new(PortReport::new(self.tree, false), commits);
        let options = Options { dry_run: false, ..options.clone() };
        state.at.head = self.head()?;
        while let Some(patch) = state.patch() {
            let one = Series { patches: vec![patch.clone()], ..Series::default() };
            let (report, tree) = place_series(&one, self.tree, &options)?;
            let subject = patch.subject.clone();
            let clean = report.is_clean();
            state.at.written.clone_from(&report.written);
            state.at.notes = notes(&report.patches);
            state.at.stopped = false;
            state.keep()?;
            tree.write()?;
            all.report.append(report);
            if !clean {
                state.at.stopped = true;
                state.keep()?;
                all.stopped = Some(subject);
                all.remaining = state.patches.patches.len() - state.at.done - 1;
                return Ok(all);
            }
            self.add(&state.at.written)?;
            let committed = self.commit(&one.patches[0], &state.at.notes)?;
            if let Some(id) = &committed.id {
                state.at.head.clone_from(id);
            }
            all.commits.push(committed);
            state.at.done += 1;
        }
        state.forget()?;
        Ok(all)
    }

    fn add(&self, paths: &[String]) -> Result<(), CommitError> {
        for path in paths {
            let known = self.tree.join(text::to_path(path)).exists()
                || self.run(&["ls-files", "--error-unmatch", "--", path]).is_ok();
            if known {
                self.run(&["add", "--all", "--force", "--", path])?;
            }
        }
        Ok(())
    }

    fn commit(&self, patch: &Patch, notes: &[String]) -> Result<Committed, CommitError> {
        let committed = |id| Committed { id, subject: subject(patch).to_owned() };
        if self.run(&["diff", "--cached", "--quiet"]).is_ok() {
            return Ok(committed(None));
        }
        let (message, environment) = (message(patch, notes), author(patch));
        let words = ["commit", "--quiet", "--cleanup=whitespace", "--file=-"];
        self.run_with(&words, &environment, Some(&text::encode(&message)))?;
        Ok(committed(Some(self.head()?)))
    }
}

/// The subject of a patch's commit.
pub(super) fn subject(patch: &Patch) -> &str {
    if patch.subject.is_empty() { "Port a patch without a subject" } else { &patch.subject }
}

/// The message of a patch's commit: its own, where it came from, and what was doubtful.
pub(super) fn message(patch: &Patch, notes: &[String]) -> String {
    let mut message = format!("{}\n", subject(patch));
    if !patch.message.trim().is_empty() {
        message.push_str(&format!("\n{}\n", patch.message.trim()));
    }
    // Writing to a String cannot fail.
    match &patch.commit {
        Some(id) => _ = writeln!(message, "\n(backported from commit {id})"),
        None => message.push('\n'),
    }
    for note in notes {
        _ = writeln!(message, "[{note}]");
    }
    message
}

/// What tells git who wrote a patch, and when.
pub(super) fn author(patch: &Patch) -> Vec<(&str, &str)> {
    let mut environment = Vec::new();
    if let Some((name, address)) = patch.author.as_deref().and_then(split_author) {
        environment.extend([("GIT_AUTHOR_NAME", name), ("GIT_AUTHOR_EMAIL", address)]);
    }
    environment.extend(patch.date.as_deref().map(|date| ("GIT_AUTHOR_DATE", date)));
    environment
}

/// `Name <address>` in its two parts.
fn split_author(author: &str) -> Option<(&str, &str)> {
    let (name, rest) = author.split_once('<')?;
    let name = name.trim().trim_matches('"');
    (!name.is_empty()).then_some((name, rest.split('>').next().unwrap_or("")))
}

/// What a reader of the commit should know of how its hunks were placed.
pub(super) fn notes(patches: &[PatchReport]) -> Vec<String> {
    patches.iter().flat_map(|patch| &patch.files).flat_map(notes_of).collect()
}

fn notes_of(file: &FileReport) -> Vec<String> {
    let path = file.onto.as_ref().unwrap_or(&file.path);
    let is_doubtful = |hunk: &&HunkReport| hunk.outcome == HunkOutcome::Fuzzy || hunk.how == How::Person;
    let doubtful = file.hunks.iter().filter(is_doubtful);
    let mut notes: Vec<String> = doubtful
        .map(|hunk| {
            let why = hunk.differences.first().map_or("", String::as_str);
            // What a person said of it stands last.
            let said = hunk.differences.last().filter(|said| hunk.how == How::Person && *said != why);
            let said = said.map_or(String::new(), |said| format!("; {said}"));
            format!("{path}, hunk {}: {why}{said}", hunk.number)
        })
        .collect();
    if let Some(onto) = &file.onto
        && notes.is_empty()
    {
        notes.push(format!("{} is {onto} here", file.path));
    }
    notes
}
