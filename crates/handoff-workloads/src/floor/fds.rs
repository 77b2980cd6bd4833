//! Floors over file descriptors: pipes and Unix sockets.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};

use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::session::Hop;

/// The four ends, or each end of a socket pair twice.
pub(super) struct Fds<'a> {
    payload: &'a [u8],
    to_server: Wire,
    to_client: Wire,
}

struct Wire {
    send: OwnedFd,
    receive: OwnedFd,
}

impl<'a> Fds<'a> {
    pub(super) fn pipes(payload: &'a [u8]) -> rustix::io::Result<Self> {
        let wire = || {
            let (receive, send) = pipe_with(PipeFlags::CLOEXEC)?;
            Ok(Wire { send, receive })
        };
        Ok(Fds { payload, to_server: wire()?, to_client: wire()? })
    }

    pub(super) fn sockets(payload: &'a [u8], kind: SocketType) -> std::io::Result<Self> {
        let (client, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        let to_server = Wire { send: client.try_clone()?, receive: server.try_clone()? };
        Ok(Fds { payload, to_server, to_client: Wire { send: server, receive: client } })
    }
}

impl Hop for Fds<'_> {
    fn client(&self, scratch: &mut [u8]) -> rustix::io::Result<()> {
        send(&self.to_server.send, self.payload)?;
        receive(&self.to_client.receive, scratch)
    }

    fn server(&self, scratch: &mut [u8]) -> rustix::io::Result<()> {
        receive(&self.to_server.receive, scratch)?;
        send(&self.to_client.send, scratch)
    }

    fn client_fds(&self) -> Vec<RawFd> {
        vec![self.to_server.send.as_raw_fd(), self.to_client.receive.as_raw_fd()]
    }

    fn server_fds(&self) -> Vec<RawFd> {
        vec![self.to_server.receive.as_raw_fd(), self.to_client.send.as_raw_fd()]
    }
}

/// Writes all of `from`.
pub(crate) fn send(fd: impl AsFd, mut from: &[u8]) -> rustix::io::Result<()> {
    while !from.is_empty() {
        match write(&fd, from) {
            Ok(written) => from = &from[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills all of `into`; the end of the stream is `EPIPE`.
pub(crate) fn receive(fd: impl AsFd, into: &mut [u8]) -> rustix::io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match read(&fd, &mut into[filled..]) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(got) => filled += got,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
