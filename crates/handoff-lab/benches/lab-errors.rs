//! Error rates and power of the lab's verdicts, from thousands of simulated experiments on recorded noise.
//!
//! Run as `cargo xtask bench lab-errors`; the table goes into the book. It measures no time.

mod table;

use std::error::Error;
use std::process::ExitCode;

use handoff_lab::simulate::{Recording, Trials};
use handoff_lab::stats::sequential::Stopping;
use table::{Table, bench};

const NOISE: &str = include_str!("../tests/data/aa_noise.jsonl");

/// Simulated experiments a cell.
const COUNT: usize = 3000;

/// The true difference of the power columns.
const EFFECT: f64 = 0.10;

fn main() -> ExitCode {
    bench(measure)
}

/// A row for each metric and rule, of [`COUNT`] experiments a cell.
fn measure() -> Result<Table<6>, Box<dyn Error>> {
    let recording = Recording::parse(NOISE)?;
    let mut rows = Vec::new();
    for stopping in [
        Stopping::Fixed { rounds: 20 },
        Stopping::Looks { looks: vec![10, 20, 40] },
        Stopping::Width { half_width: 0.025, least: 10, most: 40 },
    ] {
        let trials = |effect| Trials { stopping: stopping.clone(), effect, count: COUNT, seed: 42 };
        let wrong = trials(0.0).run_all(&recording)?;
        let found = trials(EFFECT).run_all(&recording)?;
        for ((metric, wrong), (_, found)) in wrong.into_iter().zip(found) {
            let percent = |share: f64| format!("{:.1}%", share * 100.0);
            // What is predicted is a run of a fixed number of rounds.
            let fixed = matches!(stopping, Stopping::Fixed { .. });
            let predicted = if fixed { percent(found.predicted) } else { String::new() };
            rows.push([
                stopping.describe(),
                metric,
                percent(wrong.found),
                percent(found.found),
                predicted,
                format!("{:.1}", found.rounds),
            ]);
        }
    }
    let columns =
        ["rule", "metric", "wrong on A/A", "finds 10% more", "predicted", "rounds that it takes to"];
    Ok(Table { mark: "lab-errors", columns, rows })
}
