//! A network namespace without a name (`unshare(2)`, `setns(2)`).
//!
//! It has no entry in `/run/netns`: one descriptor of this process keeps it, so it goes, with the
//! devices in it, when that is closed, even if the process is killed.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::thread;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// An empty namespace: a loopback device that is down, and nothing else.
    pub(crate) fn new() -> Result<Self> {
        let make = || {
            // SAFETY: only the network namespace of this thread changes, and the thread ends here.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        };
        let made: std::io::Result<OwnedFd> = on_a_thread(make)?;
        let fd = made.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM) => Error::NotSupported {
                workload: "TCP over namespaces",
                reason: "making a network namespace needs root (CAP_SYS_ADMIN); use the loopback path".into(),
            },
            _ => Error::io("cannot make a network namespace", error),
        })?;
        Ok(Namespace { fd })
    }

    /// Runs `work` on a thread inside. Sockets made and commands started there belong to the
    /// namespace.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let inside = || -> Result<T> {
            move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| Error::io("cannot enter the network namespace", error))?;
            Ok(work())
        };
        on_a_thread(inside)?
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Runs `work` on a thread that ends with it; its panic goes on here.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work);
        let thread = started.map_err(|error| Error::io("cannot start a thread", error))?;
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};

    #[test]
    fn a_thread_inside_sees_only_its_loopback() {
        require!(require_root());
        let devices = || std::fs::read_to_string("/proc/thread-self/net/dev").expect("procfs");
        let outside = devices();
        let namespace = Namespace::new().expect("root may");
        let inside = namespace.run(devices).expect("it runs");
        let names: Vec<&str> = inside.lines().skip(2).filter_map(|l| l.split(':').next()).collect();
        assert_eq!(names.iter().map(|n| n.trim()).collect::<Vec<_>>(), ["lo"]);
        assert_eq!(devices().lines().count(), outside.lines().count(), "this thread has not moved");
    }
}
