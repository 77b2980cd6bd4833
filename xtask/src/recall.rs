//! `cargo xtask recall`: how many hunks of a real repository are placed rightly on an older release.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, succeeds};

/// Port the hunks between two releases onto an older one, and judge each placement by the history in between.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask recall ../u-boot v2016.09,v2017.09,v2018.11,v2019.01 common drivers/mmc drivers/net fs
  cargo xtask recall ../linux v3.4,v3.5,v3.6,v3.7,v3.8,v3.9,v3.10,v3.11,v3.12,v3.13,v3.14 kernel/sched net/ipv4 --verbose

The hunks are those between the last two releases; the tree is the first. Lines are traced through each release that
is named: the more, the better they are found.

Exit status: 0, or 1 if a hunk was placed wrongly without a word of doubt.")]
pub(crate) struct Options {
    /// The repository, with or without a work tree.
    repository: PathBuf,
    /// Its releases, the oldest first.
    #[arg(value_name = "OLDEST,...,FROM,TO")]
    releases: String,
    /// The folders and files whose hunks are ported.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Name each hunk that is not placed rightly.
    #[arg(long)]
    verbose: bool,
}

/// Judges; gives whether no hunk was placed wrongly without saying so.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut command = cargo();
    command.args(["run", "--package", "handoff-kernel", "--example", "recall", "--"]);
    command.arg(std::path::absolute(&options.repository)?).arg(&options.releases).args(&options.paths);
    if options.verbose {
        command.arg("--verbose");
    }
    succeeds(&mut command)
}
