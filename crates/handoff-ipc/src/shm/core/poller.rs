//! The thread that reads the control sockets: news of links, newcomers, and what waits for too long.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use handoff_placement::fast::cpu_time;
use handoff_placement::{Priority, Tid, can_raise_to};

use super::budget::Budget;
use super::handshake::refuse;
use super::{BELL, Core, Peer, Peers, add_tallies, new_reserve};
use crate::disposal::{self, PeerFd, drop_later};
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::shm::link::{FlushOutcome, Link};
use crate::shm::socket::{self, Receive};
use crate::shm::wire::Refusal;
use crate::{Error, stats};

/// Messages that one link may have read before the others get their turn, and the time.
const TURN: u64 = 64;
const TURN_TIME: Duration = Duration::from_millis(2);
/// How long nobody is accepted when there is no descriptor at all.
const SHORTAGE: Duration = Duration::from_millis(100);
/// What the poller runs at, where it may.
const URGENT: Priority = Priority::fifo(99);

impl Core {
    /// Reads control messages before anything that a caller could be waiting behind, from the first
    /// one on: a caller's urgency is only known once its message was read. Without the privilege
    /// the poller stays what it is, and urgent callers that ring wait their turn.
    fn become_urgent(&self) {
        if can_raise_to(URGENT) {
            if let Err(error) = URGENT.apply(Tid::current()) {
                crate::stats::inherit_denied(&error);
            }
        }
    }

    pub(super) fn poll(self: Arc<Self>) {
        self.become_urgent();
        disposal::poll_for_own_user();
        let mut budget = Budget::new(Instant::now());
        let mut events = Vec::with_capacity(64);
        let mut swept = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            events.clear();
            // Wakes now and then only while there is something that may take too long.
            let expires = {
                let peers = self.peers();
                let is_newcomer = |peer: &Peer| matches!(peer, Peer::Newcomer { .. });
                self.keeps_fds.load(Ordering::Relaxed)
                    || peers.introductions.is_pending()
                    || peers.by_key.values().any(is_newcomer)
            };
            let tick = expires.then_some(Duration::from_secs(1));
            let timeout = [tick, self.resume()].into_iter().flatten().min().map(|wait| Timespec {
                tv_sec: wait.as_secs() as i64,
                // Rounded up: a paused socket is not looked for before its time.
                tv_nsec: (wait.subsec_nanos().saturating_add(1_000_000)).min(999_999_999).into(),
            });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing can be watched any longer: nobody may wait for news.
                Err(_) => break,
            }
            for event in &events {
                let (key, flags) = (event.data.u64(), event.flags);
                if key == BELL {
                    // Nothing to read is as good.
                    let _ = rustix::io::read(&self.bell, &mut [0; 8]);
                    continue;
                }
                let peer = self.peers().by_key.get(&key).cloned();
                match peer {
                    Some(Peer::Link(link, socket)) => {
                        let user = link.peer().uid;
                        let is_over = flags.contains(EventFlags::HUP);
                        if let Some(time) = budget.left_if_spent(user, Instant::now()).filter(|_| is_over) {
                            self.pause(key, time);
                            continue;
                        }
                        disposal::poll_for(user);
                        // Not by the clock: what others have of the CPU meanwhile is no cost of a link's.
                        let began = cpu_time();
                        let messages = self.serve_link(&link, &socket, flags);
                        let cost = (messages, cpu_time().saturating_sub(began));
                        if let Some(time) = budget.spend(user, link.id, cost, Instant::now()) {
                            self.pause(key, time);
                        } else if disposal::is_crowded(link.peer()) {
                            self.pause(key, SHORTAGE);
                        }
                    }
                    Some(Peer::Newcomer { socket, .. })
                        if socket.owner().is_some_and(disposal::is_crowded) =>
                    {
                        self.pause(key, SHORTAGE);
                    }
                    Some(Peer::Newcomer { socket, introduction, .. }) => {
                        let user = socket.owner().map(|owner| owner.uid);
                        let spent = user.and_then(|user| budget.left_if_spent(user, Instant::now()));
                        if let Some(time) = spent {
                            self.pause(key, time);
                            continue;
                        }
                        let began = cpu_time();
                        self.hear_newcomer(key, socket, introduction);
                        let cost = (1, cpu_time().saturating_sub(began));
                        // It is no newcomer any longer, and there is nothing left to pause.
                        let _ = user.map(|user| budget.spend(user, key, cost, Instant::now()));
                    }
                    Some(Peer::Listener(listener)) => self.accept(key, &listener),
                    None => {}
                }
            }
            if expires && swept.elapsed() > Duration::from_secs(1) {
                swept = Instant::now();
                self.sweep(swept);
            }
        }
        for link in self.links() {
            self.on_peer_death(&link);
        }
        let left = std::mem::take(&mut *self.peers());
        drop(left);
    }

    /// Takes messages of a link, as many as its turn allows. Gives how many.
    fn serve_link(&self, link: &Arc<Link>, socket: &PeerFd, flags: EventFlags) -> u64 {
        if flags.contains(EventFlags::OUT) {
            let flushed = link.flush(socket.as_fd(), || {
                let id = EventData::new_u64(link.id);
                // Fails only if the peer died meanwhile.
                let _ = epoll::modify(&self.epoll, socket, id, EventFlags::IN);
            });
            if flushed == FlushOutcome::Short {
                // The socket stays writable: without a pause it would be tried again at once, and for ever.
                self.pause(link.id, SHORTAGE);
            }
        }
        let end = Instant::now() + TURN_TIME;
        for count in 0..TURN {
            if count > 0 && Instant::now() > end {
                return count;
            }
            if disposal::is_crowded(link.peer()) {
                if flags.contains(EventFlags::HUP) {
                    // What is left in its socket goes with it, unread.
                    self.on_peer_death(link);
                }
                return count;
            }
            let outcome = match socket::receive_for(socket.as_fd(), Some(link.peer())) {
                Ok(Receive::Empty) => return count,
                Ok(Receive::Message(received)) => {
                    stats::MESSAGES.add();
                    link.handle(received)
                }
                Ok(Receive::Closed) => Err(Error::Dead),
                Err(error) => Err(error),
            };
            if outcome.is_err() {
                self.on_peer_death(link);
                return count;
            }
        }
        TURN
    }

    fn on_peer_death(&self, link: &Arc<Link>) {
        let mut peers = self.peers();
        let removed = peers.by_key.remove(&link.id);
        if let Some(peer) = &removed {
            let _ = epoll::delete(&self.epoll, peer.socket());
            add_tallies(&mut peers.retired, link.tallies());
        }
        drop(peers);
        link.hang_up();
        link.on_peer_death();
        // Its socket may have descriptors in its queue, and slots are unmapped with it.
        drop_later(link.peer().uid, removed);
    }

    /// Takes connections in, each charged to who made it.
    fn accept(&self, key: u64, listener: &OwnedFd) {
        use rustix::net::{SocketFlags, accept_with};
        for _ in 0..TURN {
            // Before: a connection that is accepted can only be closed where that may take long, and counts until then.
            let Ok(room) = ledger::room_to_refuse() else {
                return self.pause(key, ledger::ROOM_AGAIN);
            };
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.admit(socket, room),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // Else the listener stays readable, and the poller would find it so for ever.
                    if !self.turn_away(listener, room) {
                        self.pause(key, SHORTAGE);
                    }
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// `room` counts it if it is refused.
    fn admit(&self, socket: OwnedFd, room: Charge) {
        let Ok(maker) = socket::peer(socket.as_fd()) else { return };
        let Ok(charge) = ledger::charge(maker, Resource::Descriptors, 1) else {
            return socket::turn_down(socket, room, |socket| refuse(socket, Refusal::TooMany));
        };
        let socket = PeerFd::new(socket, maker.uid).charged(charge);
        if socket::pass_credentials(socket.as_fd()).is_ok() {
            let newcomer =
                Peer::Newcomer { socket: Arc::new(socket), since: Instant::now(), introduction: None };
            // Out of memory: it sees its connection close.
            drop(self.watch(newcomer));
        }
    }

    /// No descriptor is left: with the one in reserve the next newcomer is told so. False if that did not
    /// help.
    fn turn_away(&self, listener: &OwnedFd, room: Charge) -> bool {
        use rustix::net::{SocketFlags, accept_with};
        let mut reserve = lock(&self.reserve);
        if reserve.is_none() {
            // The one that was turned away last may be closed by now.
            *reserve = new_reserve().ok();
        }
        if reserve.take().is_none() {
            return false;
        }
        let Ok(socket) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
            *reserve = new_reserve().ok();
            return false;
        };
        socket::turn_down(socket, room, |socket| refuse(socket, Refusal::NoRoom));
        // What was closed at once has left its number.
        *reserve = new_reserve().ok();
        true
    }

    /// Has a socket watched no longer, for a while.
    pub(super) fn pause(&self, key: u64, time: Duration) {
        let mut peers = self.peers();
        if let Some(peer) = peers.by_key.get(&key) {
            // Deleted, not only silenced: the end of a connection is reported whatever is asked for.
            let _ = epoll::delete(&self.epoll, peer.socket());
            peers.paused.push((key, Instant::now() + time));
        }
    }

    /// Has those watched again whose time is over. Gives how long the next one has.
    fn resume(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut peers = self.peers();
        let Peers { paused, by_key, .. } = &mut *peers;
        paused.retain(|(key, until)| {
            let is_due = *until <= now;
            if is_due {
                due.extend(by_key.get(key).map(|peer| (*key, peer.clone())));
            }
            !is_due
        });
        let next = paused.iter().map(|(_, until)| until.saturating_duration_since(now)).min();
        drop(peers);
        for (key, peer) in due {
            // Fails only if the peer died meanwhile.
            let _ = epoll::add(&self.epoll, peer.socket(), EventData::new_u64(key), EventFlags::IN);
            // After that: whoever has kept a message before found nothing to modify.
            if let Peer::Link(link, _) = &peer {
                if link.has_backlog() {
                    self.want_write(link);
                }
            }
        }
        next
    }
}
