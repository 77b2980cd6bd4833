//! What came from the peer and a thread waits for: descriptors of parcels, and any other news.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::{Link, PEER_TIMEOUT};
use crate::disposal::PeerFd;
use crate::locked::lock;
use crate::shm::call::server_slot::ServerSlot;
use crate::shm::wire::Refusal;
use crate::{Error, Result};

impl Link {
    /// Keeps descriptors until the parcel is read. Those beyond the peer's share are lost, as are all of
    /// a message that the kernel could not deliver as a whole.
    pub(super) fn keep_fds(&self, slot: u32, reply: bool, fds: Vec<PeerFd>, truncated: bool) {
        let mut inbox = lock(&self.inbox);
        let parcels = inbox.entry((slot, reply)).or_default();
        if truncated {
            parcels.lost = Some(Refusal::NoRoom);
        }
        for fd in fds {
            if !fd.may_be_kept() {
                parcels.lost = Some(Refusal::TooMany);
            } else if parcels.lost.is_none() {
                parcels.fds.push_back(fd);
            }
        }
        drop(inbox);
        self.tell();
    }

    /// The descriptors that came for a slot: they were sent before its exchange.
    pub(crate) fn take_fds(&self, slot: u32, reply: bool, count: usize) -> Result<VecDeque<PeerFd>> {
        if count == 0 {
            return Ok(VecDeque::new());
        }
        self.await_news("the file descriptors of a parcel", || {
            let mut inbox = lock(&self.inbox);
            let parcels = inbox.get_mut(&(slot, reply))?;
            if let Some(refusal) = parcels.lost {
                inbox.remove(&(slot, reply));
                return Some(Err(refusal.into()));
            }
            let came = parcels.fds.len() >= count;
            came.then(|| Ok(parcels.fds.drain(..count).collect()))
        })?
    }

    /// Drops descriptors of a parcel that nobody wants any longer.
    pub(crate) fn drop_fds(&self, slot: u32, reply: bool) {
        let dropped = lock(&self.inbox).remove(&(slot, reply));
        drop(dropped);
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
        let end = Instant::now() + PEER_TIMEOUT;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        let look = || lock(&self.server_slots).get(&id).cloned();
        self.await_news_until(end, "the slot of a nested call", look)
    }
}
