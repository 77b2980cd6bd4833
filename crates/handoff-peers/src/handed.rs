//! Descriptors that a server hands to its one client, for the ways that have nothing but memory and events.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The most that are handed over.
const MOST: usize = 3;

/// Waits for the client at `address` and gives it the descriptors.
pub(crate) fn serve(address: &Path, fds: &[&dyn AsFd], ready: &mut dyn FnMut()) -> io::Result<()> {
    let listener = UnixListener::bind(address)?;
    ready();
    let (client, _) = listener.accept()?;
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(&client, &[IoSlice::new(b"x")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The descriptors that the server at `address` gives.
pub(crate) fn connect<const N: usize>(address: &Path) -> io::Result<[OwnedFd; N]> {
    let server = UnixStream::connect(address)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&server, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
            _ => None,
        })
        .flatten()
        .collect();
    <[OwnedFd; N]>::try_from(fds)
        .map_err(|fds| io::Error::other(format!("{} descriptors came for {N}", fds.len())))
}
