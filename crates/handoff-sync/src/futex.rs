//! `futex(2)` across processes, and the atomics that it looks at: the real ones, or loom's under `--cfg loom`.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use model::{wait, wait_bits, wake, wake_bits};
#[cfg(not(loom))]
pub use real::{wait, wait_bits, wake, wake_bits};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// What a side of a hand-off still has to do after its exchange of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeAction {
    /// Nothing: a thread of the peer looks at the word, or nobody waits any longer.
    Nothing,
    /// `FUTEX_WAKE`: a thread of the peer sleeps on the word.
    Wake,
    /// A message to the peer's control socket: no thread looks at the word.
    Notify,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// Woken, interrupted, or the word held another value: look at it.
    Woken,
    /// The deadline passed.
    TimedOut,
}

#[cfg(not(loom))]
mod real {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::thread::futex::{self, Flags, Timespec};

    use super::{AtomicU32, WaitResult};

    fn timespec(time: Duration) -> Timespec {
        Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        }
    }

    /// `FUTEX_WAIT` across processes: sleeps while the word holds `expected`, at most for
    /// `timeout`. Returns early for signals and for no reason: the caller looks again.
    #[inline]
    pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        // Every outcome (woken, value changed, timed out, interrupted) means: look at the word.
        let _ = futex::wait(word, Flags::empty(), expected, timeout.map(timespec).as_ref());
    }

    /// `FUTEX_WAKE` across processes: wakes all that wait on the word.
    #[inline]
    pub fn wake(word: &AtomicU32) {
        // Fails only for an address that is not mapped, which a reference rules out.
        let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
    }

    /// `FUTEX_WAIT_BITSET` across processes: sleeps while the word holds `expected`, until
    /// `deadline`, a time of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn wait_bits(
        word: &AtomicU32,
        expected: u32,
        bits: NonZeroU32,
        deadline: Option<Duration>,
    ) -> WaitResult {
        let deadline = deadline.map(timespec);
        match futex::wait_bitset(word, Flags::empty(), expected, deadline.as_ref(), bits) {
            Err(Errno::TIMEDOUT) => WaitResult::TimedOut,
            _ => WaitResult::Woken,
        }
    }

    /// `FUTEX_WAKE_BITSET` across processes: wakes all that wait for one of the bits.
    #[inline]
    pub fn wake_bits(word: &AtomicU32, bits: NonZeroU32) {
        // Fails only for an address that is not mapped, which a reference rules out.
        let _ = futex::wake_bitset(word, Flags::empty(), i32::MAX as u32, bits);
    }
}

#[cfg(loom)]
mod model {
    use std::cell::RefCell;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use loom::thread::{self, Thread};

    use super::{AtomicU32, Ordering, WaitResult};

    thread_local! {
        // Who sleeps on which word. Not one of loom's types, on purpose: loom runs all threads of a
        // model on one, and switches between them only at its own operations, so that what touches
        // only this is one step, as it is in the kernel. (With loom's mutex, unlocking forgets that
        // a thread which once locked it was unparked.)
        static SLEEPERS: RefCell<Vec<(usize, Thread)>> = const { RefCell::new(Vec::new()) };
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    /// As the kernel's: the comparison and going to sleep are one step for whoever wakes. No time passes in a model.
    pub fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
        let me = thread::current();
        // An exchange, not a load: the kernel reads what is there, never an older value.
        if word.fetch_or(0, Ordering::SeqCst) == expected {
            SLEEPERS.with_borrow_mut(|sleepers| sleepers.push((address(word), me)));
            thread::park();
        }
    }

    /// Wakes all that wait on the word.
    pub fn wake(word: &AtomicU32) {
        // Others may run between the exchange and the wake.
        word.load(Ordering::Relaxed);
        let woken: Vec<(usize, Thread)> = SLEEPERS
            .with_borrow_mut(|sleepers| sleepers.extract_if(.., |(at, _)| *at == address(word)).collect());
        woken.into_iter().for_each(|(_, thread)| thread.unpark());
    }

    /// As [`wait`]: in a model, each wake-up is for all bits.
    pub fn wait_bits(
        word: &AtomicU32,
        expected: u32,
        _bits: NonZeroU32,
        _deadline: Option<Duration>,
    ) -> WaitResult {
        wait(word, expected, None);
        WaitResult::Woken
    }

    /// Wakes everybody, also those who wait for other bits: they look and sleep again.
    pub fn wake_bits(word: &AtomicU32, _bits: NonZeroU32) {
        wake(word);
    }
}
