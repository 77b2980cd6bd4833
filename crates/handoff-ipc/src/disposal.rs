//! Where what peers sent is closed and unmapped: on threads of its own, because it may take long.
//!
//! `close` waits for a socket with `SO_LINGER`, for a file system in user space that does not answer, and
//! for whatever descriptors lie in a socket's queue. A user has one such thread, so that no user waits
//! for another one's. There are so many and no more: users beyond share one. It cuts short what waits
//! ([`PromptClose`]), as the one does that closes what refused connections have in their queues: until then nobody else
//! could be refused, or let in.

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

/// Threads of one user each, at most.
const MOST_THREADS: usize = 16;
/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(5);

type Garbage = Box<dyn Send>;
type Queues = HashMap<u64, Queue>;

#[derive(Default)]
struct Queue {
    garbage: VecDeque<Garbage>,
    // False where none could be started yet.
    has_thread: bool,
}

/// Queues and their threads.
#[derive(Default)]
struct Disposal {
    // By user; those beyond the limit under `OTHERS`; refused connections under `REFUSED`.
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
        queues.entry(key).or_default().garbage.push_back(garbage);
        // Under the lock: whoever comes next finds a queue that has its thread, or starts one.
        for (key, queue) in queues.iter_mut().filter(|(_, queue)| !queue.has_thread) {
            let key = *key;
            queue.has_thread = start_thread(move || self.run(key)).is_ok();
            if !queue.has_thread {
                // Not here, where it may take long: it stays, and counts, until somebody comes again.
                break;
            }
        }
        drop(queues);
        self.news.notify_all();
    }

    fn run(&self, key: u64) {
        // It may have inherited the poller's urgency. Lowering is always allowed.
        let _ = crate::pool::base().apply(handoff_placement::Tid::current());
        // Without it, a close that waits keeps the others waiting.
        let mut prompt = (key >= REFUSED).then(PromptClose::new).and_then(Result::ok);
        let mut queues = lock(&self.queues);
        loop {
            if let Some(garbage) = queues.get_mut(&key).and_then(|queue| queue.garbage.pop_front()) {
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
            if timeout.timed_out() && queues.get(&key).is_none_or(|queue| queue.garbage.is_empty()) {
                queues.remove(&key);
                return;
            }
        }
    }
}

fn start_thread(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(test)]
    if tests::NO_THREADS.get() {
        return Err(std::io::ErrorKind::OutOfMemory.into());
    }
    std::thread::Builder::new().name("handoff-close".into()).spawn(body).map(drop)
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
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    thread_local! {
        /// Whether this thread can start no other.
        pub(super) static NO_THREADS: Cell<bool> = const { Cell::new(false) };
    }

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

    /// A socket that waits at its close for longer than the test, and who keeps it waiting.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Else this end's grows, and has room for all a moment later.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        // The time that a close waits is zero for a socket that never waits.
        stream.set_nonblocking(false).unwrap();
        (stream.into(), reader)
    }

    #[test]
    fn users_that_keep_all_threads_keep_nobody_else_waiting() {
        let disposal = disposal();
        let mut readers = Vec::new();
        for uid in 0..MOST_THREADS as u32 + 4 {
            let (slow, reader) = lingering();
            disposal.add(92_000 + uid, Box::new(slow));
            readers.push(reader);
        }
        let (tell, told) = mpsc::channel();
        disposal.add(93_000, Box::new(Tells(tell, 7)));
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(7), "behind those of other users");
        drop(readers);
    }

    #[test]
    fn without_a_thread_nothing_is_dropped_where_it_may_take_long() {
        let disposal = disposal();
        let (end, slow) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        NO_THREADS.set(true);
        // On this thread it would wait for ever.
        disposal.add(94_001, Box::new(Slow(slow)));
        disposal.add(94_002, Box::new(Tells(tell.clone(), 1)));
        NO_THREADS.set(false);
        assert!(told.try_recv().is_err());
        disposal.add(94_003, Box::new(Tells(tell, 2)));
        let mut said = [0; 2]
            .map(|_| told.recv_timeout(Duration::from_secs(60)).expect("kept until there was a thread"));
        said.sort_unstable();
        assert_eq!(said, [1, 2]);
        end.send(()).unwrap();
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
