//! Where the arms run: this machine, or another that has the same program.
//!
//! A [`Target`] carries out one [`Order`] at a time: set what the arm changes, count, run, count, put back.
//! [`Here`] does it in this process. Another machine gets the order as JSON, has its own handoff carry it
//! out there (`handoff lab arm`, which is [`Here`] again), and sends the [`Replicate`] back.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_placement::{ControlGroup, Limits};
use serde::{Deserialize, Serialize};

use super::ArmId;
use super::journal::{GROUP, Journal, JournalError};
use super::proof::{Count, Proof, ProofError};
use super::setting::Setting;
use super::task::{Run, Task, TaskError};
use crate::doctor::{Pulse, Root};
use crate::stats::judge::Caveat;

/// The highest weight of a control group, against 100 of everybody else.
const WEIGHT: u32 = 10_000;

/// The machine is quiet when no more of its CPU time is used than this.
const QUIET: f64 = 0.2;

/// One run of an arm, with everything that it needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// What is set meanwhile.
    pub settings: Vec<Setting>,
    /// What is counted meanwhile.
    pub proofs: Vec<Proof>,
    /// What is run.
    pub task: Task,
    /// How long to wait before it for the machine to be quiet; zero does not wait.
    pub quiet: Duration,
    /// Whether it runs in a control group of high weight.
    pub cgroup: Cgroup,
}

/// Whether a run has a control group of high weight of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// It has none.
    #[default]
    Off,
    /// Where one can be made, which needs root.
    IfPossible,
    /// In any case, or nothing is run.
    On,
}

/// What came of an [`Order`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Replicate {
    /// The figures.
    pub run: Run,
    /// Growth of the counter of each proof, in their order; `None` if nobody counted it.
    pub growths: Vec<Option<f64>>,
    /// What happened to the machine meanwhile, in words.
    pub flags: Vec<String>,
}

/// Why an order gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The run failed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A setting could not be made or put back.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A counter cannot be started.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The control group could not be made.
    #[error("cannot make the control group of high weight; without `cgroup = true` it is not needed")]
    Group(#[source] handoff_placement::Error),
    /// The other machine could not be had, or what it answered cannot be used.
    #[error("{0}")]
    Elsewhere(String),
}

/// A machine that runs arms.
pub trait Target {
    /// Gets it ready, and tells what it is.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    fn prepare(&mut self) -> Result<String, TargetError>;

    /// The handoff program there, which runs workloads.
    fn program(&self) -> &Path;

    /// Carries out one run of an arm. Everything that the order sets is put back when this returns.
    ///
    /// # Errors
    ///
    /// If a setting is refused, the run fails, or the machine was lost.
    fn carry_out(&mut self, arm: ArmId, order: &Order) -> Result<Replicate, TargetError>;

    /// What it does to every verdict.
    fn caveats(&self) -> Vec<Caveat> {
        Vec::new()
    }
}

/// This machine.
#[derive(Debug)]
pub struct Here<'a> {
    program: PathBuf,
    journal: Journal,
    // After the journal: nothing of a run is left in it when it is dropped.
    group: Option<ControlGroup>,
    root: Root,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Here<'a> {
    /// This machine, with a journal in `state` ([`super::journal::state_folder`]) and `program` as the
    /// handoff that runs workloads. Waiting for a quiet machine ends when `stop` becomes true.
    ///
    /// # Errors
    ///
    /// If the journal cannot be written.
    pub fn new(
        program: impl Into<PathBuf>,
        state: &Path,
        stop: Option<&'a AtomicBool>,
    ) -> Result<Self, JournalError> {
        let journal = Journal::start(state)?;
        Ok(Self { program: program.into(), journal, group: None, root: Root::new("/"), stop })
    }

    /// The folders of the control group, which is made when it is asked for first.
    fn folders(&mut self) -> Result<Vec<PathBuf>, TargetError> {
        if self.group.is_none() {
            let name = format!("{GROUP}{}", std::process::id());
            let limits = Limits { weight: Some(WEIGHT), ..Limits::default() };
            self.group = Some(ControlGroup::create(&name, &limits).map_err(TargetError::Group)?);
        }
        Ok(self.group.iter().flat_map(ControlGroup::folders).map(ToOwned::to_owned).collect())
    }
}

impl Target for Here<'_> {
    fn prepare(&mut self) -> Result<String, TargetError> {
        Ok("this machine".to_owned())
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn carry_out(&mut self, _: ArmId, order: &Order) -> Result<Replicate, TargetError> {
        let mut task = order.task.clone();
        task.groups = match order.cgroup {
            Cgroup::Off => Vec::new(),
            Cgroup::IfPossible => self.folders().unwrap_or_default(),
            Cgroup::On => self.folders()?,
        };
        let mut flags: Vec<String> = wait_for_quiet(&self.root, order.quiet, self.stop).into_iter().collect();
        for setting in &order.settings {
            self.journal.set(setting)?;
        }
        let counts: Result<Vec<Count<'_>>, ProofError> = order.proofs.iter().map(Proof::start).collect();
        let before = Pulse::read(&self.root);
        // A counter that cannot be started ends it, but not before everything is put back.
        let outcome = counts.as_ref().ok().map(|_| task.run());
        let after = Pulse::read(&self.root);
        let ended: Vec<_> = counts.iter().flatten().map(Count::end).collect();
        // Before the outcome is looked at: a run that failed is put back as well.
        self.journal.put_back()?;
        let counts = counts?;
        let Some(outcome) = outcome else { return Ok(Replicate::default()) };
        let run = outcome?;
        flags.extend(after.since(&before).flags());
        let growths = counts.iter().zip(ended).map(|(count, end)| count.growth(end, &run)).collect();
        Ok(Replicate { run, growths, flags })
    }
}

/// Waits until hardly anything else runs, and says so if that does not happen in time or before `stop`.
#[must_use]
pub fn wait_for_quiet(root: &Root, patience: Duration, stop: Option<&AtomicBool>) -> Option<String> {
    if patience.is_zero() {
        return None;
    }
    let start = Instant::now();
    loop {
        let before = Pulse::read(root);
        std::thread::sleep(Duration::from_millis(100));
        let busy = Pulse::read(root).since(&before).busy;
        if busy <= QUIET {
            return None;
        }
        let stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if start.elapsed() >= patience || stopped {
            return Some(format!("not quiet: others used {:.0}% of the CPUs", busy * 100.0));
        }
    }
}
