//! Questions about the history of the tree that a patch was made for, asked of git.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Commit {
    pub id: String,
    pub subject: String,
}

/// Why git could not answer.
#[derive(Debug, thiserror::Error)]
#[error("git cannot {what} in {}: {reason}", repository.display())]
pub struct HistoryError {
    pub what: String,
    pub repository: PathBuf,
    pub reason: String,
}

/// A repository with history.
pub(super) struct History<'a> {
    repository: &'a Path,
}

impl<'a> History<'a> {
    pub(super) fn open(repository: &'a Path) -> Result<Self, HistoryError> {
        let history = Self { repository };
        history.git("find a history", &["rev-parse", "--git-dir"]).map(|_| history)
    }

    fn git(&self, what: &str, arguments: &[&str]) -> Result<String, HistoryError> {
        let fail = |reason: String| HistoryError {
            what: what.to_owned(),
            repository: self.repository.to_owned(),
            reason: reason.trim().to_owned(),
        };
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(self.repository)
            .args(arguments)
            // A partial clone must not fetch behind the user's back.
            .env("GIT_NO_LAZY_FETCH", "1")
            .stdin(Stdio::null());
        tracing::debug!("starting {command:?}");
        let output = command.output().map_err(|error| fail(error.to_string()))?;
        if !output.status.success() {
            return Err(fail(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// For each line of a range of a file (from 1) at a revision, the commit that it came with.
    pub(super) fn origins(
        &self,
        revision: &str,
        file: &str,
        from: usize,
        count: usize,
    ) -> Result<Vec<(String, String)>, HistoryError> {
        let range = format!("{from},+{count}");
        let text = self.git(
            "tell where lines come from",
            &["blame", "--porcelain", "-w", "-L", &range, revision, "--", file],
        )?;
        let mut commit = String::new();
        let mut lines = Vec::new();
        for line in text.lines() {
            if let Some(content) = line.strip_prefix('\t') {
                lines.push((commit.clone(), content.to_owned()));
            } else if let Some((id, _)) = line.split_once(' ')
                && is_id(id)
            {
                id.clone_into(&mut commit);
            }
        }
        Ok(lines)
    }

    /// True if the commit has no parent: what it brought is no change.
    pub(super) fn is_root(&self, id: &str) -> bool {
        self.git("find a parent", &["rev-parse", "--verify", "--quiet", &format!("{id}^")]).is_err()
    }

    /// Commits with their subjects, the oldest first.
    pub(super) fn in_order(&self, ids: &[String]) -> Result<Vec<Commit>, HistoryError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut arguments = vec!["log", "--no-walk=sorted", "--format=%H%x1f%s"];
        arguments.extend(ids.iter().map(String::as_str));
        let text = self.git("order commits", &arguments)?;
        let mut commits: Vec<Commit> = text.lines().filter_map(commit).collect();
        commits.reverse();
        Ok(commits)
    }

    /// Files of a revision that have a word, those that define something first.
    pub(super) fn files_with(&self, revision: &str, word: &str) -> Vec<String> {
        // Status 1 is no match.
        let arguments =
            ["grep", "-l", "-w", "--fixed-strings", "-e", word, revision, "--", "*.h", "*.c", "*.S"];
        let text = self.git("search", &arguments).unwrap_or_default();
        let prefix = format!("{revision}:");
        text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    /// The text of a file at a revision.
    pub(super) fn file(&self, revision: &str, file: &str) -> Option<String> {
        self.git("read a file", &["show", &format!("{revision}:{file}")]).ok()
    }

    /// The first commit up to a revision that brought a text into a file.
    pub(super) fn introduced(&self, revision: &str, file: &str, text: &str) -> Option<Commit> {
        let pickaxe = format!("-S{text}");
        let arguments = ["log", "--reverse", "--format=%H%x1f%s", &pickaxe, revision, "--", file];
        self.git("search the history", &arguments).ok()?.lines().find_map(commit)
    }

    /// The parent of a commit, or the newest commit there is.
    pub(super) fn before(&self, commit: Option<&str>) -> Option<String> {
        let revision = commit.filter(|id| is_id(id)).map_or_else(|| "HEAD".to_owned(), |id| format!("{id}^"));
        let text = self.git("find a commit", &["rev-parse", "--verify", "--quiet", &revision]);
        text.ok().map(|text| text.trim().to_owned())
    }
}

fn commit(line: &str) -> Option<Commit> {
    let (id, subject) = line.split_once('\u{1f}')?;
    Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
}

fn is_id(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
