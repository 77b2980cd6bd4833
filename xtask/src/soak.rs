//! `cargo xtask soak`: what takes longer than a test may.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use crate::process::{cargo, find, is_root, output, succeeds, target_dir};

/// Send a thousand million messages through a queue, or kill processes at every instruction.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  cargo xtask soak                         a few minutes; the tests send a million
  cargo xtask soak --messages 10000000     a few seconds
  cargo xtask soak kill-everywhere         ten minutes on two CPUs; goes on with the path it was stopped in"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<Subcommands>,
    #[command(flatten)]
    queue: QueueOptions,
}

#[derive(Debug, Args)]
struct QueueOptions {
    /// How many.
    #[arg(long, default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Kill a process at each instruction of what it does with another one, and look at the other one
    KillEverywhere(KillOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask soak kill-everywhere --every 50
  cargo xtask soak kill-everywhere --paths client-call,service-call --anew")]
struct KillOptions {
    /// Kill at each Nth boundary.
    #[arg(long, value_name = "N", default_value_t = NonZero::<u64>::MIN)]
    every: NonZero<u64>,
    /// Turns of a loop that count as boundaries of their own.
    #[arg(long, value_name = "N", default_value_t = 16)]
    turns: u32,
    /// These paths alone.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    paths: Vec<String>,
    /// Begin anew, instead of with the path in which the last run was stopped.
    #[arg(long)]
    anew: bool,
}

/// Runs what was asked for; gives whether nothing was lost, hung or leaked.
pub(crate) fn run(options: &Options) -> Result<bool> {
    match &options.what {
        None => send(&options.queue),
        Some(Subcommands::KillEverywhere(options)) => kill_everywhere(options),
    }
}

/// The queue's own test, with more messages.
fn send(options: &QueueOptions) -> Result<bool> {
    let mut test = cargo();
    test.args(["test", "--release", "--package", "handoff-ipc", "--test", "it", "--"]);
    test.args(["--exact", "soak::no_message_is_lost_between_two_processes", "--nocapture"]);
    succeeds(test.env("HANDOFF_SOAK_MESSAGES", options.messages.to_string()))
}

/// A process for each CPU takes one path after the other; what they find is in one folder.
fn kill_everywhere(options: &KillOptions) -> Result<bool> {
    let folder = target_dir().join("kill-everywhere");
    if options.anew && folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    release_claims(&folder)?;
    let program = build()?;
    // While a walk's threads wait for a CPU, they wait for each other's locks, where no later victim comes.
    let goes_first = is_root() && find("nice").is_some();
    let test = |name: &str| {
        let mut test = if goes_first { Command::new("nice") } else { Command::new(&program) };
        if goes_first {
            test.args(["-n", "-15"]).arg(&program);
        }
        test.args(["--ignored", "--exact", name, "--nocapture"]).env("HANDOFF_KILL_RECORDS", &folder);
        test.env("HANDOFF_KILL_EVERY", options.every.to_string());
        test.env("HANDOFF_KILL_TURNS", options.turns.to_string());
        test.env("HANDOFF_KILL_PATHS", options.paths.join(","));
        test
    };
    println!("what is found is kept in {}", folder.display());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = (0..cpus).map(|number| {
        let mut worker = test("all_boundaries");
        worker.env("HANDOFF_KILL_SHARD", number.to_string());
        worker.spawn().context("cannot run the test that kills")
    });
    let mut workers = workers.collect::<Result<Vec<_>>>()?;
    let mut all_well = true;
    for worker in &mut workers {
        all_well &= worker.wait().context("cannot wait for the test that kills")?.success();
    }
    Ok(succeeds(&mut test("table"))? && all_well)
}

/// Paths that a run had taken which was stopped.
fn release_claims(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "claimed") {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// The test program, optimised: a path has a tenth of the instructions then.
fn build() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["test", "--release", "--package", "handoff-ipc", "--test", "kill_everywhere", "--no-run"]);
    let messages = output(build.arg("--message-format=json-render-diagnostics"))?;
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    programs.next_back().context("cargo did not say where the test program is")
}
