//! `cargo xtask test`: every test there is, summed up honestly.
//!
//! cargo-nextest runs them, as `.config/nextest.toml` says; cargo runs what it cannot: the examples in the
//! documentation and the loom models. A test that this machine cannot run is counted as skipped, with the reason
//! (see `handoff-testkit`), never as passed. The last line is `N passed, N failed, N skipped`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::process::{Last, Stream, cargo, root, target_dir, watch};
use crate::tally::Tally;
use crate::{disk, interrupt, kernels, nextest, packages, tools};

/// Run the tests of every crate: unit, integration and documentation; with `--all` also what takes long.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  cargo xtask test                     every crate, without guests and nested builds
  cargo xtask test --all               everything: guests, arm64, Slurm, Java, Python, loom
  cargo xtask test -p handoff-ipc
  cargo xtask test --all --deny-skips  on a machine that has everything
  cargo xtask test -p handoff-cli -- --nocapture latency")]
pub(crate) struct Options {
    /// Also guests of every kind, builds within tests, services of many processes, and the loom models.
    #[arg(long)]
    all: bool,
    /// Test this package only (may be given several times).
    #[arg(short, long)]
    package: Vec<String>,
    /// A test that cannot run here fails instead of being skipped.
    #[arg(long)]
    deny_skips: bool,
    /// Install no packages, even as root.
    #[arg(long)]
    no_install: bool,
    /// Print the twenty tests that took longest.
    #[arg(long)]
    timings: bool,
    /// Names of tests, and options of test programs: only what has such a name is run.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the tests, prints what failed and what was skipped, and the closing line.
pub(crate) fn run(options: &Options) -> Result<bool> {
    disk::announce();
    let tally = tests(options, None)?;
    if options.timings {
        println!("\nThe slowest:\n{}", tally.slowest(20));
    }
    if !options.all && options.arguments.is_empty() {
        println!(
            "\nguests, nested builds, most kills, memory checkers and loom models are left to `cargo xtask test --all`"
        );
    }
    let passed = conclude(&tally);
    if let Some(why) = disk::suspicion().filter(|_| !passed) {
        println!("{why}");
    }
    Ok(passed)
}

/// For `cargo xtask ci`: everything, killed if it is not done within `limit`.
pub(crate) fn everything(limit: Duration) -> Result<Tally> {
    tests(&Options { all: true, timings: true, ..Options::default() }, Some(limit))
}

/// Prints what was skipped, what failed, and the closing line.
pub(crate) fn conclude(tally: &Tally) -> bool {
    print!("\n{}", tally.details());
    println!("{tally}");
    tally.is_success()
}

/// A command that runs tests.
struct Step {
    name: &'static str,
    command: Command,
    /// nextest's report, which has the results of the step; else they are read from what it prints.
    report: Option<PathBuf>,
}

impl Step {
    fn printed(name: &'static str, command: Command) -> Self {
        Self { name, command, report: None }
    }
}

fn tests(options: &Options, limit: Option<Duration>) -> Result<Tally> {
    let missing = if options.no_install { packages::Missing::Any } else { packages::ensure()? };
    if options.all {
        kernels::take_from_cache()?;
    }
    let skipped = SkipLog::new();
    let started = Instant::now();
    let mut tally = Tally::default();

    for Step { name, mut command, report } in steps(options)? {
        if interrupt::asked() {
            break;
        }
        std::env::vars_os().map(|(name, _)| name).filter(changes_results).for_each(|name| {
            command.env_remove(name);
        });
        command.env("HANDOFF_SKIP_LOG", &skipped.0);
        // The same for every step: what is built by the programs that it finds would be built again.
        command.env("PATH", search_path());
        if options.deny_skips {
            command.env("HANDOFF_DENY_SKIPS", "1");
        }
        if !options.all {
            command.env("HANDOFF_TEST_QUICK", "1");
        }
        let failures = tally.failures();
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let mut last = Last::default();
        let outcome = watch(&mut command, left, |stream, line| {
            last.see(line);
            if report.is_none() && stream == Stream::Output {
                tally.see(line);
            }
        });
        let succeeded = match outcome {
            Ok(status) => status.success(),
            Err(error) => {
                println!("error: {error:#}");
                last.see(&format!("error: {error:#}"));
                false
            }
        };
        if let Some(report) = report {
            tally.take(nextest::results(&report)?);
        }
        if interrupt::asked() {
            tally.interrupt(name);
        } else {
            tally.finish(name, succeeded, failures, &last.text());
        }
    }
    tally.read_skips(&skipped.0, |program| missing.allows(program))?;
    Ok(tally)
}

/// Variables of Handoff's that ask the tests for more, or say where packages are kept.
const KEPT: [&str; 6] = [
    "HANDOFF_ATTACK_STRICT",
    "HANDOFF_CACHE_DIR",
    "HANDOFF_KILLS",
    "HANDOFF_SEED",
    "HANDOFF_SEQUENCE_SECONDS",
    "HANDOFF_SHOTS",
];

/// Whether a variable of the caller's would have the programs under test do something else, as `HANDOFF_SOCKET` of
/// another service manager would: the result has to be the same in every shell.
fn changes_results(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("HANDOFF_") && !KEPT.contains(&name))
}

/// The search path, with the folders of an administrator's programs, such as sshd.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let lacking =
        ["/usr/sbin", "/sbin"].into_iter().filter(|folder| !path.split(':').any(|known| known == *folder));
    lacking.fold(path.clone(), |path, folder| format!("{path}:{folder}"))
}

/// The commands that run what was asked for.
fn steps(options: &Options) -> Result<Vec<Step>> {
    let packages = |command: &mut Command, all: &[&str]| {
        let chosen = options.package.iter().flat_map(|package| ["--package", package]);
        if options.package.is_empty() {
            command.args(all)
        } else {
            command.args(chosen)
        };
    };
    let profile = if options.all { "all" } else { "default" };
    let mut steps = Vec::new();
    match nextest::installed() {
        Ok(program) => {
            let mut command = nextest::run(&program, profile, &options.arguments);
            packages(&mut command, &["--workspace"]);
            nextest::filters(&mut command, &options.arguments);
            steps.push(Step { name: "cargo nextest", command, report: Some(nextest::report(profile)?) });
        }
        Err(error) => {
            // Slower, and without second tries, but the same tests.
            println!("cargo-nextest cannot be had: {error:#}; `cargo test` runs every test instead");
            let mut command = cargo();
            command.args(["test", "--no-fail-fast"]);
            packages(&mut command, &["--workspace"]);
            if !options.arguments.is_empty() {
                command.arg("--").args(&options.arguments);
            }
            steps.push(Step::printed("cargo test", command));
        }
    }
    if options.arguments.is_empty() {
        steps.extend(documentation(&options.package)?.map(|command| Step::printed("documentation", command)));
        if options.all {
            let models = loom_models(&options.package)?;
            steps.extend(models.into_iter().map(|command| Step::printed("loom", command)));
        }
    }
    Ok(steps)
}

/// The examples in the documentation of the libraries.
fn documentation(packages: &[String]) -> Result<Option<Command>> {
    let is_library = |package: &tools::Package| {
        package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib" || kind == "rlib"))
    };
    let mut libraries = tools::workspace()?
        .into_iter()
        .filter(is_library)
        .map(|package| package.name)
        .filter(|name| packages.is_empty() || packages.contains(name))
        .peekable();
    if libraries.peek().is_none() {
        return Ok(None);
    }
    let mut command = cargo();
    command.args(["test", "--doc", "--no-fail-fast"]);
    if packages.is_empty() {
        // As a whole, so that nothing is built again with other features.
        command.arg("--workspace");
    } else {
        for name in libraries {
            command.args(["--package", &name]);
        }
    }
    Ok(Some(command))
}

/// The loom models: each crate that depends on loom is built with `--cfg loom`, in a folder of its
/// own so that nothing else is built again, and its unit tests are run: the others leave themselves out.
fn loom_models(packages: &[String]) -> Result<Vec<Command>> {
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

/// The file that tests append their skips to; it is removed when this is dropped.
struct SkipLog(PathBuf);

impl SkipLog {
    fn new() -> Self {
        drop(std::fs::create_dir_all(target_dir()));
        remove_left_overs(&target_dir());
        Self(root().join(target_dir()).join(format!("skipped-{}.log", std::process::id())))
    }
}

/// Removes the logs whose runs were killed: their processes are gone.
fn remove_left_overs(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let number = file.to_str().and_then(|file| file.strip_prefix("skipped-")?.strip_suffix(".log"));
        let process = number.and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_callers_shell_change_no_result() {
        for name in ["HANDOFF_SOCKET", "HANDOFF_CONFIG", "HANDOFF_RESULTS", "HANDOFF_TEST_ENGINE"] {
            assert!(changes_results(&name.into()), "{name}");
        }
        for name in ["HANDOFF_CACHE_DIR", "HANDOFF_KILLS", "PATH", "HOME"] {
            assert!(!changes_results(&name.into()), "{name}");
        }
    }

    #[test]
    fn logs_of_killed_runs_go_and_those_of_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let mine = format!("skipped-{}.log", std::process::id());
        // No process has that number: the kernel's are below 2^22 (`/proc/sys/kernel/pid_max`, proc(5)).
        let all = ["skipped-4194305.log", "other-4194305.log", "skipped-x.log", "skipped.log", &mine];
        all.iter().for_each(|name| std::fs::write(folder.path().join(name), "").expect("written"));
        remove_left_overs(folder.path());
        let left: Vec<bool> = all.iter().map(|name| folder.path().join(name).exists()).collect();
        assert_eq!(left, [false, true, true, true, true]);
    }
}
