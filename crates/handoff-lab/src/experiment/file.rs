//! Experiment files: TOML, checked as a whole before anything runs, with line and column in each error.
//!
//! This file has what an experiment is; `form` what a file may hold, `reader` the checks in between.

mod form;
mod guests;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ArmId;
use super::executor::{Cgroup, RunRequest};
use super::guest::Guests;
use super::proof::Proof;
use super::setting::Setting;
use super::task::{Figure, Task};
use crate::stats::judge::Direction;
use crate::stats::sequential::Stopping;
use form::{FileForm, WorkloadForm};
use handoff_placement::CpuSet;
use handoff_workloads::Workload;
use reader::Reader;
pub use reader::RunsOn;
use toml::Spanned;

/// A mistake in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}\n{excerpt}", place(file, *line, *column))]
pub struct FileError {
    pub file: PathBuf,
    /// Counted from 1; 0 for a mistake that is at no line.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
    pub excerpt: String,
}

/// `file:line:column`, or the file alone.
fn place(file: &Path, line: usize, column: usize) -> String {
    if line == 0 { file.display().to_string() } else { format!("{}:{line}:{column}", file.display()) }
}

impl FileError {
    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot read the file: {error}");
        Self { line: 0, column: 0, ..Self::at(file, "", 0..0, message) }
    }

    /// A mistake at a place of a file's text, counted in bytes; without a text it is that of its first line.
    #[must_use]
    pub fn at(file: &Path, text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = span.start.min(text.len());
        let start = (0..=start).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let line = before.matches('\n').count() + 1;
        let column = text[line_start..start].chars().count() + 1;
        let content = text[line_start..].lines().next().unwrap_or_default();
        let excerpt = if text.is_empty() {
            String::new()
        } else {
            format!("{line:>4} | {content}\n     | {:>column$}", "^")
        };
        Self { file: file.to_owned(), line, column, message: message.into(), excerpt }
    }
}

/// An experiment that was read and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What it is, in a few words.
    pub title: String,
    /// What it asks, in a sentence.
    pub question: String,
    /// The baseline and the change.
    pub arms: [Arm; 2],
    /// The metric that the verdict is on.
    pub metric: Metric,
    pub secondary: Vec<Metric>,
    pub rounds: Rounds,
    /// The guests to run in, if not on this machine.
    pub guests: Option<Guests>,
    /// The file as it was read.
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct Arm {
    pub name: String,
    /// What is changed on the machine.
    pub settings: Vec<Setting>,
    pub work: Work,
    /// What is in front of the command.
    pub prefix: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// CPUs to run on.
    pub cpus: Option<CpuSet>,
    pub nice: Option<i32>,
    /// The handoff program to run a workload with, if not this one.
    pub program: Option<PathBuf>,
    /// What must be seen in a run of this arm.
    pub proofs: Vec<Proof>,
}

#[derive(Debug, Clone)]
pub enum Work {
    Workload(Box<Workload>),
    /// Any command, with figures in its output.
    Command {
        argv: Vec<String>,
        figures: Vec<Figure>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: String,
    /// Which way is better; `None` takes the workload's word.
    pub better: Option<Direction>,
    /// The share below which a difference does not matter.
    pub margin: f64,
}

/// How many rounds, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    pub stopping: Stopping,
    /// Rounds before the first that counts.
    pub warm_up: usize,
    /// Decides the order inside of each round.
    pub seed: u64,
    /// The run ends when it has taken so long.
    pub budget: Duration,
    /// How long to wait before each run for the machine to be quiet; zero does not wait.
    pub quiet: Duration,
    /// Whether the workload runs in a control group of high weight.
    pub cgroup: Cgroup,
    /// A single run is killed when it takes longer.
    pub limit: Duration,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            stopping: Stopping::default(),
            warm_up: 1,
            seed: 1,
            budget: Duration::from_secs(3600),
            quiet: Duration::ZERO,
            cgroup: Cgroup::Off,
            limit: Duration::from_secs(600),
        }
    }
}

impl Experiment {
    /// Reads and checks a file: one experiment, or one for each value of its `[sweep]`.
    ///
    /// # Errors
    ///
    /// If it cannot be read (then the place is its first line), or has a mistake.
    pub fn read(path: &Path) -> Result<Vec<Self>, FileError> {
        Self::read_for(path, RunsOn::ThisMachine)
    }

    /// [`Experiment::read`] for arms that run `there`.
    pub fn read_for(path: &Path, there: RunsOn) -> Result<Vec<Self>, FileError> {
        let text = std::fs::read_to_string(path).map_err(|error| FileError::unreadable(path, &error))?;
        Self::parse_for(path, &text, there)
    }

    /// Checks the text of a file; `path` is for its errors. Never empty.
    pub fn parse(path: &Path, text: &str) -> Result<Vec<Self>, FileError> {
        Self::parse_for(path, text, RunsOn::ThisMachine)
    }

    /// [`Experiment::parse`] for another machine: settings, proofs and programs are not looked for here.
    pub fn parse_remote(path: &Path, text: &str) -> Result<Vec<Self>, FileError> {
        Self::parse_for(path, text, RunsOn::AnotherMachine)
    }

    fn parse_for(path: &Path, text: &str, there: RunsOn) -> Result<Vec<Self>, FileError> {
        let reader = Reader { file: path, text };
        let form: FileForm = toml::from_str(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), error.message()))?;
        let Some(sweep) = &form.sweep else {
            return Ok(vec![Self::of(&reader, &form, &form.workload, there)?]);
        };
        let points = reader.sweep(sweep, &form.workload)?;
        let experiment = |(point, workload)| {
            let mut experiment = Self::of(&reader, &form, &workload, there)?;
            experiment.title += &format!(", {point}");
            // What is resumed is told by the text.
            experiment.text += &format!("\n# This run: {point}\n");
            Ok(experiment)
        };
        points.into_iter().map(experiment).collect()
    }

    fn of(
        reader: &Reader<'_>,
        form: &FileForm,
        workload: &Spanned<WorkloadForm>,
        there: RunsOn,
    ) -> Result<Self, FileError> {
        let guests = reader.guests(form.guest.as_ref(), [&form.baseline, &form.change])?;
        let there = if guests.is_some() { RunsOn::AnotherMachine } else { there };
        let arms = [reader.arm(workload, &form.baseline, there)?, reader.arm(workload, &form.change, there)?];
        if form.baseline.get_ref().name == form.change.get_ref().name {
            return Err(reader.error(form.change.span(), "both arms have the same name"));
        }
        let metric = reader.metric(&form.metric)?;
        let secondary: Vec<Metric> =
            form.secondary.iter().map(|form| reader.metric(form)).collect::<Result<_, _>>()?;
        if let Some(twice) = form.secondary.iter().find(|second| second.get_ref().name == metric.name) {
            return Err(reader.error(twice.span(), "this is the primary metric already"));
        }
        let rounds =
            form.rounds.as_ref().map_or_else(|| Ok(Rounds::default()), |form| reader.rounds(form))?;
        Ok(Self {
            title: form.title.clone(),
            question: form.question.clone(),
            arms,
            metric,
            secondary,
            rounds,
            guests,
            text: reader.text.to_owned(),
        })
    }

    /// The arm behind an id: A and A' are both the baseline.
    pub fn arm(&self, id: ArmId) -> &Arm {
        if id == ArmId::B { &self.arms[1] } else { &self.arms[0] }
    }

    /// One run of the baseline (0) or the change (1), with `handoff` as the program that runs workloads.
    pub fn request(&self, arm: usize, handoff: &Path) -> RunRequest {
        let (arm, rounds) = (&self.arms[arm], &self.rounds);
        RunRequest {
            settings: arm.settings.clone(),
            proofs: arm.proofs.clone(),
            task: arm.task(handoff, rounds.limit),
            quiet: rounds.quiet,
            cgroup: rounds.cgroup,
        }
    }
}

impl Arm {
    /// An arm that runs a command and changes nothing.
    #[must_use]
    pub fn of_command(name: &str, argv: Vec<String>, figures: Vec<Figure>) -> Self {
        Self {
            name: name.to_owned(),
            settings: Vec::new(),
            work: Work::Command { argv, figures },
            prefix: Vec::new(),
            environment: BTreeMap::new(),
            cpus: None,
            nice: None,
            program: None,
            proofs: Vec::new(),
        }
    }

    /// What to run, with `handoff` as the program that runs workloads.
    pub fn task(&self, handoff: &Path, limit: Duration) -> Task {
        let (work, input, figures) = match &self.work {
            Work::Command { argv, figures } => (argv.clone(), None, figures.clone()),
            Work::Workload(workload) => {
                let program = self.program.as_deref().unwrap_or(handoff).display().to_string();
                let argv = [program.as_str(), "workload", "spec", "-", "--format", "json"].map(str::to_owned);
                let spec = serde_json::to_string(workload).expect("a workload has no map with other keys");
                (argv.to_vec(), Some(spec), Vec::new())
            }
        };
        Task {
            argv: self.prefix.iter().cloned().chain(work).collect(),
            is_workload: input.is_some(),
            input,
            figures,
            environment: self.environment.clone(),
            cpus: self.cpus.clone(),
            nice: self.nice,
            groups: Vec::new(),
            limit,
        }
    }
}
