//! Results of other programs: Google Benchmark's JSON, `perf stat -j` and hyperfine's JSON.
//!
//! Each becomes [`Series`]: a name, a unit and the values of all repetitions in their order. What they can
//! be used for is [`crate::analyse::sets`]: they were not measured in turns, so no verdict can be had of them.

mod google;
mod hyperfine;
mod perf;

use serde::{Deserialize, Serialize};

use crate::stats::judge::Direction;

/// The repeated values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was run and measured, such as `sort -n: wall`.
    pub name: String,
    /// The unit's symbol; empty for a bare number.
    pub unit: String,
    /// Which way is better, where the format tells or it is a time.
    pub better: Option<Direction>,
    /// One value a repetition, in the order in which they were taken.
    pub values: Vec<f64>,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Google Benchmark's `--benchmark_format=json`.
    GoogleBenchmark,
    /// `perf stat -j`: a JSON object a line.
    PerfStat,
    /// hyperfine's `--export-json`.
    Hyperfine,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::GoogleBenchmark => "Google Benchmark",
            Self::PerfStat => "perf stat -j",
            Self::Hyperfine => "hyperfine",
        }
    }
}

/// The results in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedResults {
    pub format: Format,
    pub series: Vec<Series>,
    pub left_out: Vec<String>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error(
        "this is neither Google Benchmark's JSON (--benchmark_format=json), nor of perf stat -j, nor hyperfine's \
         (--export-json)"
    )]
    Unknown,
    #[error("not as {format} writes it: {what}")]
    Malformed { format: &'static str, what: String },
    #[error("there is no value in it{}", hint)]
    Empty { hint: &'static str },
}

/// Reads the results in the text of a file; the format is told by what is in it.
pub fn parse(text: &str) -> Result<ImportedResults, ImportError> {
    // A whole JSON value is one of two; `perf stat -j` writes one a line, with remarks in between.
    let imported = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) if value.get("benchmarks").is_some() => google::read(value)?,
        Ok(value) if value.get("results").is_some() => hyperfine::read(value)?,
        _ => perf::read(text)?,
    };
    if imported.series.iter().all(|series| series.values.is_empty()) {
        let hint = match imported.format {
            Format::GoogleBenchmark => ": run it without --benchmark_report_aggregates_only",
            Format::PerfStat => ": perf could not count any of the events",
            Format::Hyperfine => "",
        };
        return Err(ImportError::Empty { hint });
    }
    Ok(imported)
}

/// Gathers values by name, in the order in which names come first.
#[derive(Debug, Default)]
struct SeriesBuilder(Vec<Series>);

impl SeriesBuilder {
    fn add(&mut self, name: &str, unit: &str, better: Option<Direction>, value: f64) {
        let known = self.0.iter_mut().find(|series| series.name == name && series.unit == unit);
        match known {
            Some(series) => series.values.push(value),
            None => self.0.push(Series {
                name: name.to_owned(),
                unit: unit.to_owned(),
                better,
                values: vec![value],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOGLE: &str = r#"{"context": {"date": "x"}, "benchmarks": [
        {"name": "BM_a/4", "run_name": "BM_a/4", "run_type": "iteration", "repetitions": 2,
         "real_time": 10.5, "cpu_time": 9.0, "time_unit": "us", "bytes_per_second": 3.0e6},
        {"name": "BM_a/4", "run_name": "BM_a/4", "run_type": "iteration",
         "real_time": 11.5, "cpu_time": 9.5, "time_unit": "us", "bytes_per_second": 2.9e6},
        {"name": "BM_a/4_mean", "run_name": "BM_a/4", "run_type": "aggregate", "aggregate_name": "mean",
         "real_time": 11.0, "cpu_time": 9.2, "time_unit": "us"},
        {"name": "BM_b", "run_type": "iteration", "error_occurred": true, "error_message": "no device",
         "real_time": 0, "cpu_time": 0, "time_unit": "ns"}]}"#;

    const PERF: &str = "# started on Sat Nov 21\n\n\
        {\"counter-value\" : \"1.013478\", \"unit\" : \"msec\", \"event\" : \"task-clock\", \"pcnt-running\" : 100.00}\n\
        {\"counter-value\" : \"<not supported>\", \"unit\" : \"\", \"event\" : \"cycles\"}\n\
        {\"counter-value\" : \"4\", \"unit\" : \"\", \"event\" : \"page-faults\"}\n\
        {\"counter-value\" : \"1.5\", \"unit\" : \"msec\", \"event\" : \"task-clock\"}\n\
        {\"metric-value\" : \"0.1\", \"metric-unit\" : \"GHz\"}\n";

    const HYPERFINE: &str = r#"{"results": [{"command": "sleep 0.1", "mean": 0.102, "stddev": null,
        "user": 0.001, "system": 0.002, "times": [0.101, 0.103], "exit_codes": [0, 0],
        "memory_usage_byte": [100, 110]}]}"#;

    fn series(name: &str, unit: &str, better: Option<Direction>, values: &[f64]) -> Series {
        Series { name: name.into(), unit: unit.into(), better, values: values.into() }
    }

    #[test]
    fn google_benchmark() {
        let imported = parse(GOOGLE).expect("read");
        assert_eq!(imported.format, Format::GoogleBenchmark);
        assert_eq!(
            imported.series,
            [
                series("BM_a/4: real_time", "us", Some(Direction::Lower), &[10.5, 11.5]),
                series("BM_a/4: cpu_time", "us", Some(Direction::Lower), &[9.0, 9.5]),
                series("BM_a/4: bytes_per_second", "", Some(Direction::Higher), &[3.0e6, 2.9e6]),
            ]
        );
        assert_eq!(imported.left_out, ["BM_b failed: no device"]);
    }

    #[test]
    fn our_own_export_is_read_again() {
        let context = crate::export::google_benchmark::this_machine();
        let file = crate::export::google_benchmark::File { context, benchmarks: Vec::new() };
        let text = serde_json::to_string(&file).expect("serialises");
        assert!(matches!(parse(&text), Err(ImportError::Empty { .. })), "it has no benchmark");
    }

    #[test]
    fn perf_stat() {
        let imported = parse(PERF).expect("read");
        assert_eq!(
            imported.series,
            [
                series("task-clock", "msec", Some(Direction::Lower), &[1.013_478, 1.5]),
                series("page-faults", "", None, &[4.0]),
            ]
        );
        assert_eq!(imported.left_out, ["cycles: <not supported>"]);
    }

    #[test]
    fn hyperfine() {
        let imported = parse(HYPERFINE).expect("read");
        assert_eq!(
            imported.series,
            [
                series("sleep 0.1: wall", "s", Some(Direction::Lower), &[0.101, 0.103]),
                series("sleep 0.1: memory", "B", Some(Direction::Lower), &[100.0, 110.0]),
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        for (text, says) in [
            ("", "neither Google"),
            ("[1, 2]", "neither Google"),
            ("hello", "neither Google"),
            (r#"{"benchmarks": 3}"#, "not as Google Benchmark writes it"),
            (r#"{"benchmarks": []}"#, "no value"),
            (r#"{"benchmarks": [{"name": "x"}]}"#, "benchmark 1"),
            (
                r#"{"benchmarks": [{"name": "x", "real_time": 1, "cpu_time": 1, "time_unit": "years"}]}"#,
                "years",
            ),
            (r#"{"results": {}}"#, "not as hyperfine writes it"),
            (r#"{"results": [{"command": "x", "times": ["y"]}]}"#, "not as hyperfine writes it"),
            ("{\"event\": \"x\", \"counter-value\": \"12x\"}", "line 1"),
            ("{\"event\": \"x\", \"counter-value\": \"1\"}\n{broken", "line 2"),
            ("{\"event\": \"x\", \"counter-value\": \"<not counted>\"}", "no value"),
            ("{\"event\": \"x\", \"counter-value\": \"1e999\"}", "line 1"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_value_is_infinite(text in ".{0,300}", at in 0usize..700, cut in 0usize..700) {
            let _ = parse(&text);
            for good in [GOOGLE, PERF, HYPERFINE] {
                let mut damaged: String = good.chars().take(cut).collect();
                damaged.extend(text.chars().take(20));
                damaged.extend(good.chars().skip(at));
                if let Ok(imported) = parse(&damaged) {
                    prop_assert!(imported.series.iter().all(|s| s.values.iter().all(|v| v.is_finite())));
                }
            }
        }
    }
}
