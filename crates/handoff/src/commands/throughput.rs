//! `handoff measure throughput`: how long an echo of N bytes takes, in the formats of Google Benchmark.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::ValueEnum;
use handoff_workloads::figures::human;
use handoff_workloads::measurement::Unit;
use handoff_workloads::rpc::{self, EngineKind, MAX_PAYLOAD};
use handoff_workloads::throughput::google::{Context, Document, Heading, Line, Row};
use handoff_workloads::throughput::{self, Parameters, ThroughputReport, sizes};

use crate::output::{Format, Output, Verdict, style};
use crate::{interrupt, results};

const EXAMPLES: &str = "\
Examples:
  handoff measure throughput                                        4 B to 1 MiB, on shm
  handoff measure throughput --engine local --engine shm            both, to compare
  handoff measure throughput --benchmark_filter='/(8|65536)$'       two sizes
  handoff measure throughput --benchmark_format=json --benchmark_repetitions=5 > result.json
  handoff measure throughput --benchmark_out=result.json            the table here, JSON in a file";

/// Measure calls with payloads from 4 B to 1 MiB, as libhwbinder_benchmark.
///
/// For each size there is the time, the CPU time of both sides and the throughput.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// What carries the calls: local, shm or binder, with commas between them.
    #[arg(
        long = "engine",
        value_name = "ENGINE", value_delimiter = ',',
        value_parser = super::engine(),
        hide_possible_values = true
    )]
    engines: Vec<EngineKind>,
    /// The services' context: binder, hwbinder or vndbinder [default: binder on the driver, hwbinder elsewhere]
    #[arg(long, value_parser = super::context(), hide_possible_values = true)]
    context: Option<rpc::Context>,
    /// As libhwbinder_benchmark has it: BINDERIZE is shm, PASSTHROUGH is local.
    #[arg(short = 'm', value_name = "MODE", conflicts_with = "engines", ignore_case = true)]
    mode: Option<Mode>,
    /// Largest payload, in bytes; sizes double from 4.
    #[arg(long, default_value_t = MAX_PAYLOAD, value_name = "BYTES")]
    max_size: usize,
    /// Let the scheduler place the callee: no call is served beside its caller.
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    google: Google,
}

// The options of Google Benchmark.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "As in Google Benchmark, also spelled with underscores")]
struct Google {
    /// What standard output gets.
    #[arg(long, value_enum, value_name = "FORMAT")]
    benchmark_format: Option<BenchmarkFormat>,
    /// Write the result to a file, too.
    #[arg(long, value_name = "FILE")]
    benchmark_out: Option<PathBuf>,
    /// What the file gets.
    #[arg(long, value_enum, default_value_t = BenchmarkFormat::Json, value_name = "FORMAT")]
    benchmark_out_format: BenchmarkFormat,
    /// Only benchmarks whose name matches a regular expression; with `-` in front, all others.
    #[arg(long, default_value = "", value_name = "REGEX", hide_default_value = true)]
    benchmark_filter: String,
    /// How often each benchmark is repeated.
    #[arg(long, default_value_t = 1, value_name = "N")]
    benchmark_repetitions: u32,
    /// Least time of one repetition, such as 0.5 or 0.5s.
    #[arg(long, default_value = "0.5", value_parser = seconds, value_name = "SECONDS")]
    benchmark_min_time: f64,
    /// Print the names of the benchmarks, and run none.
    #[arg(long)]
    benchmark_list_tests: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchmarkFormat {
    Console,
    Json,
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Binderize,
    Passthrough,
}

impl From<Mode> for EngineKind {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Binderize => EngineKind::Shm,
            Mode::Passthrough => EngineKind::Local,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| format!("{text:?} is not a number of seconds"))
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let parameters = self.parameters();
        parameters.check()?;
        if self.google.benchmark_list_tests {
            for name in parameters.names()? {
                output.line(format_args!("{name}"))?;
            }
            return Ok(Verdict::Pass);
        }
        let format = self.google.benchmark_format.unwrap_or(match output.format() {
            Format::Text => BenchmarkFormat::Console,
            Format::Json => BenchmarkFormat::Json,
        });
        self.google.benchmark_out.as_deref().map_or(Ok(()), results::check_writable)?;
        let context = Context::here();
        if format != BenchmarkFormat::Csv {
            output.note(&context);
        }
        let stop = interrupt::flag();
        let report = throughput::run_until(&parameters, stop, |run| {
            output.note(style::paint(style::DIM, run.name()));
        })?;
        if interrupt::interrupted() {
            ensure!(!report.runs.is_empty(), "stopped before the first size was measured");
            let file = if self.google.benchmark_out.is_some() { ", and the file is not written" } else { "" };
            output.warn(format_args!("stopped early: the sizes that were not measured are left out{file}"));
        }
        let document = Document::new(&report, context);
        match format {
            BenchmarkFormat::Console => {
                output.line(format_args!("{}", table(&document)))?;
                output.line(format_args!("{}", summary(&report)))?;
            }
            BenchmarkFormat::Json => output.json(&document)?,
            BenchmarkFormat::Csv => output.bytes(document.to_csv().as_bytes())?,
        }
        if let Some(file) = self.google.benchmark_out.as_ref().filter(|_| !interrupt::interrupted()) {
            write(&document, self.google.benchmark_out_format, file)?;
        }
        Ok(Verdict::Pass)
    }

    fn parameters(&self) -> Parameters {
        let engines = match self.mode {
            Some(mode) => vec![mode.into()],
            None if self.engines.is_empty() => vec![EngineKind::Shm],
            None => self.engines.clone(),
        };
        Parameters {
            engines,
            context: self.context,
            sizes: sizes(4, self.max_size),
            filter: self.google.benchmark_filter.clone(),
            min_time: self.google.benchmark_min_time,
            repetitions: self.google.benchmark_repetitions,
            follow: !self.no_follow,
        }
    }
}

/// The console table, without colours, as it goes to a file.
fn table(document: &Document) -> String {
    let width = document.benchmarks.iter().map(|line| line.name.len()).max().unwrap_or(0).max(10);
    let rows = document.benchmarks.iter().map(|line: &Line| format!("\n{}", Row { width, line }));
    format!("{}{}", Heading { width }, rows.collect::<String>())
}

/// The highest throughput, with its unit and what it was reached with.
fn summary(report: &ThroughputReport) -> String {
    let fastest = report.fastest().map(|run| {
        let rate = human(run.bytes_per_second(), &Unit::BytesPerSecond);
        format!("maximum throughput: {rate}, with payloads of {} bytes on {}", run.size, run.engine)
    });
    fastest.unwrap_or_default()
}

fn write(document: &Document, format: BenchmarkFormat, file: &Path) -> anyhow::Result<()> {
    let text = match format {
        BenchmarkFormat::Console => format!("{}\n", table(document)),
        BenchmarkFormat::Json => serde_json::to_string_pretty(document)? + "\n",
        BenchmarkFormat::Csv => document.to_csv(),
    };
    results::write(file, text)
}
