//! Starting and awaiting a process with its resource usage: what `std` does not offer.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use handoff_placement::CpuSet;
use handoff_workloads::Usage;

/// What is done in the child between `fork` and `exec`.
#[derive(Debug, Default)]
pub(super) struct Birth {
    /// `cgroup.procs` files of the groups to enter, opened for writing.
    pub(super) groups: Vec<OwnedFd>,
    /// CPUs to run on.
    pub(super) cpus: Option<CpuSet>,
    pub(super) nice: Option<i32>,
}

/// Arranges for the child to lead a process group of its own, to die with us, and to be born as told.
pub(super) fn prepare(command: &mut Command, birth: Birth) {
    let parent = std::process::id();
    let mask: Option<Vec<libc::c_ulong>> = birth.cpus.as_ref().map(mask);
    command.process_group(0);
    // SAFETY: the closure makes async-signal-safe system calls only (prctl, getppid, write,
    // sched_setaffinity, setpriority); all memory that it reads was allocated before the fork.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            // The parent may have died before the line above: then nobody would kill us.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            for group in &birth.groups {
                if libc::write(group.as_raw_fd(), b"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(mask) = &mask {
                let bytes = std::mem::size_of_val(mask.as_slice());
                check(libc::sched_setaffinity(0, bytes, mask.as_ptr().cast()))?;
            }
            if let Some(nice) = birth.nice {
                check(libc::setpriority(libc::PRIO_PROCESS, 0, nice))?;
            }
            Ok(())
        });
    }
}

fn mask(cpus: &CpuSet) -> Vec<libc::c_ulong> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut words = vec![0; 16];
    for cpu in cpus.iter() {
        let cpu = cpu as usize;
        if cpu / BITS >= words.len() {
            words.resize(cpu / BITS + 1, 0);
        }
        words[cpu / BITS] |= 1 << (cpu % BITS);
    }
    words
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[derive(Debug)]
pub(super) enum Wait {
    /// The process ended: its status, and what it used.
    Ended(std::process::ExitStatus, Usage),
    /// It did not end in time.
    Late,
}

/// Waits for a child (and reaps it, so that `Child::wait` must not be called afterwards).
pub(super) fn wait(child: &Child, limit: Duration) -> io::Result<Wait> {
    let pid = rustix::process::Pid::from_child(child);
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let deadline = std::time::Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let mut polled =
            [rustix::event::PollFd::from_borrowed_fd(handle.as_fd(), rustix::event::PollFlags::IN)];
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(Wait::Late),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return reap(child),
            Err(error) => return Err(error.into()),
        }
    }
}

fn reap(child: &Child) -> io::Result<Wait> {
    use std::os::unix::process::ExitStatusExt as _;
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writes; the child is ours and was not awaited before.
    let got = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    if got != pid {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed is a valid rusage, and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    Ok(Wait::Ended(std::process::ExitStatus::from_raw(status), Usage::from(&usage)))
}

/// Kills the child's process group and reaps the child.
pub(super) fn kill(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    // Both fail only if the group is gone already.
    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    let _ = reap(child);
}
