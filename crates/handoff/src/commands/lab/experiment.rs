//! `handoff lab run` and `handoff lab check`: experiment files.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use handoff_lab::experiment::difference::compare;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::plan::{self, Bounds, Pilot, bounds};
use handoff_lab::experiment::result::{Ending, ExperimentResult, RoundRecord};
use handoff_lab::experiment::runner::{self, Event};
use handoff_lab::report::experiment as report;
use handoff_lab::stats::judge::Verdict as ExperimentVerdict;
use handoff_lab::store::{Owner, Store};
use indicatif::ProgressBar;

use super::kept::Where;
use super::labels::Labels;
use super::place::{RunTarget, put_back_first};
use crate::output::{Advice as _, Format, Output, Verdict};
use crate::results;
use crate::{interrupt, progress, state};

const RUN_EXAMPLES: &str = "\
Examples:
  handoff lab run experiments/autocorking.toml
  handoff lab run x.toml --fail-on regressed    for CI: exit status 1 if it got worse
  handoff lab run x.toml --resume               go on with the run that was interrupted
  handoff lab run x.toml --rounds 12 --seed 5
  handoff lab run x.toml --target ssh://lab-7   the arms run there, and are put back there";

const CHECK_EXAMPLES: &str = "\
Examples:
  handoff lab check experiments/autocorking.toml
  handoff lab check x.toml --pilot              run the baseline a few times, and plan with its noise
  handoff lab check x.toml --format json";

// Where results go, and what a verdict is worth: the same for every comparison.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Keep {
    #[command(flatten)]
    place: Where,
    /// Exit with status 1 on these verdicts.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    fail_on: Vec<FailOn>,
    #[command(flatten)]
    labels: Labels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// B is worse
    Regressed,
    /// The rounds do not answer the question
    Inconclusive,
    /// The proof of activation failed, or something else forbids a verdict
    Withheld,
}

impl Keep {
    fn verdict(&self, answer: ExperimentVerdict) -> Verdict {
        let failed = match answer {
            ExperimentVerdict::Regressed => self.fail_on.contains(&FailOn::Regressed),
            ExperimentVerdict::Inconclusive => self.fail_on.contains(&FailOn::Inconclusive),
            ExperimentVerdict::NotActive | ExperimentVerdict::Withheld => {
                self.fail_on.contains(&FailOn::Withheld)
            }
            ExperimentVerdict::Improved | ExperimentVerdict::Equivalent => false,
        };
        Verdict::of(!failed)
    }
}

/// Run an experiment file to its verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(super) struct Run {
    /// The experiment file.
    file: PathBuf,
    /// Go on with the latest run of this file that did not end.
    #[arg(long)]
    resume: bool,
    /// So many rounds, whatever the file says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    rounds: Option<u32>,
    /// The order of runs, whatever the file says.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    place: RunTarget,
    #[command(flatten)]
    keep: Keep,
}

impl Run {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut results = Vec::new();
        for mut experiment in self.place.read(&self.file)? {
            let mut command = format!("handoff lab run {}", self.file.display());
            if let Some(rounds) = self.rounds {
                experiment.rounds.stopping =
                    handoff_lab::stats::sequential::Stopping::Fixed { rounds: rounds as usize };
                command += &format!(" --rounds {rounds}");
            }
            if let Some(seed) = self.seed {
                experiment.rounds.seed = seed;
                command += &format!(" --seed {seed}");
            }
            command += &self.place.words();
            let result = measure(&experiment, command, self.resume, &self.place, &self.keep, output)?;
            if output.format() == Format::Text {
                print(&result, output)?;
            }
            let stopped = result.ending == Ending::Interrupted;
            results.push(result);
            if stopped {
                break;
            }
        }
        match (output.format(), results.as_slice()) {
            (Format::Json, [one]) => output.json(one)?,
            (Format::Json, all) => output.json(&all)?,
            (Format::Text, [_]) => {}
            (Format::Text, all) => summary(all, output)?,
        }
        let failed = results.iter().any(|result| self.keep.verdict(result.verdict()) == Verdict::Fail);
        Ok(Verdict::of(!failed))
    }
}

/// The answers of a sweep, a line each.
fn summary(all: &[ExperimentResult], output: &Output) -> anyhow::Result<()> {
    output.line(format_args!("\nAll of the sweep, {}:\n", all[0].primary.name))?;
    for result in all {
        let change = &result.primary.judgement.change;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let (low, high) = (percent(change.interval.low), percent(change.interval.high));
        output.line(format_args!(
            "  {:<60} {:+7.1}% [{low:+.1}%, {high:+.1}%]  {}",
            result.header.title,
            change.percent(),
            result.verdict().word()
        ))?;
    }
    Ok(())
}

/// Runs an experiment, keeps every round, and prints the result.
pub(super) fn run(
    experiment: &Experiment,
    command: String,
    place: &RunTarget,
    keep: &Keep,
    output: &Output,
) -> anyhow::Result<Verdict> {
    let result = measure(experiment, command + &place.words(), false, place, keep, output)?;
    print(&result, output)?;
    Ok(keep.verdict(result.verdict()))
}

/// Runs an experiment, keeps every round, and writes the report.
fn measure(
    experiment: &Experiment,
    command: String,
    resume: bool,
    place: &RunTarget,
    keep: &Keep,
    output: &Output,
) -> anyhow::Result<ExperimentResult> {
    let state = state::folder();
    put_back_first(&state, output)?;
    let mut store = keep.place.make()?;
    let (mut id, rounds) = if resume { unfinished(&store, experiment)? } else { (None, Vec::new()) };
    let bar = progress_bar();
    bar.set_length(experiment.rounds.stopping.most_rounds() as u64);
    bar.set_position(rounds.len() as u64);
    let mut kept = rounds.len();
    let options = runner::Options { command, stop: Some(interrupt::flag()), resume: rounds };
    let mut listener = |event: Event<'_>| {
        match event {
            Event::Started(header) => {
                if id.is_none() {
                    let run = store.begin(header)?;
                    store.label(Owner::Run(run), &keep.labels.here())?;
                    id = Some(run);
                }
            }
            Event::Arm { round: 0, arm } => bar.set_message(format!("warm-up, arm {}", arm.name())),
            Event::Arm { round, arm } => {
                bar.set_position(round as u64 - 1);
                bar.tick();
                bar.set_prefix(format!("round {round}, arm {}", arm.name()));
            }
            Event::Round { record, left, .. } => {
                if let Some(id) = id {
                    store.keep(id, record)?;
                    kept = record.number;
                }
                bar.set_message(format!("at most {} left", people(left)));
            }
        }
        Ok(())
    };
    let result = place.with(experiment, &state, &bar, |target| {
        Ok(runner::run(experiment, options, target, &mut listener)?)
    });
    bar.finish_and_clear();
    let result = match (result, kept) {
        (Err(error), 0) => {
            // A run without a round would stand in the history for ever; what is told is why it failed.
            id.map(|id| store.remove(id)).transpose().unwrap_or_default();
            return Err(error);
        }
        (Err(error), 1..) => {
            return Err(error).advise(format!(
                "its {kept} rounds are kept: the same command with --resume goes on after them"
            ));
        }
        (result, _) => result?,
    };
    let id = id.context("the run has no number in the store")?;
    store.finish(id, &result)?;
    let page = keep.place.results.folder()?.join(format!("lab-{id}.html"));
    results::write(&page, report::html(&result)?)?;
    output.note(format_args!(
        "run {id} is kept; report: {}",
        std::path::absolute(&page).unwrap_or(page).display()
    ));
    Ok(result)
}

fn unfinished(store: &Store, experiment: &Experiment) -> anyhow::Result<(Option<i64>, Vec<RoundRecord>)> {
    let found = store.unfinished(&experiment.text, experiment.rounds.seed)?;
    let (id, rounds) = found
        .context("no run of this file and seed is unfinished")
        .advise("run it without --resume; a file that was changed is another experiment")?;
    Ok((Some(id), rounds))
}

pub(super) fn print(result: &ExperimentResult, output: &Output) -> anyhow::Result<()> {
    match output.format() {
        Format::Json => output.json(result),
        Format::Text => output.line(format_args!("{}", report::text(result))),
    }
}

pub(super) fn progress_bar() -> ProgressBar {
    progress::bar(None, "{bar:24} {pos}/{len} rounds  {prefix}  {msg}")
}

fn people(time: Duration) -> String {
    match time.as_secs() {
        short @ 0..=119 => format!("{short} s"),
        long => format!("{} min", long / 60),
    }
}

/// Check an experiment file, and print what it would do.
#[derive(Debug, clap::Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(super) struct Check {
    /// The experiment file.
    file: PathBuf,
    /// Run the baseline against itself in so many pairs, and tell how many rounds the margin needs.
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, default_missing_value = "8",
          value_parser = clap::value_parser!(u16).range(6..=1000))]
    pilot: Option<u16>,
    #[command(flatten)]
    place: RunTarget,
}

#[derive(serde::Serialize)]
struct CheckedExperiment<'a> {
    title: &'a str,
    arms: Vec<&'a str>,
    metric: &'a str,
    stopping: &'a handoff_lab::stats::sequential::Stopping,
    seed: u64,
    #[serde(flatten)]
    bounds: Bounds,
    /// Experiments that the sweep makes of the file; what else is here is of the first.
    points: usize,
    pilot: Option<Pilot>,
}

impl Check {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let all = self.place.read(&self.file)?;
        all.iter().try_for_each(plan::check_metrics)?;
        let experiment = &all[0];
        let pilot = self.pilot.map(|pairs| self.pilot(experiment, pairs.into(), output)).transpose()?;
        let plan = CheckedExperiment {
            title: &experiment.title,
            arms: experiment.arms.iter().map(|arm| arm.name.as_str()).collect(),
            metric: &experiment.metric.name,
            stopping: &experiment.rounds.stopping,
            seed: experiment.rounds.seed,
            bounds: bounds(experiment),
            points: all.len(),
            pilot,
        };
        match output.format() {
            Format::Json => output.json(&plan)?,
            Format::Text => output.line(format_args!("{}", page(experiment, &plan)))?,
        }
        Ok(Verdict::Pass)
    }

    fn pilot(&self, experiment: &Experiment, pairs: usize, output: &Output) -> anyhow::Result<Pilot> {
        let state = state::folder();
        put_back_first(&state, output)?;
        let bar = progress_bar();
        bar.set_message("pilot");
        let pilot =
            self.place.with(experiment, &state, &bar, |target| Ok(plan::pilot(experiment, target, pairs)?));
        bar.finish_and_clear();
        pilot
    }
}

fn page(experiment: &Experiment, plan: &CheckedExperiment<'_>) -> String {
    let rounds = &experiment.rounds;
    let mut text = format!("{}\n{}\n\n", experiment.title, experiment.question);
    for (id, arm) in ["A, A'", "B"].iter().zip(&experiment.arms) {
        text += &format!("{id:<9}{}\n", arm.name);
    }
    let (differences, common) = compare(&experiment.arms, experiment.guests.as_ref());
    for difference in &differences {
        text += &format!("differs  {difference}\n");
    }
    if !common.is_empty() {
        text += &format!("both     {}\n", common.join(", "));
    }
    text += &format!("\nmetric   {} (margin {}%)\n", plan.metric, experiment.metric.margin * 100.0);
    for metric in &experiment.secondary {
        text += &format!("beside   {}\n", metric.name);
    }
    text += &format!("rounds   {}, seed {}\n", rounds.stopping.describe(), rounds.seed);
    let (runs, budget) = (plan.bounds.most_runs, people(rounds.budget));
    text += &format!("at most  {runs} runs in {budget}");
    if plan.points > 1 {
        text += &format!(", for each of {} points of a sweep of which this is the first", plan.points);
    }
    let Some(pilot) = &plan.pilot else {
        return text + "; --pilot tells how long one takes, and how many rounds are needed";
    };
    let time = |seconds: f64| people(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    text += &format!(
        "\n\npilot    {} pairs of {}: {:.3} s a run, rounds scatter by {:.1}%\n",
        pilot.pairs,
        experiment.arms[0].name,
        pilot.run_seconds,
        pilot.round_sd * 100.0
    );
    let most = rounds.stopping.most_rounds();
    text += &format!(
        "         {most} rounds take {} and find {:.1}% or more in 4 of 5 runs\n",
        time(pilot.most_seconds),
        pilot.smallest_effect * 100.0
    );
    text += &match (pilot.rounds_for_margin, pilot.margin_seconds) {
        (Some(needed), Some(seconds)) => format!(
            "         to find the margin of {}%: about {needed} rounds, {}",
            experiment.metric.margin * 100.0,
            time(seconds)
        ),
        _ => "         no practical number of rounds finds the margin: look for a quieter metric".to_owned(),
    };
    text
}
