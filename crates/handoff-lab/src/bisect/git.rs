//! The repository: worktrees of our own, and git's own bisection in one of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{BisectError, Commit};

/// The start of the name of a folder of worktrees; the process follows that uses it.
pub(super) const FOLDER: &str = "handoff-bisect-";

#[derive(Debug, Clone)]
pub(super) struct Git {
    folder: PathBuf,
}

/// What git knows after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    Test(Commit),
    /// This is the first bad one.
    First(Commit),
    /// It is one of these, and none of them can be tested.
    Among(Vec<Commit>),
}

impl Git {
    /// The repository around a folder.
    pub(super) fn around(folder: &Path) -> Result<Self, BisectError> {
        let git = Self { folder: folder.to_owned() };
        git.run(&["rev-parse", "--git-dir"])?;
        Ok(git)
    }

    fn output(&self, arguments: &[&str]) -> Result<Output, BisectError> {
        let mut command = Command::new("git");
        // Hooks of the user's are for the user's own check-outs.
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()).env("LC_ALL", "C");
        // A hook or an alias of git that runs us says which repository it is in.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
            command.env_remove(name);
        }
        tracing::debug!("starting {command:?}");
        command.output().map_err(|source| BisectError::NoGit { source })
    }

    fn run(&self, arguments: &[&str]) -> Result<String, BisectError> {
        let output = self.output(arguments)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let said = [output.stderr, output.stdout].concat();
        Err(BisectError::Git {
            command: arguments.join(" "),
            said: String::from_utf8_lossy(&said).trim().to_owned(),
        })
    }

    /// The commit behind a name.
    pub(super) fn commit(&self, name: &str) -> Result<Commit, BisectError> {
        let format = "--format=%H%n%s";
        // Without the end of options a name that begins with a dash would be one.
        let name = format!("{name}^{{commit}}");
        let hash = self.run(&["rev-parse", "--verify", "--end-of-options", &name])?;
        let text = self.run(&["log", "-1", format, &hash])?;
        let (hash, subject) = text.split_once('\n').unwrap_or((&text, ""));
        Ok(Commit { hash: hash.to_owned(), subject: subject.to_owned() })
    }

    /// How many commits are between the two, the last one counted.
    pub(super) fn distance(&self, good: &Commit, bad: &Commit) -> Result<usize, BisectError> {
        let is_ancestor = self.output(&["merge-base", "--is-ancestor", &good.hash, &bad.hash])?;
        if !is_ancestor.status.success() {
            return Err(BisectError::NoAncestor { good: good.clone(), bad: bad.clone() });
        }
        let count = self.run(&["rev-list", "--count", &format!("{}..{}", good.hash, bad.hash)])?;
        Ok(count.parse().unwrap_or(0))
    }

    /// Removes worktrees of searches that were killed.
    pub(super) fn sweep(&self) -> Result<(), BisectError> {
        let list = self.run(&["worktree", "list", "--porcelain"])?;
        for path in list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(Path::new) {
            let names = path.components().map(|part| part.as_os_str().to_string_lossy());
            let owner =
                names.filter_map(|name| name.strip_prefix(FOLDER)?.split('-').next()?.parse::<u32>().ok());
            let is_left = |owner: u32| !Path::new("/proc").join(owner.to_string()).exists();
            if let Some(folder) = path.parent().filter(|_| owner.into_iter().any(is_left)) {
                self.forget(folder);
            }
        }
        Ok(())
    }

    /// Removes a folder of worktrees, and what git notes of them.
    pub(super) fn forget(&self, folder: &Path) {
        drop(std::fs::remove_dir_all(folder));
        drop(self.output(&["worktree", "prune"]));
    }

    /// A worktree of our own in a folder that is not there yet.
    pub(super) fn worktree(&self, path: PathBuf, commit: &Commit) -> Result<Worktree, BisectError> {
        self.run(&["worktree", "add", "--quiet", "--detach", &path.to_string_lossy(), &commit.hash])?;
        Ok(Worktree { repository: self.clone(), inside: Git { folder: path } })
    }
}

/// A worktree that is removed with this. What git notes of a bisection belongs to its worktree, so that a
/// bisection of the user's own goes on beside ours.
#[derive(Debug)]
pub(super) struct Worktree {
    repository: Git,
    inside: Git,
}

impl Worktree {
    pub(super) fn path(&self) -> &Path {
        &self.inside.folder
    }

    pub(super) fn check_out(&self, commit: &Commit) -> Result<(), BisectError> {
        self.inside.run(&["checkout", "--quiet", "--force", "--detach", &commit.hash])?;
        Ok(())
    }

    /// Begins a bisection; the commit to test is checked out.
    pub(super) fn start(&self, good: &Commit, bad: &Commit) -> Result<Next, BisectError> {
        self.bisect(&["start", &bad.hash, &good.hash])
    }

    /// Says `good`, `bad` or `skip` of the commit that is checked out.
    pub(super) fn mark(&self, word: &str) -> Result<Next, BisectError> {
        self.bisect(&[word])
    }

    fn bisect(&self, arguments: &[&str]) -> Result<Next, BisectError> {
        // A build may have changed files that are in the repository.
        self.inside.run(&["reset", "--quiet", "--hard"])?;
        let arguments = [&["bisect"], arguments].concat();
        let output = self.inside.output(&arguments)?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // A line that is a hash, or starts with one.
        let hash = |line: &str| {
            let word = line.split_whitespace().next().unwrap_or_default();
            let is_hash = word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hash.then(|| word.to_owned())
        };
        if let Some(first) = said.lines().find(|line| line.contains("is the first bad commit")).and_then(hash)
        {
            return Ok(Next::First(self.inside.commit(&first)?));
        }
        // Git ends with 2 where only skipped commits are left.
        if output.status.code() == Some(2) && said.contains("skip") {
            let hashes: Vec<String> = said.lines().filter_map(hash).collect();
            let among = hashes.iter().map(|hash| self.inside.commit(hash)).collect::<Result<_, _>>()?;
            return Ok(Next::Among(among));
        }
        if !output.status.success() {
            return Err(BisectError::Git { command: arguments.join(" "), said: said.trim().to_owned() });
        }
        Ok(Next::Test(self.inside.commit("HEAD")?))
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        let path = self.inside.folder.to_string_lossy().into_owned();
        // What cannot be removed here is pruned by git once the folder is gone.
        drop(self.repository.output(&["worktree", "remove", "--force", "--force", &path]));
        drop(std::fs::remove_dir_all(&self.inside.folder));
        drop(self.repository.output(&["worktree", "prune"]));
    }
}
