//! Where this thread may run, and what time it is for both sides.

use std::cell::RefCell;
use std::sync::LazyLock;

use handoff_placement::fast::{SavedMask, current_cpu, pin_current, restore_current, save_current};
use handoff_placement::{CpuSet, Tid, affinity, set_affinity};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC: the clock that processes share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn mask() -> Option<CpuSet> {
    affinity(Tid::current()).ok()
}

/// The only CPU that this thread may run on, if it is bound to one.
pub(crate) fn only_cpu() -> Option<u16> {
    mask().filter(|mask| mask.len() == 1).and_then(|mask| mask.first())
}

/// Goes to another CPU than `cpu`, if this thread may run on one. Its mask is what it was afterwards.
#[cold]
pub(crate) fn leave(cpu: u16) {
    let Some(own) = mask() else { return };
    let others = own.difference(&CpuSet::of(cpu));
    if !others.is_empty() && set_affinity(Tid::current(), &others).is_ok() {
        // Fails only if the cpuset of the process lost all of these CPUs; then the kernel chose.
        let _ = set_affinity(Tid::current(), &own);
    }
}

/// CPUs that are online. Not those of this thread or process: the server may run elsewhere.
pub(crate) fn online_cpus() -> usize {
    static ONLINE: LazyLock<usize> = LazyLock::new(|| {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        list.trim().parse::<CpuSet>().map_or(1, |cpus| cpus.len())
    });
    *ONLINE
}

/// A serving thread's place: bound to a caller's CPU while it waits there, and its own mask again
/// whenever somebody else could see it.
pub(crate) struct Place {
    home: RefCell<SavedMask>,
    bound: std::cell::Cell<Option<u16>>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { home: RefCell::new(SavedMask::new()), bound: std::cell::Cell::new(None) }
    }

    /// Binds the thread to `cpu`. False where that is not allowed.
    pub(crate) fn beside(&self, cpu: u16) -> bool {
        if self.bound.get() == Some(cpu) {
            return true;
        }
        let mut home = self.home.borrow_mut();
        if self.bound.get().is_none() && save_current(&mut home).is_err() {
            return false;
        }
        if !home.contains(cpu) || pin_current(cpu).is_err() {
            return false;
        }
        self.bound.set(Some(cpu));
        true
    }

    /// Leaves the caller's CPU, if the thread is on it: both are about to look at the slot, and would
    /// look in turns. Its mask is what it was afterwards.
    #[inline]
    pub(crate) fn apart(&self, cpu: u16) {
        if current_cpu() == cpu {
            self.leave(cpu);
        }
    }

    #[cold]
    fn leave(&self, cpu: u16) {
        self.home();
        leave(cpu);
    }

    /// The CPU that it is bound to at present, by us.
    #[inline]
    pub(crate) fn bound(&self) -> Option<u16> {
        self.bound.get()
    }

    /// Gives the thread its own mask back.
    #[inline]
    pub(crate) fn home(&self) {
        if self.bound.get().is_some() {
            self.go_home();
        }
    }

    #[cold]
    fn go_home(&self) {
        self.bound.set(None);
        // Fails only if the cpuset of the process lost all of these CPUs; then the kernel chose.
        let _ = restore_current(&self.home.borrow());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.home();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_mask_back() {
        let before = mask().unwrap();
        {
            let place = Place::new();
            let cpu = current_cpu();
            assert!(place.beside(cpu));
            assert_eq!(only_cpu(), Some(cpu));
            place.home();
            assert_eq!(mask().unwrap(), before);
            assert!(place.beside(cpu));
        }
        assert_eq!(mask().unwrap(), before, "also when it is dropped");
        assert!(!Place::new().beside(5000), "a CPU that is not there");
        assert_eq!(mask().unwrap(), before);
    }

    #[test]
    fn a_thread_that_may_leaves_a_cpu_and_keeps_its_mask() {
        let before = mask().unwrap();
        let cpu = current_cpu();
        // Others may send it back at once, but not always.
        let left = (0..1000).any(|_| {
            leave(cpu);
            current_cpu() != cpu
        });
        assert_eq!(left, before.len() > 1);
        assert_eq!(mask().unwrap(), before);
    }
}
