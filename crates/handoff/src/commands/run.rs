//! `handoff run`: the standard suite on this machine, with a report.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use comfy_table::{CellAlignment, Table, presets};
use handoff_lab::doctor::Level;
use handoff_lab::report::scale::nanoseconds;
use handoff_lab::report::{chart::times, suite as report};
use handoff_lab::suite::{Calls, Options as RunOptions, SuiteResult, calls, floors};
use handoff_targets::Address;
use handoff_workloads::rpc::{Context, EngineKind};

use super::doctor::summary;
use crate::output::{Format, Output, Verdict, style};
use crate::remote_command::RemoteCommand;
use crate::results::{self, Results};
use crate::{interrupt, progress};

const EXAMPLES: &str = "\
Examples:
  handoff run                       about a minute; ends with a table and the path of the report
  handoff run --quick               ten seconds, with wider intervals
  handoff run --output ./results    where to write report and results
  handoff run --html run.html       the report in a file of this name
  handoff run --rounds 40 --seed 7  more rounds, and the order of another run
  handoff run --engine shm,binder   calls on these engines only
  handoff run --guest               this and the kernel's Binder driver side by side, in a guest
  handoff run --format json         the result on standard output as well";

/// Where a guest keeps its results.
const GUEST_FOLDER: &str = "/tmp/handoff-results";

/// Rounds of `--quick`: the fewest that give a 95% interval with an end to spare.
const QUICK_ROUNDS: usize = 8;

/// Measure what a call to another process costs on this machine, and write a report.
///
/// Floors and calls are measured in turns.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// How many rounds; each runs everything once, in an order of its own.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    rounds: u32,
    /// Few short rounds: a first look.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Decides the order of runs; the same seed gives the same order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: Results,
    /// Write the report to this file, not into the folder.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the results to this file, not into the folder.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The engines whose calls are measured, with commas between them: local, shm, binder [default: all]
    #[arg(
        long = "engine",
        value_name = "ENGINES", value_delimiter = ',',
        value_parser = super::engine(),
        hide_possible_values = true
    )]
    engines: Vec<EngineKind>,
    /// The services' context: binder, hwbinder or vndbinder [default: binder on the driver, hwbinder elsewhere]
    #[arg(long, value_parser = super::context(), hide_possible_values = true)]
    context: Option<Context>,
    /// Measure in a guest that has the kernel's Binder driver, in one boot, and bring the report back.
    #[arg(long)]
    guest: bool,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let files = self.files()?;
        if self.guest {
            return self.in_guest(&files, output);
        }
        let rounds = self.rounds();
        let batch = Duration::from_millis(if self.quick { 20 } else { 60 });
        let options = RunOptions {
            rounds,
            batch,
            seed: self.seed,
            command: format!("handoff {}", self.words().join(" ")),
            stop: Some(interrupt::flag()),
        };
        let mut suite = floors::suite(batch);
        let engines = if self.engines.is_empty() { EngineKind::ALL.to_vec() } else { self.engines.clone() };
        calls::add(&mut suite, &Calls { engines, context: self.context }, batch);
        let result = progress::of_turns(|tell| suite.run(&options, tell))?;
        // First what needs no disk: a full one costs the report, and not the figures.
        match output.format() {
            Format::Json => output.json(&result)?,
            Format::Text => output.line(format_args!("{}", Summary(&result)))?,
        }
        results::write(&files.html, report::html(&result)?)?;
        results::write(&files.json, serde_json::to_string_pretty(&result)?)?;
        if result.interrupted {
            output.warn(format_args!("stopped early: {} complete rounds are kept", result.rounds));
        }
        files.tell(output);
        Ok(Verdict::Pass)
    }

    /// Runs the suite in a guest with this program, and brings report and results to the files here.
    fn in_guest(&self, files: &Files, output: &Output) -> anyhow::Result<Verdict> {
        let words = self.words().join(" ") + " --output " + GUEST_FOLDER;
        let format = if output.format() == Format::Json { "--format json " } else { "" };
        let args = (format.to_owned() + &words).split(' ').map(str::to_owned).collect();
        let status = RemoteCommand::of(Address::Guest, args).then(output, |guest| {
            for (name, here) in [("handoff-run.html", &files.html), ("handoff-run.json", &files.json)] {
                guest.fetch(&format!("{GUEST_FOLDER}/{name}"), here)?;
            }
            Ok(())
        })?;
        if status != 0 {
            std::process::exit(status);
        }
        output.note("brought here:");
        files.tell(output);
        Ok(Verdict::Pass)
    }

    /// Where report and results go; names that are free, unless they were asked for.
    fn files(&self) -> anyhow::Result<Files> {
        let (folder, name) = match (&self.html, &self.json) {
            (Some(_), Some(_)) => (PathBuf::new(), String::new()),
            _ => {
                let folder = self.results.made()?;
                let name = results::free(&folder, "handoff-run", &["html", "json"]);
                (folder, name)
            }
        };
        let file = |named: &Option<PathBuf>, extension: &str| {
            let file = named.clone().unwrap_or_else(|| folder.join(format!("{name}.{extension}")));
            std::path::absolute(&file).unwrap_or(file)
        };
        let files = Files { html: file(&self.html, "html"), json: file(&self.json, "json") };
        ensure!(files.html != files.json, "--html and --json name the same file: give each its own");
        results::check_writable(&files.html)?;
        results::check_writable(&files.json)?;
        Ok(files)
    }

    fn rounds(&self) -> usize {
        if self.quick { QUICK_ROUNDS } else { self.rounds as usize }
    }

    /// The command that repeats it, but for where its results go.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["run".to_owned()];
        if self.quick {
            words.push("--quick".to_owned());
        } else {
            words.push(format!("--rounds {}", self.rounds));
        }
        words.push(format!("--seed {}", self.seed));
        if !self.engines.is_empty() {
            let names: Vec<&str> = self.engines.iter().map(|engine| engine.name()).collect();
            words.push(format!("--engine {}", names.join(",")));
        }
        words.extend(self.context.map(|context| format!("--context {context}")));
        words
    }
}

/// Where a run leaves what it found.
struct Files {
    html: PathBuf,
    json: PathBuf,
}

impl Files {
    fn tell(&self, output: &Output) {
        output.note(format_args!("report:  {}\nresults: {}", self.html.display(), self.json.display()));
    }
}

struct Summary<'a>(&'a SuiteResult);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = self.0;
        let heading = style::HEADING;
        for group in &result.groups {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.set_header(["", "median", "x floor", "95% interval", "p99"]);
            for subject in &group.subjects {
                let samples = subject.samples.summary();
                let (ratio, interval) = match &subject.row {
                    Some(row) => {
                        (times(row.ratio), format!("{} .. {}", times(row.ci95[0]), times(row.ci95[1])))
                    }
                    None => ("floor".to_owned(), String::new()),
                };
                let name = format!("  {}", subject.name);
                table.add_row([
                    name,
                    nanoseconds(subject.median_ns),
                    ratio,
                    interval,
                    nanoseconds(samples.p99),
                ]);
            }
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            writeln!(f, "{heading}{}{heading:#}", group.group.title)?;
            writeln!(f, "{}", table.trim_fmt())?;
            if let Some(doubt) = group.held_up_floor() {
                writeln!(f, "   {}", style::paint(style::WARNING, doubt))?;
            }
            writeln!(f)?;
        }
        for sweep in &result.sweeps {
            writeln!(f, "{}", report::greatest(sweep).unwrap_or_default())?;
        }
        for test in &result.latencies {
            let verdict = if test.inheritance { "PASS" } else { "FAIL" };
            let worst = [test.other, test.fifo].map(|callers| nanoseconds(callers.worst_ms * 1e6));
            writeln!(
                f,
                "{}: inheritance {verdict}; worst call of a normal caller {}, of a FIFO caller {}",
                test.label(),
                worst[0],
                worst[1]
            )?;
            if let Some(why) = &test.why {
                writeln!(f, "    {why}")?;
            }
        }
        for test in &result.add_ints {
            writeln!(f, "{} engine: add-ints takes {} on average", test.engine, nanoseconds(test.mean_ns))?;
        }
        writeln!(f)?;
        for (reason, names) in result.skipped_by_reason() {
            writeln!(f, "not measured: {reason}\n  {}", names.join("\n  "))?;
        }
        writeln!(f, "{} rounds in {:.0} s, seed {}.", result.rounds, result.seconds, result.seed)?;
        let serious: Vec<String> = result
            .before
            .at_least(Level::Serious)
            .map(|finding| format!("{}: {}", finding.topic, finding.observed))
            .collect();
        if !serious.is_empty() {
            let bad = style::BAD;
            writeln!(f, "{bad}Not fit to be published{bad:#}, because of {}.", serious.join("; "))?;
        }
        if result.disturbed_rounds() > 0 {
            let rounds = match result.disturbed_rounds() {
                1 => "1 round was".to_owned(),
                many => format!("{many} rounds were"),
            };
            writeln!(f, "{rounds} disturbed; the report says by what.")?;
        }
        write!(f, "This machine: {}; `handoff doctor` explains them.", summary(&result.before))
    }
}
