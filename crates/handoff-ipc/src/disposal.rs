//! Where what peers sent is closed and unmapped: on threads of its own, because it may take long.
//!
//! `close` waits for a socket with `SO_LINGER`, for a file system in user space that does not answer, and
//! for whatever descriptors lie in a socket's queue. A user has one such thread, so that no user waits
//! for another one's. What refused connections have in their queues is closed by one thread for all, which
//! cuts short what waits ([`PromptClose`]): until then nobody else could be refused, or let in.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_placement::PromptClose;

use crate::identity::CallingIdentity;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;

/// Threads at most. Users beyond share one of them.
const MOST_THREADS: usize = 16;
/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(5);

type Garbage = Box<dyn Send>;
type Queues = HashMap<u64, VecDeque<Garbage>>;

/// Queues and their threads.
#[derive(Default)]
struct Disposal {
    // An entry has its thread. By user; those beyond the limit under `OTHERS`; refused connections under `REFUSED`.
    queues: Mutex<Queues>,
    news: Condvar,
}

const OTHERS: u64 = u64::MAX;
const REFUSED: u64 = u64::MAX - 1;

static DISPOSAL: LazyLock<Disposal> = LazyLock::new(Disposal::default);

thread_local! {
    static POLLED: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Marks this thread as a poller, on which nothing may be dropped that takes long.
pub(crate) fn poll_for_own_user() {
    POLLED.set(Some(CallingIdentity::own().uid));
}

/// What this thread does from here on it does for that user, if it is a poller.
pub(crate) fn poll_for(user: u32) {
    if POLLED.get().is_some() {
        POLLED.set(Some(user));
    }
}

/// The user that a poller works for; `None` on other threads.
pub(crate) fn polled_user() -> Option<u32> {
    POLLED.get()
}

/// Drops something that came from a process of that user, on another thread.
pub(crate) fn drop_later(uid: u32, garbage: impl Send + 'static) {
    DISPOSAL.add(uid, Box::new(garbage));
}

/// Closes a connection that was refused, with what is in its queue, on another thread.
pub(crate) fn close_refused(socket: OwnedFd, charge: Charge) {
    DISPOSAL.add_to(REFUSED, lock(&DISPOSAL.queues), Box::new((socket, charge)));
}

impl Disposal {
    fn add(&'static self, uid: u32, garbage: Garbage) {
        let queues = lock(&self.queues);
        let own = u64::from(uid);
        let key = if queues.contains_key(&own) || queues.len() < MOST_THREADS { own } else { OTHERS };
        self.add_to(key, queues, garbage);
    }

    fn add_to(&'static self, key: u64, mut queues: MutexGuard<'_, Queues>, garbage: Garbage) {
        let is_new = !queues.contains_key(&key);
        queues.entry(key).or_default().push_back(garbage);
        if !is_new {
            drop(queues);
            self.news.notify_all();
            return;
        }
        // Under the lock: whoever comes next finds a queue that has its thread, or none.
        let thread = std::thread::Builder::new().name("handoff-close".into()).spawn(move || self.run(key));
        if thread.is_err() {
            let left = queues.remove(&key);
            drop(queues);
            // No thread can be had: here, then.
            drop(left);
        }
    }

    fn run(&self, key: u64) {
        // It may have inherited the poller's urgency. Lowering is always allowed.
        let _ = crate::pool::base().apply(handoff_placement::Tid::current());
        // Without it, a close that waits keeps the others waiting.
        let mut prompt = (key == REFUSED).then(PromptClose::new).and_then(Result::ok);
        let mut queues = lock(&self.queues);
        loop {
            if let Some(garbage) = queues.get_mut(&key).and_then(VecDeque::pop_front) {
                drop(queues);
                // The application's code may be in it: it can panic, and the others still want to be closed.
                let drop_it =
                    || std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(garbage))).is_ok();
                match &mut prompt {
                    Some(prompt) => prompt.during(drop_it),
                    None => drop_it(),
                };
                queues = lock(&self.queues);
                continue;
            }
            let (again, timeout) =
                self.news.wait_timeout(queues, LINGER).unwrap_or_else(PoisonError::into_inner);
            queues = again;
            if timeout.timed_out() && queues.get(&key).is_none_or(VecDeque::is_empty) {
                queues.remove(&key);
                return;
            }
        }
    }
}

/// A descriptor that a peer sent or made. Unless somebody takes it, it is closed on its user's thread.
pub(crate) struct PeerFd {
    // `None` once it was taken.
    fd: Option<OwnedFd>,
    uid: u32,
    charge: Option<Charge>,
}

impl PeerFd {
    pub(crate) fn new(fd: OwnedFd, uid: u32) -> Self {
        PeerFd { fd: Some(fd), uid, charge: None }
    }

    /// Has it counted until it is closed or taken.
    pub(crate) fn charged(mut self, charge: Charge) -> Self {
        self.charge = Some(charge);
        self
    }

    /// Who it is counted for.
    pub(crate) fn owner(&self) -> Option<CallingIdentity> {
        self.charge.as_ref().map(Charge::who)
    }

    /// Whether it counts as one that the peer may have this process keep.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.resource() == Resource::Descriptors)
    }

    /// Closes it on this thread: it was mapped as shared memory, so it is a memfd, whose close waits for nobody.
    pub(crate) fn close_here(mut self) {
        drop(self.fd.take());
    }

    /// For the application, which closes it when it likes.
    pub(crate) fn take(mut self) -> Option<OwnedFd> {
        self.fd.take()
    }
}

/// Has descriptors that came counted until they are closed or taken. Those beyond the peer's share of descriptors count
/// as what waits to be closed; see [`is_crowded`].
pub(crate) fn count_arrived(who: CallingIdentity, fds: Vec<PeerFd>) -> Vec<PeerFd> {
    let mut charges = ledger::charge_each(who, Resource::Descriptors, fds.len());
    let beyond = fds.len() - charges.len();
    charges.extend(ledger::charge_anyway(who, Resource::Closing, beyond));
    fds.into_iter().zip(charges).map(|(fd, charge)| fd.charged(charge)).collect()
}

/// True while as many descriptors of a peer, or of its user, wait to be closed as may be. Nothing is to be read from it
/// then: what a message brings cannot be known before, and has to be closed by somebody.
pub(crate) fn is_crowded(peer: CallingIdentity) -> bool {
    ledger::is_full(peer, Resource::Closing)
}

impl AsFd for PeerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Some(fd) => fd.as_fd(),
            None => unreachable!("who takes it out has the value, and drops it"),
        }
    }
}

impl Drop for PeerFd {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            drop_later(self.uid, (fd, self.charge.take()));
        }
    }
}

impl fmt::Debug for PeerFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fd.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// One of the test's own: the process's may be busy with what other tests leave.
    fn disposal() -> &'static Disposal {
        Box::leak(Box::default())
    }

    /// Takes as long to drop as somebody likes.
    struct Slow(mpsc::Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    struct Tells(mpsc::Sender<u32>, u32);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    #[test]
    fn what_takes_long_keeps_neither_its_owner_nor_another_user() {
        let disposal = disposal();
        let (end, slow) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        disposal.add(90_001, Box::new(Slow(slow)));
        disposal.add(90_001, Box::new(Tells(tell.clone(), 1)));
        disposal.add(90_002, Box::new(Tells(tell, 2)));
        assert_eq!(told.recv().unwrap(), 2, "another user's");
        assert!(told.try_recv().is_err(), "the same user's waits");
        end.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), 1);
    }

    #[test]
    fn a_panic_in_a_drop_leaves_the_thread() {
        let disposal = disposal();
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("as asked");
            }
        }
        let (tell, told) = mpsc::channel();
        disposal.add(90_003, Box::new(Panics));
        disposal.add(90_003, Box::new(Tells(tell, 3)));
        assert_eq!(told.recv().unwrap(), 3);
    }

    #[test]
    fn threads_are_bounded_whatever_number_of_users_comes() {
        let disposal = disposal();
        let (tell, told) = mpsc::channel();
        for uid in 0..200 {
            disposal.add(91_000 + uid, Box::new(Tells(tell.clone(), uid)));
        }
        assert!(lock(&disposal.queues).len() <= MOST_THREADS + 1);
        drop(tell);
        assert_eq!(told.iter().count(), 200);
    }
}
