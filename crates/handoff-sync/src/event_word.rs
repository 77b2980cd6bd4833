//! The protocol of an event flag: bits in one futex word.
//!
//! Whoever wakes sets bits and makes a system call only if one of them was new; whoever waits takes
//! its bits out of the word first and sleeps only if none was there. A bit that is set while nobody
//! sleeps therefore waits in the word: no wake-up is lost.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::futex::{self, AtomicU32, Ordering, Slept};

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
        if futex::wait_bits(word, rest, bits, deadline) == Slept::TimedOut {
            let (taken, _) = take(word, bits);
            return (taken != 0).then_some(taken);
        }
    }
}
