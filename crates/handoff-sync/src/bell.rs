//! Who looks at a ring: one word between those who put records in and the thread that takes them out.
//!
//! A sender makes its record visible and rings; nothing is left to do if a thread looks, else it
//! wakes the one that sleeps, or tells the peer's poller, once, that a thread is wanted. A receiver
//! that goes away says so first and then looks once more: either it sees the record, or the sender
//! sees that nobody looks.
//!
//! A thread that serves calls says whose they are. It looks again when it has served them, and until
//! then another call to that object would have to wait in its queue all the same: such a call waits
//! in the ring, and its sender has nothing to do. A call to any other object needs a thread.
//!
//! The word lies in memory that the peer may scribble on. A wrong value costs the peer's own calls
//! a wake-up, and nobody else anything.

use crate::futex::{AtomicU32, Ordering, WakeAction, fence};

/// Nobody looks: ring.
const UNATTENDED: u32 = 0;
/// A thread looks.
const ATTENDED: u32 = 1;
/// A thread sleeps on the word.
pub const ASLEEP: u32 = 2;
/// Nobody looks, but somebody rang.
const RUNG: u32 = 3;
/// A thread serves the object whose number is this much less.
const SERVING: u32 = 4;

/// Looks at a word that changes meanwhile; each costs the sender a cache miss, and a peer that
/// scribbles must not keep it for ever.
const MOST_LOOKS: usize = 16;

/// What the word says while `node` is served. Objects with the largest numbers have no such word.
fn serving(node: u64) -> Option<u32> {
    u32::try_from(node).ok()?.checked_add(SERVING)
}

/// After a record for `node` was made visible. If it `may_wait`, it waits until the calls before it were
/// served.
#[inline]
pub fn ring(bell: &AtomicU32, node: u64, may_wait: bool) -> WakeAction {
    // The receiver sets the bell, fences and looks for records; here it is the other way round.
    fence(Ordering::SeqCst);
    for _ in 0..MOST_LOOKS {
        let said = bell.load(Ordering::Acquire);
        // Exchanged, never just set: a thread may have come, and gone to sleep, meanwhile.
        let (next, then) = match said {
            ATTENDED | RUNG => return WakeAction::Nothing,
            said if may_wait && Some(said) == serving(node) => return WakeAction::Nothing,
            ASLEEP => (ATTENDED, WakeAction::Wake),
            _ => (RUNG, WakeAction::Notify),
        };
        if bell.compare_exchange(said, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return then;
        }
    }
    WakeAction::Notify
}

/// A thread looks from now on. It looks for records after this.
#[inline]
pub fn attend(bell: &AtomicU32) {
    bell.store(ATTENDED, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// The thread is about to serve `node`. It looks for records once more before it does; calls to
/// `node` alone may wait in the ring after that.
#[inline]
pub fn serve(bell: &AtomicU32, node: u64) {
    bell.store(serving(node).unwrap_or(UNATTENDED), Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// True if the word still says that `node` is served: then every other object's call rings.
#[inline]
pub fn serves(bell: &AtomicU32, node: u64) -> bool {
    Some(bell.load(Ordering::Acquire)) == serving(node)
}

/// After the thread has let others at the ring. True if somebody rang: whoever was sent may have
/// found this thread still there, and has gone.
#[inline]
pub fn was_rung(bell: &AtomicU32) -> bool {
    // Pairs with that of `arrive`.
    fence(Ordering::SeqCst);
    bell.load(Ordering::Acquire) == RUNG
}

/// A thread that was sent to the ring is about to see whether another is there.
#[inline]
pub fn arrive() {
    fence(Ordering::SeqCst);
}

/// The thread found no record and wants to sleep on the word while it is [`ASLEEP`]. False: a sender
/// rang, look again. It looks for records once more before it sleeps.
#[inline]
pub fn may_sleep(bell: &AtomicU32) -> bool {
    let said = bell.load(Ordering::Acquire);
    let quiet = said == ATTENDED || said >= SERVING;
    let said = quiet && bell.compare_exchange(said, ASLEEP, Ordering::SeqCst, Ordering::Acquire).is_ok();
    fence(Ordering::SeqCst);
    said
}

/// True if the thread that said it sleeps was woken.
#[inline]
pub fn was_woken(bell: &AtomicU32) -> bool {
    bell.load(Ordering::Acquire) != ASLEEP
}

/// Has a thread that sleeps on the word look again: something else than a record wants it. Wake it
/// after this.
///
/// The thread looks for whatever that is after it has said that it sleeps, and sleeps only while the
/// word still says so: one of the two sees the other.
pub fn rouse(bell: &AtomicU32) {
    fence(Ordering::SeqCst);
    // Anything else it says wakes the thread anyway, or comes from a sender that did.
    let _ = bell.compare_exchange(ASLEEP, ATTENDED, Ordering::AcqRel, Ordering::Acquire);
}

/// The thread goes. It looks for records once more after this, and stays if there are any.
#[inline]
pub fn leave(bell: &AtomicU32) {
    bell.store(UNATTENDED, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_asked_for_once() {
        let bell = AtomicU32::new(0);
        assert_eq!(ring(&bell, 1, true), WakeAction::Notify);
        assert_eq!(ring(&bell, 1, true), WakeAction::Nothing, "the first to ring has asked");
        assert!(was_rung(&bell));
        attend(&bell);
        assert_eq!(ring(&bell, 1, true), WakeAction::Nothing);
        assert!(may_sleep(&bell) && !was_woken(&bell));
        assert_eq!(ring(&bell, 1, true), WakeAction::Wake);
        assert!(was_woken(&bell));
        assert_eq!(ring(&bell, 1, true), WakeAction::Nothing, "it is awake");
        assert!(may_sleep(&bell));
        rouse(&bell);
        assert!(was_woken(&bell), "it is wanted elsewhere");
        leave(&bell);
        assert_eq!(ring(&bell, 1, true), WakeAction::Notify);
        rouse(&bell);
        assert!(!may_sleep(&bell), "somebody rang meanwhile");
    }

    #[test]
    fn a_call_to_the_object_that_is_served_waits_and_no_other() {
        let bell = AtomicU32::new(0);
        serve(&bell, 7);
        assert!(serves(&bell, 7) && !serves(&bell, 8));
        assert_eq!(ring(&bell, 7, true), WakeAction::Nothing);
        assert_eq!(ring(&bell, 7, false), WakeAction::Notify, "the ring fills up");
        serve(&bell, 7);
        assert_eq!(ring(&bell, 8, true), WakeAction::Notify);
        serve(&bell, 7);
        assert!(may_sleep(&bell));
        assert_eq!(ring(&bell, 7, true), WakeAction::Wake);
    }

    #[test]
    fn the_largest_numbers_are_rung_for() {
        for node in [u64::from(u32::MAX) - 3, u64::from(u32::MAX), u64::MAX] {
            let bell = AtomicU32::new(0);
            serve(&bell, node);
            assert!(!serves(&bell, node));
            assert_eq!(ring(&bell, node, true), WakeAction::Notify, "{node}");
        }
    }

    #[test]
    fn a_scribbled_word_is_rung() {
        let bell = AtomicU32::new(0xdead_beef);
        assert_eq!(ring(&bell, 1, true), WakeAction::Notify);
    }
}

/// Every interleaving of a sender and the threads that are sent to a ring, with a count in place of records.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use crate::futex;
    use crate::stay::{self, Attendance};
    use loom::sync::Arc;
    use loom::thread;

    /// The object of the first record, and of the second.
    const NODES: [u64; 2] = [1, 2];

    struct Ring {
        bell: AtomicU32,
        written: AtomicU32,
        taken: AtomicU32,
        /// 1 while a thread is at the ring.
        there: AtomicU32,
        /// Threads that were asked for.
        wanted: AtomicU32,
    }

    fn want(ring: &Ring) {
        ring.wanted.fetch_add(1, Ordering::AcqRel);
        futex::wake(&ring.wanted);
    }

    fn send(ring: &Ring, upto: u32, node: u64) {
        ring.written.store(upto, Ordering::Release);
        match super::ring(&ring.bell, node, true) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(&ring.bell),
            WakeAction::Notify => want(ring),
        }
    }

    /// Takes out what is there. True if the first record was among it.
    fn drain(ring: &Ring) -> bool {
        let written = ring.written.load(Ordering::Acquire);
        let before = ring.taken.load(Ordering::Relaxed);
        if written != before {
            // Exchanged: a handler sleeps on it, and the model's futex knows only exchanges for sure.
            ring.taken.swap(written, Ordering::AcqRel);
            futex::wake(&ring.taken);
        }
        before == 0 && written > 0
    }

    /// One thread's stay at the ring. It ends with the second record, after which nobody would wake
    /// it, or, if it may not wait, with the first sleep that nobody interrupts. `handler` serves
    /// the first record.
    struct Stay<'a> {
        ring: &'a Ring,
        may_wait: bool,
        handler: fn(&Ring),
        took_first: bool,
    }

    impl Attendance for Stay<'_> {
        fn enter(&mut self) -> bool {
            self.ring.there.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }

        fn let_go(&mut self) {
            self.ring.there.store(0, Ordering::Release);
        }

        fn send_thread(&mut self) {
            want(self.ring);
        }

        fn expected(&self) -> Option<u64> {
            None
        }

        fn take_out(&mut self) -> Option<u64> {
            self.took_first |= drain(self.ring);
            self.took_first.then_some(NODES[0])
        }

        fn is_broken(&self) -> bool {
            false
        }

        fn give_up(&mut self) {}

        fn has_jobs(&self) -> bool {
            self.took_first
        }

        fn serve(&mut self) {
            self.took_first = false;
            (self.handler)(self.ring);
        }

        fn has_ended(&mut self) -> bool {
            let has_ended = self.ring.taken.load(Ordering::Relaxed) == 2;
            if has_ended && was_rung(&self.ring.bell) {
                want(self.ring);
            }
            has_ended
        }

        fn spin(&mut self) -> bool {
            false
        }

        fn note_idle(&mut self) {}

        fn set_waiting(&mut self, _: bool) {}

        fn has_more(&mut self) -> bool {
            self.ring.written.load(Ordering::Acquire) != self.ring.taken.load(Ordering::Relaxed)
        }

        fn is_wanted(&mut self) -> bool {
            !self.may_wait
        }

        fn sleep(&mut self) {
            futex::wait(&self.ring.bell, ASLEEP, None);
        }
    }

    fn attend_ring(ring: &Ring, may_wait: bool, handler: fn(&Ring)) {
        stay::attend(&ring.bell, &mut Stay { ring, may_wait, handler, took_first: false });
    }

    /// A pool of threads that go wherever one is asked for, until all is taken out.
    fn pool(ring: &Ring, may_wait: bool, handler: fn(&Ring)) {
        while ring.taken.load(Ordering::Acquire) != 2 {
            let wanted = ring.wanted.load(Ordering::Acquire);
            if wanted == 0 {
                futex::wait(&ring.wanted, 0, None);
            } else if ring
                .wanted
                .compare_exchange(wanted, wanted - 1, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                attend_ring(ring, may_wait, handler);
            }
        }
        // The other may wait for work that will not come.
        want(ring);
    }

    fn new() -> Arc<Ring> {
        Arc::new(Ring {
            bell: AtomicU32::new(0),
            written: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            there: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
        })
    }

    fn both_arrive(may_wait: bool, second: u64) {
        loom::model(move || {
            let ring = new();
            let receiver = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || pool(&ring, may_wait, |_| ()))
            };
            send(&ring, 1, NODES[0]);
            send(&ring, 2, second);
            receiver.join().unwrap();
        });
    }

    #[test]
    fn no_record_is_left_behind_by_a_thread_that_goes() {
        both_arrive(false, NODES[0]);
        both_arrive(false, NODES[1]);
    }

    #[test]
    fn no_record_is_left_behind_by_a_thread_that_sleeps() {
        both_arrive(true, NODES[0]);
        both_arrive(true, NODES[1]);
    }

    /// A thread at a ring that nobody sends to. It is wanted where `wanted` says so.
    struct Idle<'a>(&'a Ring);

    impl Attendance for Idle<'_> {
        fn enter(&mut self) -> bool {
            true
        }

        fn let_go(&mut self) {}

        fn send_thread(&mut self) {}

        fn expected(&self) -> Option<u64> {
            None
        }

        fn take_out(&mut self) -> Option<u64> {
            None
        }

        fn is_broken(&self) -> bool {
            false
        }

        fn give_up(&mut self) {}

        fn has_jobs(&self) -> bool {
            false
        }

        fn serve(&mut self) {}

        fn has_ended(&mut self) -> bool {
            false
        }

        fn spin(&mut self) -> bool {
            false
        }

        fn note_idle(&mut self) {}

        fn set_waiting(&mut self, _: bool) {}

        fn has_more(&mut self) -> bool {
            false
        }

        fn is_wanted(&mut self) -> bool {
            self.0.wanted.load(Ordering::Relaxed) != 0
        }

        fn sleep(&mut self) {
            futex::wait(&self.0.bell, ASLEEP, None);
        }
    }

    /// And `Recall::recall`.
    #[test]
    fn no_recall_is_lost_when_it_comes_while_the_thread_falls_asleep() {
        loom::model(|| {
            let ring = new();
            let receiver = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || stay::attend(&ring.bell, &mut Idle(&ring)))
            };
            ring.wanted.store(1, Ordering::Relaxed);
            rouse(&ring.bell);
            futex::wake(&ring.bell);
            receiver.join().unwrap();
        });
    }

    /// The first record's handler does not end before the second record was taken out, which is for
    /// another object: a thread must be sent for it.
    #[test]
    fn no_object_waits_for_another() {
        // Two threads that take turns at the ring have too many interleavings for all of them.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let ring = new();
            let handler = |ring: &Ring| {
                while ring.taken.load(Ordering::Acquire) != 2 {
                    futex::wait(&ring.taken, 1, None);
                }
            };
            let first = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || pool(&ring, false, handler))
            };
            send(&ring, 1, NODES[0]);
            send(&ring, 2, NODES[1]);
            // From here on the pool's second thread.
            pool(&ring, false, handler);
            first.join().unwrap();
        });
    }
}
