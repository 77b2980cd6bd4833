//! Where this thread may run, and what time it is for both sides.

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
    mask()?.single()
}

/// Goes to another CPU than `cpu`, if this thread is there and may run on one. Afterwards it has its old mask again.
#[inline]
pub(crate) fn apart(cpu: u16) {
    if current_cpu() == cpu {
        leave(cpu);
    }
}

/// As [`apart`], wherever this thread is.
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

/// Comes to `cpu`, if this thread is elsewhere and may run there. Afterwards it has its old mask again, and stays until
/// the scheduler moves it.
#[inline]
pub(crate) fn come(cpu: u16) {
    if current_cpu() != cpu {
        go(cpu);
    }
}

#[cold]
fn go(cpu: u16) {
    let mut own = SavedMask::new();
    if save_current(&mut own).is_ok() && own.contains(cpu) && pin_current(cpu).is_ok() {
        // Fails only if the cpuset of the process lost all of these CPUs; then the kernel chose.
        let _ = restore_current(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_comes_to_a_cpu_and_keeps_its_mask() {
        let before = mask().unwrap();
        for cpu in before.iter() {
            // Others may send it away at once, but not always.
            let came = (0..1000).any(|_| {
                come(cpu);
                current_cpu() == cpu
            });
            assert!(came, "CPU {cpu}");
            assert_eq!(mask().unwrap(), before);
        }
        come(5000);
        assert_eq!(mask().unwrap(), before, "a CPU that is not there");
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
