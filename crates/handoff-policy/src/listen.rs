//! Waits for whatever comes first: an event of the kernel, a request, the time, the end.

use super::events::{self, SystemEvent};
use super::log::Event;
use super::socket::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// What the daemon listens to.
pub(super) struct Sources {
    processes: Option<OwnedFd>,
    /// Births are not listened to until then: on a machine that starts hundreds of programs a second,
    /// they are taken together.
    quiet_until: Cell<Option<Instant>>,
    devices: Option<OwnedFd>,
    pressure: Option<File>,
}

/// How long a birth may wait for others. A foreground change does not wait.
const TOGETHER: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Ready {
    pub(super) stop: bool,
    processes: bool,
    devices: bool,
    pressure: bool,
}

impl Sources {
    /// Opens what can be listened to, and says what cannot.
    pub(super) fn open(needs_pressure: bool, mut log: impl FnMut(Event)) -> Self {
        let processes =
            keep("births of processes, and looks for them instead", events::processes(), &mut log);
        let devices = keep("hot-plug and power events", events::devices(), &mut log);
        let pressure =
            needs_pressure.then(events::pressure).and_then(|result| keep("CPU pressure", result, &mut log));
        Self { processes, quiet_until: Cell::new(None), devices, pressure }
    }

    /// Does the kernel tell of births? Otherwise one has to look.
    pub(super) fn hear_of_births(&self) -> bool {
        self.processes.is_some()
    }

    /// Waits for one of them, for a request, for the end, or until it is time.
    pub(super) fn wait(
        &self,
        stop: BorrowedFd<'_>,
        server: &Server,
        until: Option<Instant>,
    ) -> io::Result<Ready> {
        let quiet_until = self.quiet_until.get().filter(|quiet| *quiet > Instant::now());
        let until = until.into_iter().chain(quiet_until).min();
        let births = self.processes.as_ref().filter(|_| quiet_until.is_none());
        let sources = [
            (births.map(|fd| fd.as_fd()), PollFlags::IN),
            (self.devices.as_ref().map(|fd| fd.as_fd()), PollFlags::IN),
            (self.pressure.as_ref().map(|fd| fd.as_fd()), PollFlags::PRI),
        ];
        // A missing source keeps its place with one that is there already, and asks nothing of it.
        let [births, devices, pressure] =
            sources.map(|(fd, flags)| fd.map_or((stop, PollFlags::empty()), |fd| (fd, flags)));
        let asked = (server.as_fd(), PollFlags::IN);
        let mut fds = [(stop, PollFlags::IN), asked, births, devices, pressure]
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| !fds[index].revents().is_empty();
        Ok(Ready {
            stop: ready(0),
            processes: sources[0].0.is_some() && ready(2),
            devices: sources[1].0.is_some() && ready(3),
            pressure: sources[2].0.is_some() && ready(4),
        })
    }

    /// What has happened at those that can be read.
    pub(super) fn read(&self, ready: &Ready) -> Vec<SystemEvent> {
        let mut happened = Vec::new();
        if let Some(source) = self.processes.as_ref().filter(|_| ready.processes) {
            self.quiet_until.set(Some(Instant::now() + TOGETHER));
            happened.extend(events::drain(source, events::parse_process));
        }
        if let Some(source) = self.devices.as_ref().filter(|_| ready.devices) {
            happened.extend(events::drain(source, events::parse_device));
        }
        if ready.pressure {
            happened.push(SystemEvent::Power);
        }
        happened
    }
}

fn keep<T>(source: &'static str, result: io::Result<T>, mut log: impl FnMut(Event)) -> Option<T> {
    match result {
        Ok(source) => Some(source),
        Err(error) => {
            log(Event::Without { source, reason: error.to_string() });
            None
        }
    }
}
