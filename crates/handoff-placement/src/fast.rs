//! Affinity and CPU time of the calling thread on a path that may not allocate: one system call each.
//!
//! A hand-off that runs the callee beside its caller pins itself for one call and goes back.
//! [`SavedMask`] lives on the stack and holds the largest mask a kernel can be built for.
//!
//! ```
//! use handoff_placement::fast::{SavedMask, current_cpu, pin_current, restore_current, save_current};
//!
//! let mut saved = SavedMask::new();
//! save_current(&mut saved)?;
//! pin_current(current_cpu())?;
//! restore_current(&saved)?;
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::cpuset::{CpuId, CpuSet};
use crate::sys;
use std::io;
use std::time::Duration;

/// Words of the largest mask: `NR_CPUS` is at most 8192.
const WORDS: usize = 8192 / 64;

/// A mask on the stack, filled by [`save_current`].
#[derive(Debug, Clone, Copy)]
pub struct SavedMask {
    /// How many of the words the kernel filled in; 0 when nothing was saved.
    len: usize,
    words: [u64; WORDS],
}

impl SavedMask {
    /// Nothing saved yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, words: [0; WORDS] }
    }

    /// Was nothing saved yet?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Is the CPU in the mask?
    #[must_use]
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let word = usize::from(cpu / 64);
        word < self.len && self.words[word] >> (cpu % 64) & 1 == 1
    }

    /// How many CPUs are in the mask.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u32 {
        self.words[..self.len].iter().map(|word| word.count_ones()).sum()
    }

    /// The mask as a set (allocates).
    #[must_use]
    pub fn to_set(&self) -> CpuSet {
        CpuSet::from_words(self.words[..self.len].to_vec())
    }
}

impl Default for SavedMask {
    fn default() -> Self {
        Self::new()
    }
}

/// The CPU that this thread runs on, as of now: it may be on another at the next instruction
/// unless it is pinned. No system call where the C library or the vDSO can answer.
#[must_use]
#[inline]
pub fn current_cpu() -> CpuId {
    // The call fails only on kernels older than any that this crate supports.
    CpuId::try_from(sys::sched_getcpu()).unwrap_or(0)
}

/// How long this thread was on a CPU since it began.
#[must_use]
pub fn cpu_time() -> Duration {
    sys::thread_cpu_time()
}

/// Copies the mask of this thread into `saved`.
///
/// # Errors
///
/// What `sched_getaffinity(2)` says: `EINVAL` on a kernel with more than 8192 CPUs.
#[inline]
pub fn save_current(saved: &mut SavedMask) -> io::Result<()> {
    saved.len = 0;
    saved.len = sys::sched_getaffinity(0, &mut saved.words)?;
    Ok(())
}

/// Lets this thread run on one CPU only.
///
/// # Errors
///
/// `EINVAL` if the CPU does not exist, is offline or is outside this thread's cpuset.
#[inline]
pub fn pin_current(cpu: CpuId) -> io::Result<()> {
    if cpu < 64 {
        return sys::sched_setaffinity(0, &[1 << cpu]);
    }
    let word = usize::from(cpu / 64);
    if word >= WORDS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut words = [0u64; WORDS];
    words[word] = 1 << (cpu % 64);
    sys::sched_setaffinity(0, &words[..=word])
}

/// Gives this thread the saved mask back.
///
/// # Errors
///
/// `EINVAL` if nothing was saved, or if none of the saved CPUs is allowed any more.
#[inline]
pub fn restore_current(saved: &SavedMask) -> io::Result<()> {
    sys::sched_setaffinity(0, &saved.words[..saved.len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tid, affinity};

    #[test]
    fn pinning_is_seen_and_undone() {
        let mut saved = SavedMask::new();
        assert!(saved.is_empty() && restore_current(&saved).is_err());
        save_current(&mut saved).unwrap();
        let before = affinity(Tid::current()).unwrap();
        assert_eq!(saved.to_set(), before);
        assert_eq!(saved.count() as usize, before.len());
        for cpu in before.iter() {
            assert!(saved.contains(cpu));
            pin_current(cpu).unwrap();
            assert_eq!(current_cpu(), cpu);
            assert_eq!(affinity(Tid::current()).unwrap(), CpuSet::of(cpu));
        }
        restore_current(&saved).unwrap();
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }

    #[test]
    fn an_absent_cpu_is_refused_and_changes_nothing() {
        let before = affinity(Tid::current()).unwrap();
        for cpu in [5000, 8191, 8192, CpuId::MAX] {
            assert_eq!(pin_current(cpu).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{cpu}");
        }
        assert!(!SavedMask::new().contains(CpuId::MAX));
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }

    #[test]
    fn time_on_a_cpu_grows_while_a_thread_computes_and_not_while_it_sleeps() {
        let begin = cpu_time();
        while cpu_time() < begin + Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let slept = cpu_time();
        std::thread::sleep(Duration::from_millis(200));
        assert!(cpu_time() - slept < Duration::from_millis(150));
    }
}
