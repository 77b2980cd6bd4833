//! Ports the hunks that two lines of a kernel have in common, and judges each by where the older line has it.
//!
//! `cargo run -p handoff-kernel --example pairs -- NEWER.diff OLDER.diff TREE`: both are diffs between two releases
//! of a line, and `TREE` is the older line's release before its diff. `--tools` runs `patch`, `git apply`, git's merge
//! and `wiggle` on the same hunks, and `--verbose` names each hunk that is not right. `--whole` ports all hunks of a
//! file together, as in a patch, and still judges each.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

#[path = "../tests/it/pairs/mod.rs"]
mod pairs;

use pairs::tally::{Judging, PairTally};

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let ([newer, older, tree], Some(judging)) = (words.as_slice(), Judging::of(&flags)) else {
        eprintln!("usage: pairs NEWER.diff OLDER.diff TREE [--tools | --whole] [--verbose]");
        return ExitCode::from(2);
    };
    let tree = Path::new(tree);
    let read = |path: &String| fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = match pairs::pairs(&read(newer), &read(older), tree) {
        Ok(all) => all,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mut tally = PairTally::default();
    tally.judge(&all, tree, judging);
    println!("{tally}");
    ExitCode::SUCCESS
}
