//! A slot on the server's side: its memory, and who attends to it. `server.rs` serves what comes in it.

use std::os::fd::BorrowedFd;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use super::presence::Presence;
use super::slot::Slot;
use super::word;
use crate::Result;
use crate::identity::CallingIdentity;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::object::Binder;
use crate::pool::{Recall, Worker};
use crate::shm::sync;
use crate::stats::Tally;

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
    // Of each area.
    pub(super) replies: [ReplyMemory; 2],
    // Who attends, for a raise from outside.
    pub(super) worker: std::sync::Mutex<Weak<Worker>>,
}

/// Memory of an area that replies have filled, as the ledger has it. Only the thread at the slot counts.
#[derive(Default)]
pub(crate) struct ReplyMemory {
    // Beyond a page.
    bytes: AtomicU32,
    charges: std::sync::Mutex<Vec<Charge>>,
}

/// What each area has for nothing.
const FREE_BYTES: u32 = 4096;

impl ReplyMemory {
    /// Whether a reply of that length needs no more than is counted.
    #[inline]
    pub(crate) fn covers(&self, len: u32) -> bool {
        len <= FREE_BYTES + self.bytes.load(Ordering::Relaxed)
    }

    /// Counts as much as a reply of that length needs. `make_room` runs if the peer's share is used up.
    pub(crate) fn count(&self, peer: CallingIdentity, len: u32, make_room: impl FnOnce()) -> Result<()> {
        let (needed, counted) = (len.next_power_of_two() - FREE_BYTES, self.bytes.load(Ordering::Relaxed));
        let more = u64::from(needed.saturating_sub(counted));
        let charge = ledger::charge_again(peer, Resource::Replies, more, make_room)?;
        lock(&self.charges).push(charge);
        self.bytes.store(needed, Ordering::Relaxed);
        Ok(())
    }

    /// The memory was given back.
    pub(crate) fn uncount(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        lock(&self.charges).clear();
    }
}

impl Recall for ServerSlot {
    fn may_recall(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }

    fn recall(&self) -> bool {
        if !self.may_recall() {
            return false;
        }
        self.recalled.store(true, Ordering::Release);
        // It may be about to sleep: a wake alone would come too early for it.
        word::rouse(self.slot.word());
        sync::wake(self.slot.word());
        true
    }
}

impl ServerSlot {
    pub(crate) fn accept(id: u32, region: BorrowedFd<'_>, charges: [Charge; 2]) -> Result<Self> {
        Ok(ServerSlot {
            id,
            slot: Slot::accept(region)?,
            _charges: charges,
            presence: Presence::new(),
            dead: AtomicBool::new(false),
            recalled: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            served: Tally::default(),
            returned: std::sync::Mutex::default(),
            has_returned: AtomicBool::new(false),
            holds_large: AtomicBool::new(false),
            replies: std::array::from_fn(|_| ReplyMemory::default()),
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
        sync::wake(self.slot.word());
    }

    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}
