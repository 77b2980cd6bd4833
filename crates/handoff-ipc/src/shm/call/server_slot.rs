//! A slot on the server's side: its memory, and who attends to it. `server.rs` serves what comes in it.

use std::os::fd::BorrowedFd;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use handoff_sync::futex;
use handoff_sync::presence::Presence;
use handoff_sync::word;

use super::slot::Slot;
use crate::Result;
use crate::ledger::{Charge, FilledMemory, Resource};
use crate::object::Binder;
use crate::pool::{Recall, Worker};
use crate::stats::Tally;

/// Bytes of a request, and of a reply in each area, that are not counted: a page of them.
const FREE: u32 = 4096;

/// A slot that a peer opened, and the thread that attends to it.
pub(crate) struct ServerSlot {
    pub(super) id: u32,
    pub(super) slot: Slot,
    // Its mapping and its bytes: gone after them.
    _charges: [Charge; 2],
    pub(super) presence: Presence,
    pub(super) dead: AtomicBool,
    pub(super) recalled: AtomicBool,
    pub(super) waiting: AtomicBool,
    pub(super) served: Tally,
    // The caller's own objects that the last reply carried, until it has read it: with the next request at
    // the latest, or after a while.
    pub(super) returned: std::sync::Mutex<Vec<Binder>>,
    pub(super) has_returned: AtomicBool,
    // A large reply was written to the second area, and its memory not given back since. By the thread at the slot.
    pub(super) holds_large: AtomicBool,
    // Of each area, which has a page for nothing.
    pub(super) replies: [FilledMemory; 2],
    // Of requests, likewise.
    pub(super) requests: FilledMemory,
    // Who attends, for a raise from outside.
    pub(super) worker: std::sync::Mutex<Weak<Worker>>,
}

impl Recall for ServerSlot {
    fn may_recall(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }

    fn recall(&self) -> bool {
        // Taken, not looked at: until the thread gets a CPU, further tasks ask others. A wake for each of them would also
        // wake the caller for nothing, who may sleep on the same word by now, and who ends the link after a thousand.
        if !self.waiting.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.recalled.store(true, Ordering::Release);
        // It may be about to sleep: a wake alone would come too early for it.
        word::rouse(self.slot.word());
        futex::wake(self.slot.word());
        true
    }
}

impl ServerSlot {
    pub(crate) fn accept(id: u32, region: BorrowedFd<'_>, charges: [Charge; 2]) -> Result<Self> {
        Ok(ServerSlot {
            id,
            slot: Slot::accept(region)?,
            _charges: charges,
            presence: Presence::default(),
            dead: AtomicBool::new(false),
            recalled: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            served: Tally::default(),
            returned: std::sync::Mutex::default(),
            has_returned: AtomicBool::new(false),
            holds_large: AtomicBool::new(false),
            replies: std::array::from_fn(|_| FilledMemory::new(Resource::Replies, FREE)),
            requests: FilledMemory::new(Resource::Requests, FREE),
            worker: std::sync::Mutex::default(),
        })
    }

    /// Whether a request stands in it.
    pub(crate) fn has_request(&self) -> bool {
        word::poll_request(self.slot.word()) == word::Request::Ready
    }

    pub(crate) fn served(&self) -> u64 {
        self.served.get()
    }

    pub(crate) fn on_peer_death(&self) {
        self.dead.store(true, Ordering::Release);
        word::kill(self.slot.word());
        futex::wake(self.slot.word());
    }

    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::ledger::{self, NOBODY};

    #[test]
    fn a_thread_that_was_recalled_is_not_recalled_again_before_it_has_come() {
        let (callers, file) = Slot::create().unwrap();
        let charges =
            [Resource::Mappings, Resource::Bytes].map(|each| ledger::charge(NOBODY, each, 1).unwrap());
        let servers = ServerSlot::accept(0, file.as_fd(), charges).unwrap();
        assert!(!servers.recall(), "nobody waits there");
        callers.word().store(word::ATTENDED | word::SERVER_SLEEPS, Ordering::Release);
        servers.waiting.store(true, Ordering::SeqCst);
        assert!(servers.recall() && servers.recalled.load(Ordering::Acquire));
        assert_eq!(callers.word().load(Ordering::Acquire), word::ATTENDED, "it is roused");
        // A call comes before the thread gets a CPU, and its caller sleeps on the word.
        callers.word().store(word::REQUEST | word::CALLER_SLEEPS, Ordering::Release);
        assert!(!servers.may_recall() && !servers.recall(), "it is on its way, and nobody is woken");
    }
}
