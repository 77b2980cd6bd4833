//! `cargo xtask study`: the studies of kernel features in `experiments/`, from source to verdict.
//!
//! Long: a kernel is built from nothing for the first one. The tests run a short one of a small tree.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::packages;
use crate::process::{cargo, root, run as run_command, succeeds, target_dir};

/// What ends the name of a study's file.
const END: &str = "-study.toml";

/// Run the studies of kernel features: build, prove, measure, document (half an hour with kernels built before).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask study                      all of them; leave the machine alone meanwhile
  cargo xtask study wake-wide            one
  cargo xtask study --until prove        without the measurement: on any machine, before a quiet one is at hand

Measuring takes about 12 minutes of a quiet machine for each study of 6.1, and ends after 14 with the verdict that there is
then. That of binder-lend may take 30, and counts instructions: the machine need not be quiet. The first builds need about
12 minutes of CPU time for each version of Linux, through ccache about 2; they are kept, and the same command goes on where
it stopped.")]
pub(crate) struct Options {
    /// The studies, by the names of their files without `-study.toml`; all of them if none is named.
    names: Vec<String>,
    /// Stop after this step of each.
    #[arg(long, value_name = "STEP")]
    until: Option<String>,
}

/// Runs them one after the other; gives whether each is as it should be.
pub(crate) fn run(options: &Options) -> Result<bool> {
    packages::ensure()?;
    run_command(cargo().args(["build", "--release", "--package", "handoff-cli", "--features", "full"]))?;
    let handoff = target_dir().join("release/handoff");
    let mut passed = true;
    for file in files(&options.names)? {
        let mut command = std::process::Command::new(&handoff);
        command.current_dir(root()).args(["kernel", "study"]).arg(&file);
        if let Some(step) = &options.until {
            command.args(["--until", step]);
        }
        passed &= succeeds(&mut command)?;
    }
    Ok(passed)
}

fn files(names: &[String]) -> Result<Vec<PathBuf>> {
    let folder = root().join("experiments");
    let mut known = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(END) {
            known.push((name.to_owned(), path));
        }
    }
    known.sort();
    for name in names {
        let there = known.iter().map(|(known, _)| known.as_str()).collect::<Vec<_>>();
        ensure!(there.contains(&name.as_str()), "there is no study `{name}`; there are {}", there.join(", "));
    }
    let wanted = |name: &String| names.is_empty() || names.contains(name);
    Ok(known.into_iter().filter(|(name, _)| wanted(name)).map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studies_are_found_by_name() {
        let all = files(&[]).expect("experiments are there");
        assert!(all.len() >= 2 && all.iter().all(|path| path.is_file()), "{all:?}");
        let one = files(&["wake-wide".to_owned()]).expect("it is there");
        assert!(one.len() == 1 && one[0].ends_with("experiments/wake-wide-study.toml"), "{one:?}");
        assert!(files(&["none".to_owned()]).is_err_and(|error| error.to_string().contains("wake-wide")));
    }
}
