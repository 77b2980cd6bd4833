//! A link: everything between this process and one other.
//!
//! One socket each pair of processes carries control messages; calls travel in the slots that hang
//! on the link. When the socket closes, the peer is dead: everybody who waits on the link is told.
//! Messages go out by `outbox.rs`; `inbox.rs` and `questions.rs` have what threads wait for. What comes in, the end
//! among it, is handled by `arrivals.rs`, which alone knows what the slots and rings on a link are for.

mod arrivals;
mod exports;
mod inbox;
mod outbox;
mod outgoing;
mod questions;
mod recipients;
mod tables;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};

pub(crate) use self::exports::Called;
pub(crate) use self::outgoing::FlushOutcome;
use self::outgoing::Outbox;
use self::tables::{Answers, Export, Parcels};
use super::call::caller_slot::CallerSlots;
#[cfg(feature = "tokio")]
use super::call::pending::OutstandingCalls;
use super::call::server_slot::ServerSlot;
use super::core::{Core, Tallies};
use super::oneway;
use super::remote::RemoteNode;
use super::wire::Token;
use crate::claim;
use crate::disposal::PeerFd;
use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::{Error, Result};

/// How long the peer may take to answer a control message, or to send what it announced.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// This process's end of the connection to one other.
pub(crate) struct Link {
    pub(crate) id: u64,
    core: Weak<Core>,
    // The poller has it, and lets it go with the peer: a proxy that somebody keeps keeps no descriptor.
    socket: Weak<PeerFd>,
    peer: CallingIdentity,
    // When the peer started: numbers of processes are used again while another may hold its socket.
    peer_started: u64,
    // What the peer calls itself: a hint, and no proof of who it is.
    peer_endpoint: Token,
    dead: AtomicBool,
    // Whether the peer was met as the service manager.
    to_manager: AtomicBool,
    // Threads that wait for the peer to answer an introduction.
    introductions: AtomicU32,
    exports: Mutex<HashMap<u64, Export>>,
    // Changes whenever an export goes: what threads remember of the table is void then.
    exports_version: AtomicU32,
    proxies: Mutex<HashMap<u64, Weak<RemoteNode>>>,
    pub(crate) caller_slots: CallerSlots,
    #[cfg(feature = "tokio")]
    pub(crate) outstanding: OutstandingCalls,
    server_slots: Mutex<HashMap<u32, Arc<ServerSlot>>>,
    // Slots of the peer up to here were announced, and perhaps refused.
    announced: AtomicU32,
    inbox: Mutex<HashMap<(u32, bool), Parcels>>,
    answers: Mutex<Answers>,
    // Something came that a thread may be waiting for: a descriptor, an answer, a slot, the end.
    news: Condvar,
    news_lock: Mutex<()>,
    outbox: Mutex<Outbox>,
    recipients: Mutex<HashMap<u64, Box<dyn FnOnce() + Send>>>,
    next_recipient: AtomicU64,
    pub(crate) oneway_out: Mutex<Option<oneway::Sender>>,
    oneway_in: Mutex<Option<Arc<oneway::Receiver>>>,
}

impl Link {
    pub(crate) fn new(
        core: &Arc<Core>,
        id: u64,
        socket: &Arc<PeerFd>,
        peer: CallingIdentity,
        peer_endpoint: Token,
    ) -> Self {
        Link {
            id,
            core: Arc::downgrade(core),
            socket: Arc::downgrade(socket),
            peer,
            // One that is gone already never matches.
            peer_started: claim::start_of(peer.pid).unwrap_or(u64::MAX),
            peer_endpoint,
            dead: AtomicBool::new(false),
            to_manager: AtomicBool::new(false),
            introductions: AtomicU32::new(0),
            exports: Mutex::default(),
            exports_version: AtomicU32::new(0),
            proxies: Mutex::default(),
            caller_slots: CallerSlots::new(peer.uid, core.follows_callers()),
            #[cfg(feature = "tokio")]
            outstanding: OutstandingCalls::default(),
            server_slots: Mutex::default(),
            announced: AtomicU32::new(0),
            inbox: Mutex::default(),
            answers: Mutex::default(),
            news: Condvar::new(),
            news_lock: Mutex::new(()),
            outbox: Mutex::default(),
            recipients: Mutex::default(),
            next_recipient: AtomicU64::new(0),
            oneway_out: Mutex::default(),
            oneway_in: Mutex::default(),
        }
    }

    pub(crate) fn core(&self) -> Result<Arc<Core>> {
        self.core.upgrade().ok_or(Error::Dead)
    }

    /// The connection, as long as the peer lives.
    pub(crate) fn socket(&self) -> Result<Arc<PeerFd>> {
        self.socket.upgrade().ok_or(Error::Dead)
    }

    pub(crate) fn peer(&self) -> CallingIdentity {
        self.peer
    }

    /// When the peer started, for claims of its threads.
    pub(crate) fn peer_started(&self) -> Option<u64> {
        Some(self.peer_started)
    }

    pub(crate) fn peer_endpoint(&self) -> Token {
        self.peer_endpoint
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Closes the connection. The poller sees its end and buries the link.
    pub(crate) fn hang_up(&self) {
        if let Ok(socket) = self.socket() {
            // Fails only if the peer closed first.
            let _ = shutdown(&*socket, Shutdown::Both);
        }
    }

    /// Calls, as (made, caught spinning, slept for, asked beside) and served.
    pub(crate) fn tallies(&self) -> Tallies {
        let served = lock(&self.server_slots).values().map(|slot| slot.served()).sum();
        (self.caller_slots.tallies(), served)
    }
}
