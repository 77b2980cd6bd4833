//! Google Benchmark: <https://github.com/google/benchmark/blob/main/docs/user_guide.md#output-formats>.

use serde_json::{Map, Value};

use super::{Format, ImportError, ImportedResults, SeriesBuilder};
use crate::stats::judge::Direction;

/// Numbers of a benchmark that are no counters of it.
const NO_COUNTERS: [&str; 9] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
    "aggregate_unit",
];

pub(super) fn read(mut value: Value) -> Result<ImportedResults, ImportError> {
    let wrong = |what: String| ImportError::Malformed { format: "Google Benchmark", what };
    let Value::Array(benchmarks) = value["benchmarks"].take() else {
        return Err(wrong("`benchmarks` is no list".to_owned()));
    };
    let mut gathered = SeriesBuilder::default();
    let mut left_out = Vec::new();
    for (index, benchmark) in benchmarks.iter().enumerate() {
        let Value::Object(benchmark) = benchmark else {
            return Err(wrong(format!("benchmark {} is no object", index + 1)));
        };
        let text = |key: &str| benchmark.get(key).and_then(Value::as_str);
        let name = text("run_name").or_else(|| text("name")).unwrap_or_default();
        if text("run_type") == Some("aggregate") {
            continue;
        }
        if benchmark.get("error_occurred").and_then(Value::as_bool) == Some(true) {
            left_out
                .push(format!("{name} failed: {}", text("error_message").unwrap_or("it does not say why")));
            continue;
        }
        one(benchmark, name, &mut gathered)
            .map_err(|what| wrong(format!("benchmark {}: {what}", index + 1)))?;
    }
    Ok(ImportedResults { format: Format::GoogleBenchmark, series: gathered.0, left_out })
}

fn one(benchmark: &Map<String, Value>, name: &str, gathered: &mut SeriesBuilder) -> Result<(), String> {
    let unit = match benchmark.get("time_unit").and_then(Value::as_str) {
        Some(unit @ ("ns" | "us" | "ms" | "s")) => unit,
        other => return Err(format!("its time_unit is {other:?}")),
    };
    for key in ["real_time", "cpu_time"] {
        let time = benchmark.get(key).and_then(Value::as_f64).ok_or_else(|| format!("it has no {key}"))?;
        gathered.add(&format!("{name}: {key}"), unit, Some(Direction::Lower), time);
    }
    let counters = benchmark.iter().filter(|(key, _)| !NO_COUNTERS.contains(&key.as_str()));
    for (key, value) in counters {
        if let Some(value) = value.as_f64() {
            let better = key.ends_with("_per_second").then_some(Direction::Higher);
            gathered.add(&format!("{name}: {key}"), "", better, value);
        }
    }
    Ok(())
}
