//! The project's own chores, run as `cargo xtask NAME`.
//!
//! One file a chore. A chore says each command that it runs, so that a person can run it alone, and
//! ends with what it found.

mod android;
mod bench;
mod ci;
mod disk;
mod dist;
mod docs;
mod fuzz;
mod interrupt;
mod junit;
mod kernels;
mod msrv;
mod nextest;
mod packages;
mod process;
mod recall;
mod root;
mod soak;
mod study;
mod tally;
mod test;
mod tools;
mod workflows;

use std::process::ExitCode;

use clap::Parser;

/// The project's own chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Run every test: unit, integration, documentation and loom
    Test(test::Options),
    /// Do what has to pass before a change is merged: format, lints, documentation, tests
    Ci(ci::Options),
    /// Fuzz what reads input that it cannot trust
    Fuzz(fuzz::Options),
    /// Measure the figures that the book quotes, and write its table again
    Bench(bench::Options),
    /// Count how many hunks of a real repository are placed rightly on an older release
    Recall(recall::Options),
    /// Send a thousand million messages through a queue, or kill processes at every instruction
    Soak(soak::Options),
    /// Run the studies of kernel features: build, prove, measure, document
    Study(study::Options),
    /// Build a kernel with each of mainline's Binder drivers, for the tests' guests
    Kernels(kernels::Options),
    /// Build the book and the documentation of the crates
    Docs(docs::Options),
    /// Build the static binaries that are copied to guests and devices
    Dist(dist::Options),
    /// Check that the libraries and bindings compile for Android
    Android(android::Options),
    /// Check that the libraries compile with the oldest Rust that they promise
    Msrv(msrv::Options),
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    interrupt::listen();
    let outcome = root::find().map_err(anyhow::Error::msg).and_then(|_| run(&chore));

    match outcome {
        Ok(passed) if passed => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(chore: &Chore) -> anyhow::Result<bool> {
    match chore {
        Chore::Test(options) => test::run(options),
        Chore::Ci(options) => ci::run(options),
        Chore::Fuzz(options) => fuzz::run(options),
        Chore::Bench(options) => bench::run(options),
        Chore::Recall(options) => recall::run(options),
        Chore::Soak(options) => soak::run(options),
        Chore::Study(options) => study::run(options),
        Chore::Kernels(options) => kernels::run(options),
        Chore::Docs(options) => docs::run(options),
        Chore::Dist(options) => dist::run(options),
        Chore::Android(options) => android::run(options),
        Chore::Msrv(options) => msrv::run(options),
    }
}

#[cfg(test)]
mod tests {
    use handoff_testkit::book::{pages, programs};

    use super::*;

    #[test]
    fn each_chore_that_a_page_shows_is_taken() {
        let mut count = 0;
        for page in pages() {
            for line in page.command_lines() {
                for words in programs(&line)
                    .iter()
                    .filter(|words| words.starts_with(&["cargo".into(), "xtask".into()]))
                {
                    count += 1;
                    if let Err(error) = Chore::try_parse_from(&words[1..]) {
                        panic!("{}: {line}\n{error}", page.name);
                    }
                }
            }
        }
        assert!(count > 20, "only {count} were found");
    }
}
