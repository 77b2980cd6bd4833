//! Error rates and power of the lab's verdicts, from thousands of simulated experiments on recorded noise.
//!
//! Run as `cargo xtask bench lab-errors`; the table goes into the book. It measures no time.

use std::process::ExitCode;

use handoff_lab::simulate::{Recording, RecordingError, Trials};
use handoff_lab::stats::sequential::Stopping;

const NOISE: &str = include_str!("../tests/data/aa_noise.jsonl");

/// Simulated experiments a cell.
const COUNT: usize = 3000;

/// The true difference of the power columns.
const EFFECT: f64 = 0.10;

fn main() -> ExitCode {
    match table().map(|rows| keep(&rows)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A row for each metric and rule, printed as it is known.
fn table() -> Result<Vec<[String; 6]>, RecordingError> {
    let recording = Recording::parse(NOISE)?;
    println!("{COUNT} experiments a cell");
    println!(
        "{:<64} {:<11} {:>6} {:>6} {:>9} {:>7}",
        "rule", "metric", "wrong", "found", "predicted", "rounds"
    );
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
            let rounds = format!("{:.1}", found.rounds);
            let row =
                [stopping.describe(), metric, percent(wrong.found), percent(found.found), predicted, rounds];
            let [rule, metric, wrong, found, predicted, rounds] = &row;
            println!("{rule:<64} {metric:<11} {wrong:>6} {found:>6} {predicted:>9} {rounds:>7}");
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Writes what `cargo xtask bench` keeps to the file that it names.
fn keep(rows: &[[String; 6]]) -> std::io::Result<()> {
    let table = serde_json::json!({
        "page": "design/statistics.md",
        "mark": "lab-errors",
        "columns": [
            "rule", "metric", "wrong on A/A", "finds 10% more", "predicted", "rounds that it takes to"
        ],
        "rows": rows,
    });
    let all = serde_json::json!({ "rows": [], "tables": [table] });
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == "--rows")
        && let Some(file) = arguments.next()
    {
        std::fs::write(file, all.to_string())?;
    }
    Ok(())
}
