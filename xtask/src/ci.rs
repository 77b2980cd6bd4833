//! `cargo xtask ci`: what has to pass before a change is merged.
//!
//! Every check runs even if one before it has failed, so that one run names all that is wrong.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, find, root, succeeds};
use crate::{android, disk, test};

/// Do what has to pass before a change is merged: format, lints, documentation, tests.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask ci\n  cargo xtask ci --limit 60")]
pub(crate) struct Options {
    /// Minutes after which the tests are killed: a test that hangs is then named, not waited for.
    #[arg(long, value_name = "MINUTES", default_value_t = 45)]
    limit: u64,
}

/// What became of one check.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// Runs every check, prints how long each took, and the closing line of the tests.
pub(crate) fn run(options: &Options) -> Result<bool> {
    disk::announce();
    let mut outcomes = Vec::new();
    let mut check = |name: &'static str, run: &mut dyn FnMut() -> Result<bool>| {
        let started = Instant::now();
        let passed = run().unwrap_or_else(|error| {
            println!("error: {error:#}");
            false
        });
        outcomes.push(Outcome { name, passed, took: started.elapsed() });
    };

    check("format", &mut || succeeds(cargo().args(["fmt", "--all", "--check"])));
    check("lints", &mut || {
        succeeds(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    check("documentation", &mut || {
        succeeds(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    });
    let deny = find("cargo-deny").is_some();
    if deny {
        check("licences", &mut || succeeds(cargo().args(["deny", "check", "licenses", "bans", "sources"])));
    }
    let kit = android::kit();
    if let Ok(kit) = &kit {
        check("Android", &mut || android::check(kit));
    }
    let mut tally = None;
    check("tests", &mut || {
        let found = test::everything(Duration::from_secs(60 * options.limit))?;
        let passed = found.is_success();
        tally = Some(found);
        Ok(passed)
    });

    println!();
    for Outcome { name, passed, took } in &outcomes {
        let verdict = if *passed { "passed" } else { "FAILED" };
        println!("{name:<14} {verdict} in {:>5.1} s", took.as_secs_f64());
    }
    if !deny {
        println!("licences       not checked: cargo-deny is not installed (cargo install cargo-deny)");
    }
    if let Err(error) = kit {
        println!("Android        not checked: {error:#}");
    }
    if lock_file_changed() {
        println!("note: Cargo.lock lags behind the manifests and was brought up to date here: commit it");
    }
    if let Some(tally) = tally {
        test::conclude(&tally);
    }
    let passed = outcomes.iter().all(|outcome| outcome.passed);
    if let Some(why) = disk::suspicion().filter(|_| !passed) {
        println!("{why}");
    }
    Ok(passed)
}

/// Whether building has changed what git has of `Cargo.lock`.
fn lock_file_changed() -> bool {
    let mut git = Command::new("git");
    git.args(["diff", "--quiet", "HEAD", "--", "Cargo.lock"]).current_dir(root());
    git.stderr(Stdio::null()).status().is_ok_and(|status| status.code() == Some(1))
}
