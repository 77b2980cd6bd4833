//! The end of a task that runs on the device: a service of the agent there, which tells rounds as they come.
//!
//! It can be asked any number of times. One that is still running (its link was lost) is asked to stop
//! first; rounds that are in the folder, or that the other end knows, are not made again; a result that is
//! there is told once more. When nobody listens any more it stops, so that a device is never busy for
//! nobody, and everything that an arm had changed is put back.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use handoff_lab::experiment::agent::answer as answer_for_lab;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::journal::restore;
use handoff_lab::experiment::machine::MachineOptions;
use handoff_lab::experiment::result::{Ending, ExperimentResult, RoundRecord};
use handoff_lab::experiment::runner::{self, Event, RunError};
use handoff_lab::experiment::with_causes;
use handoff_lab::store::Store;
use handoff_targets::agent::{Reply, Request, Teller};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::to_value;

use crate::error::{CampaignError, Result};

/// The service that carries a [`Work`] out: each [`RoundRecord`] is an event, and [`TaskEnd`] the answer.
pub const EXPERIMENT: &str = "experiment";
/// The service that asks the agent which works in a folder to stop.
pub const STOP: &str = "stop";

const LOCK: &str = "lock";
/// Between the signals to one that is to stop: a run of an arm may go on for a while after the first.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(15);

/// An experiment for a device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Work {
    /// The folder there that is the task's, which keeps its rounds.
    pub folder: PathBuf,
    pub text: String,
    /// Rounds that the other end knows: a device that forgets (a guest) is told.
    pub rounds: Vec<RoundRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    Result(Box<ExperimentResult>),
    /// It was told to stop.
    Stopped,
}

/// Answers a request for a campaign or for the lab. The flag of `machine` is set when nobody listens any more.
///
/// # Errors
///
/// What the other end is told: why there is no result.
pub fn answer(request: &Request, teller: &Teller<'_>, machine: &MachineOptions<'_>) -> Reply {
    let said = |error: &dyn std::error::Error| with_causes(error);
    match request.ask.as_str() {
        EXPERIMENT => {
            let work = request.with().map_err(|error| said(&error))?;
            let ended = match run_work(&work, teller, machine) {
                // What was stopped may say that it failed.
                Err(_) if is_stopped(machine) => TaskEnd::Stopped,
                ended => ended.map_err(|error| said(&error))?,
            };
            to_value(ended).map_err(|error| said(&error))
        }
        STOP => {
            let folder: PathBuf = request.with().map_err(|error| said(&error))?;
            // It may just have ended.
            let told = holder(&folder).is_some_and(|holder| kill_process(holder, Signal::TERM).is_ok());
            Ok(told.into())
        }
        other => answer_for_lab(request, machine)
            .unwrap_or_else(|| Err(format!("this agent has no service {other:?}"))),
    }
}

fn is_stopped(machine: &MachineOptions<'_>) -> bool {
    machine.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

fn run_work(work: &Work, teller: &Teller<'_>, machine: &MachineOptions<'_>) -> Result<TaskEnd> {
    let Work { folder, text, rounds: known } = work;
    std::fs::create_dir_all(folder).map_err(CampaignError::io("make", folder))?;
    let _alone = Alone::take(folder)?;
    let mut store = Store::open(&folder.join("lab.sqlite"))?;
    if let Some(result) = finished(&store, text)? {
        return Ok(TaskEnd::Result(Box::new(result)));
    }
    // What an earlier run left changed would be taken for the normal state.
    restore(&machine.state)?;
    let experiment = Experiment::parse(&folder.join("experiment.toml"), text)?.remove(0);
    let (mut id, mut rounds) = match store.unfinished(text, experiment.rounds.seed)? {
        Some((id, rounds)) => (Some(id), rounds),
        None => (None, Vec::new()),
    };
    let mut missing: Vec<RoundRecord> = known.iter().skip(rounds.len()).cloned().collect();
    rounds.append(&mut missing.clone());
    for round in &rounds {
        teller.tell(round);
    }
    let options =
        runner::Options { command: "handoff campaign submit".to_owned(), stop: machine.stop, resume: rounds };
    let mut listener = |event: Event<'_>| {
        match event {
            Event::Started(header) => {
                let run = match id {
                    Some(run) => run,
                    None => store.begin(header)?,
                };
                id = Some(run);
                for round in missing.drain(..) {
                    store.keep(run, &round)?;
                }
            }
            Event::Round { record, .. } => {
                // In the store first: what was told is there again after a power loss.
                if let Some(run) = id {
                    store.keep(run, record)?;
                }
                teller.tell(record);
            }
            Event::Arm { .. } => {}
        }
        Ok(())
    };
    let mut executor = machine.executor(&experiment)?;
    let result = match runner::run(&experiment, options, &mut *executor, &mut listener) {
        // Before its first round.
        Err(RunError::Nothing) => return Ok(TaskEnd::Stopped),
        result => result?,
    };
    if result.ending == Ending::Interrupted {
        return Ok(TaskEnd::Stopped);
    }
    if let Some(run) = id {
        store.finish(run, &result)?;
    }
    Ok(TaskEnd::Result(Box::new(result)))
}

/// The result of this experiment, if it came to its end.
fn finished(store: &Store, text: &str) -> Result<Option<ExperimentResult>> {
    let Some(latest) = store.history()?.into_iter().find(|entry| entry.verdict.is_some()) else {
        return Ok(None);
    };
    let result = store.result(latest.id)?;
    Ok((result.ending != Ending::Interrupted && result.header.file == text).then_some(result))
}

/// The folder for this process alone.
struct Alone(#[expect(dead_code, reason = "it is the lock")] File);

impl Alone {
    fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = open.map_err(CampaignError::io("open", &path))?;
        let start = Instant::now();
        let mut signals = [Signal::TERM, Signal::TERM, Signal::KILL].into_iter();
        let mut next = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(CampaignError::io("lock", path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if start.elapsed() >= next {
                next += SIGNAL_INTERVAL;
                let Some(signal) = signals.next() else { return Err(CampaignError::Busy(folder.to_owned())) };
                // It may just have ended.
                let _ = holder(folder).map(|holder| kill_process(holder, signal));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let mut write = || -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(std::process::id().to_string().as_bytes())
        };
        write().map_err(CampaignError::io("write", &path))?;
        Ok(Alone(file))
    }
}

/// Who has the folder: only a process that was started for it, so that a number that is used again hits
/// nobody else.
fn holder(folder: &Path) -> Option<Pid> {
    let mut text = String::new();
    File::open(folder.join(LOCK)).ok()?.take(32).read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw)?;
    let command = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).ok()?;
    let own = folder.to_str()?.as_bytes();
    command.split(|byte| *byte == 0).any(|argument| argument == own).then_some(pid)
}
