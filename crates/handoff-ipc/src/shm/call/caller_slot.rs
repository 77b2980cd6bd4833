//! One slot on the caller's side: who may use it, and how its memory goes when the peer is dead.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::follow::Follow;
use super::gate::{Closed, Gate};
use super::slot::Slot;
use super::{client, word};
use crate::shm::link::Link;
use crate::shm::sync;
use crate::shm::wire::Refusal;
use crate::stats::Tally;
use crate::{Error, Result};

/// A slot that threads of this process take turns in.
pub(crate) struct CallerSlot {
    id: u32,
    class: u64,
    link_id: u64,
    link: Weak<Link>,
    // Open as long as the peer lives. In it: the thread that holds the slot, during a call.
    gate: Gate,
    abandoned: AtomicBool,
    // Invariant: set to `None` under `memory`, after the gate was closed, when nobody is inside: by
    // the burial or by the thread that was in it when it leaves. Looked at by the thread that is in
    // it, and by the burial under `memory`.
    slot: UnsafeCell<Option<Slot>>,
    memory: Mutex<()>,
    // Invariant: touched only by the thread that is in the slot.
    follow: UnsafeCell<Follow>,
    refusal: OnceLock<Refusal>,
    calls: Tally,
    slept: Tally,
    beside: Tally,
}

// SAFETY: `slot` and `follow` are guarded by `gate` as written above; the rest is Sync by itself.
unsafe impl Sync for CallerSlot {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for CallerSlot {}

impl CallerSlot {
    pub(crate) fn new(link: &Arc<Link>, id: u32, class: u64, slot: Slot) -> Self {
        CallerSlot {
            id,
            class,
            link_id: link.id,
            link: Arc::downgrade(link),
            gate: Gate::new(),
            abandoned: AtomicBool::new(false),
            slot: UnsafeCell::new(Some(slot)),
            memory: Mutex::new(()),
            follow: UnsafeCell::new(Follow::new()),
            refusal: OnceLock::new(),
            calls: Tally::default(),
            slept: Tally::default(),
            beside: Tally::default(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Which calls it is for: the caller's priority, and whether they are nested.
    pub(crate) fn class(&self) -> u64 {
        self.class
    }

    #[inline]
    pub(crate) fn is_for(&self, link: &Arc<Link>, class: u64) -> bool {
        // The address, too: numbers are those of one engine, and tests run several.
        self.class == class && self.link_id == link.id && std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.gate.is_closed()
    }

    /// A call was given up in it, and its late reply has not come.
    pub(crate) fn abandoned(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// True if it can carry a call.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.abandoned.load(Ordering::Acquire) || self.settle()
    }

    #[cold]
    fn settle(&self) -> bool {
        let Ok(mut claimed) = self.claim() else { return false };
        let slot = claimed.parts().0;
        let free = word::is_free(slot.word());
        if free {
            if let Some(link) = self.link.upgrade() {
                client::discard_reply(&link, self.id, slot, false);
            }
            self.abandoned.store(false, Ordering::Release);
        }
        free
    }

    /// Takes the slot for one call. The thread is the only one that holds the slot: it has it from
    /// the link or from its own cache.
    #[inline]
    pub(crate) fn claim(&self) -> Result<Claimed<'_>> {
        // Made before it is known whether it was let in: leaving is the same either way.
        let claimed = Claimed { owner: self };
        if self.gate.enter() { Ok(claimed) } else { Err(Error::Dead) }
    }

    /// Back to the link, for another thread.
    pub(crate) fn give_back(self: Arc<Self>) {
        if let Some(link) = self.link.upgrade().filter(|_| !self.is_dead()) {
            link.caller_slots.put(self);
        }
    }

    /// The peer is gone: wakes whoever waits in the slot, or frees its memory.
    pub(crate) fn bury(&self) {
        let guard = self.memory.lock();
        match self.gate.close() {
            Closed::Empty => self.free(),
            Closed::Inside => {
                // SAFETY: the thread that is in the slot frees it only under the lock that is
                // held, and nobody else writes to the cell.
                if let Some(slot) = unsafe { &*self.slot.get() } {
                    word::kill(slot.word());
                    sync::wake(slot.word());
                }
            }
        }
        drop(guard);
    }

    /// The peer has no room for it: as if the peer were gone, for this slot.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        let _ = self.refusal.set(refusal);
        self.bury();
    }

    /// What a call in a dead slot failed of.
    #[cold]
    pub(crate) fn why_dead(&self, error: Error) -> Error {
        match (error, self.refusal.get()) {
            (Error::Dead, Some(refusal)) => (*refusal).into(),
            (error, _) => error,
        }
    }

    #[cold]
    fn clean_up(&self) {
        let guard = self.memory.lock();
        self.free();
        drop(guard);
    }

    /// Under `memory`, by the one that the invariant of `slot` names.
    fn free(&self) {
        // SAFETY: by that invariant nobody else looks at the cell now or later.
        unsafe { *self.slot.get() = None };
    }

    #[inline]
    pub(crate) fn count(&self, slept: bool, beside: bool) {
        self.calls.add();
        if slept {
            self.slept.add();
        }
        if beside {
            self.beside.add();
        }
    }

    /// Made, caught without sleeping, slept for, asked beside.
    pub(crate) fn tallies(&self) -> [u64; 4] {
        let (calls, slept) = (self.calls.get(), self.slept.get());
        [calls, calls.saturating_sub(slept), slept, self.beside.get()]
    }
}

/// The right to use a slot.
pub(crate) struct Claimed<'a> {
    owner: &'a CallerSlot,
}

impl Claimed<'_> {
    /// The slot, and what its callers learned.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Slot, &mut Follow) {
        // SAFETY: this thread is in the slot, so its memory stays and `follow` is its own.
        match unsafe { (&*self.owner.slot.get(), &mut *self.owner.follow.get()) } {
            (Some(slot), follow) => (slot, follow),
            (None, _) => unreachable!("the memory goes only after the last thread left"),
        }
    }
}

impl Drop for Claimed<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owner.gate.leave() {
            self.owner.clean_up();
        }
    }
}
