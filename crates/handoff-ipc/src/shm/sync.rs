//! The atomics and the futex of the hand-off: the real ones, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub(crate) use real::{wait, wake};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use model::{wait, wake};

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
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use super::{AtomicU32, Ordering};

    loom::lazy_static! {
        // One queue for all words: a wake may wake too many, which the protocol must bear anyway.
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// As the kernel's: the comparison and going to sleep are one step for whoever wakes.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(QUEUE.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(_word: &AtomicU32) {
        drop(QUEUE.0.lock().unwrap());
        QUEUE.1.notify_all();
    }
}
