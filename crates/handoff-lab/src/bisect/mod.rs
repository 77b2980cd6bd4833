//! The commit that began a regression, by git's bisection whose every step is a verdict: the commit is measured
//! in turns with the good one, in rounds, until the interval of their ratio is clear of a threshold.
//!
//! The bad commit comes first: if it is not shown to be worse than the good one, there is nothing to look for.
//! The threshold is half of what it is worse by, so that a commit counts as bad that is nearer to the bad one.
//! All steps and looks share 5%: each look has the level that keeps that. A commit that does not build, does not
//! run, or stays in doubt after the last look is skipped, and the answer may then be several commits.
//!
//! Everything happens in two worktrees of our own, which are removed at the end.

mod git;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::git::{FOLDER, Git, Next, Worktree};
use crate::experiment::executor::Executor;
use crate::experiment::file::{Arm, Experiment};
use crate::experiment::result::{Ending, RoundRecord};
use crate::experiment::runner::{self, RunError};
use crate::experiment::task::Figure;
use crate::stats::Interval;
use crate::stats::judge::{Direction, Verdict, log_ratios};
use crate::stats::levels::pocock;
use crate::stats::paired::hodges_lehmann;
use crate::stats::sequential::Stopping;

/// The chance that any step errs.
const TOTAL: f64 = 0.05;

/// How much of what a build says is kept.
const SAID: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub hash: String,
    /// The first line of its message.
    pub subject: String,
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.hash.get(..12).unwrap_or(&self.hash), self.subject)
    }
}

#[derive(Debug, Clone)]
pub struct Request {
    /// A folder of the repository.
    pub repository: PathBuf,
    /// A commit that is good, by any name.
    pub good: String,
    /// A commit that is worse.
    pub bad: String,
    /// The folder for the worktrees: see [`folder`].
    pub folder: PathBuf,
    /// What builds a commit: a command of the shell, in the commit's folder.
    pub build: Option<String>,
    /// What is measured: program and arguments, in the commit's folder.
    pub command: Vec<String>,
    pub figures: Vec<Figure>,
    /// Metric, margin, control group, seed; its arms and its rule are not used.
    pub template: Experiment,
    /// Which way of the metric is better.
    pub better: Direction,
    /// Rounds after which a commit is looked at, ascending; after the last it is skipped.
    pub looks: Vec<usize>,
    /// The share of change that tells bad from good; half of what the bad commit is worse by if nothing is said.
    pub threshold: Option<f64>,
    /// Steps of an earlier search for the same, which are not measured again.
    pub known: Vec<Step>,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    /// Nearer to the good commit.
    Good,
    /// Nearer to the bad one.
    Bad,
    Skipped,
}

impl StepVerdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skipped => "skipped",
        }
    }
}

/// A commit that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub commit: Commit,
    pub judged: StepVerdict,
    /// The metric of this commit by that of the good one.
    pub ratio: Option<f64>,
    /// Its interval, at the level of the look.
    pub interval: Option<Interval>,
    /// Rounds that it took.
    pub rounds: usize,
    /// Why it was skipped; empty if it was not.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Culprit {
    /// This commit began it.
    First { commit: Commit },
    /// One of these began it: those between could not be measured.
    Among { commits: Vec<Commit> },
    /// The bad commit is not worse than the good one by as much as the margin.
    NoRegression,
    /// It may or may not be worse: the rounds do not tell.
    NotShown,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BisectResult {
    pub good: Commit,
    pub bad: Commit,
    pub metric: String,
    /// The ratio that tells bad from good.
    pub threshold: Option<f64>,
    /// The commits that were measured, in order, the bad one first.
    pub steps: Vec<Step>,
    #[serde(flatten)]
    pub answer: Culprit,
}

/// What a search tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// A commit is built.
    Build(&'a Commit),
    /// A commit is measured, and has so many rounds.
    Measure(&'a Commit, usize),
    /// A commit was judged, and so many are left about which nothing is known.
    Step(&'a Step),
}

/// Why a search ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    #[error("cannot run git; install it")]
    NoGit { source: std::io::Error },
    #[error("`git {command}` failed: {said}")]
    Git { command: String, said: String },
    #[error("{good} is no ancestor of {bad}: name the commit from which both come as the good one")]
    NoAncestor { good: Commit, bad: Commit },
    #[error("the good and the bad commit are the same: {0}")]
    Same(Commit),
    #[error("{commit} does not build ({status}), and without it nothing can be compared: {said}")]
    Build { commit: Commit, status: ExitStatus, said: String },
    #[error("{commit} cannot be measured")]
    Run { commit: Commit, source: Box<RunError> },
    #[error("stopped; the worktrees were removed, and --resume goes on with the commits that were judged")]
    Stopped,
    #[error("cannot {what}")]
    Io { what: &'static str, source: std::io::Error },
}

/// Who hears of what happens.
pub type Listener<'a> = dyn FnMut(Event<'_>) + 'a;

/// Looks for the commit that began a regression.
pub fn bisect(
    asked: &Request,
    target: &mut dyn Executor,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<BisectResult, BisectError> {
    let git = Git::around(&asked.repository)?;
    let (good, bad) = (git.commit(&asked.good)?, git.commit(&asked.bad)?);
    if good == bad {
        return Err(BisectError::Same(good));
    }
    let steps = (git.distance(&good, &bad)?.max(1) as f64).log2().ceil() + 1.0;
    git.sweep()?;
    // Names of the same length: the length of a path alone can move figures.
    let trees = [git.worktree(asked.folder.join("a"), &good)?, git.worktree(asked.folder.join("b"), &bad)?];
    let known = asked.known.iter().map(|step| (step.commit.hash.clone(), step.clone())).collect();
    let level = 1.0 - pocock(&asked.looks, TOTAL / steps);
    let mut search = Search { asked, trees, known, level, stop, target, listener, steps: Vec::new() };
    search.build_end(0, &good)?;
    let (answer, threshold) = search.run(&good, &bad)?;
    let metric = asked.template.metric.name.clone();
    Ok(BisectResult { good, bad, metric, threshold: threshold.map(f64::exp), steps: search.steps, answer })
}

/// A folder for the worktrees of this process. It is removed with the result.
pub fn folder() -> Result<tempfile::TempDir, BisectError> {
    let name = format!("{FOLDER}{}-", std::process::id());
    let made = tempfile::Builder::new().prefix(&name).tempdir();
    made.map_err(|source| BisectError::Io { what: "make a folder for worktrees", source })
}

/// Removes the worktrees in a folder at once, whatever happens in them: for a process that is told to end.
pub fn clean_up(repository: &Path, folder: &Path) {
    if let Ok(git) = Git::around(repository) {
        git.forget(folder);
    }
}

struct Search<'a, 'l> {
    asked: &'a Request,
    /// That of the good commit, and that of the one in question.
    trees: [Worktree; 2],
    known: BTreeMap<String, Step>,
    level: f64,
    stop: &'a AtomicBool,
    target: &'a mut dyn Executor,
    listener: &'a mut Listener<'l>,
    steps: Vec<Step>,
}

/// What the interval of the worsening says, in logarithms: positive is worse.
enum Likeness {
    Good,
    Bad,
    Doubt,
}

impl Search<'_, '_> {
    fn run(&mut self, good: &Commit, bad: &Commit) -> Result<(Culprit, Option<f64>), BisectError> {
        let margin = self.asked.template.metric.margin.ln_1p();
        let worse = |low: f64, middle: f64, high: f64| match (low > 0.0 && middle > margin, high < margin) {
            (true, _) => Likeness::Bad,
            (false, true) => Likeness::Good,
            (false, false) => Likeness::Doubt,
        };
        let end = self.judge(bad, true, &worse)?;
        let seen = end.ratio.map_or(0.0, |ratio| ratio.ln() * self.sign());
        match end.judged {
            StepVerdict::Good => return Ok((Culprit::NoRegression, None)),
            StepVerdict::Skipped => return Ok((Culprit::NotShown, None)),
            StepVerdict::Bad => {}
        }
        let threshold = self.asked.threshold.map_or(seen / 2.0, f64::ln_1p);
        let beyond = move |low: f64, _: f64, high: f64| match (low > threshold, high < threshold) {
            (true, _) => Likeness::Bad,
            (_, true) => Likeness::Good,
            _ => Likeness::Doubt,
        };
        let mut next = self.trees[1].start(good, bad)?;
        let answer = loop {
            let commit = match next {
                Next::First(commit) => break Culprit::First { commit },
                Next::Among(commits) => break Culprit::Among { commits },
                Next::Test(commit) => commit,
            };
            let word = match self.judge(&commit, false, &beyond)?.judged {
                StepVerdict::Good => "good",
                StepVerdict::Bad => "bad",
                StepVerdict::Skipped => "skip",
            };
            next = self.trees[1].mark(word)?;
        };
        Ok((answer, Some(threshold * self.sign())))
    }

    /// 1 if a larger ratio is worse.
    fn sign(&self) -> f64 {
        if self.asked.better == Direction::Lower { 1.0 } else { -1.0 }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Builds and measures a commit; `is_end` is one of the two without which there is no answer.
    fn judge(
        &mut self,
        commit: &Commit,
        is_end: bool,
        said: &dyn Fn(f64, f64, f64) -> Likeness,
    ) -> Result<Step, BisectError> {
        let known = self.known.get(&commit.hash).cloned();
        let step = match known {
            Some(step) => step,
            None => {
                let step = self.build_and_measure(commit, is_end, said)?;
                (self.listener)(Event::Step(&step));
                step
            }
        };
        self.steps.push(step.clone());
        Ok(step)
    }

    fn build_and_measure(
        &mut self,
        commit: &Commit,
        is_end: bool,
        said: &dyn Fn(f64, f64, f64) -> Likeness,
    ) -> Result<Step, BisectError> {
        let skipped = |why| Step {
            commit: commit.clone(),
            judged: StepVerdict::Skipped,
            ratio: None,
            interval: None,
            rounds: 0,
            why,
        };
        self.trees[1].check_out(commit)?;
        if is_end {
            self.build_end(1, commit)?;
        } else if let Err((status, said)) = self.build(1, commit)? {
            return Ok(skipped(format!("it does not build ({status}): {}", last_line(&said))));
        }
        match self.measure(commit, said) {
            Err(BisectError::Run { source, .. })
                if !is_end && matches!(*source, RunError::Arm { arm: "B", .. }) =>
            {
                let cause = std::error::Error::source(&source).map_or_else(String::new, ToString::to_string);
                Ok(skipped(format!("it does not run: {cause}")))
            }
            outcome => outcome,
        }
    }

    /// Measures in more and more rounds, until the interval is clear.
    fn measure(
        &mut self,
        commit: &Commit,
        said: &dyn Fn(f64, f64, f64) -> Likeness,
    ) -> Result<Step, BisectError> {
        let mut rounds: Vec<RoundRecord> = Vec::new();
        let mut step = Step {
            commit: commit.clone(),
            judged: StepVerdict::Skipped,
            ratio: None,
            interval: None,
            rounds: 0,
            why: String::new(),
        };
        let mut experiment = self.asked.template.clone();
        experiment.arms = [0, 1].map(|arm: usize| {
            let name = if arm == 0 { &self.asked.good } else { &commit.hash };
            let argv = in_folder(self.trees[arm].path(), &self.asked.command);
            Arm::of_command(name, argv, self.asked.figures.clone())
        });
        for look in &self.asked.looks {
            experiment.rounds.stopping = Stopping::Fixed { rounds: *look };
            let options =
                runner::Options { stop: Some(self.stop), resume: rounds, ..runner::Options::default() };
            let mut done = 0;
            let mut hear = |event: runner::Event<'_>| {
                if let runner::Event::Round { record, .. } = event {
                    done = record.number;
                }
                (self.listener)(Event::Measure(commit, done));
                Ok(())
            };
            let result = runner::run(&experiment, options, self.target, &mut hear);
            if self.stopped() {
                return Err(BisectError::Stopped);
            }
            let result = result
                .map_err(|source| BisectError::Run { commit: commit.clone(), source: Box::new(source) })?;
            let (logs, _) = log_ratios(&result.triples(&experiment.metric.name));
            let (middle, interval) = hodges_lehmann(&logs, self.level);
            step.ratio = Some(middle.exp());
            step.interval = Some(interval.map(f64::exp));
            step.rounds = logs.len();
            step.why = format!("{} rounds leave it in doubt", logs.len());
            let (low, high) = if self.sign() > 0.0 {
                (interval.low, interval.high)
            } else {
                (-interval.high, -interval.low)
            };
            match (result.verdict(), said(low, middle * self.sign(), high)) {
                // The machine changed, or two runs of the same differ.
                (Verdict::Withheld | Verdict::NotActive, _) => step.why = result.primary.sentence.clone(),
                (_, Likeness::Good) => step.judged = StepVerdict::Good,
                (_, Likeness::Bad) => step.judged = StepVerdict::Bad,
                (_, Likeness::Doubt) => {}
            }
            if step.judged != StepVerdict::Skipped {
                step.why.clear();
                return Ok(step);
            }
            if result.ending == Ending::Budget {
                step.why = format!("the time for a commit is spent: {}", step.why);
                return Ok(step);
            }
            rounds = result.rounds;
        }
        Ok(step)
    }

    /// Builds a commit without which there is no answer.
    fn build_end(&mut self, tree: usize, commit: &Commit) -> Result<(), BisectError> {
        match self.build(tree, commit)? {
            Ok(()) => Ok(()),
            Err((status, said)) => Err(BisectError::Build { commit: commit.clone(), status, said }),
        }
    }

    /// The inner error is a build that failed: how, and the end of what it said.
    fn build(
        &mut self,
        tree: usize,
        commit: &Commit,
    ) -> Result<Result<(), (ExitStatus, String)>, BisectError> {
        let Some(line) = &self.asked.build else { return Ok(Ok(())) };
        (self.listener)(Event::Build(commit));
        let io = |what| move |source| BisectError::Io { what, source };
        let mut said = tempfile::tempfile().map_err(io("make a file for what a build says"))?;
        let copy = || said.try_clone().map(Stdio::from).map_err(io("give a file to a build"));
        let mut child = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.trees[tree].path())
            .stdin(Stdio::null())
            .stdout(copy()?)
            .stderr(copy()?)
            .process_group(0)
            .spawn()
            .map_err(io("start a build"))?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(io("wait for a build"))? {
                break status;
            }
            if self.stopped() {
                let group = rustix::process::Pid::from_child(&child);
                // It may have ended by itself.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                drop(child.wait());
                return Err(BisectError::Stopped);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if self.stopped() {
            return Err(BisectError::Stopped);
        }
        if status.success() {
            return Ok(Ok(()));
        }
        let mut text = Vec::new();
        said.rewind().and_then(|()| said.read_to_end(&mut text)).map_err(io("read what a build said"))?;
        let end = String::from_utf8_lossy(&text[text.len().saturating_sub(SAID)..]).trim().to_owned();
        Ok(Err((status, end)))
    }
}

/// The command, begun in a folder.
fn in_folder(folder: &Path, command: &[String]) -> Vec<String> {
    let script = r#"cd "$0" && exec "$@""#;
    let words = ["sh", "-c", script].map(str::to_owned);
    words.into_iter().chain([folder.display().to_string()]).chain(command.iter().cloned()).collect()
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}
