//! From the form of a file to an experiment: every check, each with the place of what it refuses.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_placement::CpuSet;
use handoff_workloads::Workload;
use toml::Spanned;

use super::form::{
    ArmForm, CommandForm, FigureForm, From, MetricForm, ProofForm, RoundsForm, SweepForm, WorkloadForm,
};
use super::{Arm, FileError, Metric, Rounds, Work};
use crate::experiment::executor::Cgroup;
use crate::experiment::proof::{Proof, Source};
use crate::experiment::setting::Setting;
use crate::experiment::task::{Figure, Pick, words};
use crate::experiment::with_causes;
use crate::stats::sequential::Stopping;

/// Where the arms of a file without `[guest]` run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    /// On this machine: whether it has what they set and count is checked with the file.
    ThisMachine,
    /// On another one, which tells in the first run of an arm.
    AnotherMachine,
}

/// A file that is being read.
pub(super) struct Reader<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Reader<'_> {
    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        FileError::at(self.file, self.text, span, message)
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

    pub(super) fn arm(
        &self,
        workload: &Spanned<WorkloadForm>,
        form: &Spanned<ArmForm>,
        there: RunsOn,
    ) -> Result<Arm, FileError> {
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
            let path = setting.path().map_err(|error| self.error(span.clone(), error.to_string()))?;
            if there == RunsOn::AnotherMachine {
                continue;
            }
            // That it can be read tells that this kernel has it; that it can be written, only trying does.
            setting.undo().map_err(|error| self.error(span.clone(), with_causes(&error)))?;
            rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).map_err(|error| {
                self.error(
                    span.clone(),
                    format!("{} cannot be written ({error}); run as root", path.display()),
                )
            })?;
        }
        let cpus = arm.cpus.as_ref().map(|text| {
            let cpus: Result<CpuSet, _> = text.get_ref().parse();
            cpus.map_err(|error| self.error(text.span(), with_causes(&error)))
        });
        if let Some(nice) = arm.nice.as_ref().filter(|nice| !(-20..=19).contains(nice.get_ref())) {
            return Err(
                self.error(nice.span(), format!("nice is {}; it goes from -20 to 19", nice.get_ref()))
            );
        }
        let missing =
            |program: &&Spanned<PathBuf>| there == RunsOn::ThisMachine && !program.get_ref().is_file();
        if let Some(program) = arm.program.as_ref().filter(missing) {
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
            proofs: arm.proof.iter().map(|form| self.proof(form, there)).collect::<Result<_, _>>()?,
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
                let parsed = parsed.map_err(|error: toml::de::Error| workload_error(in_words(&error)))?;
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

    fn proof(&self, form: &Spanned<ProofForm>, there: RunsOn) -> Result<Proof, FileError> {
        let proof = form.get_ref();
        let source = match (proof.from, &proof.path) {
            (From::Workload, None) => Source::Workload,
            (From::Netstat, None) => Source::Netstat,
            (From::Schedstat, None) => Source::Schedstat,
            (From::Tracepoint, None) => Source::Tracepoint,
            (From::Function, None) => Source::Function,
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
        if there == RunsOn::ThisMachine {
            checked.start().map_err(|error| self.error(form.span(), error.to_string()))?;
        }
        Ok(checked)
    }

    /// What each point of a sweep is called, and its workload.
    pub(super) fn sweep(
        &self,
        form: &Spanned<SweepForm>,
        workload: &Spanned<WorkloadForm>,
    ) -> Result<Vec<(String, Spanned<WorkloadForm>)>, FileError> {
        let SweepForm { parameter, values } = form.get_ref();
        if workload.get_ref().name.is_none() {
            return Err(self.error(form.span(), "only the parameters of a workload can be swept"));
        }
        if values.is_empty() || values.len() > 100 {
            return Err(self.error(form.span(), "a sweep has 1 to 100 values"));
        }
        let point = |value: &toml::Value| {
            let mut form = workload.get_ref().clone();
            form.parameters.insert(parameter.clone(), value.clone());
            (format!("{parameter} = {value}"), Spanned::new(workload.span(), form))
        };
        Ok(values.iter().map(point).collect())
    }

    pub(super) fn metric(&self, form: &Spanned<MetricForm>) -> Result<Metric, FileError> {
        let metric = form.get_ref();
        if !(metric.margin > 0.0 && metric.margin < 1.0) {
            let message = format!("margin is {}; it is a share such as 0.02 for 2%", metric.margin);
            return Err(self.error(self.key_in(form.span(), "`margin`"), message));
        }
        Ok(Metric { name: metric.name.clone(), better: metric.better, margin: metric.margin })
    }

    pub(super) fn rounds(&self, form: &Spanned<RoundsForm>) -> Result<Rounds, FileError> {
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
            cgroup: if rounds.cgroup { Cgroup::On } else { Cgroup::Off },
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

/// What is wrong with parameters: of a number where a name is wanted, serde speaks as of its own types.
fn in_words(error: &toml::de::Error) -> String {
    error.message().replace(
        "invalid type: unit variant, expected string only",
        "this is a number; a name in quotes is wanted",
    )
}
