//! Error rates and power of the lab's verdicts, from thousands of simulated experiments on recorded noise.
//!
//! Run as `cargo xtask bench lab-errors`. It measures no time, so its rows file is an empty list; the table
//! goes to standard output.

use std::process::ExitCode;

use handoff_lab::simulate::{Recording, Trials};
use handoff_lab::stats::sequential::Stopping;

const NOISE: &str = include_str!("../tests/data/aa_noise.jsonl");

/// Simulated experiments a cell.
const COUNT: usize = 3000;

/// The true difference of the power column.
const EFFECT: f64 = 0.10;

fn main() -> ExitCode {
    let recording = match Recording::parse(NOISE) {
        Ok(recording) => recording,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{COUNT} experiments a cell; `wrong` on A/A, `found` and predicted with {:.0}% more",
        EFFECT * 100.0
    );
    println!(
        "{:<12} {:<62} {:>6} {:>6} {:>9} {:>7}",
        "metric", "rule", "wrong", "found", "predicted", "rounds"
    );
    for metric in recording.metrics() {
        for stopping in [
            Stopping::Fixed { rounds: 20 },
            Stopping::Looks { looks: vec![10, 20, 40] },
            Stopping::Width { half_width: 0.025, least: 10, most: 40 },
        ] {
            let trials = |effect| Trials { stopping: stopping.clone(), effect, count: COUNT, seed: 42 };
            let (wrong, found) =
                match (trials(0.0).run(&recording, metric), trials(EFFECT).run(&recording, metric)) {
                    (Ok(wrong), Ok(found)) => (wrong, found),
                    (Err(error), _) | (_, Err(error)) => {
                        eprintln!("error: {error}");
                        return ExitCode::FAILURE;
                    }
                };
            println!(
                "{metric:<12} {:<62} {:>6.3} {:>6.3} {:>9.3} {:>7.1}",
                stopping.describe(),
                wrong.found,
                found.found,
                found.predicted,
                found.rounds
            );
        }
    }
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == "--rows")
        && let Some(file) = arguments.next()
        && let Err(error) = std::fs::write(&file, "[]\n")
    {
        eprintln!("error: cannot write {file}: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
