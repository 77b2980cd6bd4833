//! A thread for each session that sees what happens on connections while nobody calls on them: their end, the
//! acknowledgement of oneway calls, and room for what was not sent.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::connection::Connection;
use super::session::Session;
use crate::locked::lock;
use crate::{Error, Result, disposal};

const STOP: u64 = u64::MAX;

/// What a session's thread watches.
pub(super) struct Watch {
    epoll: Arc<OwnedFd>,
    stop: OwnedFd,
    watched: Arc<Mutex<WatchedConnections>>,
}

#[derive(Default)]
struct WatchedConnections {
    // Each with the key of its events. None is used again: a socket may be closed, and have events, after its connection.
    connections: Vec<(u64, Weak<Connection>)>,
    next: u64,
    is_running: bool,
}

impl WatchedConnections {
    fn of(&self, key: u64) -> Option<Arc<Connection>> {
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
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN).map_err(failed)?;
        Ok(Watch { epoll: Arc::new(epoll), stop, watched: Arc::default() })
    }

    /// Watches one more.
    pub(super) fn add(&self, session: &Arc<Session>, connection: &Arc<Connection>) -> Result<()> {
        let failed = |error| Error::io("cannot watch a connection of an RPC session (epoll)", error);
        let mut watched = lock(&self.watched);
        watched.connections.retain(|(_, other)| other.strong_count() > 0);
        let key = watched.next;
        let data = EventData::new_u64(key);
        epoll::add(&*self.epoll, &**connection, data, ENDED | EventFlags::ONESHOT).map_err(failed)?;
        watched.next += 1;
        watched.connections.push((key, Arc::downgrade(connection)));
        if !std::mem::replace(&mut watched.is_running, true) {
            let (epoll, all, session) =
                (Arc::clone(&self.epoll), Arc::clone(&self.watched), Arc::downgrade(session));
            let thread = std::thread::Builder::new().name("handoff-rpc-wait".into());
            thread
                .spawn(move || run(&epoll, &all, &session))
                .map_err(|error| Error::io("cannot start a thread for an RPC session", error))?;
        }
        Ok(())
    }

    /// Has the session attend to an idle connection when something comes, or when it has room.
    pub(super) fn ask(&self, connection: &Arc<Connection>, unsent: bool) {
        let watched = lock(&self.watched);
        let key = watched
            .connections
            .iter()
            .find(|(_, other)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(connection)))
            .map(|(key, _)| *key);
        let wanted = ENDED
            | EventFlags::ONESHOT
            | EventFlags::IN
            | if unsent { EventFlags::OUT } else { EventFlags::empty() };
        if let Some(key) = key {
            // Fails only when the session is over.
            let _ = epoll::modify(&*self.epoll, &**connection, EventData::new_u64(key), wanted);
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        // Fails only if it was told so often that it knows.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }
}

fn run(epoll: &OwnedFd, watched: &Mutex<WatchedConnections>, session: &Weak<Session>) {
    // What is dropped here may be an application's object, whose end may take long.
    disposal::poll_for_own_user();
    let mut events: Vec<Event> = Vec::with_capacity(16);
    loop {
        events.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        for event in &events {
            let (key, flags) = (event.data.u64(), event.flags);
            let Some(session) = session.upgrade().filter(|_| key != STOP) else { return };
            let connection = lock(watched).of(key);
            let Some(connection) = connection else { continue };
            if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                session.attend(&connection);
                session.remove_outgoing(&connection);
                continue;
            }
            // Asked again only if there is a reason: each acknowledgement of a busy connection would cost a wake-up.
            let key = EventData::new_u64(key);
            // Fails only when the session is over.
            let _ = epoll::modify(epoll, &*connection, key, ENDED | EventFlags::ONESHOT);
            session.attend(&connection);
        }
    }
}
