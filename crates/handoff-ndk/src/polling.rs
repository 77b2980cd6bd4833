//! Calls of other processes that a thread of the application serves, when a descriptor tells it to.
//!
//! A thread of the pool takes the call, leaves it here, and sleeps until it was served. So there is one descriptor whatever
//! the engine, and one thread that serves. What comes while a thread waits for an answer of its own is part of that call: it
//! is served there, as the thread that it would be left to may be the same.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock};

use rustix::event::{EventfdFlags, eventfd};

use crate::locked::lock;
use crate::thread::Thread;

type Served = Box<dyn FnOnce() + Send>;

/// Readable while calls wait.
static BELL: OnceLock<OwnedFd> = OnceLock::new();
static WAITING: Mutex<VecDeque<Served>> = Mutex::new(VecDeque::new());

/// Tells that a thread waits for the answer to a call.
pub(crate) struct Calling<'a>(&'a Cell<bool>, bool);

impl<'a> Calling<'a> {
    #[inline]
    pub(crate) fn begin(thread: &'a Thread) -> Self {
        Calling(&thread.calls, thread.calls.replace(true))
    }
}

impl Drop for Calling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// The descriptor, made when it is first wanted.
pub(crate) fn descriptor() -> rustix::io::Result<i32> {
    if BELL.get().is_none() {
        // Of two threads that make one, one is closed again.
        drop(BELL.set(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
    }
    Ok(BELL.get().map_or(-1, |bell| bell.as_raw_fd()))
}

pub(crate) fn is_set_up() -> bool {
    BELL.get().is_some()
}

/// Has the application's thread serve a call, and waits for it.
pub(crate) fn serve<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (done, outcome) = sync_channel(1);
    leave(Box::new(move || {
        // Who waits for it waits as long as the process lives.
        let _ = done.send(call());
    }));
    outcome.recv().ok()
}

/// Leaves a call, and then rings: who has heard the bell finds it.
fn leave(call: Served) {
    lock(&WAITING).push_back(call);
    if let Some(bell) = BELL.get() {
        // Fails only when it is rung 2^64 times already.
        let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
    }
}

/// Serves every call that waits; not those that come meanwhile, of which there may be no end.
pub(crate) fn serve_waiting() {
    if let Some(bell) = BELL.get() {
        // Before the calls are counted: one that comes later rings again. It fails when none came.
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }
    let waiting = lock(&WAITING).len();
    for _ in 0..waiting {
        // Under the lock, nothing is served.
        let next = lock(&WAITING).pop_front();
        match next {
            Some(call) => call(),
            // Another thread was quicker.
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_call_that_comes_while_others_are_served_rings_again() {
        descriptor().unwrap();
        let is_rung = || rustix::io::read(BELL.get().unwrap(), &mut [0; 8]).is_ok();
        let served = Arc::new(AtomicU32::new(0));
        let (first, second) = (Arc::clone(&served), Arc::clone(&served));
        leave(Box::new(move || {
            first.fetch_add(1, Ordering::Relaxed);
            leave(Box::new(move || {
                second.fetch_add(1, Ordering::Relaxed);
            }));
        }));
        serve_waiting();
        assert_eq!(served.load(Ordering::Relaxed), 1);
        assert!(is_rung());
        serve_waiting();
        assert_eq!(served.load(Ordering::Relaxed), 2);
        assert!(!is_rung());
    }
}
