//! The protocol of an event flag: bits in one futex word.
//!
//! Whoever wakes sets bits and makes a system call only if one of them was new; whoever waits takes
//! its bits out of the word first and sleeps only if none was there. A bit that is set while nobody
//! sleeps therefore waits in the word: no wake-up is lost.

use std::num::NonZeroU32;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::futex::{self, AtomicU32, Ordering, WaitResult};

/// The time of `CLOCK_MONOTONIC`, by which deadlines are given here.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Sets bits and wakes those who wait for one that is new.
#[inline]
pub fn wake(word: &AtomicU32, bits: NonZeroU32) {
    let old = word.fetch_or(bits.get(), Ordering::SeqCst);
    if !old & bits.get() != 0 {
        futex::wake_bits(word, bits);
    }
}

/// Takes those of the bits that are set out of the word.
#[inline]
pub fn take(word: &AtomicU32, bits: NonZeroU32) -> (u32, u32) {
    let old = word.fetch_and(!bits.get(), Ordering::SeqCst);
    (old & bits.get(), old & !bits.get())
}

/// Sleeps until one of the bits is set, and takes out those that are: `None` after `deadline`, a
/// time of `CLOCK_MONOTONIC`.
pub fn wait(word: &AtomicU32, bits: NonZeroU32, deadline: Option<Duration>) -> Option<u32> {
    loop {
        let (taken, rest) = take(word, bits);
        if taken != 0 {
            return Some(taken);
        }
        if futex::wait_bits(word, rest, bits, deadline) == WaitResult::TimedOut {
            let (taken, _) = take(word, bits);
            return (taken != 0).then_some(taken);
        }
    }
}

/// After an attempt that found nothing: sleeps until one of the bits is set and tries again, until it finds something.
/// `None` after `deadline`, also where a peer sets the bits again and again without anything to find. What happened just
/// before it counts.
pub fn retry<T>(
    word: &AtomicU32,
    bits: NonZeroU32,
    deadline: Option<Duration>,
    mut attempt: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        let is_over =
            wait(word, bits, deadline).is_none() || deadline.is_some_and(|deadline| now() >= deadline);
        let found = attempt();
        if found.is_some() || is_over {
            return found;
        }
    }
}
