//! The formats of Google Benchmark: its console table, its JSON and its CSV.
//!
//! <https://github.com/google/benchmark/blob/main/docs/user_guide.md#output-formats>

mod context;

use std::fmt;

use serde::Serialize;

use super::{Run, ThroughputReport};
pub use context::{Cache, Context};

/// A line of the result: one repetition, or a figure over all repetitions of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name, with `_mean` and the like behind it for an aggregate.
    pub name: String,
    /// Which engine, counted from 0.
    pub family_index: usize,
    /// Which size within the engine, counted from 0.
    pub per_family_instance_index: usize,
    /// Name without `_mean` and the like.
    pub run_name: String,
    /// `iteration` or `aggregate`.
    pub run_type: &'static str,
    pub repetitions: u32,
    /// Which of them; absent for an aggregate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_index: Option<u32>,
    /// Client threads: 1.
    pub threads: u32,
    /// `mean`, `median`, `stddev` or `cv`; absent for an iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_name: Option<&'static str>,
    /// `time`, or `percentage` for `cv`; absent for an iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_unit: Option<&'static str>,
    /// Calls made; repetitions for an aggregate.
    pub iterations: u32,
    /// Nanoseconds a call (a ratio for `cv`).
    pub real_time: f64,
    /// Nanoseconds of CPU time a call, both sides together (a ratio for `cv`).
    pub cpu_time: f64,
    /// `ns`.
    pub time_unit: &'static str,
    /// Payload bytes a second, counted one way; absent for an aggregate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
}

/// The whole result, serialised as `--benchmark_format=json` has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The machine and the moment.
    pub context: Context,
    pub benchmarks: Vec<Line>,
}

impl Document {
    /// The result with the machine that it was measured on.
    pub fn new(report: &ThroughputReport, context: Context) -> Self {
        let mut benchmarks = Vec::new();
        let repetitions = report.parameters.repetitions;
        for runs in report.runs.chunk_by(|a, b| (a.engine, a.size) == (b.engine, b.size)) {
            let (family, instance) = place(report, &runs[0]);
            let line = |run: &Run| Line {
                name: run.name(),
                family_index: family,
                per_family_instance_index: instance,
                run_name: run.name(),
                run_type: "iteration",
                repetitions,
                repetition_index: Some(run.repetition),
                threads: 1,
                aggregate_name: None,
                aggregate_unit: None,
                iterations: run.iterations,
                real_time: run.real_time,
                cpu_time: run.cpu_time,
                time_unit: "ns",
                bytes_per_second: Some(run.bytes_per_second()),
            };
            benchmarks.extend(runs.iter().map(line));
            if runs.len() > 1 {
                let first = line(&runs[0]);
                benchmarks.extend(aggregates(&first, runs));
            }
        }
        Document { context, benchmarks }
    }

    /// As `--benchmark_format=csv`.
    pub fn to_csv(&self) -> String {
        let mut text = "name,iterations,real_time,cpu_time,time_unit,bytes_per_second\n".to_owned();
        for line in &self.benchmarks {
            let rate = line.bytes_per_second.map(|rate| rate.to_string()).unwrap_or_default();
            let Line { name, iterations, real_time, cpu_time, time_unit, .. } = line;
            text.push_str(&format!("\"{name}\",{iterations},{real_time},{cpu_time},{time_unit},{rate}\n"));
        }
        text
    }
}

/// Which engine of those asked for, and which of its sizes.
fn place(report: &ThroughputReport, run: &Run) -> (usize, usize) {
    let at = |found: Option<usize>| found.unwrap_or(0);
    let family = report.parameters.engines.iter().position(|&engine| engine == run.engine);
    let instance = report.parameters.sizes.iter().position(|&size| size == run.size);
    (at(family), at(instance))
}

/// Name, unit and formula of a figure over all repetitions.
type Aggregate = (&'static str, &'static str, fn(&[f64]) -> f64);

fn aggregates(first: &Line, runs: &[Run]) -> Vec<Line> {
    let real: Vec<f64> = runs.iter().map(|run| run.real_time).collect();
    let cpu: Vec<f64> = runs.iter().map(|run| run.cpu_time).collect();
    let kinds: [Aggregate; 4] = [
        ("mean", "time", mean),
        ("median", "time", median),
        ("stddev", "time", stddev),
        ("cv", "percentage", |values| stddev(values) / mean(values)),
    ];
    let aggregate = |(kind, unit, of): Aggregate| Line {
        name: format!("{}_{kind}", first.run_name),
        run_type: "aggregate",
        repetition_index: None,
        aggregate_name: Some(kind),
        aggregate_unit: Some(unit),
        iterations: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        real_time: of(&real),
        cpu_time: of(&cpu),
        bytes_per_second: None,
        ..first.clone()
    };
    kinds.into_iter().map(aggregate).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

fn stddev(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt()
}

/// The console table: the heading, then a [`Row`] for each line.
#[derive(Debug, Clone, Copy)]
pub struct Heading {
    /// Width of the column of names.
    pub width: usize,
}

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width;
        let heading = format!("{:<width$} {:>13} {:>15} {:>12}", "Benchmark", "Time", "CPU", "Iterations");
        let rule = "-".repeat(heading.len());
        write!(f, "{rule}\n{heading}\n{rule}")
    }
}

/// One line of the console table.
#[derive(Debug)]
pub struct Row<'a> {
    /// Width of the column of names.
    pub width: usize,
    pub line: &'a Line,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, line) = (self.width, self.line);
        write!(f, "{:<width$} ", line.name)?;
        if line.aggregate_unit == Some("percentage") {
            write!(f, "{:>10.2} %    {:>10.2} %    ", line.real_time * 100.0, line.cpu_time * 100.0)?;
        } else {
            write!(f, "{} ns   {} ns   ", ten_wide(line.real_time), ten_wide(line.cpu_time))?;
        }
        write!(f, "{:>10}", line.iterations)?;
        match line.bytes_per_second {
            Some(rate) => write!(f, " bytes_per_second={}", binary(rate)),
            None => Ok(()),
        }
    }
}

/// Ten columns, with as many decimals as the size of the value asks for.
fn ten_wide(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{value:10.3}"),
        _ if value < 10.0 => format!("{value:10.2}"),
        _ if value < 100.0 => format!("{value:10.1}"),
        _ => format!("{value:10.0}"),
    }
}

/// With a binary prefix, as Google Benchmark prints rates: `1.25Gi/s`.
fn binary(rate: f64) -> String {
    let mut rate = rate;
    for prefix in ["", "Ki", "Mi", "Gi"] {
        if rate < 1024.0 {
            return format!("{}{prefix}/s", crate::cformat::general(rate, 6));
        }
        rate /= 1024.0;
    }
    format!("{}Ti/s", crate::cformat::general(rate, 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::EngineKind;
    use crate::throughput::Parameters;

    fn report(repetitions: u32) -> ThroughputReport {
        let run = |size, repetition, real_time| Run {
            engine: EngineKind::Shm,
            context: None,
            size,
            iterations: 1000,
            repetition,
            real_time,
            cpu_time: real_time / 2.0,
        };
        let times = [2000.0, 4000.0, 3000.0];
        let of = |size| (0..repetitions).map(move |at| run(size, at, times[at as usize % 3]));
        let parameters = Parameters { repetitions, sizes: vec![4, 8], ..Parameters::default() };
        ThroughputReport { parameters, runs: of(4).chain(of(8)).collect() }
    }

    #[test]
    fn json_has_the_keys_of_google_benchmark() {
        let document = Document::new(&report(1), Context::here());
        let json = serde_json::to_value(&document).expect("serialises");
        let context = json["context"].as_object().expect("an object");
        for key in [
            "date",
            "host_name",
            "executable",
            "num_cpus",
            "mhz_per_cpu",
            "cpu_scaling_enabled",
            "caches",
            "load_avg",
            "library_build_type",
        ] {
            assert!(context.contains_key(key), "no {key} in {context:?}");
        }
        let line = &json["benchmarks"][1];
        assert_eq!(line["name"], "BM_sendVec_shm/8");
        assert_eq!(line["run_type"], "iteration");
        assert_eq!((&line["per_family_instance_index"], &line["repetition_index"]), (&1.into(), &0.into()));
        assert_eq!((&line["real_time"], &line["cpu_time"]), (&2000.0.into(), &1000.0.into()));
        assert_eq!(line["bytes_per_second"], 4e6);
        assert!(line.get("aggregate_name").is_none());
    }

    #[test]
    fn repetitions_are_followed_by_their_aggregates() {
        let document = Document::new(&report(3), Context::here());
        let names: Vec<&str> = document.benchmarks.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names.len(), 14);
        let suffixes = ["_mean", "_median", "_stddev", "_cv"].map(|kind| format!("BM_sendVec_shm/4{kind}"));
        assert_eq!(&names[3..7], suffixes.each_ref().map(String::as_str));
        let times: Vec<f64> = document.benchmarks[3..7].iter().map(|line| line.real_time).collect();
        assert_eq!(times, [3000.0, 3000.0, 1000.0, 1.0 / 3.0]);
    }

    #[test]
    fn the_console_table_lines_up() {
        let document = Document::new(&report(2), Context::here());
        let heading = Heading { width: 24 }.to_string();
        assert_eq!(
            heading.lines().nth(1).expect("three lines"),
            "Benchmark                         Time             CPU   Iterations"
        );
        let row = |at: usize| Row { width: 24, line: &document.benchmarks[at] }.to_string();
        assert_eq!(
            row(0),
            "BM_sendVec_shm/4               2000 ns         1000 ns         1000 bytes_per_second=1.90735Mi/s"
        );
        assert_eq!(row(5), "BM_sendVec_shm/4_cv           47.14 %         47.14 %             2");
    }

    #[test]
    fn csv_has_a_line_for_each() {
        let csv = Document::new(&report(1), Context::here()).to_csv();
        assert_eq!(csv.lines().count(), 3);
        assert_eq!(csv.lines().nth(1), Some("\"BM_sendVec_shm/4\",1000,2000,1000,ns,2000000"));
    }
}
