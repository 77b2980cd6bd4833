//! Slots on the caller's side: who may use one, and how its memory goes when the peer is dead.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use handoff_sync::futex;
use handoff_sync::gate::{Gate, Occupancy};
use handoff_sync::wait_strategy::WaitStrategies;
use handoff_sync::word;

use super::slot::{Area, MAX_SLOTS, Slot};
use crate::disposal::drop_later;
use crate::ledger::Charge;
use crate::locked::lock;
use crate::shm::wire::Refusal;
use crate::stats::Tally;
use crate::{Error, Result, pool};

/// Slots of one link that no thread has, nor remembers for its next call.
type FreeSlots = Mutex<Vec<Arc<CallerSlot>>>;

/// A slot's memory, the charge for it, and that for the arguments of a call that was given up.
type SlotMemory = (Option<Slot>, Option<Charge>, Option<Charge>);

/// A slot that threads of this process take turns in.
pub(crate) struct CallerSlot {
    id: u32,
    // The peer's, for whom work is done that may wait for the peer.
    user: u32,
    class: u64,
    home: Weak<FreeSlots>,
    // Open as long as the peer lives. In it: the thread that holds the slot, during a call.
    gate: Gate,
    abandoned: AtomicBool,
    // Bytes of its arguments, if they and the reply are to be overwritten.
    secret: AtomicU32,
    // A thread gives the memory of its arguments back; nobody else takes the slot meanwhile.
    frees: AtomicBool,
    // Invariant: set to `None` under `memory`, after the gate was closed, when nobody is inside: by
    // `on_peer_death` or by the thread that was in it when it leaves. Looked at by the thread that is in
    // it, and by `on_peer_death` under `memory`.
    slot: UnsafeCell<Option<Slot>>,
    // For the mapping, and for the arguments of a call that was given up. Held as long as the memory is: threads that
    // remember the slot may keep it for longer.
    memory: Mutex<(Option<Charge>, Option<Charge>)>,
    // Invariant: touched only by the thread that is in the slot.
    strategies: UnsafeCell<WaitStrategies>,
    refusal: OnceLock<Refusal>,
    calls: Tally,
    slept: Tally,
    beside: Tally,
}

// SAFETY: `slot` and `strategies` are guarded by `gate` as written above; the rest is Sync by itself.
unsafe impl Sync for CallerSlot {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for CallerSlot {}

impl CallerSlot {
    fn new(slots: &CallerSlots, id: u32, class: u64, slot: Slot, charge: Charge) -> Self {
        CallerSlot {
            id,
            user: slots.user,
            class,
            home: Arc::downgrade(&slots.free),
            gate: Gate::default(),
            abandoned: AtomicBool::new(false),
            secret: AtomicU32::new(0),
            frees: AtomicBool::new(false),
            slot: UnsafeCell::new(Some(slot)),
            memory: Mutex::new((Some(charge), None)),
            strategies: UnsafeCell::new(WaitStrategies::new(slots.follow)),
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

    /// True if it was opened on the link of these slots, for calls of this class.
    #[inline]
    pub(crate) fn is_for(&self, slots: &CallerSlots, class: u64) -> bool {
        // The address cannot be another link's: `home` keeps it from being used again.
        self.class == class && std::ptr::eq(self.home.as_ptr(), Arc::as_ptr(&slots.free))
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.gate.is_closed()
    }

    /// A call was given up in it, and its late reply has not come.
    pub(crate) fn abandoned(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// The arguments of a call that was given up stay until then. By the thread that is in the slot.
    pub(crate) fn keep_arguments(&self, charge: Option<Charge>) {
        lock(&self.memory).1 = charge;
    }

    /// What a call that was given up carried is secret: it is overwritten once the callee is done with it, before the
    /// slot carries another one. By the thread that is in the slot.
    #[cold]
    pub(crate) fn clear_later(&self, sent: u32) {
        self.secret.store(sent.max(1), Ordering::Release);
    }

    /// True if it can carry a call. Where a late reply came to one that was given up, `discard` gives back what it
    /// brought.
    #[inline]
    pub(crate) fn is_settled(self: &Arc<Self>, discard: impl FnOnce(&Slot)) -> bool {
        !self.abandoned.load(Ordering::Acquire) || self.settle(discard, || ())
    }

    /// Whether the callee is done with a call that was given up and nothing is left of it. Large
    /// arguments are given back by a thread of the pool, which calls `settled` then: for that the kernel locks the
    /// memory's size, and whoever writes to the memory with `write` can hold that lock for as long as it likes.
    #[cold]
    pub(crate) fn settle(
        self: &Arc<Self>,
        discard: impl FnOnce(&Slot),
        settled: impl FnOnce() + Send + 'static,
    ) -> bool {
        if self.frees.load(Ordering::Acquire) {
            return false;
        }
        let Ok(mut claimed) = self.claim() else { return false };
        let slot = claimed.parts().0;
        if !word::is_free(slot.word()) {
            return false;
        }
        discard(slot);
        let secret = self.secret.swap(0, Ordering::AcqRel);
        if secret == 0 && lock(&self.memory).1.is_none() {
            self.abandoned.store(false, Ordering::Release);
            return true;
        }
        self.frees.store(true, Ordering::Release);
        drop(claimed);
        let slot = Arc::clone(self);
        let free = move || {
            let charge = lock(&slot.memory).1.take();
            if let Ok(mut claimed) = slot.claim() {
                let memory = claimed.parts().0;
                if secret > 0 {
                    memory.clear_call(secret);
                }
                if charge.is_some() {
                    memory.free_payload(Area::A);
                }
            }
            drop(charge);
            slot.abandoned.store(false, Ordering::Release);
            slot.frees.store(false, Ordering::Release);
            settled();
        };
        pool::run_for(self.user, Box::new(free));
        false
    }

    /// Takes the slot for one call. The thread is the only one that holds the slot: it has it from
    /// the link or from its own cache.
    #[inline]
    pub(crate) fn claim(&self) -> Result<SlotClaim<'_>> {
        // Made before it is known whether it was let in: leaving is the same either way.
        let claimed = SlotClaim { owner: self };
        if self.gate.enter() { Ok(claimed) } else { Err(Error::Dead) }
    }

    /// Back to the link, for another thread.
    pub(crate) fn give_back(self: Arc<Self>) {
        if let Some(home) = self.home.upgrade().filter(|_| !self.is_dead()) {
            lock(&home).push(self);
        }
    }

    /// The peer is gone: wakes whoever waits in the slot, or gives its memory, which is not unmapped here. For that the
    /// kernel locks the memory, and whoever maps it elsewhere can hold that lock for long.
    #[must_use]
    fn on_peer_death(&self) -> Option<SlotMemory> {
        let mut charges = lock(&self.memory);
        match self.gate.close() {
            Occupancy::Empty => Some(self.take_memory(&mut charges)),
            Occupancy::Inside => {
                // SAFETY: the thread that is in the slot frees it only under the lock that is
                // held, and nobody else writes to the cell.
                if let Some(slot) = unsafe { &*self.slot.get() } {
                    word::kill(slot.word());
                    futex::wake(slot.word());
                }
                None
            }
        }
    }

    /// Ends it, as the peer is gone.
    pub(crate) fn end(&self) {
        if let Some(memory) = self.on_peer_death() {
            drop_later(self.user, memory);
        }
    }

    /// The peer has no room for it: as if the peer were gone, for this slot.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        let _ = self.refusal.set(refusal);
        self.end();
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
        let memory = self.take_memory(&mut lock(&self.memory));
        drop_later(self.user, memory);
    }

    /// Under `memory`, by the one that the invariant of `slot` names.
    fn take_memory(&self, charges: &mut (Option<Charge>, Option<Charge>)) -> SlotMemory {
        // SAFETY: by that invariant nobody else looks at the cell now or later.
        let slot = unsafe { (*self.slot.get()).take() };
        // They go after the memory.
        (slot, charges.0.take(), charges.1.take())
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

/// The slots that this process opened on one link.
pub(crate) struct CallerSlots {
    // The peer's.
    user: u32,
    // Callers look for the best way to wait.
    follow: bool,
    all: Mutex<Vec<Arc<CallerSlot>>>,
    free: Arc<FreeSlots>,
    next: AtomicU32,
}

impl CallerSlots {
    pub(crate) fn new(user: u32, follow: bool) -> Self {
        CallerSlots { user, follow, all: Mutex::default(), free: Arc::default(), next: AtomicU32::new(0) }
    }

    /// A slot that is free and fits.
    pub(crate) fn take_free(&self, fits: impl Fn(&Arc<CallerSlot>) -> bool) -> Option<Arc<CallerSlot>> {
        let mut free = lock(&self.free);
        let at = free.iter().position(fits)?;
        Some(free.swap_remove(at))
    }

    /// One more, which the peer does not know yet.
    ///
    /// # Errors
    /// If there are as many as the peer takes: most of them wait for its answers to calls that were given up.
    pub(crate) fn add(&self, class: u64, slot: Slot, charge: Charge) -> Result<Arc<CallerSlot>> {
        let mut all = lock(&self.all);
        if all.len() >= MAX_SLOTS {
            let many = "calls that the peer has not answered, also after their deadlines, hold all slots of the link";
            return Err(Error::PermissionDenied(many.into()));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let new = Arc::new(CallerSlot::new(self, id, class, slot, charge));
        all.push(Arc::clone(&new));
        Ok(new)
    }

    /// One that the peer could not be told of.
    pub(crate) fn remove(&self, slot: &Arc<CallerSlot>) {
        lock(&self.all).retain(|known| !Arc::ptr_eq(known, slot));
    }

    /// For tests: the one that was opened first.
    #[cfg(test)]
    pub(super) fn first(&self) -> Option<Arc<CallerSlot>> {
        lock(&self.all).first().cloned()
    }

    /// Whether this process opened a slot of that number.
    pub(crate) fn was_opened(&self, id: u32) -> bool {
        id < self.next.load(Ordering::Relaxed)
    }

    /// The peer has no room for a slot: whoever calls in it is told why.
    pub(crate) fn refused(&self, id: u32, refusal: Refusal) {
        lock(&self.free).retain(|slot| slot.id() != id);
        let mut all = lock(&self.all);
        let slot = all.iter().position(|slot| slot.id() == id).map(|at| all.swap_remove(at));
        drop(all);
        if let Some(slot) = slot {
            slot.refuse(refusal);
        }
    }

    pub(crate) fn on_peer_death(&self) {
        lock(&self.free).clear();
        let all = std::mem::take(&mut *lock(&self.all));
        let memory: Vec<_> = all.iter().filter_map(|slot| slot.on_peer_death()).collect();
        if !memory.is_empty() {
            drop_later(self.user, memory);
        }
    }

    pub(crate) fn tallies(&self) -> [u64; 4] {
        lock(&self.all).iter().fold([0; 4], |mut sum, slot| {
            for (sum, part) in sum.iter_mut().zip(slot.tallies()) {
                *sum += part;
            }
            sum
        })
    }
}

/// The right to use a slot.
pub(crate) struct SlotClaim<'a> {
    owner: &'a CallerSlot,
}

impl SlotClaim<'_> {
    /// The slot, and what its callers learned.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Slot, &mut WaitStrategies) {
        // SAFETY: this thread is in the slot, so its memory stays and `strategies` is its own.
        match unsafe { (&*self.owner.slot.get(), &mut *self.owner.strategies.get()) } {
            (Some(slot), strategies) => (slot, strategies),
            (None, _) => unreachable!("the memory goes only after the last thread left"),
        }
    }
}

impl Drop for SlotClaim<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owner.gate.leave() {
            self.owner.clean_up();
        }
    }
}
