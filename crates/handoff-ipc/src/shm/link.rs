//! A link: everything between this process and one other.
//!
//! One socket each pair of processes carries control messages; calls travel in the slots that hang
//! on the link. When the socket closes, the peer is dead: everybody who waits on the link is told.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use super::client::CallerSlots;
use super::core::{Core, Tallies};
use super::oneway;
#[cfg(feature = "tokio")]
use super::outstanding::Outstanding;
use super::remote::RemoteNode;
use super::server::ServerSlot;
use super::socket;
use super::wire::{MAX_FDS, Message, Token};
use crate::engine::DeathRegistration;
use crate::local::LocalNode;
use crate::locked::lock;
use crate::object::CallingIdentity;
use crate::{Error, Result, pool};

/// How long the peer may take to answer a control message, or to send what it announced.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Introductions of one peer that threads wait for at once, at the most.
const MOST_INTRODUCTIONS: u32 = 32;
/// Messages that may wait for a peer that does not read its socket; then it is cut off.
const BACKLOG: usize = 16 << 10;
/// Slots that one peer may open.
const MAX_SLOTS: usize = 1024;
/// Received descriptors that may wait to be claimed.
const MAX_WAITING_FDS: usize = 4096;

/// An object that the peer may call.
struct Export {
    node: Arc<LocalNode>,
    // How many references the peer was given and has not given up.
    count: u64,
}

/// See [`Link::await_introduction`].
pub(crate) struct Introduction<'a> {
    link: &'a Link,
    _away: pool::StandIn,
}

impl Drop for Introduction<'_> {
    fn drop(&mut self) {
        self.link.introductions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// This process's end of the connection to one other.
pub(crate) struct Link {
    pub(crate) id: u64,
    core: Weak<Core>,
    socket: OwnedFd,
    peer: CallingIdentity,
    peer_endpoint: OnceLock<Token>,
    dead: AtomicBool,
    // Threads that wait for the peer to answer an introduction.
    introductions: AtomicU32,
    exports: Mutex<HashMap<u64, Export>>,
    // Changes whenever an export goes: what threads remember of the table is void then.
    exports_version: AtomicU32,
    proxies: Mutex<HashMap<u64, Weak<RemoteNode>>>,
    pub(crate) caller_slots: CallerSlots,
    #[cfg(feature = "tokio")]
    pub(crate) outstanding: Outstanding,
    server_slots: Mutex<HashMap<u32, Arc<ServerSlot>>>,
    inbox: Mutex<HashMap<(u32, bool), VecDeque<OwnedFd>>>,
    answers: Mutex<Answers>,
    // Something came that a thread may be waiting for: a descriptor, an answer, a slot, the end.
    news: Condvar,
    news_lock: Mutex<()>,
    backlog: Mutex<VecDeque<(Message, Vec<OwnedFd>)>>,
    recipients: Mutex<HashMap<u64, Box<dyn FnOnce() + Send>>>,
    next_recipient: AtomicU64,
    pub(crate) oneway_out: Mutex<Option<oneway::Sender>>,
    pub(crate) oneway_in: OnceLock<Arc<oneway::Receiver>>,
}

#[derive(Default)]
struct Answers {
    next: u32,
    waiting: HashMap<u32, Option<Answer>>,
}

struct Answer {
    node: u64,
    token: Token,
    fd: Option<OwnedFd>,
}

impl Link {
    pub(crate) fn new(core: &Arc<Core>, id: u64, socket: OwnedFd, peer: CallingIdentity) -> Self {
        Link {
            id,
            core: Arc::downgrade(core),
            socket,
            peer,
            peer_endpoint: OnceLock::new(),
            dead: AtomicBool::new(false),
            introductions: AtomicU32::new(0),
            exports: Mutex::default(),
            exports_version: AtomicU32::new(0),
            proxies: Mutex::default(),
            caller_slots: CallerSlots::default(),
            #[cfg(feature = "tokio")]
            outstanding: Outstanding::default(),
            server_slots: Mutex::default(),
            inbox: Mutex::default(),
            answers: Mutex::default(),
            news: Condvar::new(),
            news_lock: Mutex::new(()),
            backlog: Mutex::default(),
            recipients: Mutex::default(),
            next_recipient: AtomicU64::new(0),
            oneway_out: Mutex::default(),
            oneway_in: OnceLock::new(),
        }
    }

    pub(crate) fn core(&self) -> Result<Arc<Core>> {
        self.core.upgrade().ok_or(Error::Dead)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn peer(&self) -> CallingIdentity {
        self.peer
    }

    pub(crate) fn set_peer_endpoint(&self, endpoint: Token) {
        let _ = self.peer_endpoint.set(endpoint);
    }

    pub(crate) fn peer_endpoint(&self) -> Option<Token> {
        self.peer_endpoint.get().copied()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    // ---- objects -------------------------------------------------------------------------

    /// Gives the peer one more reference to an object of this process.
    pub(crate) fn export(&self, node: &Arc<LocalNode>) -> u64 {
        let mut exports = lock(&self.exports);
        let export = exports.entry(node.id()).or_insert_with(|| Export { node: Arc::clone(node), count: 0 });
        export.count += 1;
        node.id()
    }

    /// The object of this process that the peer calls `id`, if it was ever given to it.
    pub(crate) fn exported(&self, id: u64) -> Option<Arc<LocalNode>> {
        lock(&self.exports).get(&id).map(|export| Arc::clone(&export.node))
    }

    /// Number of the table's state; see [`Link::exported`].
    #[inline]
    pub(crate) fn exports_version(&self) -> u32 {
        self.exports_version.load(Ordering::Acquire)
    }

    /// One reference more to an object that the peer has; false if it has none.
    pub(crate) fn hold(&self, id: u64) -> bool {
        lock(&self.exports).get_mut(&id).map(|export| export.count += 1).is_some()
    }

    /// Takes references back; without one left the peer does not know the object any longer.
    pub(crate) fn unexport(&self, id: u64, count: u32) {
        let mut exports = lock(&self.exports);
        let Some(export) = exports.get_mut(&id) else { return };
        export.count = export.count.saturating_sub(count.into());
        if export.count == 0 {
            let gone = exports.remove(&id);
            drop(exports);
            self.exports_version.fetch_add(1, Ordering::AcqRel);
            // The service's own `drop` may do anything: never under a lock.
            drop(gone);
        }
    }

    /// The proxy for an object of the peer, of which this process was just given one reference.
    pub(crate) fn proxy(self: &Arc<Self>, node: u64) -> Arc<RemoteNode> {
        let mut proxies = lock(&self.proxies);
        if let Some(known) = proxies.get(&node).and_then(Weak::upgrade) {
            known.add_reference();
            return known;
        }
        let new = Arc::new(RemoteNode::new(Arc::clone(self), node));
        proxies.insert(node, Arc::downgrade(&new));
        new
    }

    /// The last proxy for an object of the peer is gone.
    pub(crate) fn forget(&self, node: u64, count: u32) {
        let mut proxies = lock(&self.proxies);
        if proxies.get(&node).is_some_and(|known| known.strong_count() == 0) {
            proxies.remove(&node);
        }
        drop(proxies);
        self.release(node, count);
    }

    /// Gives references back to the peer.
    pub(crate) fn release(&self, node: u64, count: u32) {
        if count > 0 && !self.is_dead() {
            // A peer that is gone needs no references back.
            drop(self.send(Message::Release { node, count }, Vec::new()));
        }
    }

    // ---- messages ------------------------------------------------------------------------

    /// Sends a control message, or keeps it until the socket can take it.
    pub(crate) fn send(&self, message: Message, fds: Vec<OwnedFd>) -> Result<()> {
        let mut backlog = lock(&self.backlog);
        if self.is_dead() {
            return Err(Error::Dead);
        }
        if backlog.is_empty() {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match socket::send(self.socket(), &message, &borrowed) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.hang_up();
                    return Err(error);
                }
            }
        }
        if backlog.len() >= BACKLOG {
            self.hang_up();
            return Err(Error::Protocol("the peer does not read its control socket".into()));
        }
        backlog.push_back((message, fds));
        // Inside of the lock that `flush` ends in: else the poller, done with what was there before, could
        // take the wish back.
        self.core()?.want_write(self);
        Ok(())
    }

    /// Sends what is kept. `all_out` runs when nothing is left, before anything more can be kept.
    pub(crate) fn flush(&self, all_out: impl FnOnce()) {
        let mut backlog = lock(&self.backlog);
        while let Some((message, fds)) = backlog.front() {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match socket::send(self.socket(), message, &borrowed) {
                Ok(true) => drop(backlog.pop_front()),
                Ok(false) => return,
                Err(_) => {
                    self.hang_up();
                    break;
                }
            }
        }
        all_out();
    }

    /// Closes the connection. The poller sees its end and buries the link.
    pub(crate) fn hang_up(&self) {
        // Fails only if the peer closed first.
        let _ = shutdown(self.socket(), Shutdown::Both);
    }

    /// Sends a parcel's descriptors ahead of the slot's exchange.
    pub(crate) fn send_fds(&self, slot: u32, reply: bool, fds: Vec<OwnedFd>) -> Result<()> {
        let mut fds = fds.into_iter().peekable();
        while fds.peek().is_some() {
            let some = fds.by_ref().take(MAX_FDS).collect();
            self.send(Message::Fds { slot, reply }, some)?;
        }
        Ok(())
    }

    /// The descriptors that came for a slot: they were sent before its exchange.
    pub(crate) fn take_fds(&self, slot: u32, reply: bool, count: usize) -> Result<VecDeque<OwnedFd>> {
        if count == 0 {
            return Ok(VecDeque::new());
        }
        self.await_news("the file descriptors of a parcel", || {
            let mut inbox = lock(&self.inbox);
            let waiting = inbox.get_mut(&(slot, reply)).filter(|waiting| waiting.len() >= count)?;
            Some(waiting.drain(..count).collect())
        })
    }

    /// Drops descriptors of a parcel that nobody wants any longer.
    pub(crate) fn drop_fds(&self, slot: u32, reply: bool) {
        drop(lock(&self.inbox).remove(&(slot, reply)));
    }

    /// Sends a question and waits for its answer.
    fn ask(&self, question: impl FnOnce(u32) -> Message) -> Result<Answer> {
        let request = {
            let mut answers = lock(&self.answers);
            answers.next = answers.next.wrapping_add(1);
            let request = answers.next;
            answers.waiting.insert(request, None);
            request
        };
        let answer = self.send(question(request), Vec::new()).and_then(|()| {
            self.await_news("an answer", || lock(&self.answers).waiting.get_mut(&request)?.take())
        });
        lock(&self.answers).waiting.remove(&request);
        answer
    }

    fn answered(&self, request: u32, answer: Answer) {
        // What nobody asked for is dropped.
        if let Some(place) = lock(&self.answers).waiting.get_mut(&request) {
            *place = Some(answer);
        }
        self.tell();
    }

    /// Before a thread waits for an introduction that the peer has a part in: the pool has another
    /// thread meanwhile, and a peer can hold up so many and no more.
    pub(crate) fn await_introduction(&self) -> Result<Introduction<'_>> {
        let introduction = Introduction { link: self, _away: pool::stand_in() };
        if self.introductions.fetch_add(1, Ordering::Relaxed) >= MOST_INTRODUCTIONS {
            return Err(Error::Protocol(format!(
                "the peer leaves {MOST_INTRODUCTIONS} introductions to third processes without an answer"
            )));
        }
        Ok(introduction)
    }

    /// Asks the peer for a connection to `node` that a third process can use.
    pub(crate) fn introduce(&self, node: u64) -> Result<(OwnedFd, Token)> {
        let answer = self.ask(|request| Message::Introduce { request, node })?;
        match answer.fd {
            Some(fd) if answer.node == node => Ok((fd, answer.token)),
            _ => Err(Error::UnknownObject(node)),
        }
    }

    /// Asks the peer for the object that a token stands for.
    pub(crate) fn redeem(&self, token: Token) -> Result<u64> {
        match self.ask(|request| Message::Redeem { request, token })?.node {
            0 => Err(Error::PermissionDenied("the peer does not know this introduction".into())),
            node => Ok(node),
        }
    }

    fn tell(&self) {
        drop(lock(&self.news_lock));
        self.news.notify_all();
    }

    fn await_news<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        let mut guard = lock(&self.news_lock);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if self.is_dead() {
                return Err(Error::Dead);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Protocol(format!("the peer did not send {what} in {PATIENCE:?}")));
            }
            guard = self.news.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    // ---- what arrives (on the poller's thread) -------------------------------------------

    /// Takes one message of the peer. An error ends the link.
    pub(crate) fn handle(self: &Arc<Self>, message: Message, mut fds: Vec<OwnedFd>) -> Result<()> {
        match message {
            Message::Slot { slot } => {
                let region = fds.pop().ok_or_else(|| Error::Protocol("a slot without memory".into()))?;
                let new = ServerSlot::accept(slot, region.as_fd())?;
                let mut slots = lock(&self.server_slots);
                if slots.len() >= MAX_SLOTS || slots.contains_key(&slot) {
                    return Err(Error::Protocol(format!("slot {slot} is one too many")));
                }
                slots.insert(slot, Arc::new(new));
                drop(slots);
                self.tell();
            }
            Message::Call { slot } => self.slot(slot)?.rung(self),
            Message::Raise { slot } => self.slot(slot)?.raise(self),
            Message::Fds { slot, reply } => {
                let mut inbox = lock(&self.inbox);
                let waiting: usize = inbox.values().map(VecDeque::len).sum();
                if waiting + fds.len() > MAX_WAITING_FDS {
                    return Err(Error::Protocol("more file descriptors than anybody asked for".into()));
                }
                inbox.entry((slot, reply)).or_default().extend(fds);
                drop(inbox);
                self.tell();
            }
            Message::Introduce { request, node } => {
                let answer = self.exported(node).map(|node| self.core()?.introduction(&node)).transpose();
                let (message, fds) = match answer {
                    Ok(Some((fd, token))) => (Message::Introduced { request, node, token }, vec![fd]),
                    _ => (Message::Introduced { request, node: 0, token: [0; 16] }, Vec::new()),
                };
                self.send(message, fds)?;
            }
            Message::Redeem { request, token } => {
                let node = self.core()?.redeem(&token).map_or(0, |node| self.export(&node));
                self.send(Message::Redeemed { request, node }, Vec::new())?;
            }
            Message::Introduced { request, node, token } => {
                self.answered(request, Answer { node, token, fd: fds.pop() });
            }
            Message::Redeemed { request, node } => {
                self.answered(request, Answer { node, token: [0; 16], fd: None });
            }
            Message::Release { node, count } => match self.oneway_in.get() {
                Some(receiver) => receiver.give_back(self, node, count)?,
                None => self.unexport(node, count),
            },
            Message::Ring => {
                let region = fds.pop().ok_or_else(|| Error::Protocol("a queue without memory".into()))?;
                let receiver = Arc::new(oneway::Receiver::accept(region.as_fd())?);
                if self.oneway_in.set(receiver).is_err() {
                    return Err(Error::Protocol("a second oneway queue".into()));
                }
            }
            Message::Post => match self.oneway_in.get() {
                Some(receiver) => receiver.rung(self),
                None => return Err(Error::Protocol("a oneway call without a queue".into())),
            },
            // Without the feature no call of this process waits for such news.
            #[cfg(not(feature = "tokio"))]
            Message::Done { .. } => {}
            #[cfg(feature = "tokio")]
            Message::Done { slot } => self.outstanding.done(self, slot),
            Message::Hello { .. } | Message::Welcome { .. } => {
                return Err(Error::Protocol("a second greeting".into()));
            }
        }
        Ok(())
    }

    fn slot(&self, id: u32) -> Result<Arc<ServerSlot>> {
        lock(&self.server_slots)
            .get(&id)
            .cloned()
            .ok_or_else(|| Error::Protocol(format!("slot {id} was never opened")))
    }

    /// The slot that a nested call came in; its announcement may still be on the way.
    pub(crate) fn await_slot(&self, id: u32) -> Result<Arc<ServerSlot>> {
        self.await_news("the slot of a nested call", || lock(&self.server_slots).get(&id).cloned())
    }

    // ---- death ---------------------------------------------------------------------------

    /// Runs `died` when the peer ends; at once if it has.
    pub(crate) fn link_to_death(
        self: &Arc<Self>,
        died: Box<dyn FnOnce() + Send>,
    ) -> Result<DeathRegistration> {
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        let mut recipients = lock(&self.recipients);
        // Under the lock that the burial takes: it runs once, whoever of the two comes first.
        if self.is_dead() {
            drop(recipients);
            pool::run(died);
            return Ok(DeathRegistration::new(|| ()));
        }
        recipients.insert(id, died);
        let link = Arc::downgrade(self);
        Ok(DeathRegistration::new(move || {
            if let Some(link) = link.upgrade() {
                drop(lock(&link.recipients).remove(&id));
            }
        }))
    }

    /// The connection is gone: tells everybody who waits on it, once.
    pub(crate) fn bury(self: &Arc<Self>) {
        if self.dead.swap(true, Ordering::AcqRel) {
            return;
        }
        self.caller_slots.bury();
        #[cfg(feature = "tokio")]
        self.outstanding.bury();
        let slots: Vec<_> = lock(&self.server_slots).drain().map(|(_, slot)| slot).collect();
        slots.iter().for_each(|slot| slot.bury());
        drop(lock(&self.oneway_out).take());
        lock(&self.backlog).clear();
        // After this nobody waits for the peer, in the ring of its oneway calls neither.
        self.tell();
        if let Some(receiver) = self.oneway_in.get() {
            receiver.bury(self);
        }
        lock(&self.inbox).clear();
        let exports = std::mem::take(&mut *lock(&self.exports));
        self.exports_version.fetch_add(1, Ordering::AcqRel);
        let recipients = std::mem::take(&mut *lock(&self.recipients));
        for died in recipients.into_values() {
            pool::run(died);
        }
        // Services that only this peer held: their `drop` is application code, not the poller's.
        if !exports.is_empty() {
            pool::run(Box::new(move || drop(exports)));
        }
    }

    /// Calls, as (made, caught spinning, slept for, asked beside) and served.
    pub(crate) fn tallies(&self) -> Tallies {
        let served = lock(&self.server_slots).values().map(|slot| slot.served()).sum();
        (self.caller_slots.tallies(), served)
    }
}
