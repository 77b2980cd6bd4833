//! hyperfine's `--export-json`: times in seconds, memory in bytes, one value a run.

use serde::Deserialize;
use serde_json::Value;

use super::{Format, ImportError, ImportedResults, SeriesBuilder};
use crate::stats::judge::Direction;

#[derive(Deserialize)]
struct HyperfineResult {
    command: String,
    times: Option<Vec<f64>>,
    memory_usage_byte: Option<Vec<f64>>,
}

pub(super) fn read(mut value: Value) -> Result<ImportedResults, ImportError> {
    let results: Vec<HyperfineResult> = serde_json::from_value(value["results"].take())
        .map_err(|error| ImportError::Malformed { format: "hyperfine", what: error.to_string() })?;
    let mut gathered = SeriesBuilder::default();
    let mut left_out = Vec::new();
    for result in results {
        let command = &result.command;
        if result.times.is_none() {
            left_out.push(format!("{command}: it was exported without its single times"));
        }
        for (what, unit, values) in [("wall", "s", result.times), ("memory", "B", result.memory_usage_byte)] {
            for value in values.into_iter().flatten() {
                gathered.add(&format!("{command}: {what}"), unit, Some(Direction::Lower), value);
            }
        }
    }
    Ok(ImportedResults { format: Format::Hyperfine, series: gathered.0, left_out })
}
