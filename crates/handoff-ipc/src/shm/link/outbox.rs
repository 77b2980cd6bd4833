//! Sends control messages to the peer, now or when its socket takes them.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::Link;
use super::outgoing::{FlushOutcome, Outbox, Outgoing, WaitingMessage};
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::shm::wire::{MAX_FDS, Message};
use crate::{Error, Result};

/// Messages that may wait for a peer that does not read its socket; then it is cut off.
const BACKLOG: usize = 16 << 10;

impl Link {
    /// Sends a control message, or keeps it until the socket can take it.
    ///
    /// # Errors
    /// If the peer is gone; if descriptors come along, also if it has not read its share of them or the kernel has
    /// no room for more: then nothing was sent and the link stays.
    pub(crate) fn send(&self, message: Message, fds: Vec<OwnedFd>) -> Result<()> {
        let charge = self.charge_sent(fds.len())?;
        self.put(&mut lock(&self.outbox), Outgoing { message, fds, charge }, false)
    }

    /// Sends a parcel's descriptors ahead of the slot's exchange: all of them, or none.
    pub(crate) fn send_fds(&self, slot: u32, reply: bool, fds: Vec<OwnedFd>) -> Result<()> {
        let mut charge = self.charge_sent(fds.len())?;
        let mut outbox = lock(&self.outbox);
        let mut fds = fds.into_iter().peekable();
        let mut begun = false;
        while fds.peek().is_some() {
            let some: Vec<OwnedFd> = fds.by_ref().take(MAX_FDS).collect();
            let part = charge.as_mut().map(|charge| charge.split(some.len() as u64));
            let message = Message::Fds { slot, reply };
            self.put(&mut outbox, Outgoing { message, fds: some, charge: part }, begun)?;
            begun = true;
        }
        Ok(())
    }

    /// Enters descriptors that are about to be sent.
    fn charge_sent(&self, count: usize) -> Result<Option<Charge>> {
        if count == 0 {
            return Ok(None);
        }
        // The peer, or others of its user, may have read theirs since anybody looked.
        let look = || {
            if let Ok(core) = self.core() {
                core.forget_read();
            }
        };
        ledger::charge_again(self.peer, Resource::Sent, count as u64, look).map(Some)
    }

    /// `begun`: the peer has a part already, and would take what comes later for the rest of it.
    fn put(&self, outbox: &mut Outbox, next: Outgoing, begun: bool) -> Result<()> {
        if self.is_dead() {
            return Err(Error::Dead);
        }
        if outbox.waiting.is_empty() {
            let socket = self.socket()?;
            outbox.forget_read(socket.as_fd());
            match next.send(socket.as_fd()) {
                Ok(true) => {
                    outbox.note_sent(next.charge);
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) if next.is_short(&error) => {
                    // The peer did nothing wrong: this call fails, the link stays.
                    if !begun {
                        return Err(error);
                    }
                }
                Err(error) => {
                    self.hang_up();
                    return Err(error);
                }
            }
        }
        let charge = ledger::charge(self.peer, Resource::Unsent, 1);
        let Some(charge) = charge.ok().filter(|_| outbox.waiting.len() < BACKLOG) else {
            self.hang_up();
            return Err(Error::Protocol("the peer does not read its control socket".into()));
        };
        outbox.waiting.push_back(WaitingMessage { next, _charge: charge });
        // Inside of the lock that `flush` ends in: else the poller, done with what was there before, could
        // take the wish back.
        self.core()?.want_write(self);
        Ok(())
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !lock(&self.outbox).waiting.is_empty()
    }

    /// Sends what is kept. `all_out` runs when nothing is left, before anything more can be kept.
    pub(crate) fn flush(&self, socket: BorrowedFd<'_>, all_out: impl FnOnce()) -> FlushOutcome {
        let mut outbox = lock(&self.outbox);
        while let Some(WaitingMessage { next, .. }) = outbox.waiting.front() {
            match next.send(socket) {
                Ok(true) => {
                    let charge = outbox.waiting.pop_front().and_then(|sent| sent.next.charge);
                    outbox.note_sent(charge);
                }
                Ok(false) => return FlushOutcome::Written,
                Err(error) if next.is_short(&error) => return FlushOutcome::Short,
                Err(_) => {
                    self.hang_up();
                    break;
                }
            }
        }
        all_out();
        FlushOutcome::Written
    }

    /// Looks which descriptors the peer has read, so that they count no longer.
    pub(crate) fn forget_read(&self) {
        if let Ok(socket) = self.socket() {
            lock(&self.outbox).forget_read(socket.as_fd());
        }
    }
}
