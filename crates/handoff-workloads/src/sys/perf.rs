//! The kernel's counters for a task, as `perf stat` shows them (`perf_event_open`).
//!
//! <https://man7.org/linux/man-pages/man2/perf_event_open.2.html>
//!
//! An event that the machine has not (hardware events in most virtual machines) is not left out and
//! not zero: it is there with the reason for its absence.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};

use crate::outcome::Counter;

/// The head of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`, 64 bytes), all that is needed here.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;

/// Name as perf has it, type, `config` (`enum perf_hw_id`, `enum perf_sw_ids`).
const EVENTS: [(&str, u32, u64); 10] = [
    ("task-clock", SOFTWARE, 1),
    ("context-switches", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("page-faults", SOFTWARE, 2),
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("branches", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
];

/// The counters of one task and of everything that it starts from now on.
#[derive(Debug)]
pub(crate) struct CounterSet {
    events: Vec<(&'static str, Result<Event, String>)>,
}

#[derive(Debug)]
struct Event {
    file: File,
    user_only: bool,
}

impl CounterSet {
    pub(crate) fn of_this_thread() -> Self {
        Self::of(0)
    }

    /// Of the process `pid`, which must have one thread as yet.
    pub(crate) fn of(pid: i32) -> Self {
        let open = |&(name, kind, config): &(&'static str, u32, u64)| (name, Event::open(pid, kind, config));
        CounterSet { events: EVENTS.iter().map(open).collect() }
    }

    /// What was counted so far. `task-clock` is in nanoseconds, everything else a number of events.
    pub(crate) fn read(&self) -> Vec<Counter> {
        let counter = |(name, event): &(&'static str, Result<Event, String>)| {
            let value = match event {
                Ok(event) => event.read().map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            Counter::new(*name, value)
        };
        self.events.iter().map(counter).collect()
    }
}

impl Event {
    fn open(pid: i32, kind: u32, config: u64) -> Result<Self, String> {
        let attributes = |flags| Attributes { kind, config, flags, ..Attributes::default() };
        match open_event((pid, ANY_CPU), attributes(INHERIT)) {
            Ok(fd) => Ok(Event { file: fd.into(), user_only: false }),
            // kernel.perf_event_paranoid >= 2 leaves user space to those without privileges.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV;
                let fd = open_event((pid, ANY_CPU), attributes(flags)).map_err(why)?;
                Ok(Event { file: fd.into(), user_only: true })
            }
            Err(error) => Err(why(error)),
        }
    }

    /// The count, scaled up where the event shared its counter with others.
    fn read(&self) -> io::Result<u64> {
        let (count, enabled, running) = read_words(&self.file)?;
        if self.user_only && count == 0 && running == 0 {
            return Err(io::Error::other("needs CAP_PERFMON or kernel.perf_event_paranoid below 2"));
        }
        Ok(if running == 0 || running == enabled {
            count
        } else {
            (count as f64 * enabled as f64 / running as f64) as u64
        })
    }
}

pub(crate) fn why(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => "not supported".to_owned(),
        Some(libc::ENOSYS) => "not supported: the kernel has no perf events".to_owned(),
        Some(libc::EACCES | libc::EPERM) => "not permitted: see kernel.perf_event_paranoid".to_owned(),
        _ => error.to_string(),
    }
}

/// In place of a CPU: the event follows a task.
const ANY_CPU: i32 = -1;
/// In place of a task: the event counts whatever a CPU does.
const ANY_TASK: i32 = -1;

/// Counts the tracepoint with this `id` (of tracefs) on a CPU, from now on.
pub(crate) fn tracepoint(id: u64, cpu: i32) -> io::Result<EventCount> {
    let attributes = Attributes { kind: TRACEPOINT, config: id, ..Attributes::default() };
    open_event((ANY_TASK, cpu), attributes).map(|fd| EventCount(fd.into()))
}

/// Counts calls of a kernel function on a CPU, from now on; `kind` is the number that the kernel gave to
/// its `kprobe` events.
pub(crate) fn function(kind: u32, name: &CStr, cpu: i32) -> io::Result<EventCount> {
    // The field's other name is `kprobe_func`: a pointer to the name, which the kernel copies.
    let attributes = Attributes { kind, bp_addr: name.as_ptr() as u64, ..Attributes::default() };
    open_event((ANY_TASK, cpu), attributes).map(|fd| EventCount(fd.into()))
}

/// A count on one CPU, which ends with it.
#[derive(Debug)]
pub(crate) struct EventCount(File);

impl EventCount {
    /// What was counted so far.
    pub(crate) fn read(&self) -> io::Result<u64> {
        Ok(read_words(&self.0)?.0)
    }
}

/// Count, time enabled and time running.
fn read_words(file: &File) -> io::Result<(u64, u64, u64)> {
    let mut words = [0_u8; 24];
    let mut file = file;
    file.read_exact(&mut words)?;
    let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default());
    Ok((word(0), word(8), word(16)))
}

fn open_event((pid, cpu): (i32, i32), mut attributes: Attributes) -> io::Result<OwnedFd> {
    attributes.size = size_of::<Attributes>() as u32;
    attributes.read_format = TIMES;
    let (no_group, cloexec) = (-1, 8_u64);
    // SAFETY: `attributes` is as large as it says and lives through the call, as does the name that
    // `bp_addr` points to in `function`.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, cpu, no_group, cloexec)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us; it fits an int.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::team::Team;

    #[test]
    fn the_attributes_have_the_size_of_version_0() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn every_event_has_a_value_or_a_reason() {
        let counting = CounterSet::of_this_thread();
        let mut team = Team::new();
        for _ in 0..3 {
            // SAFETY: one system call.
            let body = || i32::from(unsafe { libc::usleep(1000) } != 0);
            team.fork("sleeper", &[], body).expect("fork");
        }
        while team.wait_first().expect("wait").is_some() {}
        let counters = counting.read();
        assert_eq!(counters.len(), EVENTS.len());
        for counter in &counters {
            assert!(counter.value.is_some() != counter.why_not.is_some(), "{counter:?}");
        }
        let switches = counters.iter().find(|c| c.name == "context-switches").expect("listed");
        if let Some(count) = switches.value {
            assert!(count >= 3, "three children slept: {counters:?}");
        }
    }
}
