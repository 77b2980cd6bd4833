//! What a process had before it was placed, so that it can be given back: also by another program,
//! after the one that placed it was killed.

use crate::affinity::{affinity, set_affinity};
use crate::cgroup;
use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::group;
use crate::process::{ProcessKey, threads_of};
use crate::root::Root;
use crate::scheduling::IoPriority;
use crate::sys::{self, SchedAttr, sched_flag};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Affinity, scheduling, I/O priority and control groups of a process, thread by thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pid: i32,
    start: u64,
    threads: BTreeMap<i32, ThreadState>,
    /// The group of each v1 controller that is managed, and of v2 (`""`).
    groups: BTreeMap<String, PathBuf>,
    /// Other threads of the process are not concerned.
    #[serde(default)]
    alone: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThreadState {
    mask: CpuSet,
    attributes: SchedAttr,
    io: IoPriority,
}

impl Snapshot {
    /// Of a process as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`](crate::Error::NoSuchThread) if it is gone.
    pub fn take(pid: Tid) -> Result<Self> {
        let key = ProcessKey::of(pid)?;
        // A thread that ends meanwhile has nothing to give back.
        let threads =
            threads_of(pid)?.into_iter().filter_map(|tid| Some((tid.as_raw(), ThreadState::of(tid)?)));
        let root = Root::host();
        let groups = ["cpu", "cpuset"].into_iter().filter_map(|controller| {
            let (hierarchy, folder) = cgroup::group_of(&root, pid, controller)?;
            Some((if hierarchy.unified { "" } else { controller }.to_owned(), folder))
        });
        Ok(Self {
            pid: pid.as_raw(),
            start: key.start,
            threads: threads.collect(),
            groups: groups.collect(),
            alone: false,
        })
    }

    /// Of one thread.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchThread`](crate::Error::NoSuchThread) if it is gone.
    pub fn take_thread(tid: Tid) -> Result<Self> {
        let mut snapshot = Self { alone: true, ..Self::take(tid)? };
        snapshot.threads.retain(|id, _| *id == tid.as_raw());
        Ok(snapshot)
    }

    /// The process that this is of; `None` from a file that somebody has broken.
    #[must_use]
    pub fn process(&self) -> Option<ProcessKey> {
        Some(ProcessKey { pid: Tid::new(self.pid)?, start: self.start })
    }

    /// Gives back what differs. Threads that were born since get what the first one had.
    ///
    /// Does nothing to another process that has got the same number meanwhile; says what was done.
    pub fn restore(&self) -> RestoreOutcome {
        let Some(key) = self.process().filter(ProcessKey::is_alive) else { return RestoreOutcome::Gone };
        let mut refused = 0;
        let root = Root::host();
        for (controller, folder) in &self.groups {
            let controller = if controller.is_empty() { "cpu" } else { controller };
            let now = cgroup::group_of(&root, key.pid, controller).map(|(_, folder)| folder);
            // Only a folder that the kernel named as a group is a place to move to.
            let is_elsewhere = now.as_ref().is_some_and(|now| now != folder);
            if is_elsewhere
                && folder.join("cgroup.procs").exists()
                && group::enter_group(folder, key.pid).is_err()
            {
                refused += 1;
            }
        }
        let default = self.threads.get(&self.pid).or_else(|| self.threads.values().next());
        let mut known = std::collections::BTreeSet::new();
        // Twice: one that is born while the first is restored may have inherited what it had.
        for _ in 0..2 {
            let threads = if self.alone { Ok(vec![key.pid]) } else { threads_of(key.pid) };
            for tid in threads.unwrap_or_default() {
                let Some(state) = self.threads.get(&tid.as_raw()).or(default) else { continue };
                if known.insert(tid) {
                    refused += usize::from(!state.give_back(tid));
                }
            }
        }
        if refused == 0 { RestoreOutcome::Whole } else { RestoreOutcome::Partly { refused } }
    }
}

/// What became of a [`Snapshot::restore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// Everything is as it was.
    Whole,
    /// The kernel refused some of it.
    Partly {
        /// How many threads and groups.
        refused: usize,
    },
    /// The process ended, and maybe another has its number.
    Gone,
}

impl ThreadState {
    fn of(tid: Tid) -> Option<Self> {
        let attributes = sys::sched_getattr(tid.as_raw()).ok()?;
        Some(Self { mask: affinity(tid).ok()?, attributes, io: IoPriority::of(tid).ok()? })
    }

    /// False if the kernel refused; a thread that ended is as good as restored.
    fn give_back(&self, tid: Tid) -> bool {
        let Some(now) = Self::of(tid) else { return true };
        let mask = now.mask == self.mask || set_affinity(tid, &self.mask).is_ok();
        let attributes = now.attributes == self.attributes
            || sys::sched_setattr(tid.as_raw(), &self.attributes.restorable()).is_ok();
        let io = now.io == self.io || self.io.apply(tid).is_ok();
        (mask && attributes && io) || Self::of(tid).is_none()
    }
}

impl SchedAttr {
    /// Attributes as `sched_getattr` gave them, so that `sched_setattr` takes them.
    pub(crate) fn restorable(self) -> Self {
        let keep = sched_flag::RESET_ON_FORK;
        let has_clamp = self.util_max != 0;
        let clamps = sched_flag::UTIL_CLAMP_MIN | sched_flag::UTIL_CLAMP_MAX;
        let mut attr = Self { flags: self.flags & keep | if has_clamp { clamps } else { 0 }, ..self };
        if attr.policy != crate::Policy::Deadline as u32 {
            // Newer kernels report the slice here, and would take it for one that was asked for.
            (attr.runtime, attr.deadline, attr.period) = (0, 0, 0);
        }
        attr
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Placement, Priority, Scheduling, Scope, Topology};
    use std::process::Command;

    #[test]
    fn a_process_gets_back_what_it_had_through_a_file() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        let before = Snapshot::take(pid).unwrap();
        let nice = Priority::of(pid).unwrap();
        let text = serde_json::to_string(&before).unwrap();
        let first = affinity(pid).unwrap().first().unwrap();
        let placement = Placement {
            cpus: Some(CpuSet::of(first).into()),
            scheduling: Scheduling { priority: Some(Priority::other(15)), ..Scheduling::default() },
            io: Some(IoPriority::Idle),
            ..Placement::default()
        };
        placement.apply(Scope::Process, pid, &Topology::read().unwrap()).unwrap();
        assert_eq!(Priority::of(pid).unwrap(), Priority::other(15));
        let read: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(read, before);
        // Raising nice again may be refused to a plain user; nothing else may be.
        let may_raise = crate::can_raise_to(nice);
        assert_eq!(read.restore() == RestoreOutcome::Whole, may_raise);
        if may_raise {
            assert_eq!(
                Snapshot::take(pid).unwrap().threads[&pid.as_raw()].mask,
                before.threads[&pid.as_raw()].mask
            );
            assert_eq!(Priority::of(pid).unwrap(), nice);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read.restore(), RestoreOutcome::Gone);
    }

    #[test]
    fn a_reused_number_is_left_alone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Tid::new(child.id() as i32).unwrap();
        let mut old = Snapshot::take(pid).unwrap();
        let nice = Priority::of(pid).unwrap();
        old.start -= 1;
        old.threads.values_mut().for_each(|state| state.attributes.nice = 19);
        assert_eq!(old.restore(), RestoreOutcome::Gone);
        assert_eq!(Priority::of(pid).unwrap(), nice);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
