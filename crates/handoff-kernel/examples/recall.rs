//! Ports the hunks between two releases of a repository, one at a time, onto an older release, and judges
//! each placement by the history in between; `cargo xtask recall` runs it.
//!
//! `cargo run -p handoff-kernel --example recall -- REPOSITORY OLDEST,...,FROM,TO PATH...`: the hunks are
//! those of FROM to TO, the tree is that of OLDEST, and their lines are traced from FROM to OLDEST through
//! every release that is named. `--verbose` names each hunk that is not right.

use std::path::Path;
use std::process::ExitCode;

#[path = "../tests/it/recall/mod.rs"]
mod recall;

fn main() -> ExitCode {
    let (verbose, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--verbose");
    let [repository, releases, paths @ ..] = words.as_slice() else {
        eprintln!("usage: recall REPOSITORY OLDEST,...,FROM,TO PATH... [--verbose]");
        return ExitCode::from(2);
    };
    let releases: Vec<&str> = releases.split(',').collect();
    let tell = |what: &str| {
        if !verbose.is_empty() {
            println!("{what}");
        }
    };
    match recall::judge_all(Path::new(repository), &releases, paths, &tell) {
        Ok(tally) => {
            println!("{tally}");
            ExitCode::from(u8::from(tally.wrong_unsaid() > 0))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
