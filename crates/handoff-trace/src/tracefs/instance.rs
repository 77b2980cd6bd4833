//! A trace buffer of our own: nothing that others record is touched.
//!
//! An instance is a folder in `instances/`; its name says which process made it, so that one left
//! behind by a kill can be told from one in use ([`super::restore()`]). It needs no journal beside
//! it: the folder appears in the same system call as the thing to be undone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{TraceFs, append, read, restore, write};
use crate::error::{Result, TraceError};
use crate::event::Tid;
use crate::trace::BufferStats;

/// How long an instance that is to be removed may be busy.
const BUSY: Duration = Duration::from_secs(2);

/// Our own trace buffer with its own events, filters, clock and size. It ends when dropped.
#[derive(Debug)]
pub struct Instance {
    tracefs: TraceFs,
    path: PathBuf,
}

impl Instance {
    /// Makes one, stopped and empty, after removing those that killed processes left behind.
    pub fn create(tracefs: &TraceFs) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // What cannot be removed now does not keep this session from running.
        drop(restore::restore(tracefs));
        let name = restore::own_name(NEXT.fetch_add(1, Ordering::Relaxed));
        let path = tracefs.root().join("instances").join(name);
        fs::create_dir(&path).map_err(|source| TraceError::control("create", &path, source))?;
        let instance = Self { tracefs: tracefs.clone(), path };
        instance.set("tracing_on", "0")?;
        Ok(instance)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads one of its control files.
    pub fn get(&self, file: &str) -> Result<String> {
        read(&self.path.join(file))
    }

    /// Writes one of its control files.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.path.join(file), value)
    }

    /// Adds a line to one of its control files.
    pub fn add(&self, file: &str, value: &str) -> Result<()> {
        append(&self.path.join(file), value)
    }

    /// Whether this kernel has an event.
    pub fn has_event(&self, system: &str, event: &str) -> bool {
        self.path.join("events").join(system).join(event).join("enable").exists()
    }

    pub fn enable(&self, system: &str, event: &str) -> Result<()> {
        if !self.has_event(system, event) {
            return Err(TraceError::NoEvent {
                event: format!("{system}:{event}"),
                list: self.path.join("available_events"),
            });
        }
        self.set(&format!("events/{system}/{event}/enable"), "1")
    }

    /// The kernel's description of an event.
    pub fn format(&self, system: &str, event: &str) -> Result<String> {
        self.get(&format!("events/{system}/{event}/format"))
    }

    /// Records only events that these tasks cause or that concern them, and, if asked, the tasks
    /// that they will start.
    pub fn only_tasks(&self, tids: &[Tid], and_children: bool) -> Result<()> {
        if and_children {
            self.set("options/event-fork", "1")?;
        }
        // The first write empties the list; each later one adds.
        self.set("set_event_pid", "")?;
        tids.iter().try_for_each(|tid| self.add("set_event_pid", &tid.to_string()))
    }

    /// The CPUs that have a buffer, by number.
    pub fn cpus(&self) -> Result<Vec<usize>> {
        let folder = self.path.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|source| TraceError::control("list", &folder, source))?;
        let mut cpus: Vec<usize> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// What the buffer of a CPU says of itself.
    pub fn stats(&self, cpu: usize) -> Result<BufferStats> {
        Ok(parse_stats(&self.get(&format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// The root it belongs to.
    pub fn tracefs(&self) -> &TraceFs {
        &self.tracefs
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // A buffer still open elsewhere in this process: the next run, or `handoff trace
            // restore`, removes it.
            eprintln!("warning: {} stays until `handoff sched restore`: {error}", self.path.display());
        }
    }
}

/// Stops an instance and removes it. [`io::ErrorKind::NotFound`] if another did.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    // A reader that is just closing its files keeps it busy for a moment, and so does another who stops it; on
    // a machine that is busy itself that moment is a long one.
    let start = Instant::now();
    loop {
        drop(fs::write(path.join("tracing_on"), "0"));
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Of two that remove it at once, the kernel has nothing left for the second.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            result => return result,
        }
    }
}

fn parse_stats(text: &str) -> BufferStats {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
            .and_then(|(_, value)| value.trim().parse().ok())
            .unwrap_or(0)
    };
    BufferStats {
        overrun: value("overrun"),
        commit_overrun: value("commit overrun"),
        dropped: value("dropped events"),
        not_kept: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};

    #[test]
    fn the_counters_are_read_by_name() {
        let text =
            "entries: 5\noverrun: 7\ncommit overrun: 1\nbytes: 64\ndropped events: 3\nread events: 9\n";
        let expected = BufferStats { overrun: 7, commit_overrun: 1, dropped: 3, not_kept: 0 };
        assert_eq!(parse_stats(text), expected);
        assert_eq!(parse_stats("nonsense"), BufferStats::default());
    }

    #[test]
    fn an_instance_is_apart_and_goes_away() {
        require!(require_root());
        let tracefs = TraceFs::find().expect("tracefs");
        let clock = read(&tracefs.root().join("trace_clock")).expect("readable");
        let path = {
            let instance = Instance::create(&tracefs).expect("root may");
            instance.set("trace_clock", "mono").expect("mono is a clock");
            instance.enable("sched", "sched_switch").expect("it is always there");
            let error = instance.enable("sched", "no_such_event").expect_err("no such event");
            assert!(error.to_string().contains("no event sched:no_such_event"), "{error}");
            assert_eq!(instance.get("tracing_on").expect("readable").trim(), "0");
            assert!(!instance.cpus().expect("listed").is_empty());
            instance.path().to_owned()
        };
        assert!(!path.exists());
        assert_eq!(read(&tracefs.root().join("trace_clock")).expect("readable"), clock);
    }
}
