//! What a repository says of a change: follow-ups, fixes and reverts.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

/// How a commit relates to the analysed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Its `Fixes:` names the commit.
    Fixes,
    /// It reverts the commit.
    Reverts,
    /// It names the commit in its message.
    Mentions,
    /// It changes the same functions later.
    FollowUp,
    /// The analysed patch names it.
    Fixed,
}

/// A commit that has to do with the analysed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    pub relation: Relation,
    /// Its id, as far as it is known.
    pub id: String,
    pub subject: String,
    /// The day of the commit, `2013-12-06`; empty if it is not at hand.
    pub date: String,
}

/// The commits that a patch's message names in `Fixes:` lines.
pub(super) fn named(message: &str) -> Vec<Related> {
    let lines = message.lines().filter_map(|line| line.trim().strip_prefix("Fixes:"));
    lines
        .filter_map(|rest| {
            let (id, subject) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
            let plain = id.len() >= 7 && id.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| Related {
                relation: Relation::Fixed,
                id: id.to_owned(),
                subject: subject.trim_matches(['(', ')', '"']).to_owned(),
                date: String::new(),
            })
        })
        .collect()
}

/// Commits after `commit` in the tree's history that name it or change the same files' functions.
pub(super) fn after(tree: &Path, commit: Option<&str>, subject: &str, files: &[String]) -> Vec<Related> {
    if !tree.join(".git").exists() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(id) = commit.filter(|id| id.len() >= 12) {
        let short = &id[..12];
        for (id, date, subject, body) in log(tree, &["-i", "--grep", short]) {
            let fixes = body.lines().any(|line| line.starts_with("Fixes:") && line.contains(short));
            let relation = match () {
                () if subject.starts_with("Revert ") || body.contains("This reverts commit") => {
                    Relation::Reverts
                }
                () if fixes => Relation::Fixes,
                () => Relation::Mentions,
            };
            found.push(Related { relation, id, subject, date });
        }
    }
    if !subject.is_empty() {
        let title = format!("Revert \"{subject}\"");
        for (id, date, subject, _) in log(tree, &["--fixed-strings", "--grep", &title]) {
            if !found.iter().any(|other: &Related| other.id == id) {
                found.push(Related { relation: Relation::Reverts, id, subject, date });
            }
        }
    }
    if let Some(id) = commit {
        let range = format!("{id}..HEAD");
        let mut arguments = vec!["--max-count=20", range.as_str(), "--"];
        arguments.extend(files.iter().map(String::as_str));
        for (id, date, subject, _) in log(tree, &arguments) {
            if !found.iter().any(|other| other.id == id) {
                found.push(Related { relation: Relation::FollowUp, id, subject, date });
            }
        }
    }
    found.sort_by(|a, b| a.date.cmp(&b.date));
    found
}

fn log(tree: &Path, arguments: &[&str]) -> Vec<(String, String, String, String)> {
    let output = Command::new("git")
        .arg("-C")
        .arg(tree)
        .args(["log", "--max-count=50", "--date=short", "--format=%H%x1f%ad%x1f%s%x1f%b%x1e"])
        .args(arguments)
        .env("GIT_NO_LAZY_FETCH", "1")
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout)
        .split('\u{1e}')
        .filter_map(|record| {
            let mut fields = record.trim_start().splitn(4, '\u{1f}').map(str::to_owned);
            Some((fields.next().filter(|id| !id.is_empty())?, fields.next()?, fields.next()?, fields.next()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_lines_are_read() {
        let found = named("Text\n\nFixes: f54b311142a9 (\"tcp: auto corking\")\nFixes: not a commit\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].id.as_str(), found[0].subject.as_str()), ("f54b311142a9", "tcp: auto corking"));
    }
}
