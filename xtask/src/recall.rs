//! `cargo xtask recall`: how many hunks of a real repository are placed rightly on an older release.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, succeeds};

/// Port the hunks between two releases onto an older one, and judge each placement by the history in between.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask recall ../u-boot v2016.09,v2017.09,v2018.11,v2019.01 common drivers/mmc drivers/net fs
  cargo xtask recall ../qemu --picks --every 4 --tools
  cargo xtask recall ../linux v3.4,v3.5,v3.6,v3.7,v3.8,v3.9,v3.10,v3.11,v3.12,v3.13,v3.14 kernel/sched net/ipv4 --verbose

The hunks are those between the last two releases; the tree is the first. Lines are traced through each release that
is named: the more, the better they are found.

With --picks they are those of commits that the repository has on two branches: one names the other, as
`git cherry-pick -x` does, or has its author, date and subject. The tree is the one in front of the pick, and a hunk
is right if the file is what the pick made of it.

Exit status: 0, or 1 if a hunk was placed wrongly without a word of doubt.")]
pub(crate) struct Options {
    /// The repository, with or without a work tree.
    repository: PathBuf,
    /// Its releases, the oldest first.
    #[arg(value_name = "OLDEST,...,FROM,TO", required_unless_present = "picks", conflicts_with = "picks")]
    releases: Option<String>,
    /// The folders and files whose hunks are ported.
    #[arg(required_unless_present = "picks", value_name = "PATH")]
    paths: Vec<String>,
    /// Take the commits that were picked from one branch onto another.
    #[arg(long)]
    picks: bool,
    /// Take every Nth pick only.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, requires = "picks")]
    every: NonZeroUsize,
    /// Let the other tools place the picks' hunks, too.
    #[arg(long, requires = "picks", conflicts_with = "whole")]
    tools: bool,
    /// Port all hunks of a pick's file together, and judge each.
    #[arg(long, requires = "picks")]
    whole: bool,
    /// Name each hunk that is not placed rightly.
    #[arg(long)]
    verbose: bool,
}

/// Judges; gives whether no hunk was placed wrongly without saying so.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let repository = std::path::absolute(&options.repository)?;
    let mut command = cargo();
    command.args(["run", "--package", "handoff-kernel", "--example"]);
    if options.picks {
        command.args(["picks", "--"]).arg(repository).arg(options.every.to_string());
    } else {
        command.args(["recall", "--"]).arg(repository).args(&options.releases).args(&options.paths);
    }
    let flags = [("--verbose", options.verbose), ("--tools", options.tools), ("--whole", options.whole)];
    command.args(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
    succeeds(&mut command)
}
