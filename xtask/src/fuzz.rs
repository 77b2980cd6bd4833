//! `cargo xtask fuzz`: each fuzz target of each crate, a minute each with `--smoke`.
//!
//! The targets of a crate are in its `fuzz/` folder, and all crates' are one workspace, `fuzz/Cargo.toml`;
//! inputs worth starting from are in `fuzz/seeds/TARGET/`. What the fuzzer learns is kept below the
//! target folder of cargo, so that the sources stay clean.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::process::{Last, cargo, kept, root, succeeds, target_dir};
use crate::tools;

/// How long each target runs with `--smoke`.
const SMOKE_SECONDS: u64 = 60;

/// Fuzz what reads input that it cannot trust.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz --smoke             each target for a minute
  cargo xtask fuzz --list
  cargo xtask fuzz parcel              one target, until it fails or you stop it")]
pub(crate) struct Options {
    /// The targets to run; all of them if none is named.
    targets: Vec<String>,
    /// Run each target for a minute instead of for ever.
    #[arg(long)]
    smoke: bool,
    /// Run each target for so many seconds.
    #[arg(long, value_name = "N", conflicts_with = "smoke")]
    seconds: Option<u64>,
    /// Print the targets and their crates, and run nothing.
    #[arg(long)]
    list: bool,
}

#[derive(Debug)]
struct FuzzTarget {
    name: String,
    /// The `fuzz/` folder that it is in.
    folder: PathBuf,
}

/// Runs the targets that were asked for, and says which failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let targets = chosen(all_targets()?, &options.targets)?;
    if options.list {
        for target in &targets {
            println!("{:<24} {}", target.name, target.folder.strip_prefix(root())?.display());
        }
        return Ok(true);
    }
    let seconds = if options.smoke { Some(SMOKE_SECONDS) } else { options.seconds };
    if seconds.is_none() && targets.len() > 1 {
        bail!("without --smoke or --seconds a target runs for ever: name one of {}", names(&targets));
    }
    let fuzzer = Fuzzer::find()?;
    let mut failed = Vec::new();
    for target in &targets {
        if !fuzzer.run(target, seconds)? {
            failed.push(target.name.as_str());
        }
    }
    println!();
    for name in &failed {
        println!("failed: {name} (the input and the command that runs it again are above)");
    }
    println!("{} passed, {} failed", targets.len() - failed.len(), failed.len());
    Ok(failed.is_empty())
}

/// Whether all targets compile. They are no part of the crates' workspace, and nothing else looks at them.
pub(crate) fn compile(last: &mut Last) -> Result<bool> {
    let mut check = cargo();
    check.args(["check", "--quiet", "--workspace", "--manifest-path"]).arg(manifest());
    check.arg("--target-dir").arg(target_dir().join("fuzz-check"));
    // As cargo-fuzz does. Nothing is linked, so that the fuzzer itself need not be compiled.
    check.env("RUSTFLAGS", "--cfg fuzzing").env("CUSTOM_LIBFUZZER_PATH", manifest());
    kept(&mut check, last)
}

/// The workspace of all targets.
fn manifest() -> PathBuf {
    root().join("fuzz/Cargo.toml")
}

/// Every target of every crate, by name.
fn all_targets() -> Result<Vec<FuzzTarget>> {
    let mut targets = Vec::new();
    for package in tools::packages_of(&manifest())? {
        let programs =
            package.targets.into_iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        targets
            .extend(programs.map(|target| FuzzTarget { name: target.name, folder: package.folder.clone() }));
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(targets)
}

fn chosen(all: Vec<FuzzTarget>, wanted: &[String]) -> Result<Vec<FuzzTarget>> {
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|target| target.name == **name)) {
        bail!("there is no fuzz target `{unknown}`; there are {}", names(&all));
    }
    if all.is_empty() {
        bail!("no crate has a fuzz/ folder with a Cargo.toml");
    }
    Ok(all.into_iter().filter(|target| wanted.is_empty() || wanted.contains(&target.name)).collect())
}

fn names(targets: &[FuzzTarget]) -> String {
    targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// cargo-fuzz and a compiler that lets it instrument code.
struct Fuzzer {
    /// The folder of `cargo-fuzz`.
    tools: PathBuf,
    has_nightly: bool,
}

impl Fuzzer {
    fn find() -> Result<Self> {
        let program = tools::installed("cargo-fuzz", "cargo-fuzz", &[])?;
        let tools = program.parent().unwrap_or(Path::new("/")).to_owned();
        let nightly = Command::new("cargo").args(["+nightly", "--version"]).output();
        Ok(Self { tools, has_nightly: nightly.is_ok_and(|output| output.status.success()) })
    }

    fn run(&self, target: &FuzzTarget, seconds: Option<u64>) -> Result<bool> {
        let learned = target_dir().join("fuzz-corpus").join(&target.name);
        std::fs::create_dir_all(&learned).with_context(|| format!("cannot make {}", learned.display()))?;
        let seeds = target.folder.join("seeds").join(&target.name);

        let mut command = self.cargo();
        command.args(["fuzz", "run", "--fuzz-dir"]).arg(&target.folder);
        command.arg("--target-dir").arg(target_dir().join("fuzz"));
        command.arg(&target.name).arg(&learned);
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        command.arg("--");
        if let Some(seconds) = seconds {
            command.arg(format!("-max_total_time={seconds}"));
        }
        // A single input that takes this long, or this much memory, is a finding by itself.
        command.args(["-timeout=20", "-rss_limit_mb=2048"]);
        succeeds(&mut command)
    }

    /// Cargo with cargo-fuzz in its path. Instrumenting needs unstable options of the compiler:
    /// nightly has them, and where there is none the pinned compiler can be told to have them.
    fn cargo(&self) -> Command {
        let mut command = cargo();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tools.clone()).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        if self.has_nightly {
            command.arg("+nightly");
        } else {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command
    }
}
