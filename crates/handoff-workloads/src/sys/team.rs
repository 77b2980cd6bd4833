//! Processes that a workload forks, and that never outlive it.
//!
//! <https://man7.org/linux/man-pages/man2/fork.2.html>, `prctl(2)` `PR_SET_PDEATHSIG`, `wait4(2)`
//!
//! Why `fork` and not a second start of this program: the peers of a workload are loops of system
//! calls on pipes, sockets and words of shared memory. A fork hands them all of it as it is, takes
//! 0.1 ms instead of 1 ms (hackbench makes hundreds), and works the same from the command line, from a
//! test and from a benchmark, none of which has to know of a hidden argument. The price is that the
//! body should do nothing that needs a lock of the parent; see [`Team::fork`].
//!
//! What keeps them from being left behind: each asks to be killed when the thread that made it ends
//! (`PR_SET_PDEATHSIG`), whatever it dies of; and [`Team`] kills and reaps on drop. `Team` is not
//! `Send`, so that the thread which made the children is the one that owns them.

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::usage::Usage;
use crate::error::{Error, Result};

/// The children of one workload.
#[derive(Debug, Default)]
pub(crate) struct Team {
    members: Vec<Member>,
    /// Their process group, led by the first: what one `wait4` waits for.
    group: libc::pid_t,
    only_the_thread_that_forked: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Member {
    pid: libc::pid_t,
    role: &'static str,
    pidfd: OwnedFd,
}

/// How a member ended and what it used (`wait4`).
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    /// What the process was for.
    pub(crate) role: &'static str,
    /// Exit status, or the negated number of the signal that killed it.
    pub(crate) status: i32,
    pub(crate) usage: Usage,
}

impl Exit {
    /// In words, to follow "the process ...".
    pub(crate) fn how(&self) -> String {
        match self.status {
            signal if signal < 0 => format!("was killed by signal {}", -signal),
            status => format!("ended with status {status}"),
        }
    }
}

impl Team {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Forks a child that closes every descriptor except 0, 1, 2 and `keep`, runs `body` and exits
    /// with what it returns. A panic in `body` ends the child with status 101.
    ///
    /// This process may have threads, and the child has only this one: a lock that another thread held
    /// stays locked in it for ever. So `body` should make system calls and use its own buffers and
    /// shared memory only: it should not allocate, print or panic in a path that is expected. A body
    /// that does may hang, which costs the workload its limit of time and nothing else: no lock that is
    /// never released lets anybody see what it guards half-changed, the C library repairs its
    /// allocator in a forked child, and the team kills whoever still runs. A descriptor that `body` uses
    /// and that is not in `keep` is closed: its calls fail.
    pub(crate) fn fork(
        &mut self,
        role: &'static str,
        keep: &[RawFd],
        body: impl FnOnce() -> i32,
    ) -> io::Result<()> {
        let mut keep = keep.to_vec();
        keep.extend([0, 1, 2]);
        keep.sort_unstable();
        let parent = std::process::id();
        if self.members.is_empty() {
            self.group = 0;
        }
        let group = self.group;
        // SAFETY: the child has one thread, which goes on with memory of its own. It runs `body` and
        // leaves by `_exit`, so that nothing which another thread owned is used or dropped; that locks
        // may stay locked is said above.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => run_child(parent, group, &keep, body),
            pid => {
                // The child does the same: whoever comes first. It fails only if the child has gone.
                // SAFETY: a plain system call.
                unsafe { libc::setpgid(pid, group) };
                if group == 0 {
                    self.group = pid;
                }
                let opened = Pid::from_raw(pid)
                    .ok_or_else(|| io::Error::other("fork gave no process id"))
                    .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
                match opened {
                    Ok(pidfd) => {
                        self.members.push(Member { pid, role, pidfd });
                        Ok(())
                    }
                    Err(error) => {
                        kill_and_reap(pid);
                        Err(error)
                    }
                }
            }
        }
    }

    /// One descriptor a member that becomes readable when it ends.
    pub(crate) fn pidfds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.members.iter().map(|member| member.pidfd.as_fd())
    }

    /// Process ids of those that have not been reaped, in the order in which they were forked.
    pub(crate) fn pids(&self) -> Vec<libc::pid_t> {
        self.members.iter().map(|member| member.pid).collect()
    }

    /// Reaps the first member that has ended, if any has.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        for index in 0..self.members.len() {
            if let Some(exit) = self.wait_for(index, libc::WNOHANG)? {
                return Ok(Some(exit));
            }
        }
        Ok(None)
    }

    /// Waits for the member that was forked first among those left, and reaps it.
    pub(crate) fn wait_first(&mut self) -> io::Result<Option<Exit>> {
        if self.members.is_empty() { Ok(None) } else { self.wait_for(0, 0) }
    }

    /// Waits until any member ends, and reaps it; `None` if there is none.
    pub(crate) fn wait_any(&mut self) -> io::Result<Option<Exit>> {
        if self.members.is_empty() {
            return Ok(None);
        }
        let Some((pid, status, usage)) = wait4(-self.group, 0)? else { return Ok(None) };
        let Some(index) = self.members.iter().position(|member| member.pid == pid) else {
            return Err(io::Error::other(format!("process {pid} is not one of the team")));
        };
        Ok(Some(Exit { role: self.members.swap_remove(index).role, status, usage }))
    }

    /// Waits until all members have ended, each with status 0.
    pub(crate) fn finish(&mut self) -> Result<Vec<Exit>> {
        let mut exits = Vec::with_capacity(self.members.len());
        while let Some(exit) =
            self.wait_any().map_err(|error| Error::io("cannot wait for a process", error))?
        {
            if exit.status != 0 {
                return Err(Error::PeerDied { role: exit.role.to_owned(), how: exit.how() });
            }
            exits.push(exit);
        }
        Ok(exits)
    }

    fn wait_for(&mut self, index: usize, flags: libc::c_int) -> io::Result<Option<Exit>> {
        let (pid, role) = (self.members[index].pid, self.members[index].role);
        match wait4(pid, flags)? {
            None => Ok(None),
            Some((_, status, usage)) => {
                self.members.remove(index);
                Ok(Some(Exit { role, status, usage }))
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for member in &self.members {
            // SAFETY: a plain system call; the child is not reaped yet, so its id is still its own.
            unsafe { libc::kill(member.pid, libc::SIGKILL) };
        }
        for member in self.members.drain(..) {
            drop(wait4(member.pid, 0));
        }
    }
}

/// `wait4` for one child, or a group if negative: who ended, its status (signals negated) and usage;
/// `None` if it still runs.
fn wait4(pid: libc::pid_t, flags: libc::c_int) -> io::Result<Option<(libc::pid_t, i32, Usage)>> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals.
        let waited = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
        if waited == 0 {
            return Ok(None);
        }
        if waited > 0 {
            let code =
                if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
            return Ok(Some((waited, code, Usage::from(&usage))));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn kill_and_reap(pid: libc::pid_t) {
    // SAFETY: a plain system call on a child that is not reaped yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    drop(wait4(pid, 0));
}

/// Ends the process without running anything else, even while a panic unwinds.
struct ExitNow(i32);

impl Drop for ExitNow {
    fn drop(&mut self) {
        // SAFETY: `_exit` is the one way for a forked child to leave.
        unsafe { libc::_exit(self.0) }
    }
}

fn run_child(parent: u32, group: libc::pid_t, keep: &[RawFd], body: impl FnOnce() -> i32) -> ! {
    let mut exit = ExitNow(101);
    // SAFETY: plain system calls with constant arguments. A group of their own keeps a Ctrl-C at the
    // terminal for the parent, which then takes its children down.
    let orphaned = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setpgid(0, group);
        // If the parent died before the line above, no signal will come.
        u32::try_from(libc::getppid()) != Ok(parent)
    };
    if orphaned {
        drop(exit);
        unreachable!("the process has exited");
    }
    close_all_but(keep);
    exit.0 = body();
    drop(exit);
    unreachable!("the process has exited")
}

/// Closes every descriptor that is not in the sorted `keep`.
fn close_all_but(keep: &[RawFd]) {
    let mut from: u32 = 0;
    for &fd in keep {
        let Ok(fd) = u32::try_from(fd) else { continue };
        if fd > from {
            close_range(from, fd - 1);
        }
        from = fd + 1;
    }
    close_range(from, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: a plain system call; the child uses no descriptor outside of `keep`.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed != 0 {
        // Before Linux 5.9.
        for fd in first..=last.min(65_535) {
            // SAFETY: as above.
            unsafe { libc::close(fd.cast_signed()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use crate::sys::shared::SharedRegion;

    fn pause_for_ever() -> i32 {
        loop {
            // SAFETY: a plain system call.
            unsafe { libc::pause() };
        }
    }

    fn exists(pid: libc::pid_t) -> bool {
        // SAFETY: signal 0 only asks.
        unsafe { libc::kill(pid, 0) == 0 }
    }

    #[test]
    fn a_child_shares_memory_and_says_how_it_ended() {
        let region = SharedRegion::new(64).expect("memory");
        let mut team = Team::new();
        let body = || {
            region.u32(0).store(42, Ordering::Release);
            7
        };
        // In the child: one atomic store.
        team.fork("writer", &[], body).expect("fork");
        let exit = team.wait_first().expect("wait").expect("a member");
        assert_eq!((exit.role, exit.status), ("writer", 7));
        assert_eq!(exit.how(), "ended with status 7");
        assert_eq!(region.u32(0).load(Ordering::Acquire), 42);
        assert!(team.pids().is_empty());
    }

    #[test]
    fn a_dropped_team_leaves_no_process() {
        let mut team = Team::new();
        for _ in 0..3 {
            // In the child: system calls only.
            team.fork("sleeper", &[], pause_for_ever).expect("fork");
        }
        let pids = team.pids();
        assert!(pids.iter().all(|&pid| exists(pid)));
        drop(team);
        assert!(pids.iter().all(|&pid| !exists(pid)));
    }

    #[test]
    fn a_killed_child_is_told_from_one_that_failed() {
        let mut team = Team::new();
        // In the child: system calls only.
        team.fork("sleeper", &[], pause_for_ever).expect("fork");
        assert!(team.try_wait().expect("wait").is_none());
        // SAFETY: our own child.
        unsafe { libc::kill(team.pids()[0], libc::SIGKILL) };
        let exit = team.wait_first().expect("wait").expect("a member");
        assert_eq!(exit.status, -libc::SIGKILL);
        assert_eq!(exit.how(), "was killed by signal 9");
    }

    #[test]
    fn a_child_dies_with_the_thread_that_made_it() {
        let region = SharedRegion::new(64).expect("memory");
        let pidfd = std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let mut team = Team::new();
                let body = || {
                    region.u32(4).store(1, Ordering::Release);
                    pause_for_ever()
                };
                // In the child: one atomic store and system calls.
                team.fork("sleeper", &[], body).expect("fork");
                // No signal comes of a thread that ended before the child asked for one.
                while region.u32(4).load(Ordering::Acquire) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                region.u32(0).store(u32::try_from(team.pids()[0]).expect("positive"), Ordering::Relaxed);
                let pidfd = team.members[0].pidfd.try_clone().expect("a descriptor");
                std::mem::forget(team);
                pidfd
            });
            made.join().expect("the thread ends")
        });
        let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).expect("the child ends");
        let pid = libc::pid_t::try_from(region.u32(0).load(Ordering::Relaxed)).expect("a pid");
        assert_eq!(wait4(pid, 0).expect("our child").expect("ended").1, -libc::SIGKILL);
    }

    #[test]
    fn a_child_keeps_only_what_it_was_given() {
        let (kept, closed) = (std::io::pipe().expect("pipe"), std::io::pipe().expect("pipe"));
        use std::os::fd::AsRawFd as _;
        let (kept_fd, closed_fd) = (kept.0.as_raw_fd(), closed.0.as_raw_fd());
        let mut team = Team::new();
        let body = || {
            // SAFETY: plain system calls.
            let (kept, closed) =
                unsafe { (libc::fcntl(kept_fd, libc::F_GETFD), libc::fcntl(closed_fd, libc::F_GETFD)) };
            i32::from(kept < 0) * 2 + i32::from(closed >= 0)
        };
        // In the child: system calls only.
        team.fork("asker", &[kept_fd], body).expect("fork");
        assert_eq!(team.wait_first().expect("wait").expect("a member").status, 0);
    }
}
