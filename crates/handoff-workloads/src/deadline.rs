//! What happens when a hand-off misses its deadline: what led to it is kept and explained, or a
//! trace that somebody else records is halted.
//!
//! A flight recorder of the whole system runs beside the workload. The task that notices a miss stops
//! it with one system call, so the newest thing in it is the miss; the workload's parent then takes it
//! out, explains it, and lets it go on if more misses are wanted.

mod shared;
mod wire;

pub(crate) use shared::RecordedRun;
pub(crate) use wire::{MissedDeadline, Slices, Tripwire, Wire};

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_trace::TraceFs;
use handoff_trace::diagnose::{FlightRecorder, SavedDiagnosis, keep};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, in_range};

/// The most misses that are kept of one run.
pub const MAX_KEPT: u32 = 1000;

/// What is done about a missed deadline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnMiss {
    #[default]
    Count,
    /// It is counted, and what led to it is kept and explained.
    Record {
        recording: Recording,
        /// The run ends when so many misses were kept.
        keep: u32,
    },
    /// A trace that others record is halted, and the run ends: `libhwbinder_latency -trace`. It is the
    /// instance of this folder of tracefs, or the system's trace if there is none.
    Halt(Option<PathBuf>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recording {
    pub folder: PathBuf,
    /// The recorder's memory for each CPU, in KiB; 4096 hold about 70,000 events.
    pub buffer_kib: usize,
}

impl Default for Recording {
    fn default() -> Self {
        Recording { folder: ".".into(), buffer_kib: 8 << 10 }
    }
}

impl Recording {
    /// Checks everything that can be known before anything is started.
    pub fn check(&self) -> Result<()> {
        if !(64..=1 << 20).contains(&self.buffer_kib) {
            let problem = format!("{} KiB; 64 to 1048576 for each CPU", self.buffer_kib);
            return Err(Error::parameter("trace-kib", problem));
        }
        if !self.folder.is_dir() {
            return Err(Error::parameter(
                "trace-dir",
                format!("{} is not a folder; make it first", self.folder.display()),
            ));
        }
        Ok(())
    }
}

impl OnMiss {
    /// Checks everything that can be known before anything is started.
    pub fn check(&self) -> Result<()> {
        match self {
            OnMiss::Record { recording, keep } => {
                in_range("keep-going", *keep, 1..=MAX_KEPT)?;
                recording.check()
            }
            OnMiss::Count | OnMiss::Halt(_) => Ok(()),
        }
    }
}

/// The deadline of a workload that has none by itself. What led to the first miss is kept, and the
/// workload goes on to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// A hand-off that takes longer has missed, in microseconds.
    pub deadline_us: u64,
    /// How what led to it is kept.
    #[serde(default)]
    pub recording: Recording,
}

impl Watch {
    /// Checks everything that can be known before anything is started.
    pub fn check(&self) -> Result<()> {
        if self.deadline_us == 0 {
            return Err(Error::parameter("deadline_us", "0; a hand-off takes at least some time"));
        }
        self.recording.check()
    }

    pub(crate) fn start(&self) -> Result<Recorder> {
        Recorder::start(&self.recording, Duration::from_micros(self.deadline_us))
    }
}

/// A missed deadline: what it was, where the recording is, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Miss {
    pub what: String,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// How long it might have taken.
    pub deadline_ns: u64,
    /// The files, and the diagnosis.
    #[serde(flatten)]
    pub kept: SavedDiagnosis,
}

impl fmt::Display for Miss {
    /// The words of the original first: scripts look for them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Miss { what, took_ns, deadline_ns, kept } = self;
        writeln!(f, "deadline triggered: halt & stop trace")?;
        writeln!(f, "log:{}", kept.trace.display())?;
        writeln!(f, "time line: {}", kept.html.display())?;
        writeln!(f, "for ui.perfetto.dev: {}", kept.perfetto.display())?;
        writeln!(
            f,
            "\n{what}: {:.3} ms, and {:.3} ms were allowed.",
            *took_ns as f64 / 1e6,
            *deadline_ns as f64 / 1e6
        )?;
        write!(f, "{}", kept.diagnosis.to_string().trim_end())
    }
}

impl Miss {
    /// The miss in one line, for workloads that go on after it.
    pub fn note(&self) -> String {
        let Miss { what, took_ns, deadline_ns, kept } = self;
        format!(
            "deadline triggered: {what} took {:.3} ms, and {:.3} ms were allowed. {}. log:{}, time line: {}",
            *took_ns as f64 / 1e6,
            *deadline_ns as f64 / 1e6,
            kept.diagnosis.headline(),
            kept.trace.display(),
            kept.html.display()
        )
    }
}

/// The flight recorder beside a workload, in its parent process.
#[derive(Debug)]
pub(crate) struct Recorder {
    flight: FlightRecorder,
    recording: Recording,
    limit: Duration,
    misses: Vec<Miss>,
}

impl Recorder {
    pub(crate) fn start(recording: &Recording, limit: Duration) -> Result<Self> {
        let flight = FlightRecorder::start(recording.buffer_kib)?;
        Ok(Recorder { flight, recording: recording.clone(), limit, misses: Vec::new() })
    }

    /// What the workload's processes stop it with.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(self.flight.path(), self.limit)
    }

    /// Keeps a miss, by which the recorder was stopped, and goes on from an empty buffer.
    pub(crate) fn keep(&mut self, missed: MissedDeadline) -> Result<()> {
        let MissedDeadline { what, window, slices } = missed;
        let raw = self.flight.snapshot()?;
        let name = free_name(&self.recording.folder);
        let kept = keep(&raw, window, slices, &self.recording.folder, &name)?;
        let deadline_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
        self.misses.push(Miss { what, took_ns: window.length(), deadline_ns, kept });
        Ok(())
    }

    /// How many misses were kept.
    pub(crate) fn kept(&self) -> usize {
        self.misses.len()
    }

    /// Ends, after a workload that goes on to its end; gives what to say of the miss, if there was one.
    pub(crate) fn conclude(mut self, missed: Option<MissedDeadline>) -> Result<Vec<String>> {
        missed.map_or(Ok(()), |missed| self.keep(missed))?;
        Ok(self.finish().iter().map(Miss::note).collect())
    }

    /// Ends, and gives what was kept.
    pub(crate) fn finish(self) -> Vec<Miss> {
        self.misses
    }
}

/// `miss-1`, or the first number of which the folder has no file yet.
fn free_name(folder: &Path) -> String {
    let names = (1_u32..).map(|number| format!("miss-{number}"));
    let free = |name: &String| {
        !["dat", "html", "pftrace"].iter().any(|kind| folder.join(format!("{name}.{kind}")).exists())
    };
    names.into_iter().find(free).unwrap_or_default()
}

/// The wire to a trace that others record, and the file that holds it, if it is running.
pub(crate) fn running_trace(folder: Option<&Path>, limit: Duration) -> Result<(Wire, PathBuf)> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => TraceFs::find()?.root().to_owned(),
    };
    let file = folder.join("tracing_on");
    let state = std::fs::read_to_string(&file)
        .map_err(|error| Error::io(format!("trace is not running: cannot read {}", file.display()), error))?;
    if state.trim() != "1" {
        let reason = format!("trace is not running: {} is {}", file.display(), state.trim());
        return Err(Error::NotSupported { workload: "a halt of the trace", reason });
    }
    Ok((Wire::new(&folder, limit), folder.join("trace")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use handoff_testkit::{require, require_root};
    use serde_json::json;

    #[test]
    fn only_a_running_trace_can_be_halted() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tracing_on");
        let halt = || running_trace(Some(folder.path()), Duration::from_micros(5));
        let error = halt().expect_err("no such file").to_string();
        assert!(error.contains("tracing_on"), "{error}");
        std::fs::write(&file, "0\n").expect("written");
        let error = halt().expect_err("stopped").to_string();
        assert!(error.contains("trace is not running"), "{error}");
        std::fs::write(&file, "1").expect("written");
        let (wire, trace) = halt().expect("it runs");
        assert_eq!(trace, folder.path().join("trace"));
        let tripwire = wire.open().expect("there");
        assert!(!tripwire.is_cut() && !tripwire.check(0, 5_000).expect("in time"));
        assert!(tripwire.check(0, 5_001).expect("cut"));
        assert!(tripwire.is_cut());
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "0");
    }

    #[test]
    fn a_file_is_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(free_name(folder.path()), "miss-1");
        std::fs::write(folder.path().join("miss-1.html"), "").expect("written");
        assert_eq!(free_name(folder.path()), "miss-2");
    }

    #[test]
    fn every_latency_workload_keeps_its_first_miss() {
        require!(require_root());
        crate::rpc::play_here();
        let folder = tempfile::tempdir().expect("a folder");
        let workloads = [
            json!({"workload": "add-ints", "parameters": {"iterations": 20, "delay": 1e-5}}),
            json!({"workload": "sched-pipe", "parameters": {"loops": 200}}),
            json!({"workload": "tcp-rr", "parameters": {"transactions": 100, "flows": 2}}),
            json!({"workload": "wake-fanout", "parameters": {"rounds": 20, "wakees": 3}}),
        ];
        for (number, mut workload) in (1..).zip(workloads) {
            let watch = json!({"deadline_us": 1, "recording": {"folder": folder.path(), "buffer_kib": 512}});
            workload["parameters"]["watch"] = watch;
            let outcome =
                serde_json::from_value::<Workload>(workload).expect("known").run().expect("it runs");
            let [note] = outcome.notes.as_slice() else { panic!("one note: {:?}", outcome.notes) };
            assert!(note.starts_with("deadline triggered: a"), "{note}");
            assert!(note.contains("% of ") && note.contains(&format!("miss-{number}.dat")), "{note}");
        }
    }

    #[test]
    fn impossible_recordings_are_refused() {
        let refused = |recording: Recording| recording.check().expect_err("refused").to_string();
        let good = Recording::default();
        good.check().expect("the default is possible");
        assert!(refused(Recording { buffer_kib: 1, ..good.clone() }).contains("trace-kib: 1"));
        assert!(refused(Recording { folder: "/nowhere".into(), ..good.clone() }).contains("/nowhere"));
        let none = OnMiss::Record { recording: good.clone(), keep: 0 };
        assert!(none.check().expect_err("refused").to_string().contains("keep-going: 0"));
        let watch = Watch { deadline_us: 0, recording: good };
        assert!(watch.check().expect_err("refused").to_string().contains("deadline_us: 0"));
    }
}
