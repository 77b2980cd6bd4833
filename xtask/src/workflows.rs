//! The workflows of GitHub (`.github`): linted where actionlint is, and their commands checked by the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::{Last, find, kept, root, run, target_dir};

/// The linter's package for Go, at the version that the workflow takes.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// The linter: where it is installed, or built once by Go below the target folder.
pub(crate) fn linter() -> Result<PathBuf> {
    if let Some(installed) = find("actionlint") {
        return Ok(installed);
    }
    // A folder for each version: another one is built anew.
    let folder = target_dir().join("tools").join(ACTIONLINT.rsplit('/').next().unwrap_or(ACTIONLINT));
    let built = folder.join("actionlint");
    if !built.is_file() {
        ensure!(find("go").is_some(), "actionlint is not installed, nor Go: go install {ACTIONLINT}");
        run(Command::new("go").args(["install", ACTIONLINT]).env("GOBIN", folder))
            .context("actionlint is not installed, and Go cannot build it")?;
    }
    Ok(built)
}

/// Lints the workflows, and the action that one of them uses; false if something is wrong.
pub(crate) fn lint(linter: &Path, last: &mut Last) -> Result<bool> {
    kept(Command::new(linter).current_dir(root()), last)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Chore;

    /// The commands of one line each in the workflows, with the files that they stand in.
    fn commands() -> Vec<(String, String)> {
        let folder = root().join(".github/workflows");
        let files =
            std::fs::read_dir(folder).expect("the workflows").map(|entry| entry.expect("a file").path());
        let of_file = |file: std::path::PathBuf| {
            let text = std::fs::read_to_string(&file).expect("text");
            let name = file.display().to_string();
            let command =
                |line: &str| Some(line.trim().trim_start_matches("- ").strip_prefix("run: ")?.to_owned());
            text.lines().filter_map(command).map(|command| (name.clone(), command)).collect::<Vec<_>>()
        };
        files.flat_map(of_file).collect()
    }

    #[test]
    fn a_workflow_runs_what_a_developer_can_run() {
        let commands = commands();
        assert!(commands.iter().any(|(_, command)| command == ".ci/run"), "{commands:?}");
        for (file, command) in commands {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words[..] {
                ["cargo", "xtask", ..] => {
                    let parsed = Chore::try_parse_from(&words[1..]);
                    assert!(parsed.is_ok(), "{file}: {command}: {}", parsed.unwrap_err());
                }
                [script, ..] if script.starts_with('.') => {
                    assert!(root().join(script).is_file(), "{file}: there is no {script}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_workflows_take_the_version_of_rust_that_the_tests_take() {
        let toolchain = std::fs::read_to_string(root().join("rust-toolchain.toml")).expect("the toolchain");
        let channel = toolchain.split('"').nth(1).expect("a channel in quotes");
        let ci = std::fs::read_to_string(root().join(".github/workflows/ci.yml")).expect("the workflow");
        let image = ci.lines().find_map(|line| line.trim().strip_prefix("image: rust:")).expect("an image");
        let version = image.split('-').next().expect("a version");
        assert!(channel.starts_with(version), "the workflows take Rust {version}, the tests {channel}");
        let promised = format!("toolchain install {} ", crate::msrv::promised().expect("a promise"));
        assert!(ci.contains(&promised), "ci.yml does not say `{promised}`");
        assert!(ci.contains(ACTIONLINT), "ci.yml does not say `{ACTIONLINT}`");
    }
}
