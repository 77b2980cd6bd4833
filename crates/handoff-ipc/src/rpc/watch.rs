//! A thread for each session that sees what happens on connections while nobody calls on them: their end, the
//! acknowledgement of oneway calls, and room for what was not sent.
//!
//! A socket that is in an epoll set takes the kernel longer with each message: 0.5 us of a call. One that calls follow each
//! other on is therefore not in it. Who calls on it sees its end, and when the calls stop, the thread takes it back.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::connection::Socket;
use super::session::Session;
use crate::locked::lock;
use crate::{Error, Result, disposal};

/// The key of the events by which the thread is told something.
const TOLD: u64 = u64::MAX;
/// How often the thread looks whether calls have stopped on a connection that is not watched.
const LOOK: Duration = Duration::from_millis(10);

/// What a session's thread watches.
pub(super) struct Watch {
    epoll: Arc<OwnedFd>,
    // By which the thread is told that the session is over, or that a connection is no longer watched.
    told: Arc<OwnedFd>,
    watched: Arc<Mutex<WatchedConnections>>,
}

#[derive(Default)]
struct WatchedConnections {
    // Each with the key of its events. None is used again: a socket may be closed, and have events, after its connection.
    connections: Vec<(u64, Weak<Socket>)>,
    next: u64,
    is_running: bool,
}

impl WatchedConnections {
    fn of(&self, key: u64) -> Option<Arc<Socket>> {
        self.connections.iter().find(|(own, _)| *own == key)?.1.upgrade()
    }
}

/// epoll reports EPOLLRDHUP when the peer has ended the connection, whatever else is asked for.
const ENDED: EventFlags = EventFlags::RDHUP;

impl Watch {
    /// It has so many itself.
    pub(super) const DESCRIPTORS: u64 = 2;

    pub(super) fn new() -> Result<Self> {
        let failed = |error| Error::io("cannot watch the connections of an RPC session (epoll)", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        epoll::add(&epoll, &told, EventData::new_u64(TOLD), EventFlags::IN).map_err(failed)?;
        Ok(Watch { epoll: Arc::new(epoll), told: Arc::new(told), watched: Arc::default() })
    }

    /// Watches one more.
    pub(super) fn add(&self, session: &Arc<Session>, socket: &Arc<Socket>) -> Result<()> {
        let failed = |error| Error::io("cannot watch a connection of an RPC session (epoll)", error);
        let mut watched = lock(&self.watched);
        watched.connections.retain(|(_, other)| other.strong_count() > 0);
        let key = watched.next;
        let data = EventData::new_u64(key);
        epoll::add(&*self.epoll, &**socket, data, ENDED | EventFlags::ONESHOT).map_err(failed)?;
        watched.next += 1;
        watched.connections.push((key, Arc::downgrade(socket)));
        if !std::mem::replace(&mut watched.is_running, true) {
            let (epoll, told) = (Arc::clone(&self.epoll), Arc::clone(&self.told));
            let (all, session) = (Arc::clone(&self.watched), Arc::downgrade(session));
            let thread = std::thread::Builder::new().name("handoff-rpc-wait".into());
            thread
                .spawn(move || run(&epoll, &told, &all, &session))
                .map_err(|error| Error::io("cannot start a thread for an RPC session", error))?;
        }
        Ok(())
    }

    /// Has the session attend to an idle connection when something comes, or when it has room.
    pub(super) fn ask(&self, socket: &Arc<Socket>, unsent: bool) {
        let room = if unsent { EventFlags::OUT } else { EventFlags::empty() };
        let wanted = ENDED | EventFlags::ONESHOT | EventFlags::IN | room;
        let Some(key) = self.key(socket) else { return };
        if let Err(Errno::NOENT) = epoll::modify(&*self.epoll, &**socket, key, wanted) {
            // Fails only when the session is over.
            let _ = epoll::add(&*self.epoll, &**socket, key, wanted);
        }
    }

    /// Watches a connection no longer, until [`Watch::take_back`].
    pub(super) fn leave(&self, socket: &Socket) {
        // Fails only when the session is over.
        let _ = epoll::delete(&*self.epoll, socket);
        self.tell();
    }

    /// Watches a connection again.
    pub(super) fn take_back(&self, socket: &Arc<Socket>) {
        let Some(key) = self.key(socket) else { return };
        // Fails when it is watched already, since something was asked for.
        let _ = epoll::add(&*self.epoll, &**socket, key, ENDED | EventFlags::ONESHOT);
    }

    fn key(&self, socket: &Arc<Socket>) -> Option<EventData> {
        let watched = lock(&self.watched);
        let is_it = |other: &Weak<Socket>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(socket));
        let (key, _) = watched.connections.iter().find(|(_, other)| is_it(other))?;
        Some(EventData::new_u64(*key))
    }

    /// Has the thread look at the session.
    pub(super) fn tell(&self) {
        // Fails only if it was told so often that it knows.
        let _ = rustix::io::write(&*self.told, &1u64.to_ne_bytes());
    }
}

fn run(epoll: &OwnedFd, told: &OwnedFd, watched: &Mutex<WatchedConnections>, session: &Weak<Session>) {
    // What is dropped here may be an application's object, whose end may take long.
    disposal::poll_for_own_user();
    let mut events: Vec<Event> = Vec::with_capacity(16);
    let mut look: Option<Instant> = None;
    loop {
        events.clear();
        // Rounded up, as a time of 0 would have it look around in vain.
        let left = look.map(|at| at.saturating_duration_since(Instant::now()).as_millis() as i64 + 1);
        let left = left.map(|millis| Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 });
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let Some(session) = session.upgrade().filter(|session| !session.is_over()) else { return };
        for event in &events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == TOLD {
                let _ = rustix::io::read(told, &mut [0; 8]);
                look.get_or_insert_with(|| Instant::now() + LOOK);
                continue;
            }
            let socket = lock(watched).of(key);
            let Some(socket) = socket else { continue };
            if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                session.attend(&socket);
                session.remove_outgoing(&socket);
                continue;
            }
            // Asked again only if there is a reason: each acknowledgement of a busy connection would cost a wake-up.
            let key = EventData::new_u64(key);
            // Fails when the session is over, or the connection is not watched any longer.
            let _ = epoll::modify(epoll, &*socket, key, ENDED | EventFlags::ONESHOT);
            session.attend(&socket);
        }
        if look.is_some_and(|at| at <= Instant::now()) {
            look = session.take_back_idle().then(|| Instant::now() + LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::super::connection::{Attempt, Connection, Wait};
    use super::super::session::{Side, Terms};
    use super::super::wire::ID;
    use super::*;
    use crate::identity::CallingIdentity;

    #[test]
    fn a_connection_that_calls_follow_each_other_on_is_watched_again_when_they_stop() {
        let (here, there) = UnixStream::pair().unwrap();
        let peer = CallingIdentity::own();
        let terms = Terms { id: [0; ID], version: 2, descriptors: false, peer };
        let open = Box::new(|_: &Session| Err(Error::Dead));
        let session = Session::new(terms, Side::Client { open }, 1, 1).unwrap();
        let connection = Connection::new(here.into(), peer, false, Vec::new());
        let socket = Arc::clone(connection.socket());
        let fds = format!("/proc/self/fdinfo/{}", session.watch().epoll.as_raw_fd());
        let watched = || {
            let fds = std::fs::read_to_string(&fds).unwrap();
            fds.lines()
                .any(|line| line.split_whitespace().nth(1) == Some(&socket.as_fd().as_raw_fd().to_string()))
        };
        drop(session.add_outgoing(connection).unwrap());
        let (died, dies) = mpsc::channel();
        let _link = session.link_to_death(Box::new(move || died.send(()).unwrap()));
        for round in 0..2 {
            assert!(watched(), "round {round}");
            // The thread that watches may look between two of them.
            while watched() {
                assert!(matches!(session.take(false, Wait::Forever), Ok(Attempt::Done(_))));
            }
            while !watched() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        while watched() {
            assert!(matches!(session.take(false, Wait::Forever), Ok(Attempt::Done(_))));
        }
        drop(there);
        dies.recv().unwrap();
    }
}
