//! What runs one arm: this machine, or another that has the same program.
//!
//! An [`Executor`] takes one [`RunRequest`] at a time: set what the arm changes, count, run, count, put back.
//! [`Local`] does it in this process. For another machine, [`super::remote::Remote`] sends the request to the agent
//! there, which is [`Local`] again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handoff_placement::{ControlGroup, Limits, Root};
use serde::{Deserialize, Serialize};

use super::ArmId;
use super::journal::{GROUP, Journal, JournalError};
use super::proof::{Count, Proof, ProofError};
use super::setting::Setting;
use super::task::{Run, Task, TaskError};
use crate::doctor::{Diagnosis, Machine, SystemSample};
use crate::stats::judge::Caveat;

/// The highest weight of a control group, against 100 of everybody else.
const WEIGHT: u32 = 10_000;

/// The machine is quiet when no more of its CPU time is used than this.
const QUIET: f64 = 0.2;

/// One run of an arm, with everything that it needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRequest {
    pub settings: Vec<Setting>,
    pub proofs: Vec<Proof>,
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
    #[default]
    Off,
    /// Where one can be made, which needs root.
    IfPossible,
    /// In any case, or nothing is run.
    On,
}

/// What came of a [`RunRequest`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Replicate {
    pub run: Run,
    /// Growth of the counter of each proof, in their order; `None` if nobody counted it.
    pub growths: Vec<Option<f64>>,
    /// What happened to the machine meanwhile, in words.
    pub flags: Vec<String>,
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A setting could not be made or put back.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Proof(#[from] ProofError),
    #[error("cannot make the control group of high weight; without `cgroup = true` it is not needed")]
    Group(#[source] handoff_placement::Error),
    /// The other machine could not be had, or what it answered cannot be used.
    #[error(transparent)]
    Machine(#[from] handoff_targets::TargetError),
    /// The run was killed on the other machine because it took longer than it may: the arm's fault, or that of a
    /// machine that stood still for a while.
    #[error("{0}")]
    Late(String),
    #[error("{0}")]
    Remote(String),
}

/// A machine that runs arms.
pub trait Executor {
    /// Gets it ready, and tells what it is.
    fn prepare(&mut self) -> Result<String, ArmError>;

    /// The handoff program there, which runs workloads.
    fn program(&self) -> &Path;

    /// Runs an arm once. Everything that the request sets is put back when this returns.
    fn run(&mut self, arm: ArmId, request: &RunRequest) -> Result<Replicate, ArmError>;

    /// The state of the machine that the figures depend on; for a guest that is its host, which is this one, unless the
    /// guest's clock counts instructions.
    fn diagnose(&mut self) -> Result<Diagnosis, ArmError> {
        Ok(Machine::here().diagnose())
    }

    /// What it does to every verdict.
    fn caveats(&self) -> Vec<Caveat> {
        Vec::new()
    }
}

#[derive(Debug)]
pub struct Local<'a> {
    program: PathBuf,
    journal: Journal,
    // After the journal: nothing of a run is left in it when it is dropped.
    group: Option<ControlGroup>,
    // After the group, which it tells of.
    groups: Option<handoff_placement::Journal>,
    root: Root,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Local<'a> {
    /// This machine, with a journal in `state` ([`super::journal::state_folder`]) and `program` as the
    /// handoff that runs workloads. Waiting for a quiet machine ends when `stop` becomes true.
    pub fn new(
        program: impl Into<PathBuf>,
        state: &Path,
        stop: Option<&'a AtomicBool>,
    ) -> Result<Self, JournalError> {
        let journal = Journal::start(state)?;
        Ok(Self { program: program.into(), journal, group: None, groups: None, root: Root::host(), stop })
    }

    /// The folders of the control group, which is made when it is asked for first.
    fn folders(&mut self) -> Result<Vec<PathBuf>, ArmError> {
        if self.group.is_none() {
            let name = format!("{GROUP}{}", std::process::id());
            let limits = Limits { weight: Some(WEIGHT), ..Limits::default() };
            let groups = match &mut self.groups {
                Some(groups) => groups,
                none => none.insert(
                    handoff_placement::Journal::start(self.journal.folder()).map_err(ArmError::Group)?,
                ),
            };
            self.group = Some(groups.make_group(&name, &limits).map_err(ArmError::Group)?);
        }
        Ok(self.group.iter().flat_map(ControlGroup::folders).map(ToOwned::to_owned).collect())
    }
}

impl Executor for Local<'_> {
    fn prepare(&mut self) -> Result<String, ArmError> {
        Ok("this machine".to_owned())
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn run(&mut self, _: ArmId, request: &RunRequest) -> Result<Replicate, ArmError> {
        let mut task = request.task.clone();
        task.groups = match request.cgroup {
            Cgroup::Off => Vec::new(),
            Cgroup::IfPossible => self.folders().unwrap_or_default(),
            Cgroup::On => self.folders()?,
        };
        let mut flags: Vec<String> =
            QuietGate::usual(request.quiet).wait(&self.root, self.stop).into_iter().collect();
        for setting in &request.settings {
            self.journal.set(setting)?;
        }
        let counts: Result<Vec<Count<'_>>, ProofError> = request.proofs.iter().map(Proof::start).collect();
        let before = SystemSample::read(&self.root);
        // A counter that cannot be started ends it, but not before everything is put back.
        let outcome = counts.as_ref().ok().map(|_| task.run());
        let after = SystemSample::read(&self.root);
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

/// When a machine is quiet, and how that is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuietGate {
    /// The share of all CPU time that others may use.
    pub share: f64,
    pub glance: Duration,
    pub most: Duration,
}

impl QuietGate {
    /// Hardly anything else runs.
    #[must_use]
    pub fn usual(most: Duration) -> Self {
        Self { share: QUIET, glance: Duration::from_millis(100), most }
    }

    /// Waits before a run, and says for its flags if the machine did not become quiet. No time is no gate.
    pub fn wait(self, root: &Root, stop: Option<&AtomicBool>) -> Option<String> {
        if self.most.is_zero() {
            return None;
        }
        let is_stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let others = wait_for_quiet(root, self, &is_stopped).err()??;
        Some(format!("not quiet: others used {:.0}% of the CPUs", others * 100.0))
    }
}

/// Waits until others use no more than they may.
///
/// # Errors
///
/// The share that they used last, if that does not happen in time or before `is_stopped`; none where no time was
/// counted, so that nothing is known.
pub fn wait_for_quiet(
    root: &Root,
    gate: QuietGate,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Option<f64>> {
    let (start, mut before, mut known) = (Instant::now(), SystemSample::read(root), None);
    loop {
        std::thread::sleep(gate.glance);
        let now = SystemSample::read(root);
        // Where no time was counted, nothing is known: that is not quiet.
        if now.is_another_time_than(&before) {
            let busy = now.since(&before).busy;
            if busy <= gate.share {
                return Ok(());
            }
            (before, known) = (now, Some(busy));
        }
        if start.elapsed() >= gate.most || is_stopped() {
            return Err(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of which a test decides how busy it is.
    struct Machine {
        _folder: tempfile::TempDir,
        root: Root,
        ticks: [u64; 2],
    }

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::create_dir(folder.path().join("proc")).expect("made");
            let machine = Self { root: Root::at(folder.path()), _folder: folder, ticks: [0; 2] };
            machine.write();
            machine
        }

        fn pass(&mut self, [busy, idle]: [u64; 2]) {
            self.ticks = [self.ticks[0] + busy, self.ticks[1] + idle];
            self.write();
        }

        fn write(&self) {
            let [busy, idle] = self.ticks;
            let new = self.root.path("proc/stat.new");
            std::fs::write(&new, format!("cpu {busy} 0 0 {idle} 0 0 0 0 0 0\n")).expect("written");
            std::fs::rename(new, self.root.path("proc/stat")).expect("renamed");
        }
    }

    #[test]
    fn the_gate_waits_until_the_load_is_gone() {
        let mut machine = Machine::new();
        let root = machine.root.clone();
        let waiting =
            std::thread::spawn(move || QuietGate::usual(Duration::from_secs(600)).wait(&root, None));
        // Half of the CPU time is somebody's: it must wait, however long.
        for _ in 0..100 {
            machine.pass([1, 1]);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!waiting.is_finished(), "the machine was busy");
        while !waiting.is_finished() {
            machine.pass([1, 99]);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(waiting.join().expect("no panic"), None);
    }

    #[test]
    fn the_gate_says_that_it_never_became_quiet_and_opens() {
        let mut machine = Machine::new();
        let root = machine.root.clone();
        let waiting = std::thread::spawn(move || QuietGate::usual(Duration::from_secs(1)).wait(&root, None));
        while !waiting.is_finished() {
            machine.pass([3, 1]);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            waiting.join().expect("no panic"),
            Some("not quiet: others used 75% of the CPUs".to_owned())
        );
        let (stop, root) = (AtomicBool::new(false), machine.root.clone());
        let said = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| QuietGate::usual(Duration::from_secs(600)).wait(&root, Some(&stop)));
            for step in 0.. {
                machine.pass([1, 0]);
                std::thread::sleep(Duration::from_millis(5));
                stop.store(step >= 100, Ordering::Relaxed);
                if waiting.is_finished() {
                    break;
                }
            }
            waiting.join().expect("no panic")
        });
        assert!(said.is_some_and(|said| said.contains("100%")));
    }

    #[test]
    fn no_time_to_wait_is_no_gate() {
        assert_eq!(QuietGate::usual(Duration::ZERO).wait(&Machine::new().root, None), None);
    }
}
