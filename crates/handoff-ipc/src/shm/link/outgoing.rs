//! What is on its way to a peer: messages that its socket did not take yet, and descriptors that it has not read.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::ledger::Charge;
use crate::shm::socket;
use crate::shm::wire::Message;
use crate::{Error, Result};

/// A message, and its descriptors as the ledger has them.
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) fds: Vec<OwnedFd>,
    pub(super) charge: Option<Charge>,
}

/// A message that waits, as the ledger has it.
pub(super) struct WaitingMessage {
    pub(super) next: Outgoing,
    pub(super) _charge: Charge,
}

impl Outgoing {
    /// False if the socket is full.
    pub(super) fn send(&self, socket: BorrowedFd<'_>) -> Result<bool> {
        let fds: Vec<BorrowedFd<'_>> = self.fds.iter().map(AsFd::as_fd).collect();
        socket::send(socket, &self.message, &fds)
    }

    /// Whether an error says that the kernel has no room for descriptors on their way (`ETOOMANYREFS`: receivers of
    /// this user's messages do not read them) or no memory for them.
    pub(super) fn is_short(&self, error: &Error) -> bool {
        let Error::Io { source, .. } = error else { return false };
        let short = [libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM];
        !self.fds.is_empty() && source.raw_os_error().is_some_and(|number| short.contains(&number))
    }
}

/// What is on its way to the peer.
#[derive(Default)]
pub(super) struct Outbox {
    // The socket did not take them yet.
    pub(super) waiting: VecDeque<WaitingMessage>,
    // Messages that the socket took.
    sent: u64,
    // Which of them brought descriptors, and may not have been read.
    unread: VecDeque<(u64, Charge)>,
}

impl Outbox {
    pub(super) fn note_sent(&mut self, charge: Option<Charge>) {
        self.sent += 1;
        self.unread.extend(charge.map(|charge| (self.sent, charge)));
    }

    /// Takes back what is charged for messages that the peer has read.
    pub(super) fn forget_read(&mut self, socket: BorrowedFd<'_>) {
        if self.unread.is_empty() {
            return;
        }
        let read = self.sent.saturating_sub(socket::unread(socket));
        while self.unread.front().is_some_and(|(number, _)| *number <= read) {
            self.unread.pop_front();
        }
    }
}

/// How [`Link::flush`] ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FlushOutcome {
    /// As far as the socket took it.
    Written,
    /// The kernel has no room for descriptors: to be tried again later.
    Short,
}
