//! `handoff lab history`: the runs in the store, and a metric over them.

use std::path::PathBuf;

use handoff_lab::history::{Quantity, Query, draw};
use handoff_lab::report::history as report;
use handoff_lab::stats::change::Search;

use super::kept::Where;
use super::pair::share;
use crate::output::{Format, Output, Verdict};
use crate::results;

/// List the runs in the store, or draw a metric over them and say what changed it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab history
  handoff lab history --metric wall              over commits, with what changed it
  handoff lab history --metric wall --by kernel --arm ratio --html history.html
  handoff lab history --metric cpu --of 'the nightly run' --by device --format json")]
pub(super) struct History {
    /// Draw this metric over the runs, and say what changed its level.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Of the runs with this title; with that of the latest one if none is named.
    #[arg(long, value_name = "TITLE", requires = "metric")]
    of: Option<String>,
    /// What of a run is drawn.
    #[arg(long, value_enum, default_value = "baseline", requires = "metric")]
    arm: Arm,
    /// What runs are named by: commit, kernel, device, or another name that was given with --label.
    #[arg(long, value_name = "LABEL", requires = "metric")]
    by: Option<String>,
    /// No more than so many of the latest runs.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=2000), requires = "metric")]
    last: u16,
    /// The share below which a change does not matter.
    #[arg(long, default_value_t = 0.02, value_parser = share, requires = "metric")]
    margin: f64,
    /// The chance of a false change for each device.
    #[arg(long, default_value_t = 0.05, value_parser = share, requires = "metric")]
    alpha: f64,
    /// Write a page that opens offline, too.
    #[arg(long, value_name = "FILE", requires = "metric")]
    html: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Arm {
    /// The runs of A and A'
    Baseline,
    /// The runs of B
    Change,
    /// B / A of each round, which a machine that changed meanwhile does not move
    Ratio,
}

impl History {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.metric {
            None => self.list(output),
            Some(metric) => self.draw(metric, output),
        }
    }

    fn draw(&self, metric: &str, output: &Output) -> anyhow::Result<Verdict> {
        let asked = Query {
            title: self.of.clone(),
            metric: metric.to_owned(),
            what: match self.arm {
                Arm::Baseline => Quantity::Baseline,
                Arm::Change => Quantity::Change,
                Arm::Ratio => Quantity::Ratio,
            },
            by: self.by.clone(),
            last: self.last.into(),
            margin: self.margin,
            search: Search { alpha: self.alpha, ..Search::default() },
        };
        let history = draw(&self.place.store()?, &asked)?;
        if let Some(file) = &self.html {
            results::write(file, report::html(&history)?)?;
        }
        match output.format() {
            Format::Json => output.json(&history)?,
            Format::Text => output.line(format_args!("{}", report::text(&history)))?,
        }
        Ok(Verdict::Pass)
    }

    fn list(&self, output: &Output) -> anyhow::Result<Verdict> {
        let store = self.place.store()?;
        let entries = store.history()?;
        if output.format() == Format::Json {
            output.json(&entries)?;
            return Ok(Verdict::Pass);
        }
        let imports = store.imports()?;
        if entries.is_empty() && imports.is_empty() {
            output.note("no run is kept here yet: `handoff lab ab A B` keeps one");
        }
        for import in imports {
            let number = format!("i{}", import.id);
            output.line(format_args!(
                "{number:>5}  {}  {:>4} series  {:<20}  {}",
                import.added, import.series, import.format, import.title
            ))?;
        }
        for entry in &entries {
            let verdict = entry.verdict.as_deref().unwrap_or("did not end");
            output.line(format_args!(
                "{:>5}  {}  {:>4} rounds  {:<20}  {}",
                entry.id, entry.started, entry.rounds, verdict, entry.title
            ))?;
        }
        Ok(Verdict::Pass)
    }
}
