//! `handoff lab ab` and `handoff lab aa`: commands without a file.

use std::time::Duration;

use anyhow::anyhow;
use handoff_lab::experiment::difference::compare;
use handoff_lab::experiment::executor::Cgroup;
use handoff_lab::experiment::file::{Arm, Experiment, Metric, Rounds};
use handoff_lab::experiment::task::{Figure, Pick, shell_syntax, words};
use handoff_lab::stats::judge::Direction;
use handoff_lab::stats::sequential::Stopping;
use handoff_targets::quoted;

use super::experiment::{Keep, run};
use super::place::RunTarget;
use crate::output::{Advice as _, Output, Verdict};

const AB_EXAMPLES: &str = "\
Examples:
  handoff lab ab 'sleep 0.1' 'sleep 0.11'
  handoff lab ab ./old ./new --metric cpu --margin 0.01
  handoff lab ab 'wc -l a' 'wc -l b' --rounds 20 --seed 3
  handoff lab ab './bench old' './bench new' --figure 'rate=([0-9.]+) calls/s' --better higher";

const AA_EXAMPLES: &str = "\
Examples:
  handoff lab aa 'sleep 0.1'
  handoff lab aa ./bench --metric cpu --rounds 30";

// How two commands are compared.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// What to compare: wall, user, sys, cpu, max-rss, minor-faults, major-faults, voluntary-switches,
    /// involuntary-switches, or the name of a --figure.
    #[arg(long)]
    metric: Option<String>,
    /// A number in the output of the commands: NAME=/JSON/POINTER, or NAME=REGEX with one group.
    #[arg(long, value_name = "NAME=WHERE")]
    figure: Vec<String>,
    /// Which way of a figure is better.
    #[arg(long, value_enum, default_value = "lower")]
    better: Better,
    /// The share below which a difference does not matter.
    #[arg(long, default_value_t = 0.02, value_parser = share)]
    margin: f64,
    /// So many rounds, instead of looks after 10, 20 and 40.
    #[arg(long, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    rounds: Option<u32>,
    /// Stop when the run has taken so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 110)]
    budget: u64,
    /// Decides the order inside of each round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the commands in a control group of high weight, so that others disturb them less (needs root).
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    cgroup: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// Where it can be made
    Auto,
    /// Or fail
    Always,
    /// Not at all
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Better {
    /// As a time
    Lower,
    /// As a rate
    Higher,
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err("a margin is a share such as 0.02 for 2%".to_owned())
    }
}

impl How {
    pub(super) fn experiment(&self, title: String, question: &str, arms: [Arm; 2]) -> Experiment {
        let name = self.metric.clone().unwrap_or_else(|| {
            self.figure
                .first()
                .and_then(|text| text.split_once('='))
                .map_or("wall", |(name, _)| name)
                .to_owned()
        });
        let is_figure =
            self.figure.iter().any(|text| text.split_once('=').is_some_and(|(known, _)| known == name));
        let better = self.direction();
        let stopping =
            self.rounds.map_or_else(Stopping::default, |rounds| Stopping::Fixed { rounds: rounds as usize });
        let beside = ["wall", "cpu", "max-rss"].into_iter().filter(|other| *other != name);
        let secondary =
            beside.map(|name| Metric { name: name.to_owned(), better: None, margin: self.margin }).collect();
        let (differences, common) = compare(&arms, None);
        let lines: Vec<String> = differences.iter().map(ToString::to_string).chain(common).collect();
        let text = lines.join("; ");
        Experiment {
            title,
            question: question.to_owned(),
            arms,
            metric: Metric { name, better: is_figure.then_some(better), margin: self.margin },
            secondary,
            rounds: Rounds {
                stopping,
                seed: self.seed,
                budget: Duration::from_secs(self.budget),
                cgroup: match self.cgroup {
                    When::Auto => Cgroup::IfPossible,
                    When::Always => Cgroup::On,
                    When::Never => Cgroup::Off,
                },
                ..Rounds::default()
            },
            guests: None,
            text,
        }
    }

    /// Which way of the metric is better: what a run measures by itself is better if it is less.
    pub(super) fn direction(&self) -> Direction {
        match self.better {
            Better::Lower => Direction::Lower,
            Better::Higher => Direction::Higher,
        }
    }

    /// The number of rounds, if one was asked for.
    pub(super) fn rounds(&self) -> Option<usize> {
        self.rounds.map(|rounds| rounds as usize)
    }

    pub(super) fn figures(&self) -> anyhow::Result<Vec<Figure>> {
        let parse = |text: &String| {
            let (name, place) = text
                .split_once('=')
                .filter(|(name, place)| !name.is_empty() && !place.is_empty())
                .ok_or_else(|| anyhow!("--figure {text:?} is not NAME=WHERE"))
                .advise("such as --figure 'rate=/throughput' or --figure 'rate=([0-9.]+) calls'")?;
            let pick = if place.starts_with('/') {
                Pick::Json(place.to_owned())
            } else if place.contains('(') {
                Pick::Regex(place.to_owned())
            } else {
                return Err(anyhow!("--figure {text:?} has no group"))
                    .advise("put ( ) around the number in the expression");
            };
            Ok(Figure { name: name.to_owned(), pick, unit: String::new() })
        };
        self.figure.iter().map(parse).collect()
    }
}

/// Warns of a line that looks as if it were for a shell.
fn warn_of_shell(line: &str, output: &Output) {
    let found = shell_syntax(line);
    if !found.is_empty() {
        let found: Vec<String> = found.into_iter().map(String::from).collect();
        output.warn(format_args!(
            "`{line}` is run without a shell: the command itself gets {}; sh -c {} runs it in one",
            found.join(" "),
            quoted(line)
        ));
    }
}

/// Compare two commands in randomised rounds.
///
/// Each round runs A, A again (called A') and B, in random order. A and B are the two arms. What A and A' differ by is
/// this machine's noise: where it is too large, there is no verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = AB_EXAMPLES)]
pub(super) struct Ab {
    /// The command to compare with; quotes work as in a shell, and nothing else does.
    a: String,
    /// The change.
    b: String,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    place: RunTarget,
    #[command(flatten)]
    keep: Keep,
}

impl Ab {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let arm = |name: &str, line: &str| -> anyhow::Result<Arm> {
            let argv = words(line).map_err(|error| anyhow!(error))?;
            Ok(Arm::of_command(name, argv, self.how.figures()?))
        };
        let arms = [arm(&self.a, &self.a)?, arm(&self.b, &self.b)?];
        [&self.a, &self.b].into_iter().for_each(|line| warn_of_shell(line, output));
        let title = format!("{} against {}", self.b, self.a);
        let mut experiment = self.how.experiment(title, "Is the second command better than the first?", arms);
        experiment.guests = self.place.guests();
        let command =
            format!("handoff lab ab {} {} --seed {}", quoted(&self.a), quoted(&self.b), self.how.seed);
        run(&experiment, command, &self.place, &self.keep, output)
    }
}

/// Compare a command with itself: how much this machine differs from itself.
#[derive(Debug, clap::Args)]
#[command(after_help = AA_EXAMPLES)]
pub(super) struct Aa {
    /// The command.
    command: String,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    place: RunTarget,
    #[command(flatten)]
    keep: Keep,
}

impl Aa {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let argv = words(&self.command).map_err(|error| anyhow!(error))?;
        warn_of_shell(&self.command, output);
        let figures = self.how.figures()?;
        let arm = |name: &str| Arm::of_command(name, argv.clone(), figures.clone());
        let arms = [arm("one"), arm("the same once more")];
        let title = format!("{} against itself", self.command);
        let question =
            "What does no difference look like on this machine? Any other answer is an error of it.";
        let mut experiment = self.how.experiment(title, question, arms);
        experiment.guests = self.place.guests();
        let command = format!("handoff lab aa {} --seed {}", quoted(&self.command), self.how.seed);
        run(&experiment, command, &self.place, &self.keep, output)
    }
}
