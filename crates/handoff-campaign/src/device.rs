//! The end of a task that runs on the device: an experiment in a folder, whose rounds are told as they come.
//!
//! It can be started any number of times. One that is still running (its link was lost) is asked to stop
//! first; rounds that are in the folder, or that the other end knows, are not made again; a result that is
//! there is told once more. When nobody listens any more it stops, so that a device is never busy for
//! nobody, and everything that an arm had changed is put back.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use handoff_lab::experiment::executor::Executor;
use handoff_lab::experiment::file::Experiment;
use handoff_lab::experiment::journal::{restore, state_folder};
use handoff_lab::experiment::result::{Ending, ExperimentResult, RoundRecord};
use handoff_lab::experiment::runner::{self, Event, RunError};
use handoff_lab::store::Store;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::{CampaignError, Result};

/// The experiment, in the folder of a task on its device.
pub const EXPERIMENT: &str = "experiment.toml";
/// Rounds that the other end knows.
pub const ROUNDS: &str = "rounds.jsonl";
/// Who runs there.
pub const LOCK: &str = "lock";

/// How often it is tried whether anybody listens.
const BEAT: Duration = Duration::from_secs(1);
/// Between the signals to one that is to stop: a run of an arm may go on for a while after the first.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the device's end tells, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// It is still there; the number counts.
    Alive(u64),
    /// A complete round, of now or of before.
    Round(RoundRecord),
    /// The end.
    Result(Box<ExperimentResult>),
    /// There will be none.
    Failed(String),
}

/// Runs an experiment on the machine that it is handed.
pub type Run<'a> = dyn FnMut(&mut dyn Executor) -> Result<ExperimentResult> + 'a;

/// Hands the machine over that an experiment asks for.
pub type OnMachine<'a> = dyn FnMut(&Experiment, &mut Run<'_>) -> Result<ExperimentResult> + 'a;

/// Carries out the experiment in `folder`, and tells it to `out`. `on_machine` hands the machine over that
/// the experiment asks for. `stop` stops it, and is set when nobody listens any more. Whether it came to
/// its end.
///
/// # Errors
///
/// If another run has the folder and does not end, the experiment has a mistake or fails.
pub fn carry_out(
    folder: &Path,
    out: impl Write + Send + 'static,
    stop: &'static AtomicBool,
    on_machine: &mut OnMachine<'_>,
) -> Result<bool> {
    let _alone = Alone::take(folder)?;
    let teller = Teller::start(out, stop);
    let path = folder.join(EXPERIMENT);
    let text = std::fs::read_to_string(&path).map_err(CampaignError::io("read", &path))?;
    let mut store = Store::open(&folder.join("lab.sqlite"))?;
    if let Some(result) = finished(&store, &text)? {
        teller.tell(&Line::Result(Box::new(result)));
        return Ok(true);
    }
    // What an earlier run left changed would be taken for the normal state.
    restore(&state_folder())?;
    let experiment = Experiment::parse(&path, &text)?.remove(0);
    let (mut id, mut rounds) = match store.unfinished(&text, experiment.rounds.seed)? {
        Some((id, rounds)) => (Some(id), rounds),
        None => (None, Vec::new()),
    };
    // A device that forgets (a guest) is told.
    let mut missing: Vec<RoundRecord> = known(&folder.join(ROUNDS))?.into_iter().skip(rounds.len()).collect();
    rounds.append(&mut missing.clone());
    for round in &rounds {
        teller.tell(&Line::Round(round.clone()));
    }
    let options =
        runner::Options { command: "handoff campaign submit".to_owned(), stop: Some(stop), resume: rounds };
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
                teller.tell(&Line::Round(record.clone()));
            }
            Event::Arm { .. } => {}
        }
        Ok(())
    };
    let mut run =
        |target: &mut dyn Executor| Ok(runner::run(&experiment, options.clone(), target, &mut listener)?);
    let result = match on_machine(&experiment, &mut run) {
        // Stopped before its first round.
        Err(CampaignError::Run(RunError::Nothing)) => return Ok(false),
        result => result?,
    };
    if result.ending == Ending::Interrupted {
        return Ok(false);
    }
    if let Some(run) = id {
        store.finish(run, &result)?;
    }
    teller.tell(&Line::Result(Box::new(result)));
    Ok(true)
}

/// The result of this experiment, if it came to its end.
fn finished(store: &Store, text: &str) -> Result<Option<ExperimentResult>> {
    let Some(latest) = store.history()?.into_iter().find(|entry| entry.verdict.is_some()) else {
        return Ok(None);
    };
    let result = store.result(latest.id)?;
    Ok((result.ending != Ending::Interrupted && result.header.file == text).then_some(result))
}

fn known(path: &Path) -> Result<Vec<RoundRecord>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rounds = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    rounds.map_err(|source| CampaignError::Damaged { path: path.to_owned(), source })
}

/// Tells lines, and that it is still there; sets `stop` when nobody listens.
struct Teller {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    over: Arc<AtomicBool>,
    stop: &'static AtomicBool,
    beat: Option<thread::JoinHandle<()>>,
}

impl Teller {
    fn start(out: impl Write + Send + 'static, stop: &'static AtomicBool) -> Self {
        let out: Arc<Mutex<Box<dyn Write + Send>>> = Arc::new(Mutex::new(Box::new(out)));
        let over = Arc::new(AtomicBool::new(false));
        let (to, end) = (Arc::clone(&out), Arc::clone(&over));
        let beat = move || {
            for count in 0.. {
                thread::park_timeout(BEAT);
                if end.load(Ordering::Relaxed) {
                    return;
                }
                say(&to, &Line::Alive(count), stop);
            }
        };
        let beat = thread::Builder::new().name("heart-beat".to_owned()).spawn(beat).ok();
        Teller { out, over, stop, beat }
    }

    fn tell(&self, line: &Line) {
        say(&self.out, line, self.stop);
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(beat) = self.beat.take() {
            beat.thread().unpark();
            drop(beat.join());
        }
    }
}

fn say(out: &Mutex<Box<dyn Write + Send>>, line: &Line, stop: &AtomicBool) {
    let mut text = serde_json::to_vec(line).expect("no map of it has keys that are no text");
    text.push(b'\n');
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    if out.write_all(&text).and_then(|()| out.flush()).is_err() {
        stop.store(true, Ordering::Relaxed);
    }
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
                next += PATIENCE;
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
