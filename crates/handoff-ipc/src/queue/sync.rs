//! The atomics of a queue: the real ones, or loom's under `--cfg loom`.

pub(crate) use crate::shm::sync::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use model::{wait_bits, wake_bits};
#[cfg(not(loom))]
pub(crate) use real::{wait_bits, wake_bits};

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// Look at the word.
    Woken,
    TimedOut,
}

#[cfg(not(loom))]
mod real {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::thread::futex::{self, Flags, Timespec};

    use super::{AtomicU32, Slept};

    /// `FUTEX_WAIT_BITSET` across processes: sleeps while the word holds `expected`, until
    /// `deadline`, a time of `CLOCK_MONOTONIC`.
    pub(crate) fn wait_bits(
        word: &AtomicU32,
        expected: u32,
        bits: NonZeroU32,
        deadline: Option<Duration>,
    ) -> Slept {
        let deadline = deadline.map(|at| Timespec {
            tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at.subsec_nanos().into(),
        });
        match futex::wait_bitset(word, Flags::empty(), expected, deadline.as_ref(), bits) {
            Err(Errno::TIMEDOUT) => Slept::TimedOut,
            // Woken, value changed, interrupted: all mean to look.
            _ => Slept::Woken,
        }
    }

    /// `FUTEX_WAKE_BITSET` across processes: wakes all that wait for one of the bits.
    pub(crate) fn wake_bits(word: &AtomicU32, bits: NonZeroU32) {
        // Fails only for an address that is not mapped, which a reference rules out.
        let _ = futex::wake_bitset(word, Flags::empty(), i32::MAX as u32, bits);
    }
}

#[cfg(loom)]
mod model {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::{AtomicU32, Slept};
    use crate::shm::sync;

    pub(crate) fn wait_bits(
        word: &AtomicU32,
        expected: u32,
        _bits: NonZeroU32,
        _deadline: Option<Duration>,
    ) -> Slept {
        sync::wait(word, expected, None);
        Slept::Woken
    }

    /// Wakes everybody, also those who wait for other bits: they look and sleep again.
    pub(crate) fn wake_bits(word: &AtomicU32, _bits: NonZeroU32) {
        sync::wake(word);
    }
}
