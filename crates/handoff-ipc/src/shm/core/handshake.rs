//! How a connection becomes a link: `Hello`, and the answer to it.
//!
//! Who a peer is comes from the kernel: from the stamp on its message (`SCM_CREDENTIALS`) and from who
//! made the connection (`SO_PEERCRED`), which must be one process. The endpoint that it names is a hint.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Core, Peer};
use crate::disposal::PeerFd;
use crate::identity::CallingIdentity;
use crate::interface::Interfaces;
use crate::ledger::{self, Resource};
use crate::object::{Binder, LocalNode, Promised, Reference};
use crate::shm::link::{Link, PEER_TIMEOUT};
use crate::shm::socket::{self, Receive, ReceivedMessage};
use crate::shm::wire::{Message, Refusal, Token, VERSION};
use crate::{Error, Result};

/// The token of those who connect to a listener.
const NO_TOKEN: Token = [0; 16];

impl Core {
    /// Makes `node` the object that whoever connects to `listener` meets.
    pub(crate) fn listen(&self, listener: OwnedFd, node: Arc<LocalNode>) -> Result<()> {
        self.peers().root = Some(node);
        self.watch(Peer::Listener(Arc::new(listener))).map(drop)
    }

    /// Connects to a socket that somebody listens at; gives its root object.
    pub(crate) fn connect(self: &Arc<Self>, socket: OwnedFd) -> Result<Binder> {
        socket::pass_credentials(socket.as_fd())?;
        let hello = Message::Hello { endpoint: self.endpoint, token: NO_TOKEN };
        match send_first(socket.as_fd(), &hello, &[]) {
            // It may have been refused before: the answer says why.
            Ok(()) | Err(Error::Dead) => self.await_answer(socket, None),
            Err(error) => Err(error),
        }
    }

    /// Takes up an introduction to `endpoint` that came in a parcel.
    ///
    /// The introducer may have kept a copy of `introduction`, or may have made it itself. So it only
    /// carries one end of a new pair to the owner, and nothing is ever read from it.
    pub(crate) fn meet(
        self: &Arc<Self>,
        endpoint: Token,
        token: Token,
        introduction: PeerFd,
    ) -> Result<Binder> {
        if endpoint == self.endpoint {
            let node = self.claim(&token).ok_or(Error::UnknownObject(0))?;
            return Ok(Binder(Reference::Local(Arc::clone(node.node()))));
        }
        socket::check_type(introduction.as_fd())?;
        let (mine, theirs) = socket::pair()?;
        let hello = Message::Hello { endpoint: self.endpoint, token };
        send_first(introduction.as_fd(), &hello, &[theirs.as_fd()])?;
        // From here on the owner has the only copy: its end is seen as the end of `mine`.
        drop(theirs);
        drop(introduction);
        self.await_answer(mine, Some(endpoint))
    }

    /// Waits for the answer to a `Hello`. `introduced`: the endpoint that an introducer named.
    fn await_answer(self: &Arc<Self>, socket: OwnedFd, introduced: Option<Token>) -> Result<Binder> {
        let ReceivedMessage { message, sender, .. } = receive_within(socket.as_fd(), PEER_TIMEOUT)?;
        let peer = sender.ok_or_else(|| Error::Protocol("an answer without credentials".into()))?;
        let is_expected = |endpoint| introduced.is_none_or(|expected| expected == endpoint);
        match message {
            Message::Welcome { endpoint, node, interfaces } if is_expected(endpoint) => {
                let charge = ledger::charge(peer, Resource::Descriptors, 1)?;
                let socket = PeerFd::new(socket, peer.uid).charged(charge);
                let link = self.add_link(socket, peer, endpoint)?;
                match node {
                    0 => Err(Error::NoSuchService("the peer offers nothing".into())),
                    node => Ok(Binder::from_remote(link.proxy(node, Interfaces::from_bytes(interfaces)))),
                }
            }
            Message::Known { endpoint, nonce } if introduced == Some(endpoint) => {
                let link = self.await_link(endpoint, peer)?;
                let (node, interfaces) = link.claim(nonce)?;
                Ok(Binder::from_remote(link.proxy(node, Interfaces::from_bytes(interfaces))))
            }
            Message::Refused { refusal, .. } => Err(refusal.into()),
            Message::OtherVersion(theirs) => Err(Error::OtherVersion { theirs, ours: VERSION }),
            Message::Welcome { .. } | Message::Known { .. } => {
                Err(Error::Protocol("another process answered than the introducer named".into()))
            }
            _ => Err(Error::Protocol("the peer did not answer a greeting".into())),
        }
    }

    /// The link to the process `peer`, by the endpoint that it named there.
    pub(super) fn link_to(&self, endpoint: Token, peer: CallingIdentity) -> Option<Arc<Link>> {
        let is_it = |link: &Arc<Link>| {
            link.peer_endpoint() == endpoint && link.peer().is_same_process(peer) && !link.is_dead()
        };
        self.links().into_iter().find(is_it)
    }

    /// [`Core::link_to`], which another thread may be about to add: it was welcomed a moment ago.
    fn await_link(&self, endpoint: Token, peer: CallingIdentity) -> Result<Arc<Link>> {
        let end = Instant::now() + PEER_TIMEOUT;
        loop {
            if let Some(link) = self.link_to(endpoint, peer) {
                return Ok(link);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Protocol("the peer speaks of a connection that is none of its".into()));
            }
            // What is added between the look and the wait is seen at the next look.
            let look = left.min(Duration::from_millis(20));
            drop(self.linked.wait_timeout(self.peers(), look).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A newcomer sent its first message, or hung up.
    pub(super) fn hear_newcomer(
        self: &Arc<Self>,
        key: u64,
        socket: Arc<PeerFd>,
        introduction: Option<Token>,
    ) {
        // Descriptors are counted to their end: who uses up its share this way is not let in again.
        let heard = socket::receive(socket.as_fd());
        if matches!(heard, Ok(Receive::Empty)) {
            return;
        }
        self.forget_newcomer(key, &socket);
        match introduction {
            Some(token) => {
                if let (Some(node), Ok(Receive::Message(hello))) = (self.claim(&token), heard) {
                    self.answer_introduced(token, node, hello);
                }
            }
            None => {
                let Some(socket) = Arc::into_inner(socket) else { return };
                match heard {
                    Ok(Receive::Empty | Receive::Closed) => {}
                    Ok(Receive::Message(hello)) if !matches!(hello.message, Message::OtherVersion(_)) => {
                        self.answer_connected(socket, hello);
                    }
                    Ok(_) | Err(_) => {
                        // A peer of another version knows this message, and the version in it.
                        let welcome = Message::Welcome { endpoint: [0; 16], node: 0, interfaces: [0; 16] };
                        drop(socket::send(socket.as_fd(), &welcome, &[]));
                    }
                }
            }
        }
    }

    /// `Hello` of a process that connected to a listener.
    fn answer_connected(self: &Arc<Self>, socket: PeerFd, hello: ReceivedMessage) {
        let ReceivedMessage { message, sender, fds, .. } = hello;
        let (Ok(maker), Some(node)) = (socket::peer(socket.as_fd()), self.peers().root.clone()) else {
            return;
        };
        match (message, sender) {
            // A connection that was handed on is used by another process than the one that made it.
            (Message::Hello { endpoint, token: NO_TOKEN }, Some(sender))
                if fds.is_empty() && sender.is_same_process(maker) =>
            {
                self.welcome(socket, maker, endpoint, &node);
            }
            _ => refuse(socket.as_fd(), Refusal::NotYours),
        }
    }

    /// `Hello` of a process that was introduced to `node`. It brings the connection to be used.
    fn answer_introduced(self: &Arc<Self>, expected: Token, node: Promised, hello: ReceivedMessage) {
        let ReceivedMessage { message, sender, mut fds, .. } = hello;
        let (Message::Hello { endpoint, token }, Some(sender), Some(socket), true) =
            (message, sender, fds.pop(), fds.is_empty())
        else {
            return;
        };
        // Else the introducer could stand between: send on an end that another process made for it.
        let maker = socket::check_type(socket.as_fd()).and_then(|()| socket::peer(socket.as_fd()));
        let Ok(maker) = maker else { return };
        if token != expected || !sender.is_same_process(maker) {
            return refuse(socket.as_fd(), Refusal::NotYours);
        }
        if socket::pass_credentials(socket.as_fd()).is_err() {
            return;
        }
        match self.link_to(endpoint, maker) {
            // Only who reads both connections can say there what is sent here.
            Some(link) => {
                let answer = match self.resumable(&link, node) {
                    Ok(nonce) => Message::Known { endpoint: self.endpoint, nonce },
                    Err(_) => Message::Refused { request: 0, refusal: Refusal::TooMany },
                };
                // If it is gone already, the nonce ends when it is too old.
                drop(socket::send(socket.as_fd(), &answer, &[]));
            }
            None => match ledger::charge(maker, Resource::Descriptors, 1) {
                Ok(charge) => self.welcome(socket.charged(charge), maker, endpoint, node.node()),
                Err(_) => refuse(socket.as_fd(), Refusal::TooMany),
            },
        }
    }

    fn welcome(
        self: &Arc<Self>,
        socket: PeerFd,
        peer: CallingIdentity,
        endpoint: Token,
        node: &Arc<LocalNode>,
    ) {
        if let Ok(link) = self.add_link(socket, peer, endpoint) {
            let interfaces = node.interfaces().to_bytes();
            let welcome = match link.export(node) {
                Ok(node) => Message::Welcome { endpoint: self.endpoint, node, interfaces },
                Err(_) => Message::Refused { request: 0, refusal: Refusal::TooMany },
            };
            // If it is gone already, the poller will see that next.
            drop(link.send(welcome, Vec::new()));
        }
    }
}

/// Best effort: the socket is closed next, which says as much.
pub(super) fn refuse(socket: BorrowedFd<'_>, refusal: Refusal) {
    drop(socket::send(socket, &Message::Refused { request: 0, refusal }, &[]));
}

fn send_first(socket: BorrowedFd<'_>, hello: &Message, fds: &[BorrowedFd<'_>]) -> Result<()> {
    if socket::send(socket, hello, fds)? {
        return Ok(());
    }
    Err(Error::Protocol("a new connection that is full".into()))
}

pub(super) fn receive_within(socket: BorrowedFd<'_>, timeout: Duration) -> Result<ReceivedMessage> {
    let end = Instant::now() + timeout;
    loop {
        match socket::receive(socket)? {
            Receive::Message(received) => return Ok(received),
            // A peer that closes without having read all resets the connection: that is told before
            // its last words are.
            Receive::Closed => match socket::receive(socket)? {
                Receive::Message(received) => return Ok(received),
                _ => return Err(Error::Dead),
            },
            Receive::Empty => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Protocol(format!("the peer did not answer a greeting in {timeout:?}")));
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("cannot wait for a peer", error)),
        }
    }
}
