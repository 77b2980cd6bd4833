//! Experiment files: TOML, checked as a whole before anything runs, with line and column in each error.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_placement::CpuSet;
use handoff_workloads::Workload;
use serde::Deserialize;
use toml::Spanned;

use super::ArmId;
use super::proof::{Expect, Proof, Source};
use super::setting::Setting;
use super::task::{Figure, Pick, Task, words};
use crate::stats::judge::Direction;
use crate::stats::sequential::Stopping;

/// A mistake in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}\n{excerpt}", file.display())]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The line with a mark below.
    pub excerpt: String,
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
    /// Metrics beside it.
    pub secondary: Vec<Metric>,
    /// Rounds, rule, budget.
    pub rounds: Rounds,
    /// The file as it was read.
    pub text: String,
}

/// An arm.
#[derive(Debug, Clone)]
pub struct Arm {
    /// For people.
    pub name: String,
    /// What is changed on the machine.
    pub settings: Vec<Setting>,
    /// What is run.
    pub work: Work,
    /// What is in front of the command.
    pub prefix: Vec<String>,
    /// Added to the environment.
    pub environment: BTreeMap<String, String>,
    /// CPUs to run on.
    pub cpus: Option<CpuSet>,
    /// Nice value.
    pub nice: Option<i32>,
    /// The handoff program to run a workload with, if not this one.
    pub program: Option<PathBuf>,
    /// What must be seen in a run of this arm.
    pub proofs: Vec<Proof>,
}

/// What an arm runs.
#[derive(Debug, Clone)]
pub enum Work {
    /// A workload of Handoff.
    Workload(Box<Workload>),
    /// Any command, with figures in its output.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
        /// Figures in its output.
        figures: Vec<Figure>,
    },
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Which way is better; `None` takes the workload's word.
    pub better: Option<Direction>,
    /// The share below which a difference does not matter.
    pub margin: f64,
}

/// How many rounds, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// When to stop.
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
    pub cgroup: bool,
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
            cgroup: false,
            limit: Duration::from_secs(600),
        }
    }
}

// What a file may hold. Unknown keys are errors everywhere.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    title: String,
    #[serde(default)]
    question: String,
    workload: Spanned<WorkloadForm>,
    baseline: Spanned<ArmForm>,
    change: Spanned<ArmForm>,
    metric: Spanned<MetricForm>,
    #[serde(default)]
    secondary: Vec<Spanned<MetricForm>>,
    #[serde(default)]
    rounds: Option<Spanned<RoundsForm>>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct WorkloadForm {
    name: Option<Spanned<String>>,
    #[serde(default)]
    parameters: toml::Table,
    command: Option<Spanned<CommandForm>>,
    #[serde(default)]
    figures: Vec<Spanned<FigureForm>>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum CommandForm {
    Line(String),
    Words(Vec<String>),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct FigureForm {
    name: String,
    json: Option<String>,
    regex: Option<String>,
    #[serde(default)]
    unit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmForm {
    name: String,
    #[serde(default)]
    parameters: toml::Table,
    command: Option<Spanned<CommandForm>>,
    #[serde(default)]
    sysctl: BTreeMap<Spanned<String>, Scalar>,
    #[serde(default)]
    file: BTreeMap<Spanned<String>, Scalar>,
    #[serde(default)]
    scheduler_features: Vec<Spanned<String>>,
    #[serde(default)]
    environment: BTreeMap<String, Scalar>,
    #[serde(default)]
    prefix: Vec<String>,
    cpus: Option<Spanned<String>>,
    nice: Option<Spanned<i32>>,
    program: Option<Spanned<PathBuf>>,
    #[serde(default)]
    proof: Vec<Spanned<ProofForm>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            // The kernel's switches.
            Self::Bool(on) => u8::from(*on).to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProofForm {
    counter: String,
    #[serde(default)]
    from: From,
    path: Option<PathBuf>,
    expect: Expect,
    #[serde(default)]
    per_second: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum From {
    #[default]
    Workload,
    Netstat,
    Schedstat,
    File,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricForm {
    name: String,
    better: Option<Direction>,
    #[serde(default = "two_percent")]
    margin: f64,
}

fn two_percent() -> f64 {
    0.02
}

/// All keys of `[rounds]`: those of a rule, and those of any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundsForm {
    rounds: Option<usize>,
    looks: Option<Vec<usize>>,
    half_width: Option<f64>,
    least: Option<usize>,
    most: Option<usize>,
    warm_up: Option<usize>,
    seed: Option<u64>,
    budget_seconds: Option<f64>,
    quiet_seconds: Option<f64>,
    limit_seconds: Option<f64>,
    #[serde(default)]
    cgroup: bool,
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Experiment {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read (then the place is its first line), or has a mistake.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(|error| FileError {
            file: path.to_owned(),
            line: 1,
            column: 1,
            message: format!("cannot read the file: {error}"),
            excerpt: String::new(),
        })?;
        Self::parse(path, &text)
    }

    /// Checks the text of a file; `path` is for its errors.
    ///
    /// # Errors
    ///
    /// If it has a mistake.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let reader = Reader { file: path, text };
        let form: FileForm = toml::from_str(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), error.message()))?;
        let workload = &form.workload;
        let arms = [reader.arm(workload, &form.baseline)?, reader.arm(workload, &form.change)?];
        if form.baseline.get_ref().name == form.change.get_ref().name {
            return Err(reader.error(form.change.span(), "both arms have the same name"));
        }
        let metric = reader.metric(&form.metric)?;
        let secondary: Vec<Metric> =
            form.secondary.iter().map(|form| reader.metric(form)).collect::<Result<_, _>>()?;
        if let Some(twice) = form.secondary.iter().find(|second| second.get_ref().name == metric.name) {
            return Err(reader.error(twice.span(), "this is the primary metric already"));
        }
        let rounds = form.rounds.map_or_else(|| Ok(Rounds::default()), |form| reader.rounds(&form))?;
        Ok(Self {
            title: form.title,
            question: form.question,
            arms,
            metric,
            secondary,
            rounds,
            text: text.to_owned(),
        })
    }

    /// The arm behind an id: A and A' are both the baseline.
    #[must_use]
    pub fn arm(&self, id: ArmId) -> &Arm {
        if id == ArmId::B { &self.arms[1] } else { &self.arms[0] }
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
    #[must_use]
    pub fn task(&self, handoff: &Path, groups: &[PathBuf], limit: Duration) -> Task {
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
            groups: groups.to_vec(),
            limit,
        }
    }

    /// What distinguishes it, in words.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.settings.iter().map(Setting::describe).collect();
        lines.push(match &self.work {
            Work::Command { argv, .. } => format!("command {}", argv.join(" ")),
            Work::Workload(workload) => {
                format!("workload {}", serde_json::to_string(workload).unwrap_or_default())
            }
        });
        lines.extend((!self.prefix.is_empty()).then(|| format!("prefix {}", self.prefix.join(" "))));
        lines.extend(self.environment.iter().map(|(name, value)| format!("environment {name}={value}")));
        lines.extend(self.cpus.as_ref().map(|cpus| format!("CPUs {cpus}")));
        lines.extend(self.nice.map(|nice| format!("nice {nice}")));
        lines.extend(self.program.as_ref().map(|program| format!("program {}", program.display())));
        lines.extend(self.proofs.iter().map(|proof| format!("proof: {}", proof.describe())));
        lines
    }
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        let start = span.start.min(self.text.len());
        let start = (0..=start).rev().find(|index| self.text.is_char_boundary(*index)).unwrap_or(0);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let line = before.matches('\n').count() + 1;
        let column = self.text[line_start..start].chars().count() + 1;
        let content = self.text[line_start..].lines().next().unwrap_or_default();
        let excerpt = format!("{line:>4} | {content}\n     | {:>column$}", "^");
        FileError { file: self.file.to_owned(), line, column, message: message.into(), excerpt }
    }

    /// Where a key that an error names stands inside of a table, or the table.
    fn key_in(&self, span: Range<usize>, message: &str) -> Range<usize> {
        let key = message.split('`').nth(1).unwrap_or_default();
        let extent = self.extent(span.clone());
        // The header may have a key's name: `rounds` in `[rounds]`.
        let start = if extent == span { span.start } else { span.end };
        let inside = self.text.get(start..extent.end).unwrap_or_default();
        match inside.find(key) {
            Some(offset) if !key.is_empty() => start + offset..start + offset + key.len(),
            _ => span,
        }
    }

    /// All of a table. The span of one that has a header is that of the header: the table goes on to the
    /// next header that is not of a table inside of it.
    fn extent(&self, span: Range<usize>) -> Range<usize> {
        let header = self.text.get(span.clone()).unwrap_or_default();
        if !header.starts_with('[') {
            return span;
        }
        let name = header.trim_matches(['[', ']']);
        let rest = self.text.get(span.end..).unwrap_or_default();
        let mut end = span.end;
        for line in rest.split_inclusive('\n') {
            let inner = line.trim_start().trim_start_matches('[');
            let is_header = inner.len() < line.trim_start().len();
            if is_header && inner.strip_prefix(name).is_none_or(|more| !more.starts_with('.')) {
                break;
            }
            end += line.len();
        }
        span.start..end
    }

    fn arm(&self, workload: &Spanned<WorkloadForm>, form: &Spanned<ArmForm>) -> Result<Arm, FileError> {
        let arm = form.get_ref();
        let work = self.work(workload, form)?;
        let mut settings = Vec::new();
        for (name, value) in &arm.sysctl {
            settings
                .push((name.span(), Setting::Sysctl { name: name.get_ref().clone(), value: value.text() }));
        }
        for (path, value) in &arm.file {
            settings.push((path.span(), Setting::File { path: path.get_ref().into(), value: value.text() }));
        }
        for token in &arm.scheduler_features {
            settings.push((token.span(), Setting::Feature { token: token.get_ref().clone() }));
        }
        for (span, setting) in &settings {
            // That it can be read tells that this kernel has it; that it can be written, only trying does.
            setting.undo().map_err(|error| self.error(span.clone(), with_source(&error)))?;
            let path = setting.path().map_err(|error| self.error(span.clone(), error.to_string()))?;
            rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).map_err(|error| {
                self.error(
                    span.clone(),
                    format!("{} cannot be written ({error}); run as root", path.display()),
                )
            })?;
        }
        let cpus = arm.cpus.as_ref().map(|text| {
            let cpus: Result<CpuSet, _> = text.get_ref().parse();
            cpus.map_err(|error| self.error(text.span(), with_source(&error)))
        });
        if let Some(nice) = arm.nice.as_ref().filter(|nice| !(-20..=19).contains(nice.get_ref())) {
            return Err(
                self.error(nice.span(), format!("nice is {}; it goes from -20 to 19", nice.get_ref()))
            );
        }
        if let Some(program) = arm.program.as_ref().filter(|program| !program.get_ref().is_file()) {
            return Err(
                self.error(program.span(), format!("there is no file {}", program.get_ref().display()))
            );
        }
        Ok(Arm {
            name: arm.name.clone(),
            settings: settings.into_iter().map(|(_, setting)| setting).collect(),
            work,
            prefix: arm.prefix.clone(),
            environment: arm.environment.iter().map(|(name, value)| (name.clone(), value.text())).collect(),
            cpus: cpus.transpose()?,
            nice: arm.nice.as_ref().map(|nice| *nice.get_ref()),
            program: arm.program.as_ref().map(|program| program.get_ref().clone()),
            proofs: arm.proof.iter().map(|form| self.proof(form)).collect::<Result<_, _>>()?,
        })
    }

    fn work(&self, workload: &Spanned<WorkloadForm>, arm: &Spanned<ArmForm>) -> Result<Work, FileError> {
        let (form, own) = (workload.get_ref(), arm.get_ref());
        let command = own.command.as_ref().or(form.command.as_ref());
        match (&form.name, command) {
            (Some(name), None) => {
                let mut parameters = form.parameters.clone();
                merge(&mut parameters, &own.parameters);
                let parsed = Workload::parse(name.get_ref(), toml::Value::Table(parameters));
                let workload_error = |message: String| {
                    // The arm's own key is the likelier culprit where it has one of that name.
                    let inside = self.key_in(arm.span(), &message);
                    let place =
                        if inside == arm.span() { self.key_in(workload.span(), &message) } else { inside };
                    let place = if message.contains("there is no workload") { name.span() } else { place };
                    self.error(place, message)
                };
                let parsed =
                    parsed.map_err(|error: toml::de::Error| workload_error(error.message().to_owned()))?;
                parsed.check().map_err(|error| workload_error(error.to_string()))?;
                Ok(Work::Workload(Box::new(parsed)))
            }
            (None, Some(command)) => {
                if !(form.parameters.is_empty() && own.parameters.is_empty()) {
                    return Err(self.error(workload.span(), "a command has no parameters"));
                }
                let argv = match command.get_ref() {
                    CommandForm::Line(line) => words(line).map_err(|e| self.error(command.span(), e))?,
                    CommandForm::Words(words) if !words.is_empty() => words.clone(),
                    CommandForm::Words(_) => return Err(self.error(command.span(), "the command is empty")),
                };
                let figures = form.figures.iter().map(|form| self.figure(form)).collect::<Result<_, _>>()?;
                Ok(Work::Command { argv, figures })
            }
            (Some(_), Some(command)) => {
                Err(self.error(command.span(), "a workload has a name or a command, not both"))
            }
            (None, None) => Err(self.error(
                workload.span(),
                format!("a workload needs a `name` (one of {}) or a `command`", Workload::NAMES.join(", ")),
            )),
        }
    }

    fn figure(&self, form: &Spanned<FigureForm>) -> Result<Figure, FileError> {
        let figure = form.get_ref();
        let pick = match (&figure.json, &figure.regex) {
            (Some(pointer), None) if pointer.is_empty() || pointer.starts_with('/') => {
                Pick::Json(pointer.clone())
            }
            (Some(pointer), None) => {
                return Err(
                    self.error(form.span(), format!("{pointer:?} is no JSON pointer: it begins with /"))
                );
            }
            (None, Some(pattern)) => {
                let regex =
                    regex_lite::Regex::new(pattern).map_err(|e| self.error(form.span(), e.to_string()))?;
                if regex.captures_len() < 2 {
                    let message = "the expression has no group: put ( ) around the number";
                    return Err(self.error(form.span(), message));
                }
                Pick::Regex(pattern.clone())
            }
            _ => return Err(self.error(form.span(), "a figure has either `json` or `regex`")),
        };
        Ok(Figure { name: figure.name.clone(), pick, unit: figure.unit.clone() })
    }

    fn proof(&self, form: &Spanned<ProofForm>) -> Result<Proof, FileError> {
        let proof = form.get_ref();
        let source = match (proof.from, &proof.path) {
            (From::Workload, None) => Source::Workload,
            (From::Netstat, None) => Source::Netstat,
            (From::Schedstat, None) => Source::Schedstat,
            (From::File, Some(path)) => Source::File(path.clone()),
            (From::File, None) => return Err(self.error(form.span(), "a proof from a file needs its `path`")),
            (_, Some(_)) => return Err(self.error(form.span(), "`path` goes with from = \"file\" only")),
        };
        let checked = Proof {
            counter: proof.counter.clone(),
            source,
            expect: proof.expect,
            per_second: proof.per_second,
        };
        if checked.source != Source::Workload && checked.read().is_none() {
            let hint = match checked.source {
                Source::Schedstat => {
                    "; sudo sysctl kernel.sched_schedstats=1, on a kernel with CONFIG_SCHEDSTATS"
                }
                _ => "",
            };
            let message = format!("this machine does not tell the counter {}{hint}", checked.counter);
            return Err(self.error(form.span(), message));
        }
        Ok(checked)
    }

    fn metric(&self, form: &Spanned<MetricForm>) -> Result<Metric, FileError> {
        let metric = form.get_ref();
        if !(metric.margin > 0.0 && metric.margin < 1.0) {
            let message = format!("margin is {}; it is a share such as 0.02 for 2%", metric.margin);
            return Err(self.error(self.key_in(form.span(), "`margin`"), message));
        }
        Ok(Metric { name: metric.name.clone(), better: metric.better, margin: metric.margin })
    }

    fn rounds(&self, form: &Spanned<RoundsForm>) -> Result<Rounds, FileError> {
        let rounds = form.get_ref();
        let wrong =
            |key: &str, message: String| self.error(self.key_in(form.span(), &format!("`{key}`")), message);
        let stopping = match (rounds.rounds, &rounds.looks, rounds.half_width) {
            (None, None, None) => Stopping::default(),
            (Some(count), None, None) if (6..=10_000).contains(&count) => Stopping::Fixed { rounds: count },
            (Some(count), None, None) => {
                return Err(wrong("rounds", format!("rounds is {count}; 6 to 10000 are possible")));
            }
            (None, Some(looks), None) => {
                let rising = looks.is_sorted_by(|a, b| a < b);
                let possible = !looks.is_empty() && looks.len() <= Stopping::MOST_LOOKS && looks[0] >= 8;
                if !(rising && possible) {
                    let most = Stopping::MOST_LOOKS;
                    let message = format!("looks are 1 to {most} rising numbers, the first at least 8");
                    return Err(wrong("looks", message));
                }
                Stopping::Looks { looks: looks.clone() }
            }
            (None, None, Some(half_width)) => {
                let (least, most) = (rounds.least.unwrap_or(10), rounds.most.unwrap_or(100));
                if !(half_width > 0.0 && half_width < 1.0 && (7..=most).contains(&least)) {
                    let message =
                        "half_width is a share such as 0.025, least at least 7, and most not below least";
                    return Err(wrong("half_width", message.to_owned()));
                }
                Stopping::Width { half_width, least, most }
            }
            _ => {
                let message = "one of `rounds`, `looks` and `half_width` says when to stop, not several";
                return Err(self.error(form.span(), message));
            }
        };
        if rounds.half_width.is_none() && (rounds.least.is_some() || rounds.most.is_some()) {
            return Err(self.error(form.span(), "`least` and `most` go with `half_width`"));
        }
        let seconds = |key: &str, value: Option<f64>, otherwise: Duration| match value {
            None => Ok(otherwise),
            Some(value) if (0.0..=1e7).contains(&value) => Ok(Duration::from_secs_f64(value)),
            Some(value) => Err(wrong(key, format!("{key} is {value}; 0 to 10000000 are possible"))),
        };
        let normal = Rounds::default();
        Ok(Rounds {
            stopping,
            warm_up: rounds.warm_up.unwrap_or(normal.warm_up).min(100),
            seed: rounds.seed.unwrap_or(normal.seed),
            budget: seconds("budget_seconds", rounds.budget_seconds, normal.budget)?,
            quiet: seconds("quiet_seconds", rounds.quiet_seconds, normal.quiet)?,
            cgroup: rounds.cgroup,
            limit: seconds("limit_seconds", rounds.limit_seconds, normal.limit)?,
        })
    }
}

/// Lays `over` on top of `base`, table by table.
fn merge(base: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"
title = "Spinning more"
[workload]
name = "spin"
parameters = { tasks = 1, items = 2 }
[baseline]
name = "short"
[change]
name = "long"
parameters = { steps = 2000 }
proof = [{ counter = "items", expect = ">= 1" }]
[metric]
name = "wall"
[[secondary]]
name = "cpu"
better = "lower"
margin = 0.05
[rounds]
looks = [10, 20]
seed = 7
"#;

    fn parse(text: &str) -> Result<Experiment, FileError> {
        Experiment::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn a_good_file_says_what_it_means() {
        let experiment = parse(GOOD).expect("good");
        assert_eq!(experiment.rounds.stopping, Stopping::Looks { looks: vec![10, 20] });
        assert_eq!((experiment.rounds.seed, experiment.secondary[0].margin), (7, 0.05));
        let Work::Workload(workload) = &experiment.arms[1].work else { panic!("a workload") };
        let text = serde_json::to_string(workload).expect("serialises");
        assert!(text.contains("\"steps\":2000") && text.contains("\"tasks\":1"), "{text}");
        let task = experiment.arms[0].task(Path::new("/bin/handoff"), &[], Duration::from_secs(1));
        assert_eq!(task.argv[..3], ["/bin/handoff", "workload", "spec"]);
        assert!(task.input.is_some_and(|spec| spec.contains("\"workload\":\"spin\"")));
        assert_eq!(experiment.arm(ArmId::Again).name, "short");
    }

    #[test]
    fn mistakes_have_line_and_column() {
        for (from, to, line, column, says) in [
            ("seed = 7", "sede = 7", 20, 1, "unknown field `sede`"),
            ("name = \"spin\"", "name = \"spinn\"", 4, 8, "there is no workload \"spinn\""),
            ("steps = 2000", "stepps = 2000", 10, 16, "unknown field `stepps`"),
            ("margin = 0.05", "margin = 5", 17, 1, "margin is 5"),
            ("looks = [10, 20]", "looks = [20, 10]", 19, 1, "rising numbers"),
            ("looks = [10, 20]", "rounds = 3", 19, 1, "6 to 10000"),
            ("expect = \">= 1\"", "expect = \"often\"", 11, 41, "none of"),
            ("name = \"long\"", "name = \"short\"", 8, 1, "same name"),
            ("better = \"lower\"", "better = \"less\"", 16, 10, "unknown variant `less`"),
            ("name = \"cpu\"", "name = \"wall\"", 14, 1, "primary metric already"),
            ("title = \"Spinning more\"", "title = ", 2, 9, ""),
            ("[metric]", "[metrics]", 12, 2, "unknown field `metrics`"),
            ("name = \"long\"", "name = \"long\"\nnice = 40", 10, 8, "from -20 to 19"),
            ("name = \"long\"", "name = \"long\"\ncpus = \"x\"", 10, 8, ""),
            ("name = \"long\"", "name = \"long\"\nsysctl.\"a..b\" = 1", 10, 8, "not the name of a sysctl"),
            ("name = \"long\"", "name = \"long\"\nsysctl.\"kernel.no_such\" = 1", 10, 8, "cannot read"),
            ("name = \"long\"", "name = \"long\"\nfile.\"/etc/passwd\" = 1", 10, 6, "not below /sys"),
            ("name = \"long\"", "name = \"long\"\ncommand = \"true\"", 10, 11, "not both"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from} is in the file");
            let error = parse(&text).expect_err(to);
            assert!(error.message.contains(says), "{to}: {error}");
            assert_eq!((error.line, error.column), (line, column), "{to}: {error}");
            assert!(error.to_string().starts_with(&format!("x.toml:{line}:{column}: ")), "{error}");
        }
    }

    #[test]
    fn commands_and_their_figures() {
        let text = r#"
title = "t"
workload.figures = [{ name = "rate", regex = "rate ([0-9]+)", unit = "1/s" }]
[baseline]
name = "a"
command = "echo 'rate 3'"
[change]
name = "b"
command = ["echo", "rate 4"]
[metric]
name = "rate"
better = "higher"
"#;
        let experiment = parse(text).expect("good");
        let task = experiment.arms[0].task(Path::new("h"), &[], Duration::from_secs(1));
        assert_eq!(task.argv, ["echo", "rate 3"]);
        for (from, to, says) in [
            ("rate ([0-9]+)", "rate [0-9]+", "no group"),
            ("regex = \"rate ([0-9]+)\"", "json = \"rate\"", "begins with /"),
            ("regex = \"rate ([0-9]+)\", ", "", "either"),
            ("\"echo 'rate 3'\"", "\"echo 'rate\"", "not closed"),
            ("[\"echo\", \"rate 4\"]", "[]", "empty"),
        ] {
            let error = parse(&text.replace(from, to)).expect_err(to);
            assert!(error.message.contains(says), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn any_damage_is_an_error_or_a_file_and_never_a_panic(
            at in 0_usize..400, cut in 0_usize..20, insert in "[\"a-z\\[\\]=\n{}é0-9 .]{0,6}"
        ) {
            let mut text: Vec<char> = GOOD.chars().collect();
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, insert.chars());
            if let Err(error) = parse(&text.iter().collect::<String>()) {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(!error.message.is_empty());
            }
        }
    }
}
