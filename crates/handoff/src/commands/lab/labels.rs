//! `--label`: what a run is of, for `handoff lab history`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

// What a run is of.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Labels {
    /// What this is of, for `handoff lab history`: commit=..., device=..., or any name. A run is of the commit of
    /// the repository in this folder if no other is given.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("a label is NAME=VALUE, such as commit=1a2b3c".to_owned()),
    }
}

impl Labels {
    pub(super) fn said(&self) -> BTreeMap<String, String> {
        self.labels.iter().cloned().collect()
    }

    /// The same, and the commit of the repository in this folder.
    pub(super) fn here(&self) -> BTreeMap<String, String> {
        let mut labels = self.said();
        if !labels.contains_key("commit")
            && let Some(commit) = commit_here()
        {
            labels.insert("commit".to_owned(), commit);
        }
        labels
    }
}

/// The commit that is checked out in this folder, with `-dirty` if files are changed; none outside of a
/// repository, or without git.
fn commit_here() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let commit = text.trim();
    (output.status.success() && !commit.is_empty()).then(|| commit.to_owned())
}
