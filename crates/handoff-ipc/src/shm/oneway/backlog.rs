//! What a link's oneway calls take of this process before they are served, and when their sender gets
//! their place in the ring back.
//!
//! A call that was taken out of the ring waits in its object's queue. Its place is free for the next
//! one as soon as it was copied out, as long as few calls wait. Beyond that the place stays taken
//! until the call was served: the ring fills, and the sender is told so. No call that it was allowed
//! to send is lost, a slow object keeps no call from another one, and a peer gets no more memory here
//! than the limits below and a ring for each link, and its share of what all have: one that needs more, or that writes to
//! places that it was not given back, is hung up on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;
use crate::identity::CallingIdentity;
use crate::ledger::{FilledMemory, Resource};
use crate::locked::lock;
use crate::object::ONEWAY_LIMIT;

/// Calls of a link that wait without taking place in its ring.
const CALLS: usize = ONEWAY_LIMIT;
/// Bytes of theirs.
const BYTES: usize = 8 << 20;
/// What a call takes here beside what stands in its record, about.
const EACH: usize = 512;
/// Bytes that the ledger does not count.
const FREE: u32 = 64 << 10;

/// The calls of one link that were taken out of the ring and are not served yet.
#[derive(Debug)]
pub(super) struct Backlog {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    memory: FilledMemory,
    kept: Mutex<UnreleasedRecords>,
}

/// Places in the ring that are not given back.
#[derive(Debug, Default)]
struct UnreleasedRecords {
    /// In the order of the ring: where each begins, and whether its call is over.
    places: VecDeque<(u32, bool)>,
    /// How many there were before the first of `places`.
    gone: u64,
    /// Up to here everything was taken out of the ring.
    upto: u32,
}

impl UnreleasedRecords {
    /// How much of the ring is free again.
    fn taken(&self) -> u32 {
        self.places.front().map_or(self.upto, |(begin, _)| *begin)
    }
}

/// What a call counts for until it is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission {
    bytes: usize,
    /// The number of its place among those that were kept.
    kept: Option<u64>,
}

impl Default for Backlog {
    fn default() -> Self {
        Backlog {
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            memory: FilledMemory::new(Resource::Oneway, FREE),
            kept: Mutex::default(),
        }
    }
}

impl Backlog {
    /// Whether the share of `peer` has room for one more call with a record of so many bytes. By the one thread that takes
    /// calls out.
    pub(super) fn has_room(&self, peer: CallingIdentity, bytes: usize) -> Result<()> {
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        let all = (self.bytes.load(Ordering::Relaxed) + bytes + calls * EACH) as u32;
        if self.memory.covers(all) { Ok(()) } else { self.memory.count(peer, all, || ()) }
    }

    /// A call of so many bytes was taken out of the ring, where it began and ended. `told` is given how
    /// much of the ring is free again, and `keeps` remembers from one call to the next whether any
    /// place is kept: it belongs to the one thread that takes calls out.
    pub(super) fn admit(
        &self,
        (begin, end): (u32, u32),
        bytes: usize,
        keeps: &mut bool,
        told: impl FnOnce(u32),
    ) -> Admission {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if calls <= CALLS && all <= BYTES {
            self.pass(end, keeps, told);
            return Admission { bytes, kept: None };
        }
        *keeps = true;
        let mut kept = lock(&self.kept);
        kept.places.push_back((begin, false));
        kept.upto = end;
        told(kept.taken());
        Admission { bytes, kept: Some(kept.gone + kept.places.len() as u64 - 1) }
    }

    /// Whether a sender that has written up to `end` has kept to a ring of `size` bytes. `end` was read
    /// before: what is free grows only, so an honest one is never too far.
    pub(super) fn allows(&self, end: u32, size: usize, keeps: bool) -> bool {
        !keeps || end.wrapping_sub(lock(&self.kept).taken()) as usize <= size
    }

    /// Everything up to `end` was taken out of the ring.
    pub(super) fn pass(&self, end: u32, keeps: &mut bool, told: impl FnOnce(u32)) {
        if *keeps {
            let mut kept = lock(&self.kept);
            kept.upto = end;
            *keeps = !kept.places.is_empty();
            // Under the lock, as by those whose calls are over: it never goes back.
            told(kept.taken());
        } else {
            told(end);
        }
    }

    pub(super) fn over(&self, call: Admission, told: impl FnOnce(u32)) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
        let left = self.bytes.fetch_sub(call.bytes, Ordering::Relaxed) - call.bytes;
        if left == 0 && self.memory.is_counted() {
            self.memory.uncount();
        }
        let Some(number) = call.kept else { return };
        let mut kept = lock(&self.kept);
        let at = (number - kept.gone) as usize;
        kept.places[at].1 = true;
        while kept.places.front().is_some_and(|(_, over)| *over) {
            kept.places.pop_front();
            kept.gone += 1;
        }
        told(kept.taken());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A receiver whose calls have 64 bytes each.
    struct Taking {
        backlog: Backlog,
        at: u32,
        keeps: bool,
        taken: Cell<u32>,
    }

    impl Taking {
        fn from(at: u32) -> Self {
            Taking { backlog: Backlog::default(), at, keeps: false, taken: Cell::new(at) }
        }

        fn take(&mut self, bytes: usize) -> Admission {
            let begin = self.at;
            self.at = begin.wrapping_add(64);
            let told = |at| self.taken.set(at);
            self.backlog.admit((begin, self.at), bytes, &mut self.keeps, told)
        }

        fn over(&self, call: Admission) {
            self.backlog.over(call, |at| self.taken.set(at));
        }
    }

    #[test]
    fn a_place_is_free_at_once_until_too_many_wait() {
        let mut ring = Taking::from(0);
        let calls: Vec<_> = (0..CALLS).map(|_| ring.take(8)).collect();
        assert_eq!((ring.taken.get(), ring.keeps), (ring.at, false));
        let edge = ring.at;
        let more: Vec<_> = (0..10).map(|_| ring.take(8)).collect();
        assert_eq!((ring.taken.get(), ring.keeps), (edge, true));
        // Those before made no use of the ring, so that they are over changes nothing in it.
        calls.into_iter().for_each(|call| ring.over(call));
        assert_eq!(ring.taken.get(), edge);
        more.into_iter().for_each(|call| ring.over(call));
        assert_eq!(ring.taken.get(), ring.at, "all of it is free again");
        ring.take(8);
        assert!(!ring.keeps, "and nobody asks for the lock");
    }

    #[test]
    fn places_are_given_back_in_the_order_of_the_ring() {
        // Where the count of bytes begins anew.
        let mut ring = Taking::from(u32::MAX - 63);
        let large = ring.take(BYTES);
        let edge = ring.at;
        let [first, second, third] = std::array::from_fn(|_| ring.take(8));
        ring.over(second);
        assert_eq!(ring.taken.get(), edge, "the first still waits");
        ring.over(first);
        assert_eq!(ring.taken.get(), edge.wrapping_add(128));
        // Little waits now, but what is behind a place that is kept cannot be free before it.
        ring.over(large);
        let last = ring.take(8);
        assert_eq!(ring.taken.get(), edge.wrapping_add(128));
        ring.over(third);
        assert_eq!(ring.taken.get(), ring.at);
        ring.over(last);
        assert_eq!(ring.taken.get(), ring.at);
    }

    #[test]
    fn a_sender_that_writes_to_places_that_are_kept_is_found_out() {
        let mut ring = Taking::from(u32::MAX - 127);
        let large = ring.take(BYTES);
        let kept = ring.take(8);
        let begin = ring.taken.get();
        let allows = |ring: &Taking, end: u32| ring.backlog.allows(begin.wrapping_add(end), 1024, ring.keeps);
        assert!(allows(&ring, 1024));
        assert!(!allows(&ring, 1024 + 32), "its own place is not free yet");
        ring.over(large);
        assert!(!allows(&ring, 1024 + 32));
        ring.over(kept);
        assert!(allows(&ring, 1024 + 32) && !allows(&ring, 1024 + 96), "as far as was given back");
    }

    #[test]
    fn what_only_fills_the_ring_is_free_with_what_is_before_it() {
        let mut ring = Taking::from(0);
        let large = ring.take(BYTES + 1);
        assert_eq!(ring.taken.get(), 0, "one that is too large for the rest is kept, too");
        ring.backlog.pass(1 << 20, &mut ring.keeps, |at| ring.taken.set(at));
        assert_eq!(ring.taken.get(), 0);
        ring.over(large);
        assert_eq!(ring.taken.get(), 1 << 20);
    }
}
