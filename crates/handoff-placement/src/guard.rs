//! Placement for as long as a value lives: the former state comes back on drop, also on panic.

use crate::affinity::{affinity, read};
use crate::cpuset::CpuSet;
use crate::error::{Error, Result};
use crate::fast::pin_current;
use crate::priority::Priority;
use crate::rights::can_raise_to;
use crate::set_affinity;
use crate::sys;
use crate::tid::Tid;
use std::marker::PhantomData;

/// Keeps the calling thread on some CPUs; gives the former mask back when it is dropped.
///
/// It cannot leave the thread that made it.
#[must_use = "the thread is unpinned when this is dropped"]
#[derive(Debug)]
pub struct AffinityGuard {
    saved: CpuSet,
    granted: CpuSet,
    thread: PhantomData<*const ()>,
}

impl AffinityGuard {
    /// Lets the calling thread run on these CPUs only.
    pub fn pin(wanted: &CpuSet) -> Result<Self> {
        let saved = read(0).map_err(|source| Error::ReadAffinity { tid: Tid::current(), source })?;
        // One CPU is granted or refused, never narrowed, so that there is nothing to read back; a refusal is
        // explained by trying again the long way.
        let granted = match wanted.single().map(pin_current) {
            Some(Ok(())) => wanted.clone(),
            _ => set_affinity(Tid::current(), wanted)?,
        };
        Ok(Self { saved, granted, thread: PhantomData })
    }

    /// The mask that the kernel granted, which may be less than what was wanted.
    #[must_use]
    pub fn granted(&self) -> &CpuSet {
        &self.granted
    }

    /// Is the granted mask still in force? Hot-plug and moves between cpusets can take it away.
    pub fn holds(&self) -> Result<bool> {
        Ok(affinity(Tid::current())? == self.granted)
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // It can fail only if none of the former CPUs is left, and then the kernel has chosen.
        let _ = sys::sched_setaffinity(0, self.saved.words());
    }
}

/// Keeps the calling thread at a priority; gives the former one back when it is dropped.
///
/// It cannot leave the thread that made it.
#[must_use = "the former priority comes back when this is dropped"]
#[derive(Debug)]
pub struct PriorityGuard {
    former: Priority,
    thread: PhantomData<*const ()>,
}

impl PriorityGuard {
    /// Gives the calling thread a priority.
    pub fn enter(wanted: Priority) -> Result<Self> {
        let former = Priority::current()?;
        if former.more_urgent_than(wanted) && !can_raise_to(former) {
            return Err(Error::NoWayBack { from: former, to: wanted });
        }
        wanted.apply(Tid::current())?;
        Ok(Self { former, thread: PhantomData })
    }

    /// What comes back.
    #[must_use]
    pub fn former(&self) -> Priority {
        self.former
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        // `enter` made sure of the right to go back; a deadline alone cannot be given back so.
        let _ = self.former.apply(Tid::current());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_cpus, require_root};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_restores_the_mask() {
        require!(require_cpus(2));
        let before = affinity(Tid::current()).unwrap();
        let one = CpuSet::of(before.first().unwrap());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let guard = AffinityGuard::pin(&one).unwrap();
            assert_eq!(affinity(Tid::current()).unwrap(), one);
            assert!(guard.holds().unwrap());
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }

    #[test]
    fn guards_nest() {
        require!(require_cpus(2));
        let before = affinity(Tid::current()).unwrap();
        let mut cpus = before.iter();
        let (first, second) = (CpuSet::of(cpus.next().unwrap()), CpuSet::of(cpus.next().unwrap()));
        let outer = AffinityGuard::pin(&first).unwrap();
        drop(AffinityGuard::pin(&second).unwrap());
        assert!(outer.holds().unwrap());
        drop(outer);
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }

    #[test]
    fn a_refused_pin_changes_nothing() {
        let before = affinity(Tid::current()).unwrap();
        assert!(AffinityGuard::pin(&CpuSet::of(5000)).is_err());
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }

    #[test]
    fn a_guard_that_could_not_go_back_is_refused() {
        std::thread::spawn(|| {
            let before = Priority::current().unwrap();
            let lowered = PriorityGuard::enter(Priority::other(19)).map(drop);
            match lowered {
                Ok(()) => assert!(can_raise_to(before) || before == Priority::other(19)),
                Err(error) => assert!(matches!(error, Error::NoWayBack { .. }), "{error}"),
            }
            assert_eq!(Priority::current().unwrap(), before, "in either case");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_panic_restores_the_priority() {
        require!(require_root());
        let before = Priority::current().unwrap();
        let panicked = catch_unwind(|| {
            let guard = PriorityGuard::enter(Priority::other(12)).unwrap();
            assert_eq!(Priority::current().unwrap(), Priority::other(12));
            assert!(guard.former() != Priority::other(12));
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert_eq!(Priority::current().unwrap(), before);
    }
}
