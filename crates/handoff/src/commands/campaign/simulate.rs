//! `handoff campaign simulate`: from a few devices to many.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use handoff_campaign::simulate::{Forecast, Question, carried, simulate};
use handoff_lab::simulate::Recording;
use serde::Serialize;

use super::{CampaignFile, people};
use crate::output::{Advice as _, Output, Verdict, style};
use crate::results;

/// Tell from recorded noise what a campaign on more devices would take and find.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff campaign simulate rack.toml --noise noise.jsonl --devices 10000 --workers 200
  handoff campaign simulate rack.toml --noise noise.jsonl --effect 0.02 --between 0.01
  handoff campaign simulate rack.toml --noise noise.jsonl --run-seconds 3 --lost-per-hour 0.5

The recording has a line of JSON for each of consecutive runs of one thing, such as {\"time\": 1.25}. It is
a model: devices of one speed, and no noise that was not recorded.")]
pub(super) struct Simulate {
    #[command(flatten)]
    named: CampaignFile,
    /// Consecutive runs of one thing, a JSON object of numbers each.
    #[arg(long, value_name = "FILE")]
    noise: PathBuf,
    /// The metric of the recording; the first if none is named.
    #[arg(long)]
    metric: Option<String>,
    /// Devices; those of the file if it is not said.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    devices: Option<u32>,
    /// Workers, each of which serves a device at a time; as many as devices if it is not said.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: Option<u32>,
    /// The true difference, a share: 0.02 makes B 2% larger.
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_hyphen_values = true)]
    effect: f64,
    /// How much the true difference differs between devices: a standard deviation, as a share.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    between: f64,
    /// How long a run of an arm takes; from the tasks that were carried out if it is not said.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    run_seconds: Option<f64>,
    /// How long it takes to reach a device and to start.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    connect_seconds: f64,
    /// Links that are lost in an hour of a device.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, value_parser = seconds)]
    lost_per_hour: f64,
    /// Decides all that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value > -0.9 && value < 10.0 { Ok(value) } else { Err("it is a share such as 0.02 for 2%".to_owned()) }
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..=1e6).contains(&value) { Ok(value) } else { Err("0 to 1000000 are possible".to_owned()) }
}

impl Simulate {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let plan = self.named.plan()?;
        let recording = Recording::parse(&results::read(&self.noise)?)?;
        let first = recording.metrics().next().map(str::to_owned);
        let metric = self.metric.clone().or(first).context("the recording is empty")?;
        let real = match self.named.submitted() {
            Ok((plan, folder)) => carried(&plan, &folder)?,
            Err(_) => None,
        };
        let run_seconds = self
            .run_seconds
            .or(real.map(|real| real.run_seconds))
            .ok_or_else(|| anyhow!("nobody knows how long a run takes"))
            .advise("say it with --run-seconds, or carry the campaign out on a device first")?;
        let devices = self.devices.map_or(plan.targets.len(), |count| count as usize);
        let question = Question {
            devices,
            workers: self.workers.map_or(devices, |count| count as usize),
            effect: self.effect,
            between: self.between,
            run_seconds,
            connect_seconds: self.connect_seconds,
            lost_per_hour: self.lost_per_hour,
            seed: self.seed,
        };
        output.result(&Page(simulate(&plan, &question, &recording, &metric, real)?))?;
        Ok(Verdict::Pass)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Page(Forecast);

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forecast { question, tasks, wall_seconds, .. } = &self.0;
        let heading = style::HEADING;
        let [least, middle, most] = wall_seconds.map(people);
        writeln!(
            f,
            "{heading}{tasks} tasks on {} devices, {} workers: {middle}{heading:#} ({least} to {most})\n",
            question.devices, question.workers
        )?;
        let found = if question.effect == 0.0 { "find what is not there" } else { "find it alone" };
        for (what, value) in [
            ("rounds of a task", format!("{:.1}", self.0.rounds_per_task)),
            ("rounds in all", format!("{:.0}", self.0.rounds)),
            ("time of all devices", people(self.0.busy_seconds)),
            ("time of a task", format!("{:.1} s", self.0.task_seconds)),
            (
                "true difference",
                format!(
                    "{:+.2}%, +-{:.2}% between devices",
                    question.effect * 100.0,
                    question.between * 100.0
                ),
            ),
            (found, format!("{:.1}% of tasks", self.0.found_alone * 100.0)),
            ("smallest that one finds", format!("{:.2}% in 4 of 5 tasks", self.0.smallest_alone * 100.0)),
            ("smallest that all find", format!("{:.3}%", self.0.smallest_together * 100.0)),
        ] {
            writeln!(f, "  {what:<24} {value}")?;
        }
        if let Some(real) = &self.0.real {
            writeln!(
                f,
                "\n{heading}As it was carried out{heading:#}: {} tasks in {}\n",
                real.tasks,
                people(real.wall_seconds)
            )?;
            for (what, value) in [
                ("rounds of a task", format!("{:.1}", real.rounds as f64 / real.tasks as f64)),
                ("rounds in all", real.rounds.to_string()),
                ("time of a task", format!("{:.1} s, without connections", real.task_seconds)),
            ] {
                writeln!(f, "  {what:<24} {value}")?;
            }
        }
        write!(f, "\nA model: devices of one speed, and no noise that was not recorded.")
    }
}
