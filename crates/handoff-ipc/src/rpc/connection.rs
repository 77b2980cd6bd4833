//! One connection of a session: whole frames in and out of a stream socket, with the descriptors that come along.
//!
//! One thread at a time has a connection. Bytes are read ahead, so that a short frame costs one system call. The kernel
//! hands descriptors over with the bytes that they were sent with and ends the read there (unix(7)); since a sender
//! attaches them to the first byte of a frame, those of a read belong to the last frame that begins in it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, recv, send, sendmsg,
};

use super::inbound::{Came, Frame, Inbound};
use super::tls::Tls;
use super::wire::DecStrong;
use crate::disposal::{self, PeerFd};
use crate::identity::CallingIdentity;
use crate::ledger::{Charge, Resource};
use crate::shm::{Received, receive_bytes, refuses_descriptors};
use crate::{Error, OnewayBacklog, Result};

/// Descriptors that the kernel lets travel with one message (`SCM_MAX_FD`).
pub(super) const MOST_FDS: usize = 253;
/// How an attempt with an end ended.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    Done(T),
    /// The time was over first.
    Late,
}

/// How long to wait for a socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Forever,
    Until(Instant),
    No,
}

impl Wait {
    pub(super) fn until(end: Option<Instant>) -> Self {
        end.map_or(Wait::Forever, Wait::Until)
    }

    /// Whether its time is over. A peer that always sends something else never lets a wait end by itself.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Wait::Until(end) if end <= Instant::now())
    }
}

/// The socket of a connection, which all who know it may wait for and end. What goes over it is the [`Connection`]'s.
pub(super) struct Socket {
    // Descriptors may lie in its queue whose close takes long.
    socket: PeerFd,
    peer: CallingIdentity,
    /// Whether descriptors travel on it.
    descriptors: bool,
    /// The kernel lets none come.
    refuses: bool,
    // What the peer has this process hold beside the socket.
    _charges: Vec<Charge>,
}

/// One connection of a session, for the one thread that has it.
pub(super) struct Connection {
    socket: Arc<Socket>,
    traffic: Traffic,
}

/// What came and was not taken, what the socket did not take, and what seals both.
#[derive(Default)]
struct Traffic {
    inbound: Inbound,
    unsent: UnsentFrame,
    tls: Option<Box<Tls>>,
}

/// The rest of a frame whose beginning is on its way.
#[derive(Default)]
struct UnsentFrame {
    bytes: Vec<u8>,
    at: usize,
    // Of a frame of which nothing was sent.
    fds: Vec<OwnedFd>,
}

impl UnsentFrame {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}

impl Socket {
    /// Ends it for both sides: whoever waits for it sees its end.
    pub(super) fn shut_down(&self) {
        // Fails where the peer has ended it.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Enters descriptors that came; gives those that are kept.
    fn count_arrived(&self, fds: Vec<OwnedFd>) -> Result<Vec<PeerFd>> {
        let fds = fds.into_iter().map(|fd| PeerFd::new(fd, self.peer.uid)).collect();
        let fds = disposal::count_arrived(self.peer, fds);
        if !fds.iter().all(PeerFd::may_be_kept) {
            return Err(Error::Protocol("it sent more descriptors than its share here is".into()));
        }
        Ok(if self.descriptors { fds } else { Vec::new() })
    }

    /// What the socket is ready for; nothing when the time is over.
    fn poll(&self, wanted: PollFlags, end: Option<Instant>) -> Result<PollFlags> {
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // Rounded up: nobody looks before the time is over.
            let left = left
                .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            let mut fds = [PollFd::new(&self.socket, wanted)];
            match poll(&mut fds, left.as_ref()) {
                Ok(_) => return Ok(fds[0].revents()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for an RPC connection", error)),
            }
        }
    }

    pub(super) fn passes_descriptors(&self) -> bool {
        self.descriptors
    }

    /// Whether the peer has ended it. What it sent before may not have been read.
    pub(super) fn is_ended(&self) -> Result<bool> {
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        Ok(self.poll(PollFlags::RDHUP, Some(Instant::now()))?.intersects(ended))
    }

    /// One attempt to send; `None` if the socket is full.
    fn push(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Option<usize>> {
        if fds.is_empty() {
            return attempt(|| send(&self.socket, bytes, SEND));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Error::TooLarge { size: fds.len(), limit: MOST_FDS });
        }
        attempt(|| sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SEND))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The peer sees its end now, whatever the socket's close waits for.
        self.shut_down();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connection {
    pub(super) fn new(
        socket: OwnedFd,
        peer: CallingIdentity,
        descriptors: bool,
        charges: Vec<Charge>,
    ) -> Self {
        let (mut socket, mut others) = (PeerFd::new(socket, peer.uid), Vec::new());
        for charge in charges {
            match charge.resource() {
                // Until it is closed.
                Resource::Descriptors => socket = socket.charged(charge),
                _ => others.push(charge),
            }
        }
        let refuses = !descriptors && refuses_descriptors(socket.as_fd());
        let socket = Socket { socket, peer, descriptors, refuses, _charges: others };
        Connection { socket: Arc::new(socket), traffic: Traffic::default() }
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The connection, for somebody else to have until [`Connection::take_back`]: meanwhile nobody uses this.
    pub(super) fn lend(&mut self) -> Self {
        Connection { socket: Arc::clone(&self.socket), traffic: std::mem::take(&mut self.traffic) }
    }

    /// What was lent is back.
    pub(super) fn take_back(&mut self, lent: &mut Self) {
        self.traffic = std::mem::take(&mut lent.traffic);
    }

    /// Waits for what comes next, and puts it in the place of what was in `frame`. `Err(Dead)` at the connection's end.
    pub(super) fn receive(&mut self, wait: Wait, frame: &mut Frame) -> Result<Attempt<Came>> {
        self.traffic.inbound.reuse(frame);
        let mut is_over = false;
        loop {
            if let Some(came) = self.traffic.inbound.take(frame)? {
                return Ok(Attempt::Done(came));
            }
            if is_over || matches!(self.fill(wait)?, Attempt::Late) {
                return Ok(Attempt::Late);
            }
            is_over = wait.is_over();
        }
    }

    /// Takes the memory of a frame that was read: what comes next is read into it.
    pub(super) fn reuse(&mut self, frame: &mut Frame) {
        self.traffic.inbound.reuse(frame);
    }

    /// A frame that keeps no more memory than its body takes: for one that waits.
    pub(super) fn compact(&mut self, mut frame: Frame) -> Frame {
        let Some(compact) = frame.compacted() else { return frame };
        self.reuse(&mut frame);
        compact
    }

    fn fill(&mut self, wait: Wait) -> Result<Attempt<()>> {
        let Connection { socket, traffic: Traffic { inbound, tls, .. } } = self;
        let mut flags = RecvFlags::DONTWAIT;
        match wait {
            Wait::Forever => flags = RecvFlags::empty(),
            Wait::No => {}
            Wait::Until(end) => {
                if socket.poll(PollFlags::IN, Some(end))?.is_empty() {
                    return Ok(Attempt::Late);
                }
            }
        }
        let room = tls.as_mut().map_or_else(|| inbound.room(), |tls| tls.room());
        let received = if socket.refuses {
            // Quicker by 0.3 us: the kernel need not say what came along.
            recv(&socket.socket, spare_capacity(room), flags).map(|(len, _)| (len, Vec::new()))
        } else {
            // Descriptors that come although none may are taken, too: without room for them the kernel closes them here.
            receive_bytes(socket.as_fd(), room, flags).map(|Received { len, fds, .. }| (len, fds))
        };
        let fds = match received {
            Ok((0, _)) => return Err(Error::Dead),
            Ok((_, fds)) => fds,
            Err(Errno::INTR) => return Ok(Attempt::Done(())),
            Err(Errno::AGAIN) => {
                return Ok(match wait {
                    Wait::No => Attempt::Late,
                    Wait::Until(_) => Attempt::Done(()),
                    // Somebody else who has the socket, too, has made it one that nobody waits for.
                    Wait::Forever => {
                        socket.poll(PollFlags::IN, None)?;
                        Attempt::Done(())
                    }
                });
            }
            Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN | Errno::TIMEDOUT) => {
                return Err(Error::Dead);
            }
            Err(error) => return Err(Error::io("cannot receive from an RPC connection", error)),
        };
        let fds = if fds.is_empty() { Vec::new() } else { socket.count_arrived(fds)? };
        if let Some(tls) = tls {
            tls.open(inbound.room())?;
        }
        inbound.came(fds);
        Ok(Attempt::Done(()))
    }

    /// Whether the peer takes more now: a call that nobody waits for is refused rather than blocked.
    pub(super) fn takes_more(&mut self) -> Result<bool> {
        let Attempt::Done(()) = self.flush(Wait::No, &mut |_| ())? else { return Ok(false) };
        Ok(!self.socket.poll(PollFlags::OUT, Some(Instant::now()))?.is_empty())
    }

    /// Whether the rest of a frame waits until the socket takes it.
    pub(super) fn has_unsent(&self) -> bool {
        !self.traffic.unsent.is_empty()
    }

    /// Sends what is left of the frame before.
    #[inline]
    pub(super) fn flush(&mut self, wait: Wait, meanwhile: &mut dyn FnMut(DecStrong)) -> Result<Attempt<()>> {
        if self.has_unsent() { self.flush_frame(wait, meanwhile) } else { Ok(Attempt::Done(())) }
    }

    #[cold]
    fn flush_frame(&mut self, wait: Wait, meanwhile: &mut dyn FnMut(DecStrong)) -> Result<Attempt<()>> {
        while self.has_unsent() {
            let unsent = &mut self.traffic.unsent;
            let fds: Vec<BorrowedFd<'_>> = unsent.fds.iter().map(AsFd::as_fd).collect();
            match self.socket.push(&unsent.bytes[unsent.at..], &fds)? {
                Some(count) => {
                    unsent.at += count;
                    unsent.fds.clear();
                }
                None => {
                    drop(fds);
                    if let Attempt::Late = self.await_room(wait, meanwhile)? {
                        return Ok(Attempt::Late);
                    }
                }
            }
        }
        self.traffic.unsent = UnsentFrame::default();
        Ok(Attempt::Done(()))
    }

    /// Sends a frame, or some, all of whose descriptors go with the first byte. While the socket is full, references that
    /// are given back are handed to `meanwhile`: the peer may be waiting for room, too. What the socket does not take in
    /// time goes before the next frame.
    pub(super) fn send(
        &mut self,
        frame: &[u8],
        fds: &[BorrowedFd<'_>],
        wait: Wait,
        meanwhile: &mut dyn FnMut(DecStrong),
    ) -> Result<Attempt<()>> {
        if let Attempt::Late = self.flush(wait, meanwhile)? {
            return Err(Error::OnewayFull(OnewayBacklog::Unknown));
        }
        // Only now: what is sealed has to go in its turn.
        let sealed = self.traffic.tls.as_mut().map(|tls| tls.seal(frame)).transpose()?;
        let frame = sealed.as_deref().unwrap_or(frame);
        let sent = self.socket.push(frame, fds)?;
        if sent == Some(frame.len()) {
            return Ok(Attempt::Done(()));
        }
        self.send_rest(frame, sent, fds, wait, meanwhile)
    }

    /// The rest of [`Connection::send`], of which the socket took so much.
    #[cold]
    fn send_rest(
        &mut self,
        frame: &[u8],
        sent: Option<usize>,
        fds: &[BorrowedFd<'_>],
        wait: Wait,
        meanwhile: &mut dyn FnMut(DecStrong),
    ) -> Result<Attempt<()>> {
        let copies = fds.iter().filter(|_| sent.is_none()).map(BorrowedFd::try_clone_to_owned);
        let fds = copies
            .collect::<std::io::Result<_>>()
            .map_err(|error| Error::io("cannot duplicate a descriptor to send it", error))?;
        self.traffic.unsent = UnsentFrame { bytes: frame[sent.unwrap_or(0)..].to_vec(), at: 0, fds };
        self.flush_frame(wait, meanwhile)
    }

    fn await_room(&mut self, wait: Wait, meanwhile: &mut dyn FnMut(DecStrong)) -> Result<Attempt<()>> {
        let end = match wait {
            Wait::No => return Ok(Attempt::Late),
            Wait::Until(_) if wait.is_over() => return Ok(Attempt::Late),
            Wait::Until(end) => Some(end),
            Wait::Forever => None,
        };
        let ready = self.socket.poll(PollFlags::OUT | PollFlags::IN, end)?;
        if ready.contains(PollFlags::IN) {
            let mut frame = Frame::default();
            while !wait.is_over() {
                match self.receive(Wait::No, &mut frame)? {
                    Attempt::Done(Came::References(dec)) => meanwhile(dec),
                    Attempt::Done(_) => return Err(unexpected()),
                    Attempt::Late => break,
                }
            }
        }
        Ok(if ready.is_empty() { Attempt::Late } else { Attempt::Done(()) })
    }

    /// Agrees on keys with the peer, before anything else is said.
    pub(super) fn secure(&mut self, tls: Tls, wait: Wait) -> Result<()> {
        self.traffic.tls = Some(Box::new(tls));
        loop {
            self.send_raw(&[], wait)?;
            if !self.traffic.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                return Ok(());
            }
            match self.fill(wait) {
                Ok(Attempt::Done(())) if !wait.is_over() => {}
                Ok(_) => return Err(Error::Protocol("it does not finish the handshake of TLS".into())),
                Err(error) => {
                    // The peer is told why, if it listens.
                    let _ = self.send_raw(&[], Wait::No);
                    return Err(error);
                }
            }
        }
    }

    /// Reads exactly so many bytes, before there are frames.
    pub(super) fn receive_raw<const N: usize>(&mut self, wait: Wait) -> Result<[u8; N]> {
        while self.traffic.inbound.held().len() < N {
            if let Attempt::Late = self.fill(wait)? {
                return Err(Error::Protocol("it does not finish setting the connection up".into()));
            }
        }
        let mut raw = [0; N];
        raw.copy_from_slice(&self.traffic.inbound.held()[..N]);
        self.traffic.inbound.advance(N);
        Ok(raw)
    }

    /// Sends bytes before there are frames.
    pub(super) fn send_raw(&mut self, bytes: &[u8], wait: Wait) -> Result<()> {
        match self.send(bytes, &[], wait, &mut |_| ())? {
            Attempt::Done(()) => Ok(()),
            Attempt::Late => Err(Error::Protocol("it does not read what sets the connection up".into())),
        }
    }
}

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// One attempt to send; `None` if the socket is full.
fn attempt(mut send: impl FnMut() -> rustix::io::Result<usize>) -> Result<Option<usize>> {
    loop {
        match send() {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::TIMEDOUT) => {
                return Err(Error::Dead);
            }
            Err(error) => return Err(Error::io("cannot send on an RPC connection", error)),
        }
    }
}

/// A call or a reply came where neither may.
pub(super) fn unexpected() -> Error {
    Error::Protocol("a call or a reply where none is expected".into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::super::inbound::{MOST_READ, READ};
    use super::super::wire::{Address, Command, FrameHeader, HEADER, MOST_BODY};
    use super::*;

    fn pair() -> (Connection, Connection) {
        let (one, other) = UnixStream::pair().unwrap();
        let connection =
            |end: UnixStream| Connection::new(end.into(), CallingIdentity::own(), true, Vec::new());
        (connection(one), connection(other))
    }

    fn frame(len: usize) -> Vec<u8> {
        let mut bytes = FrameHeader::encode(Command::Transact, len).unwrap().to_vec();
        bytes.extend((0..len).map(|n| n as u8));
        bytes
    }

    fn next_of(connection: &mut Connection) -> (Came, Frame) {
        let (mut frame, soon) = (Frame::default(), Wait::Until(Instant::now() + Duration::from_secs(60)));
        match connection.receive(soon, &mut frame).unwrap() {
            Attempt::Done(came) => (came, frame),
            Attempt::Late => panic!("nothing came"),
        }
    }

    fn next(connection: &mut Connection) -> Frame {
        next_of(connection).1
    }

    fn nothing(_: DecStrong) {
        panic!("nobody answers")
    }

    #[test]
    fn the_memory_of_a_frame_that_was_read_is_for_the_next_and_none_is_kept_for_one_that_waits() {
        let (mut one, mut other) = pair();
        let mut send = || one.send(&frame(100), &[], Wait::Forever, &mut nothing).unwrap();
        send();
        let came = next(&mut other);
        let mut waits = other.compact(came);
        assert_eq!((waits.bytes.capacity(), waits.body()), (100, &frame(100)[HEADER..]));
        send();
        let mut read = next(&mut other);
        let memory = read.bytes.as_ptr();
        other.reuse(&mut waits);
        other.reuse(&mut read);
        send();
        assert_eq!(next(&mut other).bytes.as_ptr(), memory);
    }

    #[test]
    fn what_comes_is_read_into_memory_that_is_brought_unless_that_is_too_much() {
        let (mut one, mut other) = pair();
        let much = MOST_READ;
        for (brought, used) in [(READ - 1, READ), (READ + 1, READ + 1), (much, much), (much + 1, READ)] {
            one.send(&frame(100), &[], Wait::Forever, &mut nothing).unwrap();
            let mut came = Frame::to_come_in(Vec::with_capacity(brought));
            assert!(matches!(other.receive(Wait::Forever, &mut came).unwrap(), Attempt::Done(Came::Call)));
            assert_eq!(came.body(), &frame(100)[HEADER..]);
            let memory = came.into_memory();
            assert_eq!((memory.capacity(), memory.len()), (used, 0), "of {brought}");
        }
        assert_eq!(Frame::to_come_in(Vec::with_capacity(much + 1)).into_memory().capacity(), 0);
    }

    #[test]
    fn where_no_descriptor_may_travel_none_is_kept_and_new_kernels_let_none_come() {
        let (one, other) = UnixStream::pair().unwrap();
        crate::shm::refuse_descriptors(other.as_fd());
        let [mut one, mut other] =
            [one, other].map(|end| Connection::new(end.into(), CallingIdentity::own(), false, Vec::new()));
        assert!(!one.socket.refuses);
        let (end, _writer) = std::io::pipe().unwrap();
        let sent = one.send(&frame(1), &[end.as_fd()], Wait::Forever, &mut nothing);
        // Linux 6.16.
        assert_eq!(sent.is_err(), other.socket.refuses);
        one.send(&frame(2), &[], Wait::Forever, &mut nothing).unwrap();
        let came = next(&mut other);
        assert_eq!((came.body().len(), came.fds.len()), (if other.socket.refuses { 2 } else { 1 }, 0));
    }

    #[test]
    fn frames_of_every_size_arrive_whole_however_they_are_cut() {
        let (mut one, mut other) = pair();
        for len in [0, 1, READ - HEADER, READ, 100_000, MOST_BODY] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let whole = frame(len);
                    one.send(&whole.repeat(2), &[], Wait::Forever, &mut nothing).unwrap();
                    for piece in whole.chunks(whole.len() / 7 + 1) {
                        one.send_raw(piece, Wait::Forever).unwrap();
                    }
                });
                for _ in 0..3 {
                    let (came, got) = next_of(&mut other);
                    assert_eq!((came, got.body()), (Came::Call, &frame(len)[HEADER..]));
                }
            });
        }
        drop(one);
        assert!(matches!(other.receive(Wait::Forever, &mut Frame::default()), Err(Error::Dead)));
    }

    #[test]
    fn descriptors_come_with_the_frame_that_they_were_sent_with() {
        let (mut one, mut other) = pair();
        let (end, _writer) = std::io::pipe().unwrap();
        let whole = frame(5);
        for fds in [0, 2, 0, 0, 1, 3] {
            let fds = vec![end.as_fd(); fds];
            one.send(&whole, &fds, Wait::Forever, &mut nothing).unwrap();
        }
        let counts: Vec<usize> = (0..6).map(|_| next(&mut other).fds.len()).collect();
        assert_eq!(counts, [0, 2, 0, 0, 1, 3]);
        // In pieces of which the first has the descriptor.
        one.send(&[&whole, &whole[..3]].concat(), &[], Wait::Forever, &mut nothing).unwrap();
        one.send(&whole[3..], &[], Wait::Forever, &mut nothing).unwrap();
        one.send(&whole[..3], &[end.as_fd()], Wait::Forever, &mut nothing).unwrap();
        one.send(&[&whole[3..], &whole].concat(), &[], Wait::Forever, &mut nothing).unwrap();
        let counts: Vec<usize> = (0..4).map(|_| next(&mut other).fds.len()).collect();
        assert_eq!(counts, [0, 0, 1, 0]);
        // Whoever waits for the next frame holds none of the one before.
        one.send(&whole, &[end.as_fd()], Wait::Forever, &mut nothing).unwrap();
        let mut frame = next(&mut other);
        assert_eq!(frame.fds.len(), 1);
        assert!(matches!(other.receive(Wait::No, &mut frame).unwrap(), Attempt::Late));
        assert!(frame.fds.is_empty() && frame.bytes.is_empty());
    }

    #[test]
    fn references_right_in_front_of_a_reply_come_with_it_and_their_descriptors_do_not() {
        let (mut one, mut other) = pair();
        let (end, _writer) = std::io::pipe().unwrap();
        let dec = DecStrong { address: Address::new(1, true), amount: 1 };
        let reply = [&FrameHeader::encode(Command::Reply, 3).unwrap()[..], &[1, 2, 3]].concat();
        let mut send = |bytes: &[u8], fds: &[BorrowedFd<'_>]| {
            one.send(bytes, fds, Wait::Forever, &mut nothing).unwrap();
        };
        send(&dec.frame(), &[end.as_fd()]);
        send(&[&reply[..], &dec.frame(), &dec.frame(), &reply, &dec.frame(), &frame(1)].concat(), &[]);
        let mut had = Vec::new();
        for _ in 0..6 {
            let (came, got) = next_of(&mut other);
            had.push((came, got.back, got.fds.len()));
        }
        let alone = (Came::References(dec), None, 0);
        let with = |back| (Came::Reply, back, 0);
        assert_eq!(had, [alone, with(None), alone, with(Some(dec)), alone, (Came::Call, None, 0)]);
        // In one read, where the descriptor is the reply's.
        send(&dec.frame(), &[]);
        send(&reply, &[end.as_fd()]);
        let (came, got) = next_of(&mut other);
        assert_eq!((came, got.back, got.fds.len()), (Came::Reply, Some(dec), 1));
    }

    #[test]
    fn who_waits_for_room_takes_what_comes_and_what_was_begun_is_finished_first() {
        let (mut one, mut other) = pair();
        let whole = frame(MOST_BODY);
        let sent = one.send(&whole, &[], Wait::No, &mut nothing).unwrap();
        assert!(matches!(sent, Attempt::Late) && one.has_unsent());
        assert!(!one.takes_more().unwrap());
        let refused = one.send(&frame(1), &[], Wait::No, &mut nothing);
        assert!(matches!(refused, Err(Error::OnewayFull(_))), "{refused:?}");
        let dec = DecStrong { address: Address::new(1, true), amount: 1 };
        other.send(&dec.frame(), &[], Wait::Forever, &mut nothing).unwrap();
        let mut came = 0;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (next(&mut other).body().len(), next(&mut other).body().len()));
            let mut count = |given: DecStrong| {
                assert_eq!(given, dec);
                came += 1;
            };
            // Until the reader comes, the socket is full.
            one.send(&frame(1), &[], Wait::Forever, &mut count).unwrap();
            assert_eq!(reader.join().unwrap(), (MOST_BODY, 1));
        });
        if came == 0 {
            assert_eq!(next_of(&mut one).0, Came::References(dec));
        }
        assert!(one.takes_more().unwrap() && !one.has_unsent());
    }

    #[test]
    fn a_header_alone_makes_nobody_reserve_memory() {
        let (mut one, mut other) = pair();
        one.send_raw(&FrameHeader::encode(Command::Transact, MOST_BODY).unwrap(), Wait::Forever).unwrap();
        let soon = Wait::Until(Instant::now() + Duration::from_millis(20));
        assert!(matches!(other.receive(soon, &mut Frame::default()).unwrap(), Attempt::Late));
        assert!(other.traffic.inbound.bytes.capacity() <= 2 * READ);
    }

    #[test]
    fn descriptors_beyond_the_share_end_the_connection() {
        let (one, other) = UnixStream::pair().unwrap();
        let who = CallingIdentity { pid: 1, uid: 65_001, gid: 65_001 };
        let _all = crate::ledger::use_up(who, Resource::Descriptors);
        let mut one = Connection::new(one.into(), CallingIdentity::own(), true, Vec::new());
        let mut other = Connection::new(other.into(), who, true, Vec::new());
        let (end, _writer) = std::io::pipe().unwrap();
        one.send(&frame(1), &[end.as_fd()], Wait::Forever, &mut nothing).unwrap();
        let received = other.receive(Wait::Forever, &mut Frame::default());
        assert!(matches!(received, Err(Error::Protocol(_))));
    }
}
