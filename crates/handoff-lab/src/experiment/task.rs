//! One run of a workload or a command in a process of its own, and the figures that it gave.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use handoff_placement::CpuSet;
use handoff_workloads::measurement::Better;
use handoff_workloads::{Outcome, Usage};
use serde::{Deserialize, Serialize};

use super::pointer::number_at;
use super::sys::{self, Birth, Wait};
use crate::stats::judge::Direction;

/// How much of a command's output is read for figures; more is an error.
const MOST_OUTPUT: u64 = 64 << 20;

/// A figure in the output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub pick: Pick,
    /// Its unit, for people.
    pub unit: String,
}

/// Where a figure is in the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// At this JSON pointer (RFC 6901) of output that is one JSON value.
    Json(String),
    /// The first group of this regular expression, at its first match.
    Regex(String),
}

/// What to run for an arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    pub argv: Vec<String>,
    /// What it reads on standard input.
    pub input: Option<String>,
    /// Whether its output is an [`Outcome`] in JSON.
    pub is_workload: bool,
    pub figures: Vec<Figure>,
    /// Variables that are added to its environment.
    pub environment: BTreeMap<String, String>,
    /// CPUs to run on.
    pub cpus: Option<CpuSet>,
    pub nice: Option<i32>,
    /// Folders of control groups to run in; a machine has its own.
    #[serde(skip)]
    pub groups: Vec<PathBuf>,
    /// It is killed when it takes longer.
    pub limit: Duration,
}

/// A unit and a direction, where they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSemantics {
    pub unit: String,
    /// Which way is better; `None` if nobody said.
    pub better: Option<Direction>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Wall time in seconds.
    pub seconds: f64,
    pub values: BTreeMap<String, f64>,
    /// Counters of the workload by name: growth during the run.
    pub counters: BTreeMap<String, f64>,
    #[serde(rename = "meanings")]
    pub semantics: BTreeMap<String, MetricSemantics>,
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("cannot start `{command}`")]
    Start { command: String, source: io::Error },
    #[error(
        "`{command}` ended with {status}, and only 0 is a run (sh -c 'COMMAND || true' ends with 0){}",
        tail(stderr)
    )]
    Failed { command: String, status: ExitStatus, stderr: String },
    /// Of this program's own: how it was started says nothing to the file's author.
    #[error("the workload failed{}", tail(stderr.trim_start().trim_start_matches("error: ")))]
    Workload { stderr: String },
    #[error("`{command}` was killed after {} s; raise `limit_seconds` if it needs longer", limit.as_secs())]
    Late { command: String, limit: Duration },
    #[error("the output of `{command}` has no figure {name:?}: {reason}")]
    Figure { command: String, name: String, reason: String },
    #[error("the output of `{command}` cannot be used: {reason}")]
    Output { command: String, reason: String },
    #[error("cannot {what}")]
    Io { what: String, source: io::Error },
}

fn tail(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() {
        return String::new();
    }
    let start = text.char_indices().rev().nth(600).map_or(0, |(index, _)| index);
    format!(": {}", &text[start..])
}

/// Splits a command line into words as a shell does, without expanding anything.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let into = word.get_or_insert_with(String::new);
                loop {
                    match letters.next() {
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => into.extend(letters.next()),
                        Some(other) => into.push(other),
                        None => return Err(format!("the quote {letter} is not closed in: {line}")),
                    }
                }
            }
            '\\' => word.get_or_insert_with(String::new).extend(letters.next()),
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_with(String::new).push(other),
        }
    }
    words.extend(word);
    if words.is_empty() { Err("the command is empty".to_owned()) } else { Ok(words) }
}

/// What only a shell would understand in a line for [`words`], where it is not quoted: `|`, `>`, `$`, `*` and the like.
pub fn shell_syntax(line: &str) -> Vec<char> {
    let mut found = Vec::new();
    let (mut quote, mut backslash) = (None, false);
    for letter in line.chars() {
        let escaped = std::mem::replace(&mut backslash, false);
        if escaped {
            continue;
        }
        backslash = letter == '\\' && quote != Some('\'');
        let special = match quote {
            Some('\'') => false,
            Some(_) => matches!(letter, '$' | '`'),
            None => matches!(letter, '|' | '&' | ';' | '<' | '>' | '$' | '`' | '*' | '?' | '(' | ')'),
        };
        if special && !found.contains(&letter) {
            found.push(letter);
        }
        quote = match (quote, letter) {
            (None, '\'' | '"') => Some(letter),
            (Some(open), letter) if open == letter => None,
            _ => quote,
        };
    }
    found
}

impl Task {
    /// The command for people.
    pub fn command(&self) -> String {
        self.argv.join(" ")
    }

    pub fn run(&self) -> Result<Run, TaskError> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |source| TaskError::Io { what, source }
        };
        let input = self.input_file().map_err(io("prepare the input"))?;
        let mut stdout = tempfile::tempfile().map_err(io("make a temporary file"))?;
        let mut stderr = tempfile::tempfile().map_err(io("make a temporary file"))?;
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).envs(&self.environment).stdin(input);
        command.stdout(stdout.try_clone().map_err(io("share a file"))?);
        command.stderr(stderr.try_clone().map_err(io("share a file"))?);
        let groups = self.open_groups().map_err(io("enter the control group"))?;
        sys::prepare(&mut command, Birth { groups, cpus: self.cpus.clone(), nice: self.nice });
        tracing::debug!("starting {command:?}");
        let start = Instant::now();
        let child = command.spawn().map_err(|source| TaskError::Start { command: self.command(), source })?;
        let (status, usage) = match sys::wait(&child, self.limit) {
            Ok(Wait::Ended(status, usage)) => (status, usage),
            Ok(Wait::Late) => {
                sys::kill(&child);
                return Err(TaskError::Late { command: self.command(), limit: self.limit });
            }
            Err(source) => {
                sys::kill(&child);
                return Err(TaskError::Io { what: "wait for the run".to_owned(), source });
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            let stderr = read(&mut stderr).unwrap_or_default();
            return Err(if self.is_workload {
                TaskError::Workload { stderr }
            } else {
                TaskError::Failed { command: self.command(), status, stderr }
            });
        }
        let mut run = Run { seconds, ..Run::default() };
        run.add_usage(&usage);
        if self.is_workload || !self.figures.is_empty() {
            let output = read(&mut stdout).map_err(|reason| self.unusable(reason))?;
            if self.is_workload {
                run.add_outcome(&self.outcome(&output)?);
            }
            self.pick(&output, &mut run)?;
        }
        Ok(run)
    }

    fn input_file(&self) -> io::Result<Stdio> {
        let Some(text) = &self.input else { return Ok(Stdio::null()) };
        let mut file = tempfile::tempfile()?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file.into())
    }

    fn open_groups(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |folder: &PathBuf| OpenOptions::new().write(true).open(folder.join("cgroup.procs"));
        self.groups.iter().map(|folder| open(folder).map(OwnedFd::from)).collect()
    }

    fn unusable(&self, reason: impl Into<String>) -> TaskError {
        TaskError::Output { command: self.command(), reason: reason.into() }
    }

    fn outcome(&self, output: &str) -> Result<Outcome, TaskError> {
        serde_json::from_str(output).map_err(|error| self.unusable(format!("it is no outcome: {error}")))
    }

    fn pick(&self, output: &str, run: &mut Run) -> Result<(), TaskError> {
        for figure in &self.figures {
            let missing = |reason: String| TaskError::Figure {
                command: self.command(),
                name: figure.name.clone(),
                reason,
            };
            let value = match &figure.pick {
                Pick::Json(pointer) => {
                    let found = number_at(output, pointer)
                        .map_err(|error| missing(format!("the output is no JSON: {error}")))?;
                    found.ok_or_else(|| missing(format!("no number is at {pointer}")))?
                }
                Pick::Regex(pattern) => {
                    let regex =
                        regex_lite::Regex::new(pattern).map_err(|error| missing(error.to_string()))?;
                    let found = regex.captures(output).and_then(|groups| groups.get(1));
                    let text = found.ok_or_else(|| missing(format!("nothing matches {pattern}")))?.as_str();
                    text.trim().parse().map_err(|_| missing(format!("{text:?} is not a number")))?
                }
            };
            run.values.insert(figure.name.clone(), value);
            run.semantics
                .insert(figure.name.clone(), MetricSemantics { unit: figure.unit.clone(), better: None });
        }
        Ok(())
    }
}

fn read(file: &mut File) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.rewind().map_err(|error| error.to_string())?;
    file.take(MOST_OUTPUT + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_OUTPUT {
        return Err("it is longer than 64 MiB".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is measured of every run, with its unit.
pub const USAGE: [(&str, &str); 9] = [
    ("wall", "s"),
    ("user", "s"),
    ("sys", "s"),
    ("cpu", "s"),
    ("max-rss", "B"),
    ("minor-faults", "count"),
    ("major-faults", "count"),
    ("voluntary-switches", "count"),
    ("involuntary-switches", "count"),
];

impl Run {
    fn add_usage(&mut self, usage: &Usage) {
        let values = [
            self.seconds,
            usage.user.as_secs_f64(),
            usage.system.as_secs_f64(),
            (usage.user + usage.system).as_secs_f64(),
            usage.max_rss as f64,
            usage.minor_faults as f64,
            usage.major_faults as f64,
            usage.voluntary_switches as f64,
            usage.involuntary_switches as f64,
        ];
        for ((name, unit), value) in USAGE.into_iter().zip(values) {
            self.values.insert(name.to_owned(), value);
            let semantics = MetricSemantics { unit: unit.to_owned(), better: Some(Direction::Lower) };
            self.semantics.insert(name.to_owned(), semantics);
        }
    }

    /// The median of each measurement under its name; mean, p99 and maximum of those with several values
    /// as `name:mean`, `name:p99` and `name:max`.
    fn add_outcome(&mut self, outcome: &Outcome) {
        for measurement in &outcome.measurements {
            let summary = measurement.summary();
            let better = match measurement.better() {
                Better::Lower => Some(Direction::Lower),
                Better::Higher => Some(Direction::Higher),
                Better::Neither => None,
            };
            let semantics = MetricSemantics { unit: measurement.unit().symbol().to_owned(), better };
            let mut add = |name: String, value: f64| {
                self.values.insert(name.clone(), value);
                self.semantics.insert(name, semantics.clone());
            };
            let name = measurement.name();
            add(name.to_owned(), summary.p50);
            if summary.count > 1 {
                add(format!("{name}:mean"), summary.mean);
                add(format!("{name}:p99"), summary.p99);
                add(format!("{name}:max"), summary.max);
            }
        }
        for counter in &outcome.counters {
            if let Some(value) = counter.value {
                self.counters.insert(counter.name.clone(), value as f64);
                self.values.insert(counter.name.clone(), value as f64);
                let semantics = MetricSemantics { unit: "count".to_owned(), better: None };
                self.semantics.insert(counter.name.clone(), semantics);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(argv: &[&str]) -> Task {
        Task {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            input: None,
            is_workload: false,
            figures: Vec::new(),
            environment: BTreeMap::new(),
            cpus: None,
            nice: None,
            groups: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_only_a_shell_understands_is_found_outside_of_quotes() {
        assert_eq!(shell_syntax("echo a > f && ls *"), ['>', '&', '*']);
        assert_eq!(shell_syntax(r#"sh -c 'a | b > $c'"#), [' '; 0]);
        assert_eq!(shell_syntax(r#"awk "$HOME > 1" '{ print $1 }'"#), ['$']);
        assert_eq!(shell_syntax(r"echo \> \' > f"), ['>']);
        assert_eq!(shell_syntax("./bench --rate=3"), [' '; 0]);
    }

    #[test]
    fn words_of_a_command_line() {
        assert_eq!(words("sleep 0.1"), Ok(vec!["sleep".into(), "0.1".into()]));
        assert_eq!(
            words(r#"sh -c 'a "b" c' "d\"e" f\ g ''"#),
            Ok(vec![
                "sh".into(),
                "-c".into(),
                "a \"b\" c".into(),
                "d\"e".into(),
                "f g".into(),
                String::new()
            ])
        );
        assert!(words("  ").is_err());
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn usage_and_figures_of_a_command() {
        let mut task = task(&["sh", "-c", "echo '{\"a\": {\"b\": 2.5}}'"]);
        task.figures = vec![
            Figure { name: "json".into(), pick: Pick::Json("/a/b".into()), unit: "x".into() },
            Figure { name: "regex".into(), pick: Pick::Regex(r#""b": ([0-9.]+)"#.into()), unit: "x".into() },
        ];
        let run = task.run().expect("runs");
        assert_eq!((run.values["json"], run.values["regex"]), (2.5, 2.5));
        assert!(run.seconds > 0.0 && run.values["wall"] == run.seconds);
        assert!(run.values["max-rss"] > 100_000.0 && run.values["minor-faults"] > 0.0);
        task.figures = vec![Figure { name: "c".into(), pick: Pick::Json("/c".into()), unit: String::new() }];
        assert!(task.run().expect_err("no /c").to_string().contains("no number is at /c"));
    }

    #[test]
    fn failures_say_what_happened() {
        let error = task(&["/no/such/program"]).run().expect_err("no program");
        assert!(error.to_string().contains("cannot start `/no/such/program`"));
        let error = task(&["sh", "-c", "echo alas >&2; exit 3"]).run().expect_err("fails").to_string();
        assert!(error.contains("exit status: 3") && error.ends_with(": alas"), "{error}");
        let mut workload = task(&["sh", "-c", "echo error: it needs root >&2; exit 2"]);
        workload.is_workload = true;
        assert_eq!(workload.run().expect_err("fails").to_string(), "the workload failed: it needs root");
    }

    #[test]
    fn a_late_run_is_killed_with_its_children() {
        let marker = tempfile::NamedTempFile::new().expect("a file");
        let script = format!("sleep 300 & echo $! > {}; wait", marker.path().display());
        let mut task = task(&["sh", "-c", &script]);
        // Long enough for the shell to begin on a machine that is busy.
        task.limit = Duration::from_secs(5);
        assert!(matches!(task.run(), Err(TaskError::Late { .. })));
        let pid = std::fs::read_to_string(marker.path()).expect("the child's pid");
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |text| text.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')))
        };
        for _ in 0..200 {
            if gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the child {pid} lives");
    }

    #[test]
    fn environment_input_cpus_and_nice_reach_the_process() {
        let mut task = task(&["sh", "-c", "read x; echo $x $Y $(nice) $(taskset -pc $$ | sed 's/.*: //')"]);
        task.input = Some("in\n".into());
        task.environment.insert("Y".into(), "env".into());
        task.nice = Some(11);
        task.cpus = Some(CpuSet::of(0));
        let all = r"^(in env 11 0)\s*$";
        task.figures = vec![Figure { name: "x".into(), pick: Pick::Regex(all.into()), unit: String::new() }];
        // The match is not a number, and the error shows what matched.
        let error = task.run().expect_err("no number").to_string();
        assert!(error.contains("\"in env 11 0\" is not a number"), "{error}");
    }
}
