//! Ports commits that a repository has on two branches from the one to the other, and judges each hunk by the pick;
//! `cargo xtask recall REPOSITORY --picks` runs it.
//!
//! `cargo run -p handoff-kernel --example picks -- REPOSITORY [EVERY]`: every EVERYth pick is taken. `--tools`,
//! `--whole` and `--verbose` are those of the example `pairs`.

use std::path::Path;
use std::process::ExitCode;

#[path = "../tests/it/pairs/mod.rs"]
mod pairs;

use pairs::picks::{pairs_of, picks};
use pairs::tally::{Judging, PairTally};
use pairs::tools::Verdict;

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let every = words.get(1).map_or(Some(1), |word| word.parse().ok()).filter(|every| *every > 0);
    let (Some(repository), Some(every), Some(judging)) = (words.first(), every, Judging::of(&flags)) else {
        eprintln!("usage: picks REPOSITORY [EVERY] [--tools | --whole] [--verbose]");
        return ExitCode::from(2);
    };
    match judge(Path::new(repository), every, judging) {
        Ok(tally) => ExitCode::from(u8::from(tally.of("handoff", Verdict::WrongUnsaid) > 0)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn judge(repository: &Path, every: usize, judging: Judging) -> Result<PairTally, Box<dyn std::error::Error>> {
    let all = picks(repository)?;
    let (mut tally, mut taken, mut unread) = (PairTally::default(), 0, 0);
    for pick in all.iter().step_by(every) {
        let tree = tempfile::tempdir()?;
        match pairs_of(repository, pick, tree.path()) {
            Ok(pairs) => {
                taken += 1;
                tally.judge(&pairs, tree.path(), judging);
            }
            // A copy of a repository may lack files.
            Err(error) => {
                unread += 1;
                eprintln!("{}: {error}", pick.commit);
            }
        }
    }
    println!("{taken} of {} picks, {unread} more could not be read; {tally}", all.len());
    Ok(tally)
}
