//! When a call passed each point inside of the engine, where that is asked for.
//!
//! Off, which is how it starts, a point costs a load and a branch that is never taken. On, each side
//! keeps its own stamps of `CLOCK_MONOTONIC`, which is one clock for all processes of a machine, so that
//! they can be laid side by side afterwards.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::place::monotonic_ns;
use crate::locked::lock;

/// Points of a synchronous call inside of the engine, in the order in which a call passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The caller's request stands in the slot, for the server to see.
    Posted,
    /// The caller woke the server's thread, or found that it need not.
    Woken,
    /// The server's thread saw the request.
    Seen,
    /// The reply stands in the slot, for the caller to see.
    Replied,
    /// The server's thread woke the caller, or found that it need not.
    WokenBack,
    /// The caller saw the reply.
    Returned,
}

/// One point of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which.
    pub point: Point,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub ns: u64,
}

/// Later stamps are dropped, so that a recording that is forgotten fills no memory.
const MOST: usize = 1 << 20;

static ON: AtomicBool = AtomicBool::new(false);
static LOG: Mutex<Vec<Stamp>> = Mutex::new(Vec::new());

/// Begins to keep the stamps of this process's calls, on both of its sides, and forgets former ones.
pub fn start() {
    let mut log = lock(&LOG);
    log.clear();
    log.reserve(1 << 12);
    ON.store(true, Ordering::Relaxed);
}

/// Ends that and gives the stamps, in the order in which they were taken.
pub fn stop() -> Vec<Stamp> {
    let mut log = lock(&LOG);
    ON.store(false, Ordering::Relaxed);
    std::mem::take(&mut *log)
}

/// A call passes a point.
#[inline]
pub(crate) fn pass(point: Point) {
    if ON.load(Ordering::Relaxed) {
        keep(point);
    }
}

#[cold]
fn keep(point: Point) {
    let ns = monotonic_ns();
    let mut log = lock(&LOG);
    // Looked at again under the lock: a thread that was held up on its way here is too late.
    if ON.load(Ordering::Relaxed) && log.len() < MOST {
        log.push(Stamp { point, ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_between_start_and_stop() {
        pass(Point::Posted);
        start();
        pass(Point::Seen);
        pass(Point::Replied);
        let stamps = stop();
        pass(Point::Returned);
        // Calls of other tests of this program pass points too.
        let own = |point| stamps.iter().filter(move |stamp| stamp.point == point).count();
        assert!(own(Point::Seen) >= 1 && own(Point::Replied) >= 1);
        assert!(stop().is_empty());
    }
}
