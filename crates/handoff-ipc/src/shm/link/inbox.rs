//! What came from the peer and a thread waits for: descriptors of parcels, and any other news.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::time::Instant;

use super::{Link, PATIENCE};
use crate::locked::lock;
use crate::{Error, Result};

impl Link {
    /// The descriptors that came for a slot: they were sent before its exchange.
    pub(crate) fn take_fds(&self, slot: u32, reply: bool, count: usize) -> Result<VecDeque<OwnedFd>> {
        if count == 0 {
            return Ok(VecDeque::new());
        }
        self.await_news("the file descriptors of a parcel", || {
            let mut inbox = lock(&self.inbox);
            let waiting = inbox.get_mut(&(slot, reply)).filter(|waiting| waiting.len() >= count)?;
            Some(waiting.drain(..count).collect())
        })
    }

    /// Drops descriptors of a parcel that nobody wants any longer.
    pub(crate) fn drop_fds(&self, slot: u32, reply: bool) {
        drop(lock(&self.inbox).remove(&(slot, reply)));
    }

    pub(super) fn tell(&self) {
        drop(lock(&self.news_lock));
        self.news.notify_all();
    }

    pub(super) fn await_news<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
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
                return Err(Error::Protocol(format!("the peer did not send {what} in {PATIENCE:?}")));
            }
            guard = self.news.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
