//! The wire for forked processes, which must not allocate: the first miss is told in shared memory.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::Ordering;

use handoff_trace::diagnose::Window;

use super::wire::{MissedDeadline, Tripwire};
use super::{Recorder, Watch};
use crate::error::{Error, Result};
use crate::sys::shared::SharedRegion;

// Where the first miss is: who found it, whom it was handed to, from when to when.
const CALLER: usize = 0;
const CALLEE: usize = 4;
const START: usize = 8;
const END: usize = 16;
const SIZE: usize = 24;

/// A recorder beside a workload of forked processes, and what stops it. The workload runs to its end.
#[derive(Debug)]
pub(crate) struct RecordedRun {
    // Before the recorder, whose buffer cannot be removed while the switch is open.
    tripwire: Tripwire,
    region: SharedRegion,
    recorder: Recorder,
}

impl RecordedRun {
    /// Starts to record, if that is wanted.
    pub(crate) fn start(watch: Option<&Watch>) -> Result<Option<Self>> {
        let Some(watch) = watch else { return Ok(None) };
        let region = SharedRegion::new(SIZE).map_err(|error| Error::io("cannot share memory", error))?;
        let recorder = watch.start()?;
        Ok(Some(RecordedRun { tripwire: recorder.wire().open()?, region, recorder }))
    }

    /// The descriptor that a forked process keeps.
    pub(crate) fn fd(&self) -> RawFd {
        self.tripwire.as_raw_fd()
    }

    /// Looks at a hand-off of the calling thread, which took from `start` to `end`; `callee` is 0 if
    /// there is none. Only system calls and shared memory: also for forked processes.
    pub(crate) fn check(&self, callee: i32, start: u64, end: u64) -> io::Result<()> {
        if !self.tripwire.is_missed(start, end) {
            return Ok(());
        }
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let claim = self.region.u32(CALLER).compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_err() {
            return Ok(());
        }
        self.tripwire.cut()?;
        self.region.u32(CALLEE).store(callee.cast_unsigned(), Ordering::Relaxed);
        self.region.u64(START).store(start, Ordering::Relaxed);
        self.region.u64(END).store(end, Ordering::Release);
        Ok(())
    }

    /// Ends the recording when all processes have ended; gives what to say of the first miss.
    pub(crate) fn finish(self, what: &str) -> Result<Vec<String>> {
        let number = |at| self.region.u32(at).load(Ordering::Acquire).cast_signed();
        let (start, end) =
            (self.region.u64(START).load(Ordering::Acquire), self.region.u64(END).load(Ordering::Acquire));
        let callee = Some(number(CALLEE)).filter(|callee| *callee != 0);
        let window = Window { caller: number(CALLER), callee, start, end };
        let missed = (end > 0).then(|| MissedDeadline { what: what.to_owned(), window, slices: Vec::new() });
        drop(self.tripwire);
        self.recorder.conclude(missed)
    }
}
