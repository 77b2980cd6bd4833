//! Where a trace comes from: a file, a command, processes that run, or the whole system for a while.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use handoff_trace::capture::diagnosis_events;
use handoff_trace::model::tree::family;
use handoff_trace::{Config, Keep, RawTrace, Tid, Trace, file, record};

use crate::interrupt;
use crate::output::{Output, Verdict};

// What is recorded.
#[derive(Debug, clap::Args)]
pub(super) struct Recording {
    /// Of these processes: their threads and what they start.
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) pid: Vec<Tid>,
    /// Record for so many seconds (default: until the command ends, or Ctrl-C).
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    pub(super) seconds: Option<Duration>,
    /// The kernel's buffer for each CPU, in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10, value_parser = clap::value_parser!(u64).range(16..=4 << 20))]
    pub(super) buffer_kib: u64,
    /// The most that is kept in memory, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) limit_mib: u64,
    /// Have the kernel record only what concerns the processes asked for. Smaller, but what else
    /// ran on their CPUs is seen only where it took turns with them.
    #[arg(long)]
    pub(super) only: bool,
    /// Run this command, record while it runs, and show its tasks. What it prints goes to standard
    /// error.
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

impl Recording {
    pub(super) fn config(&self) -> Config {
        let own = std::process::id() as Tid;
        let mut tasks = if self.only { self.pid.clone() } else { Vec::new() };
        if self.only && !self.command.is_empty() {
            // The command is a child of this process, and children are followed.
            tasks.push(own);
        }
        Config {
            events: diagnosis_events(),
            tasks,
            buffer_kib: self.buffer_kib as usize,
            keep: Keep::Stream { limit: (self.limit_mib as usize) << 20 },
            ..Config::default()
        }
    }

    /// How a recording has ended: Ctrl-C is the way to end one that has neither a time nor a command.
    pub(super) fn verdict(&self) -> Verdict {
        if self.command.is_empty() && self.seconds.is_none() { Verdict::Ended } else { Verdict::Pass }
    }

    /// Records now; gives the pages and the processes asked for.
    pub(super) fn record(&self, output: &Output) -> anyhow::Result<(RawTrace, Vec<Tid>)> {
        ensure!(
            !self.only || !self.pid.is_empty() || !self.command.is_empty(),
            "--only needs processes: name them with --pid, or a command after --"
        );
        if self.command.is_empty() && self.seconds.is_none() {
            output.note("recording; Ctrl-C ends it and shows the result");
        }
        let recording = record::record(&self.config(), &self.command, self.seconds, interrupt::flag())?;
        let mut roots = self.pid.clone();
        roots.extend(recording.command);
        match recording.status {
            Some(status) if !status.success() => output.warn(format_args!("the command ended with {status}")),
            None if !self.command.is_empty() => output.warn("the command did not end by itself"),
            _ => {}
        }
        Ok((recording.raw, roots))
    }
}

// A recording, made now or read from a file.
#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// Read this recording instead: of `handoff sched record`, `trace-cmd record` (version 6), Perfetto or
    /// Android, or a trace as text.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["seconds", "only", "command"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    recording: Recording,
}

/// A trace and the tasks asked for.
pub(super) struct SelectedTrace {
    pub(super) trace: Trace,
    family: Option<HashSet<Tid>>,
}

impl SelectedTrace {
    /// Whether a task was asked for.
    pub(super) fn wants(&self, tid: Tid) -> bool {
        self.family.as_ref().is_none_or(|family| family.contains(&tid))
    }
}

impl Source {
    /// As [`Recording::verdict`], if something was recorded.
    pub(super) fn verdict(&self) -> Verdict {
        if self.input.is_some() { Verdict::Pass } else { self.recording.verdict() }
    }

    pub(super) fn get(&self, output: &Output) -> anyhow::Result<SelectedTrace> {
        let (trace, roots) = match &self.input {
            Some(path) => (file::load(path)?, self.recording.pid.clone()),
            None => {
                let (raw, roots) = self.recording.record(output)?;
                (raw.decode()?, roots)
            }
        };
        warn_of_loss(output, &trace);
        let family = (!roots.is_empty()).then(|| family(&trace, &roots));
        Ok(SelectedTrace { trace, family })
    }
}

/// Says on standard error what makes the trace less than it should be.
pub(super) fn warn_of_loss(output: &Output, trace: &Trace) {
    if trace.lost() > 0 {
        output.warn(format_args!(
            "{} events were lost: record with a larger --buffer-kib (or --limit-mib), or with --only",
            trace.lost()
        ));
    }
    if trace.unknown() > 0 {
        output.warn(format_args!("{} records could not be understood and were left out", trace.unknown()));
    }
}

/// Writes a file, and says so.
pub(super) fn write(output: &Output, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    crate::results::write(path, bytes)?;
    output.note(format_args!("wrote {}", path.display()));
    Ok(())
}

/// A positive number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a positive number of seconds");
    let seconds: f64 = text.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(bad)
}
