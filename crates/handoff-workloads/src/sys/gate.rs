//! One start for all tasks of a workload: they arrive, and run when the gate opens.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};

use super::shared::SharedRegion;
use super::team::Team;
use crate::error::{Error, Result};

/// How long tasks may take to get ready.
const LIMIT: Duration = Duration::from_secs(60);

const CLOSED: u32 = 0;
const OPEN: u32 = 1;
const CANCELLED: u32 = 2;

/// Two words of shared memory: how many have arrived, and whether the gate is open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate<'a> {
    region: &'a SharedRegion,
    at: usize,
}

impl<'a> Gate<'a> {
    /// Bytes that a gate takes.
    pub(crate) const SIZE: usize = 64;

    /// A closed gate in zeroed memory.
    pub(crate) fn new(region: &'a SharedRegion, at: usize) -> Self {
        Gate { region, at }
    }

    /// Arrives, and returns when the gate is open. System calls and shared memory only.
    pub(crate) fn pass(&self) -> rustix::io::Result<()> {
        let (arrived, open) = (self.region.u32(self.at), self.region.u32(self.at + 4));
        arrived.fetch_add(1, Ordering::AcqRel);
        futex::wake(arrived, futex::Flags::empty(), 1)?;
        loop {
            match open.load(Ordering::Acquire) {
                CLOSED => {}
                OPEN => return Ok(()),
                _ => return Err(Errno::CANCELED),
            }
            match futex::wait(open, futex::Flags::empty(), CLOSED, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `tasks` have arrived; an error if one of the team ends instead.
    pub(crate) fn wait_for(&self, tasks: usize, team: &mut Team) -> Result<()> {
        let arrived = self.region.u32(self.at);
        let deadline = Instant::now() + LIMIT;
        loop {
            let now = arrived.load(Ordering::Acquire);
            if now as usize >= tasks {
                return Ok(());
            }
            if let Some(exit) =
                team.try_wait().map_err(|error| Error::io("cannot wait for a process", error))?
            {
                return Err(Error::PeerDied { role: exit.role.to_owned(), how: exit.how() });
            }
            if Instant::now() > deadline {
                return Err(Error::TimedOut { what: "starting the tasks".into(), limit: LIMIT });
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            match futex::wait(arrived, futex::Flags::empty(), now, Some(&pause)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(error) => return Err(Error::io("cannot wait for the tasks to start", error)),
            }
        }
    }

    /// Lets everyone run, and gives the time of it.
    pub(crate) fn open(&self) -> Result<Instant> {
        let start = Instant::now();
        self.set(OPEN)?;
        Ok(start)
    }

    /// Sends everyone away: [`Gate::pass`] fails.
    pub(crate) fn cancel(&self) -> Result<()> {
        self.set(CANCELLED)
    }

    fn set(&self, state: u32) -> Result<()> {
        let open = self.region.u32(self.at + 4);
        open.store(state, Ordering::Release);
        futex::wake(open, futex::Flags::empty(), i32::MAX.cast_unsigned())
            .map_err(|error| Error::io("cannot start the tasks", error))?;
        Ok(())
    }
}
