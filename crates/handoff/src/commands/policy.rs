//! `handoff policy`: place processes by rules, and follow what happens.

use std::fmt;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use handoff_ipc::Runtime;
use handoff_placement::{Journal, RecoveryReport, Root, Tid, Topology, notice};
use handoff_policy::{
    Daemon, Error, Explanation, Policy, Problem, Process, SystemState, import_task_profiles,
};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::interrupt;
use crate::output::{Advice as _, Format, Output, Verdict, counted, style};
use crate::results::read;

const EXAMPLES: &str = "\
Examples:
  handoff policy check car.toml              what is wrong with it, with lines
  handoff policy explain car.toml 1234       which rule decides for a process, and why not the others
  handoff policy run car.toml                place processes as they come; Ctrl-C puts everything back
  handoff policy foreground 1234             a process came to the foreground
  handoff policy restore                     put back what a killed `run`, or an `apply`, left";

/// Place processes by the rules of a file, as they come, change and go.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Subcommands,
    /// Where the socket and the journal are [default: /run/handoff, or a folder of the user's own].
    #[arg(long, global = true, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Say what is wrong with a policy, for any machine and for this one
    #[command(after_help = "Examples:\n  handoff policy check car.toml")]
    Check {
        /// The policy.
        file: PathBuf,
    },
    /// Place the processes that run now, once; `handoff policy restore` undoes it
    #[command(after_help = "Examples:\n  handoff policy apply car.toml && handoff policy restore")]
    Apply {
        /// The policy.
        file: PathBuf,
    },
    /// Place processes as they come, change and go, until Ctrl-C
    #[command(
        after_help = "Examples:\n  handoff policy run car.toml\n  handoff policy run car.toml --format json >> policy.log"
    )]
    Run {
        /// The policy.
        file: PathBuf,
        /// Seconds between looks for lost pins and at temperatures.
        #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        verify: u64,
    },
    /// Say which rule decides for a process, and why not the others
    #[command(
        after_help = "Examples:\n  handoff policy explain car.toml 1234\n  handoff policy explain car.toml 1234 --foreground"
    )]
    Explain {
        /// The policy.
        file: PathBuf,
        /// The process.
        #[arg(value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// As if it were in the foreground.
        #[arg(long)]
        foreground: bool,
    },
    /// Tell the running policy that a process came to the foreground, or left it
    #[command(
        after_help = "Examples:\n  handoff policy foreground 1234\n  handoff policy foreground 1234 --off"
    )]
    Foreground {
        /// The process.
        #[arg(value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// It left the foreground.
        #[arg(long)]
        off: bool,
    },
    /// Show what the running policy has placed
    #[command(after_help = "Examples:\n  handoff policy status --format json")]
    Status,
    /// Give back what a policy that was killed, or `apply`, had changed
    #[command(after_help = "Examples:\n  handoff policy restore")]
    Restore,
    /// Translate Android's task_profiles.json
    #[command(after_help = "Examples:\n  handoff policy import /etc/task_profiles.json > android.toml")]
    Import {
        /// The file.
        file: PathBuf,
    },
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let folder = self.state.clone().unwrap_or_else(notice::default_folder);
        match &self.what {
            Subcommands::Check { file } => check(output, file),
            Subcommands::Apply { file } => apply(output, file, folder),
            Subcommands::Run { file, verify } => run(output, file, folder, Duration::from_secs(*verify)),
            Subcommands::Explain { file, pid, foreground } => {
                explain(output, file, *pid, *foreground, &folder)
            }
            Subcommands::Foreground { pid, off } => {
                let pid = Tid::new(*pid).context("a process has a number above 0")?;
                let answer =
                    notice::foreground(&folder, pid, !off).with_context(|| refused(&folder)).advise(START)?;
                output.line(format_args!("{answer}"))?;
                Ok(Verdict::Pass)
            }
            Subcommands::Status => status(output, &folder),
            Subcommands::Restore => {
                let recovered = Journal::open(&folder)?.recover()?;
                output.result(&RestoreResult(recovered.clone()))?;
                Ok(Verdict::of(recovered.partly == 0))
            }
            Subcommands::Import { file } => {
                let import = import_task_profiles(&read(file)?).map_err(anyhow::Error::msg)?;
                import.left_out.iter().for_each(|what| output.warn(format_args!("left out: {what}")));
                output.line(format_args!("{}", import.toml.trim_end()))?;
                Ok(Verdict::Pass)
            }
        }
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

/// What to do if no policy answers.
const START: &str = "`handoff policy run FILE` starts one; --state names the folder of another one";

fn refused(folder: &Path) -> String {
    let socket = notice::socket(folder);
    if socket.exists() {
        format!("the policy at {} did not take the request", socket.display())
    } else {
        format!("no policy is running: there is no socket {}", socket.display())
    }
}

/// The policy, if there is nothing wrong with it on any machine.
fn load(file: &Path) -> anyhow::Result<Policy> {
    let text = read(file)?;
    Policy::parse(&text).map_err(|problems| anyhow::anyhow!("{}", listed(file, &problems.0)))
}

/// `car.toml:3: what is wrong`, a form that editors can jump to.
fn listed(file: &Path, problems: &[Problem]) -> String {
    let line = |problem: &Problem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{}: {}{help}", file.display(), problem.line, problem.message)
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
struct PolicyCheck {
    file: PathBuf,
    rules: usize,
    profiles: usize,
    problems: Vec<PolicyProblem>,
}

#[derive(Serialize)]
struct PolicyProblem {
    line: usize,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl fmt::Display for PolicyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, rules, profiles, problems } = self;
        if problems.is_empty() {
            let (rules, profiles) = (counted(*rules, "rule"), counted(*profiles, "profile"));
            return write!(f, "{}: good ({rules}, {profiles})", file.display());
        }
        let problems: Vec<Problem> = problems
            .iter()
            .map(|PolicyProblem { line, message, help }| Problem {
                line: *line,
                message: message.clone(),
                help: help.clone(),
            })
            .collect();
        f.write_str(&listed(file, &problems))
    }
}

fn check(output: &Output, file: &Path) -> anyhow::Result<Verdict> {
    let text = read(file)?;
    let (rules, profiles, problems) = match Policy::parse(&text) {
        Ok(policy) => (policy.rules.len(), policy.profiles.len(), policy.check_on(&Topology::read()?)),
        Err(problems) => (0, 0, problems.0),
    };
    let good = problems.is_empty();
    let problems = problems
        .into_iter()
        .map(|Problem { line, message, help }| PolicyProblem { line, message, help })
        .collect();
    output.result(&PolicyCheck { file: file.to_owned(), rules, profiles, problems })?;
    Ok(Verdict::of(good))
}

/// A daemon whose errors name the file.
fn daemon<'a>(
    output: &'a Output,
    file: &Path,
    folder: PathBuf,
    verify: Duration,
) -> anyhow::Result<Daemon<'a>> {
    let policy = load(file)?;
    let options = handoff_policy::Options { folder, verify, ..Default::default() };
    let started = Daemon::new(policy, options, move |event| {
        // Nobody may read the log any more; that is no reason to stop placing.
        let _ = match output.format() {
            Format::Text => output.line(format_args!("{event}")),
            Format::Json => serde_json::to_string(&event)
                .map_err(Into::into)
                .and_then(|line| output.line(format_args!("{line}"))),
        };
    });
    match started {
        Ok(daemon) => Ok(daemon),
        Err(Error::Policy(problems)) => Err(anyhow::anyhow!("{}", listed(file, &problems.0))),
        Err(error) => Err(error).advise(
            "run as root; other users name a folder of their own with --state, and have no control groups \
             (`quota`, `weight`, `group_cpus`)",
        ),
    }
}

fn apply(output: &Output, file: &Path, folder: PathBuf) -> anyhow::Result<Verdict> {
    interrupt::flag(); // All of it is placed, and in the journal, before Ctrl-C ends it.
    let mut daemon = daemon(output, file, folder, Duration::from_secs(10))?;
    daemon.look_at_all();
    let count = daemon.leave()?;
    let are = if count == 1 { "is" } else { "are" };
    output.note(format_args!("{} {are} placed; `handoff policy restore` undoes it", processes(count)));
    Ok(Verdict::Pass)
}

fn run(output: &Output, file: &Path, folder: PathBuf, verify: Duration) -> anyhow::Result<Verdict> {
    // Before anything is changed, so that every signal to stop puts it back.
    interrupt::leave_alone();
    let (stop, stopper) = UnixStream::pair().context("no socket pair for signals")?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let stopper = stopper.try_clone().context("no socket for signals")?;
        signal_hook::low_level::pipe::register(signal, stopper).context("signals cannot be caught")?;
    }
    let mut daemon = daemon(output, file, folder, verify)?;
    if daemon.policy().rules.iter().any(|rule| rule.matches.service.is_some()) {
        for (pid, name) in registered() {
            // It may have ended since; the log tells of the others.
            let _ = daemon.note_service(pid, &name);
        }
    }
    let outcome = daemon.run(stop.as_fd());
    let stopped = daemon.finish()?;
    outcome?;
    output.note(format_args!("{} got back what it had before", processes(stopped.restored)));
    if stopped.partly > 0 {
        output.warn(format_args!("{} could not get all of it back", processes(stopped.partly)));
    }
    Ok(Verdict::of(stopped.partly == 0))
}

/// Who offers which service already, where a service manager runs: later ones tell of themselves.
fn registered() -> Vec<(Tid, String)> {
    let Ok(runtime) = Runtime::connect() else { return Vec::new() };
    let services = runtime.services().list().unwrap_or_default();
    let process = |pid: u32| i32::try_from(pid).ok().and_then(Tid::new);
    services.into_iter().filter_map(|service| Some((process(service.pid)?, service.name))).collect()
}

/// A process that the policy has placed.
#[derive(Serialize, Deserialize)]
struct Row {
    comm: String,
    lost_pins: u64,
    pid: i32,
    profiles: Vec<String>,
    /// What it said of itself.
    #[serde(default)]
    foreground: bool,
    #[serde(default)]
    services: Vec<String>,
}

fn status(output: &Output, folder: &Path) -> anyhow::Result<Verdict> {
    let answer = notice::status(folder).with_context(|| refused(folder)).advise(START)?;
    let rows: Vec<Row> = serde_json::from_str(&answer).context("the policy answered something else")?;
    if output.format() == Format::Json {
        output.json(&rows)?;
        return Ok(Verdict::Pass);
    }
    for row in &rows {
        output.line(format_args!("{:>8}  {:<15}  {}", row.pid, row.comm, row.profiles.join(", ")))?;
    }
    output.note(format_args!("{} placed by the policy", processes(rows.len())));
    Ok(Verdict::Pass)
}

/// What a running policy knows of a process, whether it has placed it or not.
fn known(folder: &Path, pid: Tid) -> Option<Row> {
    serde_json::from_str(&notice::process(folder, pid).ok()?).ok()
}

#[derive(Serialize)]
#[serde(transparent)]
struct RestoreResult(RecoveryReport);

impl fmt::Display for RestoreResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("there was nothing to give back") } else { self.0.fmt(f) }
    }
}

#[derive(Serialize)]
struct ExplainResult {
    pid: i32,
    comm: String,
    profile: Option<String>,
    rules: Vec<RuleAnswer>,
}

#[derive(Serialize)]
struct RuleAnswer {
    name: String,
    line: usize,
    profile: String,
    decides: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
}

fn explain(
    output: &Output,
    file: &Path,
    pid: i32,
    foreground: bool,
    folder: &Path,
) -> anyhow::Result<Verdict> {
    let policy = load(file)?;
    let mut state = SystemState::default();
    state.read_sensors(&Root::host());
    let tid = Tid::new(pid).context("a process has a number above 0")?;
    let mut process = Process::look(tid, &state)?;
    let running = known(folder, tid);
    if foreground || running.as_ref().is_some_and(|row| row.foreground) {
        state.foreground.insert(process.key);
    }
    if let Some(row) = &running {
        process.services.clone_from(&row.services);
    }
    let told = Explanation::of(&policy, &process, &state);
    let rules =
        policy.rules.iter().zip(told.verdicts).enumerate().map(|(index, (rule, because))| RuleAnswer {
            name: rule.name.clone(),
            line: rule.line,
            profile: rule.profile.clone(),
            decides: told.rule == Some(index),
            because,
        });
    let profile = told.rule.map(|index| policy.rules[index].profile.clone());
    let comm = process.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    output.result(&ExplainResult { pid, comm, profile, rules: rules.collect() })?;
    if let Some(row) = running {
        let profiles =
            if row.profiles.is_empty() { "no profile".to_owned() } else { row.profiles.join(", ") };
        output.note(format_args!(
            "the running policy has given it {profiles}; its foreground and its services are what that policy was told"
        ));
    }
    Ok(Verdict::Pass)
}

impl fmt::Display for ExplainResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile.as_deref().unwrap_or("no profile");
        write!(f, "{} {}: {}", self.pid, self.comm, style::paint(style::HEADING, profile))?;
        for rule in &self.rules {
            let because = match (&rule.because, rule.decides) {
                (Some(because), _) => format!("no: {because}"),
                (None, true) => "yes, and it decides".to_owned(),
                (None, false) => "would, but an earlier one decides".to_owned(),
            };
            write!(f, "\n  line {:>3}  {} -> {}: {because}", rule.line, rule.name, rule.profile)?;
        }
        Ok(())
    }
}
