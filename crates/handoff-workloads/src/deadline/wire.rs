//! What a process of a workload stops the recording with, and what it says of a miss.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_trace::Slice;
use handoff_trace::diagnose::Window;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A deadline, and the switch of the recording, as they are told to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wire {
    limit_ns: u64,
    tracing_on: PathBuf,
}

impl Wire {
    /// `folder` is an instance of tracefs, or its root.
    pub(super) fn new(folder: &Path, limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // A mount that only this process sees is reached through its descriptor, by others, too.
        let folder = folder.strip_prefix("/proc/self").map_or_else(
            |_| folder.to_owned(),
            |rest| Path::new("/proc").join(std::process::id().to_string()).join(rest),
        );
        Wire { limit_ns, tracing_on: folder.join("tracing_on") }
    }

    /// Opens the switch. The recording cannot be ended while it is open.
    pub(crate) fn open(&self) -> Result<Tripwire> {
        let switch = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.tracing_on)
            .map_err(|error| Error::io(format!("cannot open {}", self.tracing_on.display()), error))?;
        Ok(Tripwire { limit_ns: self.limit_ns, switch })
    }
}

/// The switch of the recording, in the process that measures.
#[derive(Debug)]
pub(crate) struct Tripwire {
    limit_ns: u64,
    switch: File,
}

impl Tripwire {
    /// Whether a hand-off took too long.
    pub(super) fn is_missed(&self, start: u64, end: u64) -> bool {
        end.saturating_sub(start) > self.limit_ns
    }

    /// Stops the recording: one system call.
    pub(super) fn cut(&self) -> io::Result<()> {
        (&self.switch).write_all(b"0")
    }

    /// Stops the recording if the hand-off took too long; says whether it did.
    pub(crate) fn check(&self, start: u64, end: u64) -> Result<bool> {
        let missed = self.is_missed(start, end);
        if missed {
            self.cut().map_err(|error| Error::io("cannot stop the recording at a missed deadline", error))?;
        }
        Ok(missed)
    }

    /// Whether another process has stopped the recording.
    pub(crate) fn is_cut(&self) -> bool {
        let mut state = [0];
        self.switch.read_at(&mut state, 0).is_ok_and(|read| read == 1 && state == *b"0")
    }
}

impl AsRawFd for Tripwire {
    fn as_raw_fd(&self) -> RawFd {
        self.switch.as_raw_fd()
    }
}

/// A deadline that was missed, as the process that measured it tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MissedDeadline {
    pub(crate) what: String,
    /// Who handed over to whom, and when.
    pub(crate) window: Window,
    /// The hand-offs that were made up to it.
    pub(crate) slices: Vec<Slice>,
}

/// The newest hand-offs of a process, for the time line.
#[derive(Debug, Default)]
pub(crate) struct Slices(VecDeque<Slice>);

impl Slices {
    /// More than fit into what the recorder holds.
    const MOST: usize = 10_000;

    pub(crate) fn add(&mut self, name: &str, of: Window) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(Slice { name: name.to_owned(), tid: of.caller, start: of.start, end: of.end });
    }

    /// Gives them, and starts anew.
    pub(crate) fn take(&mut self) -> Vec<Slice> {
        std::mem::take(&mut self.0).into()
    }
}
