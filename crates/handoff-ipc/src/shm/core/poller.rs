//! The thread that reads the control sockets: news of links, newcomers, and what waits for too long.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use handoff_placement::{Priority, Tid, can_raise_to};

use super::{Core, Peer, add_tallies};
use crate::Error;
use crate::shm::link::Link;
use crate::shm::socket::{self, Receive, Received};

/// Messages that one link may have read before the others get their turn.
const TURN: usize = 64;
/// Turns used up to the full after which the poller is no longer urgent. Honest peers send a message
/// when a thread of theirs first calls, not with each call.
const FLOOD: u32 = 1000;
/// What the poller runs at, where it may.
const URGENT: Priority = Priority::fifo(99);

impl Core {
    /// Reads control messages before anything that a caller could be waiting behind, from the first
    /// one on: a caller's urgency is only known once its message was read. Without the privilege
    /// the poller stays what it is, and urgent callers that ring wait their turn.
    fn become_urgent(&self) {
        if can_raise_to(URGENT)
            && let Err(error) = URGENT.apply(Tid::current())
        {
            crate::stats::inherit_denied(&error);
        }
    }

    /// A peer floods its socket: it shall not have a CPU for it before everybody else.
    fn calm_down(&self) {
        // Lowering is always allowed.
        let _ = crate::pool::base().apply(Tid::current());
    }

    pub(super) fn poll(self: Arc<Self>) {
        self.become_urgent();
        let mut flooded = 0;
        let mut events = Vec::with_capacity(64);
        let mut swept = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            events.clear();
            // Wakes now and then only while there is something that may take too long.
            let expires = {
                let peers = self.peers();
                let is_newcomer = |peer: &Peer| matches!(peer, Peer::Newcomer { .. });
                peers.introductions.is_pending() || peers.by_key.values().any(is_newcomer)
            };
            let timeout = expires.then_some(Timespec { tv_sec: 1, tv_nsec: 0 });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing can be watched any longer: nobody may wait for news.
                Err(_) => break,
            }
            for event in &events {
                let (key, flags) = (event.data.u64(), event.flags);
                let peer = self.peers().by_key.get(&key).cloned();
                match peer {
                    Some(Peer::Link(link)) => flooded += u32::from(self.serve_link(&link, flags)),
                    Some(Peer::Newcomer { socket, introduction, .. }) => {
                        self.hear_newcomer(key, socket, introduction);
                    }
                    Some(Peer::Listener(listener)) => self.accept(&listener),
                    None => {}
                }
            }
            if flooded == FLOOD {
                self.calm_down();
            }
            if expires && swept.elapsed() > Duration::from_secs(1) {
                swept = Instant::now();
                self.sweep(swept);
            }
        }
        for link in self.links() {
            self.bury(&link);
        }
        let left = std::mem::take(&mut *self.peers());
        drop(left);
    }

    /// Reads what a link has to say. True if it had more to say than its turn allows.
    fn serve_link(&self, link: &Arc<Link>, flags: EventFlags) -> bool {
        if flags.contains(EventFlags::OUT) {
            link.flush(|| {
                let id = EventData::new_u64(link.id);
                // Fails only if the link was buried meanwhile.
                let _ = epoll::modify(&self.epoll, link.socket(), id, EventFlags::IN);
            });
        }
        for _ in 0..TURN {
            let outcome = match socket::receive(link.socket()) {
                Ok(Receive::Empty) => return false,
                Ok(Receive::Message(Received { message, fds, .. })) => link.handle(message, fds),
                Ok(Receive::Closed) => Err(Error::Dead),
                Err(error) => Err(error),
            };
            if outcome.is_err() {
                self.bury(link);
                return false;
            }
        }
        true
    }

    fn bury(&self, link: &Arc<Link>) {
        let _ = epoll::delete(&self.epoll, link.socket());
        let mut peers = self.peers();
        let removed = peers.by_key.remove(&link.id);
        if removed.is_some() {
            add_tallies(&mut peers.retired, link.tallies());
        }
        drop(peers);
        link.hang_up();
        link.bury();
        drop(removed);
    }

    fn accept(&self, listener: &OwnedFd) {
        use rustix::net::{SocketFlags, accept_with};
        while let Ok(socket) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            if socket::pass_credentials(socket.as_fd()).is_ok() {
                let newcomer =
                    Peer::Newcomer { socket: Arc::new(socket), since: Instant::now(), introduction: None };
                // Out of descriptors or memory: it sees its connection close.
                drop(self.watch(newcomer));
            }
        }
    }
}
