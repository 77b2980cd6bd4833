//! The kernel's name of a thread.

use std::fmt;
use std::num::NonZeroI32;

/// The id of a thread, as `gettid(2)` gives it; never 0 and never negative.
///
/// The main thread of a process has the id of the process, so a pid is also a `Tid`. Ids are
/// reused: whoever keeps one for long compares the start time of the thread too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(NonZeroI32);

impl Tid {
    /// The thread that asks.
    #[must_use]
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero())
    }

    /// A thread by number; `None` unless it is positive.
    #[must_use]
    pub fn new(raw: i32) -> Option<Self> {
        NonZeroI32::new(raw).filter(|raw| raw.get() > 0).map(Self)
    }

    /// The number that system calls take.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0.get()
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tid({})", self.0)
    }
}

/// The id of a thread that is gone: joining returns a little before the kernel frees the id.
#[cfg(test)]
pub(crate) fn ended() -> Tid {
    let tid = std::thread::spawn(Tid::current).join().expect("it does not panic");
    while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
        std::thread::yield_now();
    }
    tid
}
