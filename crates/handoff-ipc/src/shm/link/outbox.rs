//! Control messages to the peer, and those that its socket did not take yet.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Link;
use crate::locked::lock;
use crate::shm::socket;
use crate::shm::wire::{MAX_FDS, Message};
use crate::{Error, Result};

/// Messages that may wait for a peer that does not read its socket; then it is cut off.
const BACKLOG: usize = 16 << 10;

impl Link {
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
                // The peer did nothing wrong: this call fails, the link stays.
                Err(error) if is_shortage(&error) && !fds.is_empty() => return Err(error),
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

    pub(crate) fn has_backlog(&self) -> bool {
        !lock(&self.backlog).is_empty()
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

    /// Sends a parcel's descriptors ahead of the slot's exchange.
    pub(crate) fn send_fds(&self, slot: u32, reply: bool, fds: Vec<OwnedFd>) -> Result<()> {
        let mut fds = fds.into_iter().peekable();
        while fds.peek().is_some() {
            let some = fds.by_ref().take(MAX_FDS).collect();
            self.send(Message::Fds { slot, reply }, some)?;
        }
        Ok(())
    }
}

/// True if the kernel has no room for descriptors on their way (`ETOOMANYREFS`: this user's other receivers do not
/// read theirs) or no memory for them.
fn is_shortage(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    let short = [libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM];
    source.raw_os_error().is_some_and(|number| short.contains(&number))
}
