//! The atomics and the futex of the hand-off: the real ones, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub(crate) use real::{wait, wake};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use model::{wait, wake};

/// What a side of a hand-off still has to do after its exchange of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeAction {
    /// Nothing: a thread of the peer looks at the word, or nobody waits any longer.
    Nothing,
    /// `FUTEX_WAKE`: a thread of the peer sleeps on the word.
    Wake,
    /// A message to the peer's control socket: no thread looks at the word.
    Notify,
}

#[cfg(not(loom))]
mod real {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use rustix::thread::futex::{self, Flags, Timespec};

    /// `FUTEX_WAIT` across processes: sleeps while the word holds `expected`, at most for
    /// `timeout`. Returns early for signals and for no reason: the caller looks again.
    #[inline]
    pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        // Every outcome (woken, value changed, timed out, interrupted) means: look at the word.
        let _ = futex::wait(word, Flags::empty(), expected, timeout.as_ref());
    }

    /// `FUTEX_WAKE` across processes: wakes all that wait on the word.
    #[inline]
    pub(crate) fn wake(word: &AtomicU32) {
        // Fails only for an address that is not mapped, which a reference rules out.
        let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(loom)]
mod model {
    use std::cell::RefCell;
    use std::time::Duration;

    use loom::thread::{self, Thread};

    use super::{AtomicU32, Ordering};

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

    /// As the kernel's: the comparison and going to sleep are one step for whoever wakes.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
        let me = thread::current();
        // An exchange, not a load: the kernel reads what is there, never an older value.
        if word.fetch_or(0, Ordering::SeqCst) == expected {
            SLEEPERS.with_borrow_mut(|sleepers| sleepers.push((address(word), me)));
            thread::park();
        }
    }

    pub(crate) fn wake(word: &AtomicU32) {
        // Others may run between the exchange and the wake.
        word.load(Ordering::Relaxed);
        let woken: Vec<(usize, Thread)> = SLEEPERS
            .with_borrow_mut(|sleepers| sleepers.extract_if(.., |(at, _)| *at == address(word)).collect());
        woken.into_iter().for_each(|(_, thread)| thread.unpark());
    }
}
