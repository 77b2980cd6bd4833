//! The engine's heart in a process: who it is, and whom it is connected to.
//!
//! `core/poller.rs` is the thread that reads the control sockets, `core/handshake.rs` how a connection
//! becomes a link, and `core/introductions.rs` how two processes meet that a third one brings together.

#[cfg(test)]
mod backlog_tests;
mod budget;
mod handshake;
#[cfg(test)]
mod handshake_tests;
mod introductions;
mod poller;
#[cfg(test)]
mod poller_tests;
#[cfg(test)]
mod shares_tests;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::rand::{GetRandomFlags, getrandom};

use self::introductions::Introductions;
use super::link::Link;
use super::wire::Token;
use crate::disposal::PeerFd;
use crate::identity::CallingIdentity;
use crate::object::LocalNode;
use crate::{Error, Result};

/// Whoever stands at the other end of a socket that is watched.
#[derive(Clone)]
enum Peer {
    /// A process that has not sent its `Hello` yet: it connected, or it is to be introduced.
    Newcomer {
        socket: Arc<PeerFd>,
        since: Instant,
        introduction: Option<Token>,
    },
    Link(Arc<Link>, Arc<PeerFd>),
    Listener(Arc<OwnedFd>),
}

/// Calls of links: made, caught without sleeping, slept for, asked beside; and served.
pub(crate) type Tallies = ([u64; 4], u64);

pub(crate) fn add_tallies(sum: &mut Tallies, part: Tallies) {
    for (sum, part) in sum.0.iter_mut().zip(part.0) {
        *sum += part;
    }
    sum.1 += part.1;
}

#[derive(Default)]
struct Peers {
    // Of links that are gone.
    retired: Tallies,
    by_key: HashMap<u64, Peer>,
    introductions: Introductions,
    // Not watched until then.
    paused: Vec<(u64, Instant)>,
    root: Option<Arc<LocalNode>>,
}

impl Peers {
    fn links(&self) -> Vec<Arc<Link>> {
        let link = |peer: &Peer| if let Peer::Link(link, _) = peer { Some(Arc::clone(link)) } else { None };
        self.by_key.values().filter_map(link).collect()
    }
}

/// State shared by the poller, the links and the engine's handle.
pub(crate) struct Core {
    endpoint: Token,
    epoll: OwnedFd,
    bell: OwnedFd,
    stopping: AtomicBool,
    next_key: AtomicU64,
    peers: Mutex<Peers>,
    // A link was added.
    linked: Condvar,
    reserve: Mutex<Option<OwnedFd>>,
    // Links keep descriptors for parcels that have not come.
    keeps_fds: AtomicBool,
    follow_callers: AtomicBool,
}

const BELL: u64 = 0;

fn random() -> Result<Token> {
    let mut token = [0; 16];
    let count = getrandom(&mut token, GetRandomFlags::empty())
        .map_err(|error| Error::io("cannot get random numbers", error))?;
    if count == token.len() { Ok(token) } else { Err(Error::Protocol("too few random numbers".into())) }
}

/// A descriptor to be closed when there is no other left.
fn new_reserve() -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| Error::io("cannot keep a descriptor in reserve", error))
}

impl Peer {
    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Peer::Newcomer { socket, .. } | Peer::Link(_, socket) => socket.as_fd(),
            Peer::Listener(socket) => socket.as_fd(),
        }
    }
}

impl Core {
    /// Makes the process known to nobody yet, and starts its poller.
    pub(crate) fn start() -> Result<Arc<Self>> {
        // Before the first thread: later it takes long.
        handoff_sync::gate::prepare();
        let what = "cannot set up the engine";
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Error::io(what, error))?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io(what, error))?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)
            .map_err(|error| Error::io(what, error))?;
        let core = Arc::new(Core {
            endpoint: random()?,
            epoll,
            bell,
            stopping: AtomicBool::new(false),
            next_key: AtomicU64::new(BELL + 1),
            peers: Mutex::default(),
            linked: Condvar::new(),
            reserve: Mutex::new(Some(new_reserve()?)),
            keeps_fds: AtomicBool::new(false),
            follow_callers: AtomicBool::new(true),
        });
        let poller = Arc::clone(&core);
        std::thread::Builder::new()
            .name("handoff-poll".into())
            .spawn(move || poller.poll())
            .map_err(|error| Error::io("cannot start the engine's thread", error))?;
        Ok(core)
    }

    /// Whether callers on links that are made from now on look for the best way to wait.
    pub(crate) fn follow_callers(&self, on: bool) {
        self.follow_callers.store(on, Ordering::Relaxed);
    }

    pub(crate) fn follows_callers(&self) -> bool {
        self.follow_callers.load(Ordering::Relaxed)
    }

    /// Ends the poller and every link. Calls in progress fail with [`Error::Dead`].
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the poller look what there is to do, and for how long it may sleep.
    fn wake(&self) {
        // Fails only when it is rung already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The links of this process.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.peers().links()
    }

    /// A link keeps descriptors, for a while. On the poller's thread.
    pub(crate) fn note_kept_fds(&self) {
        self.keeps_fds.store(true, Ordering::Relaxed);
    }

    /// Looks which descriptors peers have read of those that they were sent.
    pub(crate) fn forget_read(&self) {
        self.links().iter().for_each(|link| link.forget_read());
    }

    /// Calls of all links, those that are gone too; and how many links there are.
    pub(crate) fn tallies(&self) -> (Tallies, usize) {
        let peers = self.peers();
        let (mut sum, links) = (peers.retired, peers.links());
        // Without the lock, which the poller takes for each message: a link may have a thousand slots, and anybody asks
        // for this as often as it likes.
        drop(peers);
        links.iter().for_each(|link| add_tallies(&mut sum, link.tallies()));
        (sum, links.len())
    }

    /// Has a connection, which is charged to `peer`, watched as a link. The peer calls itself `endpoint`.
    fn add_link(
        self: &Arc<Self>,
        socket: PeerFd,
        peer: CallingIdentity,
        endpoint: Token,
    ) -> Result<Arc<Link>> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let socket = Arc::new(socket);
        let link = Arc::new(Link::new(self, key, &socket, peer, endpoint));
        let mut peers = self.peers();
        if self.stopping.load(Ordering::Acquire) {
            return Err(Error::Dead);
        }
        epoll::add(&self.epoll, &*socket, EventData::new_u64(key), EventFlags::IN)
            .map_err(|error| Error::io("cannot watch a connection", error))?;
        peers.by_key.insert(key, Peer::Link(Arc::clone(&link), socket));
        drop(peers);
        self.linked.notify_all();
        Ok(link)
    }

    fn watch(&self, peer: Peer) -> Result<u64> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let mut peers = self.peers();
        epoll::add(&self.epoll, peer.socket(), EventData::new_u64(key), EventFlags::IN)
            .map_err(|error| Error::io("cannot watch a connection", error))?;
        peers.by_key.insert(key, peer);
        Ok(key)
    }

    /// The link has something to send that its socket did not take.
    pub(crate) fn want_write(&self, link: &Link) {
        let both = EventFlags::IN | EventFlags::OUT;
        if let Ok(socket) = link.socket() {
            // Fails only if the peer died meanwhile.
            let _ = epoll::modify(&self.epoll, &*socket, EventData::new_u64(link.id), both);
        }
    }
}
