//! The engine's heart in a process: who it is, and whom it is connected to. `core/poller.rs` is the
//! thread that reads the control sockets.

mod poller;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::rand::{GetRandomFlags, getrandom};

use super::link::{Link, PATIENCE};
use super::socket::{self, Receive, Received};
use super::wire::{Message, Token};
use crate::local::LocalNode;
use crate::object::{Binder, CallingIdentity, Reference};
use crate::{Error, Result};

/// How long an introduction may be on its way.
const INTRODUCTION: Duration = Duration::from_secs(60);
/// Introductions that may be on their way.
const MAX_INTRODUCTIONS: usize = 1024;
/// Whoever stands at the other end of a socket that is watched.
#[derive(Clone)]
enum Peer {
    /// Somebody who has not said who it is.
    Stranger {
        socket: Arc<OwnedFd>,
        since: Instant,
        introduced: bool,
    },
    Link(Arc<Link>),
    /// Where strangers come from.
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
    introductions: HashMap<Token, (Arc<LocalNode>, Instant)>,
    root: Option<Arc<LocalNode>>,
}

/// State shared by the poller, the links and the engine's handle.
pub(crate) struct Core {
    endpoint: Token,
    epoll: OwnedFd,
    stop_bell: OwnedFd,
    stopping: AtomicBool,
    next_key: AtomicU64,
    peers: Mutex<Peers>,
}

const STOP: u64 = 0;

fn random() -> Result<Token> {
    let mut token = [0; 16];
    let count = getrandom(&mut token, GetRandomFlags::empty())
        .map_err(|error| Error::io("cannot get random numbers", error))?;
    if count == token.len() { Ok(token) } else { Err(Error::Protocol("too few random numbers".into())) }
}

impl Core {
    /// Makes the process known to nobody yet, and starts its poller.
    pub(crate) fn start() -> Result<Arc<Self>> {
        let what = "cannot set up the engine";
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Error::io(what, error))?;
        let stop_bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io(what, error))?;
        epoll::add(&epoll, &stop_bell, EventData::new_u64(STOP), EventFlags::IN)
            .map_err(|error| Error::io(what, error))?;
        let core = Arc::new(Core {
            endpoint: random()?,
            epoll,
            stop_bell,
            stopping: AtomicBool::new(false),
            next_key: AtomicU64::new(STOP + 1),
            peers: Mutex::default(),
        });
        let poller = Arc::clone(&core);
        std::thread::Builder::new()
            .name("handoff-poll".into())
            .spawn(move || poller.poll())
            .map_err(|error| Error::io("cannot start the engine's thread", error))?;
        Ok(core)
    }

    /// Ends the poller and every link. Calls in progress fail with [`Error::Dead`].
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Fails only when it is rung already.
        let _ = rustix::io::write(&self.stop_bell, &1u64.to_ne_bytes());
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The links of this process.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        let link = |peer: &Peer| if let Peer::Link(link) = peer { Some(Arc::clone(link)) } else { None };
        self.peers().by_key.values().filter_map(link).collect()
    }

    /// Calls of all links, those that are gone too; and how many links there are.
    pub(crate) fn tallies(&self) -> (Tallies, usize) {
        let peers = self.peers();
        let mut sum = peers.retired;
        let mut links = 0;
        for peer in peers.by_key.values() {
            if let Peer::Link(link) = peer {
                add_tallies(&mut sum, link.tallies());
                links += 1;
            }
        }
        (sum, links)
    }

    // ---- meeting others ------------------------------------------------------------------

    /// Makes `node` the object that whoever connects to `listener` meets.
    pub(crate) fn listen(&self, listener: OwnedFd, node: Arc<LocalNode>) -> Result<()> {
        self.peers().root = Some(node);
        self.watch(Peer::Listener(Arc::new(listener))).map(drop)
    }

    /// Connects to a socket that somebody listens at; gives its root object.
    pub(crate) fn connect(self: &Arc<Self>, socket: OwnedFd) -> Result<Binder> {
        socket::pass_credentials(socket.as_fd())?;
        self.greet(socket, [0; 16])
    }

    /// A connection for a third process to `node` of this one, and the token that goes with it.
    pub(crate) fn introduction(&self, node: &Arc<LocalNode>) -> Result<(OwnedFd, Token)> {
        let (mine, theirs) = socket::pair()?;
        let (token, now) = (random()?, Instant::now());
        let mut peers = self.peers();
        if peers.introductions.len() >= MAX_INTRODUCTIONS {
            peers.introductions.retain(|_, (_, since)| now.duration_since(*since) < INTRODUCTION);
            if peers.introductions.len() >= MAX_INTRODUCTIONS {
                return Err(Error::PermissionDenied("too many introductions are on their way".into()));
            }
        }
        peers.introductions.insert(token, (Arc::clone(node), now));
        drop(peers);
        self.watch(Peer::Stranger { socket: Arc::new(mine), since: now, introduced: true })?;
        Ok((theirs, token))
    }

    /// The object that a token stands for; it is good for one use.
    pub(crate) fn redeem(&self, token: &Token) -> Option<Arc<LocalNode>> {
        let (node, since) = self.peers().introductions.remove(token)?;
        (since.elapsed() < INTRODUCTION).then_some(node)
    }

    /// Takes up an introduction that came in a parcel.
    pub(crate) fn meet(self: &Arc<Self>, endpoint: Token, token: Token, socket: OwnedFd) -> Result<Binder> {
        if endpoint == self.endpoint {
            let node = self.redeem(&token).ok_or(Error::UnknownObject(0))?;
            return Ok(Binder(Reference::Local(node)));
        }
        // Whoever claims to be a known endpoint is asked over the connection that is known.
        let known = self.links().into_iter().find(|link| link.peer_endpoint() == Some(endpoint));
        if let Some(link) = known
            && let Ok(node) = link.redeem(token)
        {
            return Ok(Binder::from_remote(link.proxy(node)));
        }
        self.greet(socket, token)
    }

    /// Says hello and waits for the answer; then the connection is a link.
    fn greet(self: &Arc<Self>, socket: OwnedFd, token: Token) -> Result<Binder> {
        let hello = Message::Hello { endpoint: self.endpoint, token };
        if !socket::send(socket.as_fd(), &hello, &[])? {
            return Err(Error::Protocol("a new connection that is full".into()));
        }
        let Received { message, sender, .. } = receive_within(socket.as_fd(), PATIENCE)?;
        let Message::Welcome { endpoint, node } = message else {
            return Err(Error::Protocol("the peer did not answer a greeting".into()));
        };
        let peer = sender.map_or_else(|| socket::peer(socket.as_fd()), Ok)?;
        let link = self.add_link(socket, peer)?;
        link.set_peer_endpoint(endpoint);
        match node {
            0 => Err(Error::NoSuchService("the peer offers nothing".into())),
            node => Ok(Binder::from_remote(link.proxy(node))),
        }
    }

    fn add_link(self: &Arc<Self>, socket: OwnedFd, peer: CallingIdentity) -> Result<Arc<Link>> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link::new(self, key, socket, peer));
        let mut peers = self.peers();
        if self.stopping.load(Ordering::Acquire) {
            return Err(Error::Dead);
        }
        epoll::add(&self.epoll, link.socket(), EventData::new_u64(key), EventFlags::IN)
            .map_err(|error| Error::io("cannot watch a connection", error))?;
        peers.by_key.insert(key, Peer::Link(Arc::clone(&link)));
        Ok(link)
    }

    fn watch(&self, peer: Peer) -> Result<u64> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let mut peers = self.peers();
        let socket = match &peer {
            Peer::Stranger { socket, .. } | Peer::Listener(socket) => socket.as_fd(),
            Peer::Link(link) => link.socket(),
        };
        epoll::add(&self.epoll, socket, EventData::new_u64(key), EventFlags::IN)
            .map_err(|error| Error::io("cannot watch a connection", error))?;
        peers.by_key.insert(key, peer);
        Ok(key)
    }

    /// The link has something to send that its socket did not take.
    pub(crate) fn want_write(&self, link: &Link) {
        let both = EventFlags::IN | EventFlags::OUT;
        // Fails only if the link was buried meanwhile.
        let _ = epoll::modify(&self.epoll, link.socket(), EventData::new_u64(link.id), both);
    }
}

fn receive_within(socket: BorrowedFd<'_>, patience: Duration) -> Result<Received> {
    let end = Instant::now() + patience;
    loop {
        match socket::receive(socket)? {
            Receive::Message(received) => return Ok(received),
            Receive::Closed => return Err(Error::Dead),
            Receive::Empty => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Protocol(format!("the peer did not answer a greeting in {patience:?}")));
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("cannot wait for a peer", error)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::net::sockopt;

    /// A link whose socket has room for a few messages, and the socket's other end.
    fn narrow_link() -> (Arc<Core>, Arc<Link>, OwnedFd) {
        let core = Core::start().unwrap();
        let (mine, theirs) = socket::pair().unwrap();
        sockopt::set_socket_send_buffer_size(&mine, 1).unwrap();
        let link = core.add_link(mine, CallingIdentity::own()).unwrap();
        (core, link, theirs)
    }

    /// Threads send while the poller sends what the socket did not take before: a message that is kept
    /// just when the poller is done with the others goes out, too.
    #[test]
    fn what_a_full_socket_did_not_take_goes_out_as_soon_as_it_can() {
        const SENDERS: usize = 4;
        const EACH: usize = 12;
        let (core, link, theirs) = narrow_link();
        for round in 0..300 {
            std::thread::scope(|scope| {
                for _ in 0..SENDERS {
                    scope.spawn(|| (0..EACH).for_each(|_| link.send(Message::Post, Vec::new()).unwrap()));
                }
                for n in 0..SENDERS * EACH {
                    let got = receive_within(theirs.as_fd(), Duration::from_secs(30));
                    assert!(got.is_ok(), "round {round}: {n} messages came, then {got:?}");
                }
            });
        }
        core.stop();
    }

    /// Between the last message that was kept and the poller's word that none is: nothing is kept that
    /// this word would have the poller forget.
    #[test]
    fn nothing_is_kept_while_the_poller_says_that_all_is_out() {
        let (core, link, theirs) = narrow_link();
        std::thread::scope(|scope| {
            let mut sending = None;
            link.flush(|| {
                let sender = scope.spawn(|| link.send(Message::Post, Vec::new()));
                // Time to come as far as it can.
                std::thread::sleep(Duration::from_millis(50));
                assert!(!sender.is_finished());
                sending = Some(sender);
            });
            sending.expect("nothing was kept").join().unwrap().unwrap();
        });
        assert!(receive_within(theirs.as_fd(), Duration::from_secs(30)).is_ok());
        core.stop();
    }
}
