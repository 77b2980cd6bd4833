//! The control socket: whole messages with descriptors, from a peer whose credentials the kernel
//! vouches for.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::wire::{MAX_FDS, MESSAGE_SIZE, Message};
use crate::object::CallingIdentity;
use crate::{Error, Result};

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) fds: Vec<OwnedFd>,
    /// Who sent it, where the socket was asked to say so ([`pass_credentials`]).
    pub(crate) sender: Option<CallingIdentity>,
}

/// What came of an attempt to receive.
#[derive(Debug)]
pub(crate) enum Receive {
    Message(Received),
    /// Nothing more for now.
    Empty,
    /// The peer closed its end, or its process ended.
    Closed,
}

/// Two ends of a connection. Whoever ends up with the other one says who it is with its first
/// message: the kernel stamps it.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (mine, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|error| Error::io("cannot make a connection (socketpair)", error))?;
    pass_credentials(mine.as_fd())?;
    pass_credentials(other.as_fd())?;
    Ok((mine, other))
}

/// Asks the kernel to stamp each message with its sender.
pub(crate) fn pass_credentials(socket: BorrowedFd<'_>) -> Result<()> {
    sockopt::set_socket_passcred(socket, true)
        .map_err(|error| Error::io("cannot ask for the peer's credentials", error))
}

/// Sends one message. `Ok(false)`: the socket is full, try again when it can be written.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<bool> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::TooLarge { size: fds.len(), limit: MAX_FDS });
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        return match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(_) => Ok(true),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Error::Dead),
            Err(error) => Err(Error::io("cannot send a control message", error)),
        };
    }
}

/// Receives one message, without waiting.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Receive> {
    // One byte more than a message, to see that a longer one was sent.
    let mut bytes = [0; MESSAGE_SIZE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let len = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Receive::Empty),
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Receive::Closed),
            Err(error) => return Err(Error::io("cannot receive a control message", error)),
        }
    };
    let (mut fds, mut sender) = (Vec::new(), None);
    for part in control.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(received) => fds.extend(received),
            RecvAncillaryMessage::ScmCredentials(who) => {
                sender = Some(CallingIdentity {
                    pid: who.pid.as_raw_nonzero().get().unsigned_abs(),
                    uid: who.uid.as_raw(),
                    gid: who.gid.as_raw(),
                });
            }
            _ => {}
        }
    }
    if len == 0 {
        return Ok(Receive::Closed);
    }
    let message = Message::decode(&bytes[..len])?;
    Ok(Receive::Message(Received { message, fds, sender }))
}

/// Who made the connection at the other end, as of then (`SO_PEERCRED`).
pub(crate) fn peer(socket: BorrowedFd<'_>) -> Result<CallingIdentity> {
    let who = sockopt::socket_peercred(socket)
        .map_err(|error| Error::io("cannot learn who the peer is (SO_PEERCRED)", error))?;
    Ok(CallingIdentity {
        pid: who.pid.as_raw_nonzero().get().unsigned_abs(),
        uid: who.uid.as_raw(),
        gid: who.gid.as_raw(),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_descriptors_and_their_sender() {
        let (a, b) = pair().unwrap();
        let (file, _) = pair().unwrap();
        assert!(send(a.as_fd(), &Message::Post, &[file.as_fd(), file.as_fd()]).unwrap());
        let Receive::Message(got) = receive(b.as_fd()).unwrap() else { panic!("nothing came") };
        assert_eq!((got.message, got.fds.len()), (Message::Post, 2));
        assert_eq!(got.sender, Some(CallingIdentity::own()));
        assert!(matches!(receive(b.as_fd()).unwrap(), Receive::Empty));
        drop(a);
        assert!(matches!(receive(b.as_fd()).unwrap(), Receive::Closed));
        assert!(matches!(send(b.as_fd(), &Message::Post, &[]), Err(Error::Dead)));
    }

    #[test]
    fn a_message_of_another_size_is_refused() {
        let (a, b) = pair().unwrap();
        rustix::io::write(&a, &[0; 200]).unwrap();
        assert!(matches!(receive(b.as_fd()), Err(Error::Protocol(_))));
    }
}
