//! `cargo xtask ci`: what has to pass before a change is merged.
//!
//! Every check runs even if one before it has failed, so that one run names all that is wrong.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::process::{Last, cargo, find, kept, root};
use crate::{android, bench, disk, fuzz, msrv, test, workflows};

/// Do what has to pass before a change is merged: format, lints, documentation, tests.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask ci\n  cargo xtask ci --limit 60")]
pub(crate) struct Options {
    /// Minutes after which the tests are killed, from the beginning: a test that hangs is then named, not waited for.
    #[arg(long, value_name = "MINUTES", default_value_t = 85)]
    limit: u64,
}

/// What counting instructions takes on a slow machine: it refuses nothing, and is left out where the time is over.
const COUNTING: Duration = Duration::from_secs(180);

/// What became of one check.
struct CheckOutcome {
    name: &'static str,
    passed: bool,
    took: Duration,
    /// The end of what it printed, if it failed.
    said: String,
}

/// Runs every check, prints how long each took, and the closing line of the tests.
pub(crate) fn run(options: &Options) -> Result<bool> {
    disk::announce();
    let (began, limit) = (Instant::now(), Duration::from_secs(60 * options.limit));
    let mut outcomes = Vec::new();
    let mut check = |name: &'static str, run: &mut dyn FnMut(&mut Last) -> Result<bool>| {
        let started = Instant::now();
        let mut last = Last::default();
        let passed = run(&mut last).unwrap_or_else(|error| {
            println!("error: {error:#}");
            last.see(&format!("error: {error:#}"));
            false
        });
        let said = if passed { String::new() } else { last.text() };
        outcomes.push(CheckOutcome { name, passed, took: started.elapsed(), said });
    };

    check("format", &mut |last| kept(cargo().args(["fmt", "--all", "--check"]), last));
    check("lints", &mut |last| {
        kept(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]), last)
    });
    // What `cargo run` builds: the tests have every feature.
    check("lean build", &mut |last| {
        kept(cargo().args(["clippy", "--package", "handoff-cli", "--", "-D", "warnings"]), last)
    });
    check("documentation", &mut |last| {
        kept(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"), last)
    });
    // What each package's archive would hold, and whether a registry would take it. To compile each from its archive takes
    // as long as half of the tests: the release does it before it writes anything (`release.yml`), and a test looks for
    // what an archive lacks (`xtask/tests/architecture/archives.rs`).
    check("publishing", &mut |last| {
        kept(cargo().args(["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"]), last)
    });
    check("fuzz targets", &mut |last| fuzz::compile(last));
    let deny = find("cargo-deny").is_some();
    if deny {
        check("licences", &mut |last| {
            kept(cargo().args(["deny", "check", "licenses", "bans", "sources"]), last)
        });
    }
    let linter = workflows::linter();
    if let Ok(linter) = &linter {
        check("workflows", &mut |last| workflows::lint(linter, last));
    }
    let kit = android::kit();
    if let Ok(kit) = &kit {
        check("Android", &mut |_| android::check(kit));
    }
    let oldest = msrv::checks();
    if let Ok(oldest) = &oldest {
        check("oldest Rust", &mut |_| msrv::passes(oldest));
    }
    let mut tally = None;
    check("tests", &mut |_| {
        let found = test::everything(limit.saturating_sub(began.elapsed()))?;
        let passed = found.is_success();
        tally = Some(found);
        Ok(passed)
    });
    // The tests have what counts installed.
    let counts = match find("valgrind") {
        None => Err("valgrind is not installed"),
        Some(_) if began.elapsed() + COUNTING > limit => Err("the time is over"),
        Some(_) => Ok(()),
    };
    if counts.is_ok() {
        // A change is printed, not refused: who made it says whether it is meant, by keeping the new counts.
        check("instructions", &mut |_| bench::check_instructions().map(|_| true));
    }

    if let Some(tally) = &tally {
        println!("\nThe slowest tests:\n{}", tally.slowest(20));
    }
    println!();
    for CheckOutcome { name, passed, took, .. } in &outcomes {
        let verdict = if *passed { "passed" } else { "FAILED" };
        println!("{name:<14} {verdict} in {:>5.1} s", took.as_secs_f64());
    }
    if !deny {
        println!("licences       not checked: cargo-deny is not installed (cargo install cargo-deny)");
    }
    if let Err(error) = linter {
        println!("workflows      not linted: {error:#}");
    }
    if let Err(why) = counts {
        println!("instructions   not counted: {why}");
    }
    if let Err(error) = kit {
        println!("Android        not checked: {error:#}");
    }
    if let Err(error) = oldest {
        println!("oldest Rust    not checked: {error:#}");
    }
    if lock_file_changed() {
        println!("note: Cargo.lock lags behind the manifests and was brought up to date here: commit it");
    }
    for CheckOutcome { name, said, .. } in outcomes.iter().filter(|outcome| !outcome.said.is_empty()) {
        println!("\n{name} failed; the end of what it said:\n{said}");
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
