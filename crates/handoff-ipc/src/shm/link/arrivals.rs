//! What a message of the peer does, and its end. On the poller's thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Link;
use super::tables::LinkAnswer;
use crate::disposal::{PeerFd, drop_later};
use crate::ledger::{self, Resource};
use crate::locked::lock;
use crate::shm::call::server_slot::ServerSlot;
use crate::shm::oneway;
#[cfg(feature = "tokio")]
use crate::shm::outstanding;
use crate::shm::slot::{MAX_SLOTS, SLOT_SIZE};
use crate::shm::socket::ReceivedMessage;
use crate::shm::wire::{MAX_FDS, Message, Refusal};
use crate::{Error, Result, pool};

impl Link {
    /// Takes one message of the peer. An error ends the link.
    pub(crate) fn handle(self: &Arc<Self>, received: ReceivedMessage) -> Result<()> {
        let ReceivedMessage { message, mut fds, truncated, .. } = received;
        if fds.len() > MAX_FDS {
            return Err(Error::Protocol(format!("a message with {} file descriptors", fds.len())));
        }
        match message {
            Message::Slot { slot } => match fds.pop() {
                Some(region) => self.add_slot(slot, region)?,
                None if truncated => self.refuse_slot(slot, Refusal::NoRoom)?,
                None => return Err(Error::Protocol("a slot without memory".into())),
            },
            Message::Call { slot } => {
                if let Some(slot) = self.slot(slot)? {
                    slot.rung(self);
                }
            }
            Message::Raise { slot } => {
                if let Some(slot) = self.slot(slot)? {
                    slot.raise(self);
                }
            }
            Message::Fds { slot, reply } => {
                let is_open = match (slot, reply) {
                    (oneway::INBOX, false) => lock(&self.oneway_in).is_some(),
                    (_, true) => self.caller_slots.was_opened(slot),
                    (_, false) => self.slot(slot)?.is_some(),
                };
                if is_open {
                    self.keep_fds(slot, reply, fds, truncated);
                } else if reply || slot == oneway::INBOX {
                    return Err(Error::Protocol("file descriptors that nobody asked for".into()));
                }
            }
            Message::SlotRefused { slot, refusal } => {
                self.caller_slots.refused(slot, refusal);
                #[cfg(feature = "tokio")]
                outstanding::done(self, slot);
            }
            Message::Introduce { request, node } => {
                let core = self.core()?;
                let known = self.exported(node).ok_or(Refusal::Unknown);
                let sent = known.and_then(|node| core.introduction(self, node)).and_then(|(fd, token)| {
                    self.send(Message::Introduced { request, node, token }, vec![fd]).map_err(|error| {
                        drop(core.claim(&token));
                        // It has not read what it was sent, or the kernel has no room for descriptors.
                        if matches!(error, Error::PermissionDenied(_)) {
                            Refusal::TooMany
                        } else {
                            Refusal::NoRoom
                        }
                    })
                });
                if let Err(refusal) = sent {
                    self.send(Message::Refused { request, refusal }, Vec::new())?;
                }
            }
            Message::Claim { request, token } => {
                let node = self.core()?.claim_nonce(&token, self).ok_or(Refusal::NotYours);
                let exported = node.and_then(|node| {
                    let node = node.node();
                    let id = self.export(node).map_err(|_| Refusal::TooMany)?;
                    Ok((id, node.interfaces().to_bytes()))
                });
                let answer = match exported {
                    Ok((node, interfaces)) => Message::Claimed { request, node, interfaces },
                    Err(refusal) => Message::Refused { request, refusal },
                };
                self.send(answer, Vec::new())?;
            }
            Message::Introduced { request, node, token } => {
                self.answered(request, Ok(LinkAnswer { node, first: token, fd: fds.pop() }));
            }
            Message::Claimed { request, node, interfaces } => {
                self.answered(request, Ok(LinkAnswer { node, first: interfaces, fd: None }));
            }
            Message::Refused { request, refusal } => self.answered(request, Err(refusal)),
            Message::IntroductionOver { token } => self.core()?.end_referral(&token, self),
            Message::Release { node, count } => match self.receiver() {
                Some(receiver) => receiver.give_back(self, node, count)?,
                None => self.unexport(node, count),
            },
            Message::Ring => {
                if self.receiver().is_some() {
                    return Err(Error::Protocol("a second oneway queue".into()));
                }
                let region = fds.pop().ok_or_else(|| Error::Protocol("a queue without memory".into()))?;
                let len = crate::shm::oneway::REGION as u64;
                let charges = [
                    ledger::charge(self.peer, Resource::Mappings, 1)?,
                    ledger::charge(self.peer, Resource::Bytes, len)?,
                ];
                let receiver = Arc::new(oneway::Receiver::accept(region.as_fd(), charges)?);
                region.close_here();
                *lock(&self.oneway_in) = Some(receiver);
            }
            Message::Post => match self.receiver() {
                Some(receiver) => receiver.rung(self),
                None => return Err(Error::Protocol("a oneway call without a queue".into())),
            },
            // Without the feature no call of this process waits for such news.
            #[cfg(not(feature = "tokio"))]
            Message::Done { .. } => {}
            #[cfg(feature = "tokio")]
            Message::Done { slot } => outstanding::done(self, slot),
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Known { .. }
            | Message::OtherVersion(_) => {
                return Err(Error::Protocol("a second greeting".into()));
            }
        }
        Ok(())
    }

    /// Maps a slot that the peer opened, as far as its share goes.
    fn add_slot(&self, id: u32, region: PeerFd) -> Result<()> {
        {
            let slots = lock(&self.server_slots);
            if slots.len() >= MAX_SLOTS || slots.contains_key(&id) {
                return Err(Error::Protocol(format!("slot {id} is one too many")));
            }
        }
        let share = ledger::charge(self.peer, Resource::Mappings, 1)
            .and_then(|mapping| Ok([mapping, ledger::charge(self.peer, Resource::Bytes, SLOT_SIZE as u64)?]));
        let Ok(charges) = share else { return self.refuse_slot(id, Refusal::TooMany) };
        let new = match ServerSlot::accept(id, region.as_fd(), charges) {
            Ok(new) => Arc::new(new),
            // This process has no memory: no fault of the peer's.
            Err(Error::Io { .. }) => return self.refuse_slot(id, Refusal::NoRoom),
            Err(error) => return Err(error),
        };
        region.close_here();
        self.announced.fetch_max(id.saturating_add(1), Ordering::Relaxed);
        lock(&self.server_slots).insert(id, new);
        self.tell();
        Ok(())
    }

    /// Gives the memory of replies back that the peer has read, in slots that no thread is at.
    pub(crate) fn free_replies(self: &Arc<Self>) {
        let slots: Vec<_> = lock(&self.server_slots).values().cloned().collect();
        slots.iter().for_each(|slot| slot.free_idle(self));
    }

    /// Whether a call stands in a slot or in the ring of the peer; then a thread is sent for it, in case nobody rang.
    pub(super) fn is_called(self: &Arc<Self>, (slot, is_reply): (u32, bool)) -> bool {
        if is_reply {
            return false;
        }
        if slot == oneway::INBOX {
            return self.receiver().is_some_and(|receiver| {
                let is_called = receiver.has_calls();
                if is_called {
                    receiver.rung(self);
                }
                is_called
            });
        }
        let slot = lock(&self.server_slots).get(&slot).cloned();
        slot.is_some_and(|slot| {
            let is_called = slot.has_request();
            if is_called {
                slot.rung(self);
            }
            is_called
        })
    }

    /// The ring of the peer's oneway calls.
    fn receiver(&self) -> Option<Arc<oneway::Receiver>> {
        lock(&self.oneway_in).clone()
    }

    fn refuse_slot(&self, slot: u32, refusal: Refusal) -> Result<()> {
        self.announced.fetch_max(slot.saturating_add(1), Ordering::Relaxed);
        self.send(Message::SlotRefused { slot, refusal }, Vec::new())
    }

    /// The peer's slot; `None` if it was refused, which the peer may not know yet.
    fn slot(&self, id: u32) -> Result<Option<Arc<ServerSlot>>> {
        let slot = lock(&self.server_slots).get(&id).cloned();
        if slot.is_none() && id >= self.announced.load(Ordering::Relaxed) {
            return Err(Error::Protocol(format!("slot {id} was never opened")));
        }
        Ok(slot)
    }

    /// The connection is gone: tells everybody who waits on it, once.
    pub(crate) fn on_peer_death(self: &Arc<Self>) {
        if self.dead.swap(true, Ordering::AcqRel) {
            return;
        }
        self.caller_slots.on_peer_death();
        #[cfg(feature = "tokio")]
        self.outstanding.on_peer_death();
        let slots: Vec<_> = lock(&self.server_slots).drain().map(|(_, slot)| slot).collect();
        slots.iter().for_each(|slot| slot.on_peer_death());
        // Unmapped elsewhere, and counted until then.
        drop_later(self.peer.uid, slots);
        self.end_oneway_out();
        let outbox = std::mem::take(&mut *lock(&self.outbox));
        drop_later(self.peer.uid, outbox);
        // After this nobody waits for the peer, in the ring of its oneway calls neither.
        self.tell();
        // A proxy that somebody keeps does not keep the ring.
        let receiver = lock(&self.oneway_in).take();
        receiver.iter().for_each(|receiver| receiver.on_peer_death());
        let recipients = std::mem::take(&mut *lock(&self.recipients));
        for died in recipients.into_values() {
            pool::run_for(self.peer.uid, died);
        }
        // Not on the poller: there may be thousands of calls in the ring, and a service's `drop` is application code.
        // A link that leaves neither leaves no task: else those of who connects without end would wait for its threads.
        if receiver.is_some() || self.has_exports_to_end() {
            // The connection counts until then: who has all threads of its user wait has no more links than otherwise.
            let (link, socket) = (Arc::clone(self), self.socket());
            let let_go = move || {
                link.let_go(receiver);
                drop(socket);
            };
            pool::run_for(self.peer.uid, Box::new(let_go));
        } else {
            self.let_go(None);
        }
    }

    /// Whether objects may end with the link, or are too many to look.
    fn has_exports_to_end(&self) -> bool {
        const FEW: usize = 16;
        let exports = lock(&self.exports);
        exports.len() > FEW || exports.values().any(|export| Arc::strong_count(&export.node) == 1)
    }

    /// Serves what the peer had sent before its end, and lets go what it had this process keep.
    fn let_go(self: &Arc<Self>, receiver: Option<Arc<oneway::Receiver>>) {
        if let Some(receiver) = receiver {
            receiver.take_last(self);
        }
        lock(&self.inbox).clear();
        let exports = std::mem::take(&mut *lock(&self.exports));
        self.exports_version.fetch_add(1, Ordering::AcqRel);
        // Services that only this peer held end here.
        drop(exports);
    }

    /// Nothing is sent to the peer any longer. Whoever is about to send has the lock, and the application writes its call.
    fn end_oneway_out(self: &Arc<Self>) {
        match self.oneway_out.try_lock() {
            Ok(mut sender) => {
                if let Some(sender) = sender.take() {
                    // Unmapped elsewhere: the peer maps it, too, and can have that take long.
                    drop_later(self.peer.uid, sender);
                }
            }
            Err(_) => {
                let link = Arc::clone(self);
                pool::run_for(self.peer.uid, Box::new(move || drop(lock(&link.oneway_out).take())));
            }
        }
    }
}
