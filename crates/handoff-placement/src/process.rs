//! Threads and processes as `/proc` lists them.

use crate::error::{Error, Result};
use crate::tid::Tid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

/// How far a placement reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One thread.
    Thread,
    /// Every thread of a process, those born meanwhile too.
    Process,
    /// Every thread of a process and of its descendants.
    ///
    /// In every scope, threads and children born later inherit from the thread that makes them.
    Tree,
}

/// The threads of a process.
///
/// # Errors
///
/// [`Error::NoSuchThread`] if there is no such process.
pub fn threads_of(pid: Tid) -> Result<Vec<Tid>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Error::NoSuchThread(pid))?;
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<Tid> = ids.filter_map(Tid::new).collect();
    if threads.is_empty() { Err(Error::NoSuchThread(pid)) } else { Ok(threads) }
}

/// The time that the threads of a process have spent on CPUs, in nanoseconds (the first field of
/// `schedstat`): `None` where the kernel does not count it, or a thread ended meanwhile, whose time it takes along.
#[must_use]
pub fn run_time_ns(pid: Tid) -> Option<u64> {
    let of = |tid: Tid| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads_of(pid).ok()?.into_iter().map(of).sum()
}

/// A process and its descendants, itself first.
///
/// # Errors
///
/// [`Error::NoSuchThread`] if there is no such process.
pub fn tree_of(pid: Tid) -> Result<Vec<Tid>> {
    let mut children: BTreeMap<Tid, Vec<Tid>> = BTreeMap::new();
    for process in processes() {
        if let Ok(status) = Status::of(process) {
            children.entry(status.parent.unwrap_or(process)).or_default().push(process);
        }
    }
    Status::of(pid)?;
    let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![pid]);
    while let Some(process) = next.pop() {
        if seen.insert(process) {
            found.push(process);
            next.extend(children.get(&process).into_iter().flatten());
        }
    }
    Ok(found)
}

/// Every process that can be seen.
#[must_use]
pub fn processes() -> Vec<Tid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(Tid::new).collect()
}

/// The threads in a scope.
///
/// # Errors
///
/// [`Error::NoSuchThread`] if what was named is not there.
pub fn threads_in(scope: Scope, id: Tid) -> Result<Vec<Tid>> {
    match scope {
        Scope::Thread => Ok(vec![id]),
        Scope::Process => threads_of(id),
        Scope::Tree => {
            let mut threads = threads_of(id)?;
            for process in tree_of(id)?.into_iter().filter(|process| *process != id) {
                // A descendant that ended meanwhile has no threads to place.
                threads.extend(threads_of(process).unwrap_or_default());
            }
            Ok(threads)
        }
    }
}

/// Passes after which it is said that threads escape for ever: a program undoes what is done.
const MAX_PASSES: usize = 200;

/// This many passes in a row must find nothing to do. One could be enough, but a listing may skip
/// a thread while others end.
pub(crate) const QUIET_PASSES: usize = 2;

/// Calls `place` for every thread in the scope until there is none left to place: those that are born
/// meanwhile inherit from those that made them, so each pass leaves fewer that can have escaped.
///
/// `place` says whether it changed anything, and is told whether this is the first pass: the threads of
/// that one were there before anything was placed, so that what they have is their own and not
/// inherited from one that was placed. Threads that end meanwhile are passed over.
///
/// # Errors
///
/// The first of `place`; [`Error::Escaping`] if there is no end to it.
pub(crate) fn settle(scope: Scope, id: Tid, mut place: impl FnMut(Tid, bool) -> Result<bool>) -> Result<()> {
    let mut quiet = 0;
    for pass in 0..MAX_PASSES {
        let mut changed = false;
        for tid in threads_in(scope, id)? {
            match place(tid, pass == 0) {
                Ok(did) => changed |= did,
                Err(Error::NoSuchThread(_)) if scope != Scope::Thread => {}
                Err(error) => return Err(error),
            }
        }
        quiet = if changed { 0 } else { quiet + 1 };
        if quiet == QUIET_PASSES {
            return Ok(());
        }
    }
    Err(Error::Escaping { pid: id })
}

/// What `/proc/ID/stat` tells of a process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The name that it gave itself, up to 15 bytes.
    pub comm: String,
    /// Whether it has ended, and nobody has waited for it yet.
    pub has_ended: bool,
    /// The parent process; `None` for the first one.
    pub parent: Option<Tid>,
    /// When it started, in clock ticks since boot: with the id, this names it for good.
    pub start: u64,
    /// Time on a CPU so far, user and system, in clock ticks.
    pub cpu_ticks: u64,
    /// The CPU that it ran on last.
    pub last_cpu: u32,
    /// Whether the kernel made it for itself.
    pub is_kernel_thread: bool,
}

impl Status {
    /// Of a process (or, for a process's first thread, the same).
    pub fn of(id: Tid) -> Result<Self> {
        Self::read(&format!("/proc/{id}/stat")).ok_or(Error::NoSuchThread(id))
    }

    fn read(path: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
        Self::parse(&text)
    }

    /// `1 (name) S 0 ...`; the name may hold blanks and parentheses. See `proc_pid_stat(5)`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        /// Of `include/linux/sched.h`.
        const PF_KTHREAD: u64 = 0x0020_0000;
        let (head, tail) = text.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        // The manual counts from 1, and the first after the name is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            comm: comm.to_owned(),
            has_ended: matches!(fields.first(), Some(&("Z" | "X"))),
            parent: field(4).and_then(|parent| i32::try_from(parent).ok()).and_then(Tid::new),
            start: field(22)?,
            cpu_ticks: field(14)?.checked_add(field(15)?)?,
            last_cpu: field(39)?.try_into().ok()?,
            is_kernel_thread: field(9)? & PF_KTHREAD != 0,
        })
    }
}

/// Identifies a process beyond the reuse of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Its number.
    pub pid: Tid,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

impl ProcessKey {
    /// Of a process that runs now.
    pub fn of(pid: Tid) -> Result<Self> {
        Ok(Self { pid, start: Status::of(pid)?.start })
    }

    /// Is it still the same process?
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Status::of(self.pid).is_ok_and(|status| status.start == self.start)
    }
}

/// Names the time since the machine was booted; empty where the kernel does not tell (`random(4)`).
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The nice of a process's autogroup (`sched(7)`): with `CONFIG_SCHED_AUTOGROUP`, nice works only
/// among the processes of one session, and this is the session's own.
///
/// # Errors
///
/// What the kernel says; `NotFound` where there is no autogroup.
pub fn autogroup_nice(pid: Tid) -> io::Result<i8> {
    let text = fs::read_to_string(format!("/proc/{pid}/autogroup"))?;
    let nice = text.trim().rsplit_once(' ').and_then(|(_, nice)| nice.parse().ok());
    nice.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("not an autogroup: {}", text.trim()))
    })
}

/// Sets the nice of a process's autogroup, -20 to 19. It concerns the whole session.
///
/// # Errors
///
/// What the kernel says: `PermissionDenied` below 0 without CAP_SYS_ADMIN, `WouldBlock` when set more
/// than once in a tenth of a second without privilege.
pub fn set_autogroup_nice(pid: Tid, nice: i8) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/autogroup"), nice.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let tail = "S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3";
        let status = Status::parse(&format!("7 (a) b (c) {tail}")).unwrap();
        assert_eq!(status.comm, "a) b (c");
        assert_eq!(
            (status.parent, status.start, status.cpu_ticks, status.last_cpu),
            (Tid::new(1), 4711, 42, 3)
        );
        assert!(!status.is_kernel_thread && !status.has_ended);
        assert!(Status::parse(&format!("7 (S) {}", tail.replacen('S', "Z", 1))).unwrap().has_ended);
        let of_kernel = tail.replacen("-1 0", "-1 69238880", 1);
        assert!(Status::parse(&format!("2 (kthreadd) {of_kernel}")).unwrap().is_kernel_thread);
        for nonsense in ["", "7", "7 (x", "7 (x)", "7 (x) S", "7 (x) S a b c"] {
            assert_eq!(Status::parse(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn this_process_is_found_with_its_threads() {
        let me = Tid::new(std::process::id() as i32).unwrap();
        let (tid, threads) = std::thread::scope(|scope| {
            scope.spawn(|| (Tid::current(), threads_of(me).unwrap())).join().unwrap()
        });
        assert!(threads.contains(&tid) && threads.contains(&me));
        let key = ProcessKey::of(me).unwrap();
        assert!(key.is_alive());
        assert!(!ProcessKey { start: key.start + 1, ..key }.is_alive(), "a reused number is another process");
        assert_eq!(tree_of(me).unwrap()[0], me);
    }

    #[test]
    fn children_are_in_the_tree() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let id = Tid::new(child.id() as i32).unwrap();
        let me = Tid::new(std::process::id() as i32).unwrap();
        assert!(tree_of(me).unwrap().contains(&id));
        assert!(threads_in(Scope::Tree, me).unwrap().contains(&id));
        assert!(!threads_in(Scope::Process, me).unwrap().contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(threads_of(id), Err(Error::NoSuchThread(_))));
    }
}
