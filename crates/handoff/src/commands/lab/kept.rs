//! `handoff lab show` and `restore`: what is kept, and what was left.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use handoff_lab::experiment::journal::restore;
use handoff_lab::experiment::result::ExperimentResult;
use handoff_lab::report::experiment as report;
use handoff_lab::store::Store;

use super::experiment::print;
use crate::output::{Advice as _, Format, Output, Verdict};
use crate::results::{Results, STORE};
use crate::{candidates, state};

// The store.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Where {
    #[command(flatten)]
    pub(super) results: Results,
    /// Another store than the file lab.sqlite in that folder: postgresql://user@host/database for many hosts that
    /// write at once, or a file.
    #[arg(long, value_name = "ADDRESS")]
    store: Option<String>,
}

impl Where {
    /// The store, which must be there.
    pub(super) fn store(&self) -> anyhow::Result<Store> {
        if let Some(address) = &self.store {
            return Ok(Store::connect(address)?);
        }
        let folder = self.results.folder()?;
        let path = folder.join(STORE);
        if !path.is_file() {
            let problem = anyhow::anyhow!("there is no store in {}: nothing was run there", folder.display());
            return Err(problem).advise("`handoff lab ab A B` runs something; --output names another folder");
        }
        Ok(Store::open(&path)?)
    }

    /// The store, which is made if it is not there.
    pub(super) fn make(&self) -> anyhow::Result<Store> {
        match &self.store {
            Some(address) => {
                self.results.made()?; // Reports go there in any case.
                Store::connect(address).advise("name a database that you may write to with --store")
            }
            None => {
                Store::open(&self.results.made()?.join(STORE)).advise("name another folder with --output")
            }
        }
    }
}

/// Show runs again, or export them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab show                             the latest run
  handoff lab show 3 --as markdown             for a pull request
  handoff lab show --all --as junit > lab.xml  for the pages of a CI system: each point of a sweep is a run
  handoff lab show 3 --as csv > runs.csv
  handoff lab show 3 --as parquet > runs.parquet
  handoff lab show 3 --as html > report.html")]
pub(super) struct Show {
    /// Their numbers, from `handoff lab history`; the latest if none is named.
    #[arg(value_name = "RUN", add = candidates::runs())]
    runs: Vec<i64>,
    /// Every run in the store that has a result.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// The form to print it in.
    #[arg(long = "as", value_enum, default_value = "text")]
    form: Form,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For a terminal
    Text,
    /// For a pull request
    Markdown,
    /// The report
    Html,
    /// Every value of every run
    Csv,
    /// Everything that is known of it
    Json,
    /// Every value of every run in columns: round, arm, position, metric, value
    Parquet,
    /// Google Benchmark's JSON, each run a repetition
    GoogleBenchmark,
    /// JUnit's XML, each metric a test: regressed fails
    Junit,
    /// Bencher's metric format: the ratio and both arms
    Bencher,
}

impl Show {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let store = self.place.store()?;
        let results = self
            .numbers(&store)?
            .into_iter()
            .map(|run| store.result(run))
            .collect::<Result<Vec<ExperimentResult>, _>>()
            .advise("`handoff lab history` lists what there is")?;
        match (self.form, &results[..]) {
            (Form::Text, results) => results.iter().try_for_each(|result| print(result, output))?,
            (Form::Markdown, results) => {
                let parts: Vec<String> = results.iter().map(report::markdown).collect();
                output.bytes(parts.join("\n").as_bytes())?;
            }
            (Form::Junit, results) => {
                output.bytes(handoff_lab::export::junit::of_experiments(results).as_bytes())?;
            }
            (Form::Html, [result]) => output.bytes(report::html(result)?.as_bytes())?,
            (Form::Csv, [result]) => {
                output.bytes(&handoff_lab::export::csv::runs(result).context("cannot write CSV")?)?;
            }
            (Form::Json, [result]) => output.json(result)?,
            (Form::Parquet, [result]) => {
                anyhow::ensure!(
                    !std::io::stdout().is_terminal(),
                    "Parquet is not for a terminal: send it into a file with > runs.parquet"
                );
                let file = handoff_lab::export::parquet::runs(result).context("cannot write Parquet")?;
                output.bytes(&file)?;
            }
            (Form::GoogleBenchmark, [result]) => {
                output.json(&handoff_lab::export::google_benchmark::of_experiment(result))?;
            }
            (Form::Bencher, [result]) => {
                output.json(&handoff_lab::export::bencher::of_experiment(result))?;
            }
            (_, several) => {
                return Err(anyhow::anyhow!("this form holds one run, not {}", several.len()))
                    .advise("name one run, or take --as text, markdown or junit");
            }
        }
        Ok(Verdict::Pass)
    }

    /// The runs that are meant, oldest first if all are.
    fn numbers(&self, store: &Store) -> anyhow::Result<Vec<i64>> {
        if self.all {
            let ended = store.history()?.into_iter().filter(|entry| entry.verdict.is_some());
            let mut all: Vec<i64> = ended.map(|entry| entry.id).collect();
            all.reverse();
            if all.is_empty() {
                store.latest()?; // It says so.
            }
            return Ok(all);
        }
        Ok(if self.runs.is_empty() { vec![store.latest()?] } else { self.runs.clone() })
    }
}

/// Remove runs from the store.
///
/// Their reports, which are files, stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab rm 3 4          two runs, by their numbers in `handoff lab history`
  handoff lab rm 5 --force    one that has no result: it was killed, or still runs")]
pub(super) struct Remove {
    /// Their numbers.
    #[arg(required = true, value_name = "RUN", add = candidates::runs())]
    runs: Vec<i64>,
    /// Also a run without a result, which could be resumed, or may still run.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Where,
}

impl Remove {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut store = self.place.store()?;
        let known = store.history()?;
        // All are looked at before the first is removed.
        for run in &self.runs {
            let Some(entry) = known.iter().find(|entry| entry.id == *run) else {
                return Err(anyhow::anyhow!("there is no run {run} in the store"))
                    .advise("`handoff lab history` lists what there is");
            };
            if entry.verdict.is_none() && !self.force {
                return Err(anyhow::anyhow!("run {run} has no result: it was killed, or still runs"))
                    .advise("`handoff lab run --resume` goes on with it; --force removes it");
            }
        }
        let runs: std::collections::BTreeSet<i64> = self.runs.iter().copied().collect();
        for run in &runs {
            store.remove(*run)?;
        }
        match output.format() {
            Format::Json => output.json(&runs)?,
            Format::Text => {
                let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
                output.line(format_args!("removed: {}", runs.join(", ")))?;
            }
        }
        Ok(Verdict::Pass)
    }
}

/// Put back what a killed run left changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo handoff lab restore      after a SIGKILL; does nothing if there is nothing to do")]
pub(super) struct Restore {}

impl Restore {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let restored = restore(&state::folder())?;
        if output.format() == Format::Json {
            output.json(&restored)?;
            return Ok(Verdict::Pass);
        }
        for undo in &restored.written {
            output.line(format_args!("{} is {:?} again", undo.path.display(), undo.value))?;
        }
        for group in &restored.groups {
            output.line(format_args!("removed the control group {}", group.display()))?;
        }
        if restored.processes > 0 {
            output.line(format_args!("{} process(es) have back what they had", restored.processes))?;
        }
        if restored.running > 0 {
            output.line(format_args!("{} run(s) go on and were left alone", restored.running))?;
        } else if restored.written.is_empty() && restored.groups.is_empty() && restored.processes == 0 {
            output.line(format_args!("nothing was left changed"))?;
        }
        Ok(Verdict::Pass)
    }
}
