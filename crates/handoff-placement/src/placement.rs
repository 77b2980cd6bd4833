//! One placement: CPUs, scheduling and I/O together, given to threads as a whole or not at all.

use crate::CpuSet;
use crate::error::{Error, Result};
use crate::pin::Pin;
use crate::process::{self, Scope, autogroup_nice, set_autogroup_nice, settle};
use crate::root::Root;
use crate::scheduling::{IoPriority, Scheduling, rt_hazard};
use crate::selector::Selector;
use crate::sys::{self, SchedAttr};
use crate::tid::Tid;
use crate::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// What to give to a thread, a process or a tree of processes; what is `None` stays as it is.
///
/// ```
/// # use handoff_placement::{Placement, Priority, Scheduling, Scope, Tid, Topology};
/// let placement = Placement {
///     cpus: Some("all".parse()?),
///     scheduling: Scheduling { priority: Some(Priority::other(5)), ..Scheduling::default() },
///     ..Placement::default()
/// };
/// # std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut applied = placement.apply(Scope::Thread, Tid::current(), &Topology::read()?)?;
/// assert_eq!(Priority::current()?, Priority::other(5));
/// applied.restore();
/// # Ok(()) }).join().unwrap().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// The CPUs.
    pub cpus: Option<Selector>,
    /// Policy, priority, nice, deadline, util clamp.
    pub scheduling: Scheduling,
    /// I/O priority.
    pub io: Option<IoPriority>,
    /// Nice of the autogroup, which is the whole session's.
    pub autogroup: Option<i8>,
    /// Give a real-time policy even where it could lock the machine.
    pub allow_rt_lockup: bool,
}

impl Placement {
    /// The CPUs that are meant on this machine, if any were named; an error if the placement cannot
    /// be had here, whomever it is for.
    ///
    /// # Errors
    ///
    /// If the CPUs mean nothing here, or a real-time policy could lock the machine.
    pub fn check(&self, machine: &Topology) -> Result<Option<CpuSet>> {
        let real_time = self.scheduling.priority.is_some_and(|priority| priority.policy.is_realtime());
        if real_time && !self.allow_rt_lockup {
            if let Some(reason) = rt_hazard(&Root::host()) {
                return Err(Error::RtLockup { reason });
            }
        }
        let cpus = self.cpus.as_ref().map(|selector| selector.resolve(machine)).transpose()?;
        Ok(cpus)
    }

    /// Places every thread in the scope, those born meanwhile too.
    pub fn apply(&self, scope: Scope, id: Tid, machine: &Topology) -> Result<AppliedPlacement> {
        let cpus = self.check(machine)?;
        let mut applied = AppliedPlacement {
            scope,
            id,
            pin: None,
            former: BTreeMap::new(),
            io: BTreeMap::new(),
            autogroup: None,
        };
        match self.apply_to(&mut applied, cpus.as_ref()) {
            Ok(()) => Ok(applied),
            Err(error) => {
                applied.restore();
                Err(error)
            }
        }
    }

    fn apply_to(&self, applied: &mut AppliedPlacement, cpus: Option<&CpuSet>) -> Result<()> {
        let (scope, id) = (applied.scope, applied.id);
        if let Some(cpus) = cpus {
            applied.pin = Some(Pin::apply(scope, id, cpus)?);
        }
        if let Some(nice) = self.autogroup {
            let fail =
                |source| Error::Scheduling { tid: id, hint: "its autogroup refused".to_owned(), source };
            applied.autogroup = Some(autogroup_nice(id).map_err(fail)?);
            set_autogroup_nice(id, nice).map_err(fail)?;
        }
        if let Some(io) = self.io {
            settle(scope, id, |tid, first_pass| {
                let now = IoPriority::of(tid)?;
                if first_pass || now != io {
                    applied.io.entry(tid).or_insert(now);
                }
                io.apply(tid)?;
                Ok(first_pass)
            })?;
        }
        if !self.scheduling.is_empty() {
            let mut placed = BTreeSet::new();
            settle(scope, id, |tid, first_pass| {
                if placed.contains(&tid) {
                    return Ok(false);
                }
                let now = attributes(tid)?;
                self.scheduling.apply(tid)?;
                if first_pass || attributes(tid)? != now {
                    applied.former.entry(tid).or_insert(now);
                }
                Ok(placed.insert(tid))
            })?;
        }
        Ok(())
    }
}

/// A placement that was given, with what was there before.
#[derive(Debug)]
pub struct AppliedPlacement {
    scope: Scope,
    id: Tid,
    pin: Option<Pin>,
    former: BTreeMap<Tid, SchedAttr>,
    io: BTreeMap<Tid, IoPriority>,
    autogroup: Option<i8>,
}

impl AppliedPlacement {
    /// The pin, if CPUs were named.
    #[must_use]
    pub fn pin(&self) -> Option<&Pin> {
        self.pin.as_ref()
    }

    /// The pin, to apply it again.
    pub fn pin_mut(&mut self) -> Option<&mut Pin> {
        self.pin.as_mut()
    }

    /// Gives every thread what it had before. Threads that ended are passed over; those that were
    /// born since get what the first one had.
    pub fn restore(&mut self) {
        if let Some(mut pin) = self.pin.take() {
            pin.restore();
        }
        let former = std::mem::take(&mut self.former);
        let default = former.get(&self.id).or_else(|| former.values().next()).copied();
        let io = std::mem::take(&mut self.io);
        let default_io = io.get(&self.id).or_else(|| io.values().next()).copied();
        let threads = process::threads_in(self.scope, self.id).unwrap_or_default();
        for tid in threads {
            // The former state was the kernel's own, so that only a lost privilege can refuse it.
            if let Some(attr) = former.get(&tid).copied().or(default) {
                let _ = sys::sched_setattr(tid.as_raw(), &attr.restorable());
            }
            if let Some(io) = io.get(&tid).copied().or(default_io) {
                let _ = io.apply(tid);
            }
        }
        if let Some(nice) = self.autogroup.take() {
            let _ = set_autogroup_nice(self.id, nice);
        }
    }
}

fn attributes(tid: Tid) -> Result<SchedAttr> {
    sys::sched_getattr(tid.as_raw()).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => Error::NoSuchThread(tid),
        _ => Error::ReadPriority { tid, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Priority, affinity};
    use handoff_testkit::{require, require_realtime, require_root};

    fn wish(cpus: &str, priority: &str) -> Placement {
        let priority = Some(priority.parse().unwrap());
        Placement {
            cpus: Some(cpus.parse().unwrap()),
            scheduling: Scheduling { priority, ..Scheduling::default() },
            io: Some(IoPriority::Idle),
            ..Placement::default()
        }
    }

    #[test]
    fn a_thread_gets_all_of_it_and_then_what_it_had() {
        require!(require_root());
        std::thread::spawn(|| {
            let (me, machine) = (Tid::current(), Topology::read().unwrap());
            let before = (affinity(me).unwrap(), Priority::current().unwrap());
            let one = before.0.first().unwrap();
            let mut applied = wish(&one.to_string(), "batch:3").apply(Scope::Thread, me, &machine).unwrap();
            assert_eq!(affinity(me).unwrap(), CpuSet::of(one));
            assert_eq!(Priority::current().unwrap().to_string(), "batch:3");
            assert_eq!(IoPriority::of(me).unwrap(), IoPriority::Idle);
            applied.restore();
            assert_eq!((affinity(me).unwrap(), Priority::current().unwrap()), before);
            assert_ne!(IoPriority::of(me).unwrap(), IoPriority::Idle);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_cannot_be_had_whole_is_undone() {
        std::thread::spawn(|| {
            let (me, machine) = (Tid::current(), Topology::read().unwrap());
            let before = (affinity(me).unwrap(), Priority::current().unwrap());
            let mut impossible = wish(&before.0.first().unwrap().to_string(), "other:5");
            impossible.scheduling.util_min = Some(2000);
            assert!(impossible.apply(Scope::Thread, me, &machine).is_err());
            assert_eq!((affinity(me).unwrap(), Priority::current().unwrap()), before);
            assert_ne!(IoPriority::of(me).unwrap(), IoPriority::Idle);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn real_time_comes_and_goes() {
        require!(require_root());
        require!(require_realtime());
        std::thread::spawn(|| {
            let (me, machine) = (Tid::current(), Topology::read().unwrap());
            let before = Priority::current().unwrap();
            let wish = wish("all", "fifo:2");
            let mut applied = wish.apply(Scope::Thread, me, &machine).unwrap();
            assert_eq!(Priority::current().unwrap(), Priority::fifo(2));
            applied.restore();
            assert_eq!(Priority::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
