//! What came from the peer and a thread waits for: descriptors of parcels, and any other news.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::tables::{LostDescriptors, Parcels};
use super::{Link, PEER_TIMEOUT};
use crate::disposal::PeerFd;
use crate::locked::lock;
use crate::shm::call::server_slot::ServerSlot;
use crate::shm::wire::Refusal;
use crate::{Error, Result};

/// Sweeps, a second apart, after which descriptors without a parcel are dropped.
const MOST_SWEEPS: u32 = 10;

impl Link {
    /// Keeps descriptors until the parcel is read. Those beyond the peer's share are lost, as are all of
    /// a message that the kernel could not deliver as a whole.
    pub(super) fn keep_fds(&self, slot: u32, reply: bool, mut fds: Vec<PeerFd>, truncated: bool) {
        let mut inbox = lock(&self.inbox);
        let parcels = inbox.entry((slot, reply)).or_default();
        let unwanted = parcels.unwanted.min(fds.len());
        parcels.unwanted -= unwanted;
        let wanted = fds.split_off(unwanted);
        if truncated {
            parcels.lost = Some(LostDescriptors::Refused(Refusal::NoRoom));
            // How many more there were the kernel does not say.
            parcels.dropped = usize::MAX;
        }
        for fd in wanted {
            if !fd.may_be_kept() {
                parcels.lost = Some(LostDescriptors::Refused(Refusal::TooMany));
            }
            if parcels.lost.is_none() {
                parcels.fds.push_back(fd);
            } else {
                parcels.dropped = parcels.dropped.saturating_add(1);
            }
        }
        parcels.sweeps = 0;
        let keeps = !parcels.fds.is_empty();
        drop(inbox);
        if let (true, Ok(core)) = (keeps, self.core()) {
            core.note_kept_fds();
        }
        self.tell();
    }

    /// The descriptors that came for a slot: they were sent before its exchange. They are waited for until the
    /// deadline of whoever wants them, if that is sooner than the peer's time is up.
    pub(crate) fn take_fds(
        &self,
        slot: u32,
        reply: bool,
        count: usize,
        deadline: Option<Instant>,
    ) -> Result<VecDeque<PeerFd>> {
        if count == 0 {
            return Ok(VecDeque::new());
        }
        let taken = self.await_news_until(until(deadline), "the file descriptors of a parcel", || {
            let mut inbox = lock(&self.inbox);
            let parcels = inbox.get_mut(&(slot, reply))?;
            if let Some(lost) = parcels.lost {
                drop(parcels.give_up(count));
                return Some(Err(lost.into()));
            }
            parcels.sweeps = 0;
            let came = parcels.fds.len() >= count;
            came.then(|| Ok(parcels.fds.drain(..count).collect()))
        });
        if taken.is_err() {
            self.give_up_fds(slot, reply, count);
        }
        taken?
    }

    /// A parcel with so many descriptors is wanted by nobody: those that are here are dropped, and those that come
    /// yet. Else the next parcel would be given them.
    pub(crate) fn give_up_fds(&self, slot: u32, reply: bool, count: usize) {
        if count > 0 {
            let given_up = lock(&self.inbox).entry((slot, reply)).or_default().give_up(count);
            drop(given_up);
        }
    }

    /// Drops descriptors that came long ago for a parcel that has not: a peer that sent them, the end of its own
    /// connection among them, may be gone. True if some are left to be looked at again.
    pub(crate) fn sweep_fds(self: &Arc<Self>) -> bool {
        let mut dropped = VecDeque::new();
        let mut old = Vec::new();
        let mut keeps = false;
        let mut inbox = lock(&self.inbox);
        for (key, parcels) in &mut *inbox {
            if !parcels.fds.is_empty() {
                parcels.sweeps = parcels.sweeps.saturating_add(1);
                keeps = true;
                if parcels.sweeps >= MOST_SWEEPS {
                    old.push(*key);
                }
            }
        }
        drop(inbox);
        for key in old {
            // A request that waits for a thread has them kept; one that nobody was rung for gets a thread.
            if self.is_called(key) {
                continue;
            }
            if let Some(parcels) = lock(&self.inbox).get_mut(&key) {
                parcels.dropped = parcels.dropped.saturating_add(parcels.fds.len());
                parcels.lost = Some(LostDescriptors::TooLate);
                dropped.append(&mut parcels.fds);
            }
        }
        keeps
    }

    pub(super) fn tell(&self) {
        drop(lock(&self.news_lock));
        self.news.notify_all();
    }

    pub(super) fn await_news<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> Result<T> {
        self.await_news_until(Instant::now() + PEER_TIMEOUT, what, look)
    }

    /// As [`Link::await_news`], until a time of the caller's.
    pub(super) fn await_news_until<T>(
        &self,
        end: Instant,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let mut guard = lock(&self.news_lock);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if self.is_dead() {
                return Err(Error::Dead);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Protocol(format!("the peer did not send {what} in time")));
            }
            guard = self.news.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The slot that a nested call came in; its announcement may still be on the way. It is waited for until the
    /// deadline of whoever serves it, if that is sooner than the peer's time is up.
    pub(crate) fn await_slot(&self, id: u32, deadline: Option<Instant>) -> Result<Arc<ServerSlot>> {
        let look = || lock(&self.server_slots).get(&id).cloned();
        self.await_news_until(until(deadline), "the slot of a nested call", look)
    }
}

/// When a peer's time is up, or the deadline passes.
fn until(deadline: Option<Instant>) -> Instant {
    let end = Instant::now() + PEER_TIMEOUT;
    deadline.map_or(end, |deadline| deadline.min(end))
}

impl Parcels {
    /// Gives those that are here of a parcel with so many.
    fn give_up(&mut self, count: usize) -> VecDeque<PeerFd> {
        let here = count.min(self.fds.len());
        let came =
            if self.lost.take().is_some() { self.fds.len().saturating_add(self.dropped) } else { here };
        self.unwanted += count.saturating_sub(came);
        self.dropped = 0;
        self.fds.drain(..here).collect()
    }
}
