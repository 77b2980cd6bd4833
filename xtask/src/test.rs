//! `cargo xtask test`: every test there is, summed up honestly.
//!
//! A test that this machine cannot run is counted as skipped, with the reason (see
//! `handoff-testkit`), never as passed. The last line is `N passed, N failed, N skipped`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::process::{cargo, root, target_dir, watch};
use crate::tally::Tally;
use crate::{disk, packages, tools};

/// Run every test: unit, integration, documentation and loom.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask test
  cargo xtask test -p handoff-ipc
  cargo xtask test --deny-skips        on a machine that has everything
  cargo xtask test -p handoff -- --nocapture latency")]
pub(crate) struct Options {
    /// Test this package only (may be given several times).
    #[arg(short, long)]
    package: Vec<String>,
    /// A test that cannot run here fails instead of being skipped.
    #[arg(long)]
    deny_skips: bool,
    /// Install no packages, even as root.
    #[arg(long)]
    no_install: bool,
    /// Passed to the test programs.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the tests, prints what failed and what was skipped, and the closing line.
pub(crate) fn run(options: &Options) -> Result<bool> {
    disk::announce();
    let tally = tests(options, None)?;
    let passed = conclude(&tally);
    if let Some(why) = disk::suspicion().filter(|_| !passed) {
        println!("{why}");
    }
    Ok(passed)
}

/// For `cargo xtask ci`: everything, killed if it is not done within `limit`.
pub(crate) fn everything(limit: Duration) -> Result<Tally> {
    let options =
        Options { package: Vec::new(), deny_skips: false, no_install: false, arguments: Vec::new() };
    tests(&options, Some(limit))
}

/// Prints what failed, what was skipped, and the closing line.
pub(crate) fn conclude(tally: &Tally) -> bool {
    print!("\n{}", tally.details());
    println!("{tally}");
    tally.is_success()
}

fn tests(options: &Options, limit: Option<Duration>) -> Result<Tally> {
    if !options.no_install {
        packages::ensure()?;
    }
    let log = SkipLog::new()?;
    let started = Instant::now();
    let mut tally = Tally::default();

    let mut all = cargo();
    all.args(["test", "--no-fail-fast"]);
    if options.package.is_empty() {
        all.arg("--workspace");
    }
    for package in &options.package {
        all.args(["--package", package]);
    }
    let mut steps = vec![("cargo test", all)];
    if options.arguments.is_empty() {
        steps.extend(loom_models(&options.package)?.into_iter().map(|command| ("loom", command)));
    }

    for (name, mut command) in steps {
        command.env("HANDOFF_SKIP_LOG", &log.0);
        if options.deny_skips {
            command.env("HANDOFF_DENY_SKIPS", "1");
        }
        if !options.arguments.is_empty() {
            command.arg("--").args(&options.arguments);
        }
        let failures = tally.failures();
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let succeeded = match watch(&mut command, left, |line| tally.see(line)) {
            Ok(status) => status.success(),
            Err(error) => {
                println!("error: {error:#}");
                false
            }
        };
        tally.finish(name, succeeded, failures);
    }
    tally.read_skips(&log.0)?;
    Ok(tally)
}

/// The loom models: each crate that depends on loom is built with `--cfg loom`, in a folder of its
/// own so that nothing else is built again, and its unit tests are run: the others leave themselves out.
fn loom_models(packages: &[String]) -> Result<Vec<std::process::Command>> {
    let wanted = |name: &str| packages.is_empty() || packages.iter().any(|package| package == name);
    let with_loom = tools::workspace()?
        .into_iter()
        .filter(|package| package.dependencies.iter().any(|dependency| dependency == "loom"))
        .filter(|package| wanted(&package.name));
    Ok(with_loom
        .map(|package| {
            let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            let mut command = cargo();
            command
                .args(["test", "--release", "--lib", "--package", &package.name])
                .env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start())
                .env("CARGO_TARGET_DIR", target_dir().join("loom"));
            command
        })
        .collect())
}

/// The file that tests write skips to; it is removed when this is dropped.
struct SkipLog(PathBuf);

impl SkipLog {
    fn new() -> Result<Self> {
        let folder = target_dir();
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = root().join(folder).join(format!("skipped-{}.log", std::process::id()));
        Ok(Self(file))
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
