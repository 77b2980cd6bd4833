//! What a link knows of the calls that no thread waits for (`outstanding.rs` makes them).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::caller_slot::CallerSlot;
use crate::locked::lock;

/// Calls that may be outstanding on one link; further ones wait for their turn. A peer takes twice as
/// many slots, threads of this process have some, too.
const MOST: usize = 512;

/// The calls on one link.
pub(crate) struct OutstandingCalls {
    pub(super) turns: Arc<Semaphore>,
    pub(super) calls: Mutex<Calls>,
}

impl Default for OutstandingCalls {
    fn default() -> Self {
        OutstandingCalls { turns: Arc::new(Semaphore::new(MOST)), calls: Mutex::default() }
    }
}

#[derive(Default)]
pub(super) struct Calls {
    pub(super) by_slot: HashMap<u32, Fate>,
    pub(super) free: Vec<Arc<CallerSlot>>,
}

/// Who cares for what comes in a slot.
pub(super) enum Fate {
    /// A task.
    Awaited(Waker),
    /// Nobody: the slot is free again when the server is done with it.
    GivenUp(Arc<CallerSlot>, OwnedSemaphorePermit),
}

impl OutstandingCalls {
    /// The peer says that a reply stands in a slot. On the poller's thread, as a rule.
    ///
    /// `is_free` looks whether the server is done with a request that was given up.
    pub(crate) fn done(&self, slot: u32, is_free: impl FnOnce(&Arc<CallerSlot>) -> bool) {
        let mut calls = lock(&self.calls);
        let waker = match calls.by_slot.get(&slot) {
            Some(Fate::Awaited(waker)) => Some(waker.clone()),
            // News of an earlier call may come late, or a peer may lie: the word tells.
            Some(Fate::GivenUp(shared, _)) if is_free(shared) => {
                if let Some(Fate::GivenUp(shared, turn)) = calls.by_slot.remove(&slot) {
                    calls.free.push(shared);
                    drop(calls);
                    drop(turn);
                }
                return;
            }
            _ => None,
        };
        drop(calls);
        // A waker is code of the application's executor: never under a lock.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The peer is gone.
    pub(crate) fn on_peer_death(&self) {
        self.turns.close();
        let calls = std::mem::take(&mut *lock(&self.calls));
        for fate in calls.by_slot.into_values() {
            if let Fate::Awaited(waker) = fate {
                waker.wake();
            }
        }
    }
}
