//! What a message of the peer does. On the poller's thread.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::Link;
use super::questions::Answer;
use crate::locked::lock;
use crate::shm::oneway;
use crate::shm::server::ServerSlot;
use crate::shm::wire::{Message, Refusal};
use crate::{Error, Result};

/// Slots that one peer may open.
const MAX_SLOTS: usize = 1024;
/// Received descriptors that may wait to be claimed.
const MAX_WAITING_FDS: usize = 4096;

impl Link {
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
                let core = self.core()?;
                let known = self.exported(node).ok_or(Refusal::Unknown);
                match known.and_then(|node| core.introduction(self, node)) {
                    Ok((fd, token)) => self.send(Message::Introduced { request, node, token }, vec![fd])?,
                    Err(refusal) => self.send(Message::Refused { request, refusal }, Vec::new())?,
                }
            }
            Message::Redeem { request, token } => {
                let answer = match self.core()?.redeem(&token, self) {
                    Some(node) => Message::Redeemed { request, node: self.export(&node) },
                    None => Message::Refused { request, refusal: Refusal::NotYours },
                };
                self.send(answer, Vec::new())?;
            }
            Message::Introduced { request, node, token } => {
                self.answered(request, Ok(Answer { node, token, fd: fds.pop() }));
            }
            Message::Redeemed { request, node } => {
                self.answered(request, Ok(Answer { node, token: [0; 16], fd: None }));
            }
            Message::Refused { request, refusal } => self.answered(request, Err(refusal)),
            Message::IntroductionOver { .. } => {}
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
            Message::Hello { .. } | Message::Welcome { .. } | Message::Known { .. } => {
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
}
