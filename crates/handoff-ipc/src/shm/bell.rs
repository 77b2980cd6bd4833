//! Who looks at a ring: one word between those who put records in and the thread that takes them out.
//!
//! A sender makes its record visible and rings; nothing is left to do if a thread looks, else it
//! wakes the one that sleeps, or tells the peer's poller, once, that a thread is wanted. A receiver
//! that goes away says so first and then looks once more: either it sees the record, or the sender
//! sees that nobody looks.
//!
//! The word lies in memory that the peer may scribble on. A wrong value costs the peer's own calls
//! a wake-up, and nobody else anything.

use super::sync::{AtomicU32, Ordering, fence};

/// Nobody looks: ring.
const UNATTENDED: u32 = 0;
/// A thread looks.
const ATTENDED: u32 = 1;
/// A thread sleeps on the word.
pub(crate) const ASLEEP: u32 = 2;
/// Nobody looks, but somebody rang.
const RUNG: u32 = 3;

/// What a sender has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rang {
    /// Nothing: a thread looks, or will.
    Heard,
    /// Wake the thread that sleeps on the word.
    Wake,
    /// Tell the receiving process that a thread is wanted.
    Tell,
}

/// After a record was made visible.
#[inline]
pub(crate) fn ring(bell: &AtomicU32) -> Rang {
    // The receiver sets the bell, fences and looks for records; here it is the other way round.
    fence(Ordering::SeqCst);
    match bell.load(Ordering::Acquire) {
        ATTENDED | RUNG => Rang::Heard,
        ASLEEP => match bell.compare_exchange(ASLEEP, ATTENDED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Rang::Wake,
            // Another sender woke it, or it woke by itself: then it looks once more before it leaves.
            Err(_) => Rang::Heard,
        },
        _ => call_back(bell),
    }
}

/// The receiver left records behind.
#[inline]
pub(crate) fn call_back(bell: &AtomicU32) -> Rang {
    if bell.swap(RUNG, Ordering::AcqRel) == RUNG { Rang::Heard } else { Rang::Tell }
}

/// A thread looks from now on. It looks for records after this.
#[inline]
pub(crate) fn attend(bell: &AtomicU32) {
    bell.store(ATTENDED, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// The thread found no record and wants to sleep on the word while it is [`ASLEEP`]. False: a sender
/// rang, look again. It looks for records once more before it sleeps.
#[inline]
pub(crate) fn may_sleep(bell: &AtomicU32) -> bool {
    let said = bell.compare_exchange(ATTENDED, ASLEEP, Ordering::SeqCst, Ordering::Acquire).is_ok();
    fence(Ordering::SeqCst);
    said
}

/// True if the thread that said it sleeps was woken.
#[inline]
pub(crate) fn was_woken(bell: &AtomicU32) -> bool {
    bell.load(Ordering::Acquire) != ASLEEP
}

/// The thread goes. It looks for records once more after this, and stays or calls one back if there
/// are any.
#[inline]
pub(crate) fn leave(bell: &AtomicU32) {
    bell.store(UNATTENDED, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_asked_for_once() {
        let bell = AtomicU32::new(0);
        assert_eq!(ring(&bell), Rang::Tell);
        assert_eq!(ring(&bell), Rang::Heard, "the first to ring has asked");
        attend(&bell);
        assert_eq!(ring(&bell), Rang::Heard);
        assert!(may_sleep(&bell) && !was_woken(&bell));
        assert_eq!(ring(&bell), Rang::Wake);
        assert!(was_woken(&bell));
        assert_eq!(ring(&bell), Rang::Heard, "it is awake");
        leave(&bell);
        assert_eq!(ring(&bell), Rang::Tell);
        assert!(!may_sleep(&bell), "somebody rang meanwhile");
    }

    #[test]
    fn a_scribbled_word_is_rung() {
        let bell = AtomicU32::new(0xdead_beef);
        assert_eq!(ring(&bell), Rang::Tell);
    }
}

/// Every interleaving of a sender and the threads that are sent to a ring. `serve` below is what
/// `Receiver::attend` does, with a count in place of records.
#[cfg(all(test, loom))]
mod loom_model {
    use super::super::sync;
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Ring {
        bell: AtomicU32,
        written: AtomicU32,
        taken: AtomicU32,
        /// Threads that were asked for.
        wanted: AtomicU32,
    }

    fn send(ring: &Ring, upto: u32) {
        ring.written.store(upto, Ordering::Release);
        match super::ring(&ring.bell) {
            Rang::Heard => {}
            Rang::Wake => sync::wake(&ring.bell),
            Rang::Tell => {
                ring.wanted.fetch_add(1, Ordering::AcqRel);
                sync::wake(&ring.wanted);
            }
        }
    }

    fn drain(ring: &Ring) {
        ring.taken.store(ring.written.load(Ordering::Acquire), Ordering::Release);
    }

    /// One thread's stay at the ring. It ends with the second record, after which nobody would wake
    /// it, or, if it is not patient, with the first sleep that nobody interrupts.
    fn serve(ring: &Ring, patient: bool) {
        loop {
            attend(&ring.bell);
            drain(ring);
            if patient && ring.taken.load(Ordering::Relaxed) == 2 {
                return;
            }
            if !may_sleep(&ring.bell) {
                continue;
            }
            let empty = ring.written.load(Ordering::Acquire) == ring.taken.load(Ordering::Relaxed);
            if empty && patient {
                sync::wait(&ring.bell, ASLEEP, None);
            }
            if was_woken(&ring.bell) || !empty {
                continue;
            }
            leave(&ring.bell);
            if ring.written.load(Ordering::Acquire) == ring.taken.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn both_arrive(patient: bool) {
        loom::model(move || {
            let ring = Arc::new(Ring {
                bell: AtomicU32::new(0),
                written: AtomicU32::new(0),
                taken: AtomicU32::new(0),
                wanted: AtomicU32::new(0),
            });
            let receiver = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    while ring.taken.load(Ordering::Relaxed) != 2 {
                        if ring.wanted.swap(0, Ordering::AcqRel) == 0 {
                            sync::wait(&ring.wanted, 0, None);
                        } else {
                            serve(&ring, patient);
                        }
                    }
                })
            };
            send(&ring, 1);
            send(&ring, 2);
            receiver.join().unwrap();
        });
    }

    #[test]
    fn no_record_is_left_behind_by_a_thread_that_goes() {
        both_arrive(false);
    }

    #[test]
    fn no_record_is_left_behind_by_a_thread_that_sleeps() {
        both_arrive(true);
    }
}
