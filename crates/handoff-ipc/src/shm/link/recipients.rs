//! Who is told of the peer's end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Link;
use crate::death::DeathRegistration;
use crate::locked::lock;
use crate::{Result, pool};

impl Link {
    /// Runs `died` when the peer ends; at once if it has.
    pub(crate) fn link_to_death(
        self: &Arc<Self>,
        died: Box<dyn FnOnce() + Send>,
    ) -> Result<DeathRegistration> {
        let id = self.next_recipient.fetch_add(1, Ordering::Relaxed);
        let mut recipients = lock(&self.recipients);
        // Under the lock that `on_peer_death` takes: it runs once, whoever of the two comes first.
        if self.is_dead() {
            drop(recipients);
            pool::run_for(self.peer.uid, died);
            return Ok(DeathRegistration::new(|| ()));
        }
        recipients.insert(id, died);
        let link = Arc::downgrade(self);
        Ok(DeathRegistration::new(move || {
            if let Some(link) = link.upgrade() {
                // Without the lock: what the recipient holds may be another registration.
                let taken_back = lock(&link.recipients).remove(&id);
                drop(taken_back);
            }
        }))
    }
}
