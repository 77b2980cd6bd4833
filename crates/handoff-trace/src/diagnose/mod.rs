//! Why one hand-off was slow, in plain words.
//!
//! [`FlightRecorder`] keeps the newest events of the whole system; [`FlightRecorder::freeze`] gives
//! them when a transaction has missed its deadline; [`explain`] says where its time went:
//!
//! ```no_run
//! use handoff_trace::diagnose::{FlightRecorder, Window, explain};
//!
//! # fn main() -> handoff_trace::Result<()> {
//! # let (caller, callee, start, end) = (1, 2, 0, 1);
//! let recorder = FlightRecorder::start(4 << 10)?;
//! // ... transactions; one took too long:
//! let trace = recorder.freeze()?.decode()?;
//! let diagnosis = explain(&trace, Window { caller, callee: Some(callee), start, end })?;
//! println!("{diagnosis}");
//! # Ok(()) }
//! ```

mod causes;
mod kept;
mod path;
mod text;

pub(crate) use text::{duration, name as name_of};

pub use causes::{Cause, Kind};
pub use kept::{SavedDiagnosis, keep};
pub use path::{Step, TaskActivity};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capture::{Capture, Config, Keep, Stopper, diagnosis_events};
use crate::error::{Result, TraceError};
use crate::event::Tid;
use crate::model::timeline::{State, Timeline};
use crate::trace::{RawTrace, Trace};
use crate::tracefs::TraceFs;

/// Records the newest events of the whole system: a diagnosis needs to see who else ran.
#[derive(Debug)]
pub struct FlightRecorder {
    capture: Capture,
}

impl FlightRecorder {
    /// Starts it, with a buffer of `buffer_kib` KiB for each CPU (4096 hold about 70,000 events).
    pub fn start(buffer_kib: usize) -> Result<Self> {
        let config =
            Config { events: diagnosis_events(), buffer_kib, keep: Keep::Flight, ..Config::default() };
        Ok(Self { capture: Capture::start(&TraceFs::find()?, &config)? })
    }

    /// The folder of its buffer in tracefs, whose `tracing_on` stops it, also from another process.
    pub fn path(&self) -> &std::path::Path {
        self.capture.path()
    }

    /// Stops recording, at once and for one system call, so that the miss stays in the buffer.
    /// [`FlightRecorder::resume`] goes on; [`FlightRecorder::freeze`] gives what was recorded.
    pub fn halt(&self) -> Result<()> {
        self.capture.halt()
    }

    /// What stops the recording from a process that the recorder's own has forked, or from a thread
    /// that must not allocate.
    pub fn stopper(&self) -> Result<Stopper> {
        self.capture.stopper()
    }

    /// Goes on after [`FlightRecorder::halt`].
    pub fn resume(&self) -> Result<()> {
        self.capture.resume()
    }

    /// Writes a line into the trace.
    pub fn mark(&self, text: &str) -> Result<()> {
        self.capture.mark(text)
    }

    /// Stops, and gives what was recorded: [`RawTrace::decode`] it, or keep it with
    /// [`crate::dat::save`].
    pub fn freeze(self) -> Result<RawTrace> {
        self.capture.finish()
    }

    /// Gives what was recorded so far, and goes on from an empty buffer.
    pub fn snapshot(&mut self) -> Result<RawTrace> {
        let raw = self.capture.snapshot()?;
        self.capture.resume()?;
        Ok(raw)
    }
}

/// One transaction, on the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The task that called and waited.
    pub caller: Tid,
    /// The task that served, if known.
    pub callee: Option<Tid>,
    /// When the call began, in nanoseconds.
    pub start: u64,
    /// When its reply was there, in nanoseconds.
    pub end: u64,
}

impl Window {
    /// How long it took, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// How a task spent the window.
#[derive(Debug, Clone, Serialize)]
pub struct Phases {
    pub tid: Tid,
    pub name: String,
    pub running_ns: u64,
    /// Nanoseconds it waited for a CPU.
    pub runnable_ns: u64,
    pub blocked_ns: u64,
}

/// Where the time of a transaction went.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    pub window: Window,
    /// Why it took as long as it did, the weightiest first. Their times add up to the window.
    pub causes: Vec<Cause>,
    /// What it was waiting for at each moment, in order: its critical path.
    pub path: Vec<Step>,
    /// How caller and callee spent the window.
    pub phases: Vec<Phases>,
    /// What the caller, the callee and the tasks of the path were called when it began.
    pub names: BTreeMap<Tid, String>,
    /// What makes the diagnosis less sure, and what else was going on.
    pub notes: Vec<String>,
}

impl Diagnosis {
    pub fn main_cause(&self) -> Option<&Cause> {
        self.causes.first()
    }

    /// The diagnosis in one line: the kind of cause that took most, and who was most to blame.
    pub fn headline(&self) -> String {
        text::headline(self)
    }

    /// The tasks that it speaks of: caller, callee, and all on the critical path or to blame.
    pub fn tasks(&self) -> Vec<Tid> {
        let ends = [Some(self.window.caller), self.window.callee].into_iter().flatten();
        let path = self.path.iter().map(|step| step.tid);
        let mut tasks: Vec<Tid> = Vec::new();
        for tid in ends.chain(self.causes.iter().filter_map(|cause| cause.culprit)).chain(path) {
            if !tasks.contains(&tid) {
                tasks.push(tid);
            }
        }
        tasks
    }
}

/// Says where the time of a transaction went.
pub fn explain(trace: &Trace, window: Window) -> Result<Diagnosis> {
    explain_in(trace, &Timeline::of(trace), window)
}

/// [`explain`] for several transactions of one trace, whose time line is made once.
pub fn explain_in(trace: &Trace, timeline: &Timeline, window: Window) -> Result<Diagnosis> {
    let Window { caller, start, end, .. } = window;
    if start >= end {
        return Err(TraceError::NotInTrace(format!(
            "a transaction that ends ({end} ns) before it starts ({start} ns) cannot be explained"
        )));
    }
    let known = timeline.tasks.get(&caller).is_some_and(|line| !line.between(start, end).is_empty());
    if !known {
        let (first, last) = timeline.span;
        return Err(TraceError::NotInTrace(format!(
            "the trace ({first} to {last} ns) has nothing of task {caller} between {start} and {end} ns: \
             record with a larger buffer, or check the task's number and the clock"
        )));
    }
    let path = path::critical_path(timeline, window);
    let causes = causes::causes(trace, timeline, window, &path);
    let notes = causes::notes(trace, timeline, window, &path);
    let tasks = [Some(caller), window.callee].into_iter().flatten();
    let phases: Vec<_> = tasks.map(|tid| phases(trace, timeline, tid, window)).collect();
    let ends = phases.iter().map(|phases| phases.tid);
    let names = ends.chain(path.iter().map(|step| step.tid));
    let names = names.map(|tid| (tid, text::name(trace, timeline, tid, start))).collect();
    Ok(Diagnosis { window, causes, path, phases, names, notes })
}

/// The `count` longest waits between being woken and running, of the tasks that `keep` wants, each
/// explained, longest first.
#[must_use]
pub fn slowest_wakes(
    trace: &Trace,
    timeline: &Timeline,
    count: usize,
    keep: impl Fn(Tid) -> bool,
) -> Vec<Diagnosis> {
    let mut wakes: Vec<_> = timeline
        .wakes
        .iter()
        .filter(|wake| keep(wake.wakee))
        .filter_map(|wake| Some((wake.latency().filter(|latency| *latency > 0)?, wake)))
        .collect();
    wakes.sort_by_key(|(latency, wake)| (std::cmp::Reverse(*latency), wake.time));
    wakes
        .into_iter()
        .take(count)
        .filter_map(|(latency, wake)| {
            let (start, end) = (wake.time, wake.time + latency);
            explain_in(trace, timeline, Window { caller: wake.wakee, callee: None, start, end }).ok()
        })
        .collect()
}

/// How any task spent a window: the phases of a transaction, whatever carries it.
pub fn phases(trace: &Trace, timeline: &Timeline, tid: Tid, window: Window) -> Phases {
    let Window { start, end, .. } = window;
    let name = text::name(trace, timeline, tid, start);
    let mut phases = Phases { tid, name, running_ns: 0, runnable_ns: 0, blocked_ns: 0 };
    for interval in timeline.tasks.get(&tid).map_or(&[][..], |line| line.between(start, end)) {
        let length = interval.end.min(end) - interval.start.max(start);
        *match interval.state {
            State::Running { .. } => &mut phases.running_ns,
            State::Runnable { .. } => &mut phases.runnable_ns,
            State::Blocked { .. } => &mut phases.blocked_ns,
        } += length;
    }
    phases
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
