//! Whether a thread of the server is at a slot: of those that are sent there, one comes at a time, and no ring is lost.

use crate::futex::{AtomicU32, Ordering};

/// No thread of this process is at the slot; so begins a default one.
const AWAY: u32 = 0;
/// One is.
const THERE: u32 = 1;
/// One is, and the caller rang meanwhile.
const RUNG: u32 = 2;

/// Who attends to a slot. In private memory.
#[derive(Debug, Default)]
pub struct Presence(AtomicU32);

impl Presence {
    /// The caller rang. True if a thread is to be sent, which is there from now on; else the one that is there
    /// looks once more before it goes.
    #[inline]
    pub fn ring(&self) -> bool {
        let rung = |state| Some(if state == AWAY { THERE } else { RUNG });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, rung) == Ok(AWAY)
    }

    /// A thread that was not sent comes by. False if another is there.
    #[inline]
    pub fn enter(&self) -> bool {
        self.0.compare_exchange(AWAY, THERE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The thread has said in the word that nobody looks, and goes. False if the caller rang since it came: it was
    /// told to be content with this thread, which looks again.
    #[inline]
    pub fn leave(&self) -> bool {
        if self.0.compare_exchange(THERE, AWAY, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        // Exchanged: what came before a further ring is seen by the look that follows.
        self.0.swap(THERE, Ordering::AcqRel);
        false
    }

    /// The thread goes without another look. True if the caller rang: then that ring is to be answered anew.
    #[inline]
    #[must_use]
    pub fn quit(&self) -> bool {
        self.0.swap(AWAY, Ordering::AcqRel) == RUNG
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_sent_and_a_later_ring_is_looked_after() {
        let presence = Presence::default();
        assert!(presence.ring());
        assert!(!presence.enter());
        assert!(presence.leave());
        assert!(presence.enter() && !presence.ring());
        assert!(!presence.leave(), "somebody rang");
        assert!(presence.leave());
        assert!(presence.ring() && !presence.ring());
        assert!(presence.quit() && presence.enter() && !presence.quit());
    }
}

/// Every interleaving of a caller and the threads that are sent to its slot, or come by.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use crate::futex::{self, WakeAction};
    use crate::word::{self, Reply, Request, poll_reply, poll_request, post_reply, post_request};
    use loom::sync::Arc;
    use loom::thread;

    struct Slot {
        word: AtomicU32,
        presence: Presence,
        /// Threads that were sent and are not there yet.
        sent: AtomicU32,
        served: AtomicU32,
    }

    fn slot() -> Arc<Slot> {
        let zero = || AtomicU32::new(0);
        Arc::new(Slot { word: zero(), presence: Presence::default(), sent: zero(), served: zero() })
    }

    /// What the poller does.
    fn rung(slot: &Slot) {
        if slot.presence.ring() {
            slot.sent.fetch_add(1, Ordering::AcqRel);
            futex::wake(&slot.sent);
        }
    }

    fn call(slot: &Slot) {
        match post_request(&slot.word, true) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(&slot.word),
            WakeAction::Notify => rung(slot),
        }
    }

    fn await_reply(slot: &Slot) {
        while poll_reply(&slot.word) != Reply::Ready {
            if let Some(value) = word::caller_may_sleep(&slot.word) {
                futex::wait(&slot.word, value, None);
            }
        }
    }

    fn reply(slot: &Slot, attend: bool) {
        slot.served.fetch_add(1, Ordering::AcqRel);
        if post_reply(&slot.word, attend, false) == WakeAction::Wake {
            futex::wake(&slot.word);
        }
    }

    /// What `server::attend` does, for a thread that never sleeps at the slot.
    fn attend(slot: &Slot) {
        loop {
            match poll_request(&slot.word) {
                Request::Ready => reply(slot, true),
                Request::Pending if word::detach(&slot.word) && slot.presence.leave() => return,
                Request::Pending => {}
                other => unreachable!("{other:?}"),
            }
        }
    }

    /// A pool of one thread, until so many requests were served.
    fn pool(slot: &Slot, served: u32) {
        while slot.served.load(Ordering::Acquire) != served {
            while slot.sent.swap(0, Ordering::AcqRel) == 0 {
                futex::wait(&slot.sent, 0, None);
            }
            attend(slot);
        }
    }

    fn bounded(check: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(check);
    }

    #[test]
    fn a_thread_that_goes_while_the_caller_rings_is_sent_again_or_looks_again() {
        bounded(|| {
            let slot = slot();
            let server = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || pool(&slot, 2))
            };
            for _ in 0..2 {
                call(&slot);
                await_reply(&slot);
            }
            server.join().unwrap();
        });
    }

    /// What `server::serve_here` does while the poller hears of the same request.
    #[test]
    fn a_request_that_was_rung_for_and_is_served_in_place_is_served_once() {
        bounded(|| {
            let slot = slot();
            post_request(&slot.word, false);
            let poller = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || rung(&slot))
            };
            if slot.presence.enter() {
                if poll_request(&slot.word) == Request::Ready {
                    reply(&slot, false);
                }
                if slot.presence.quit() {
                    rung(&slot);
                }
            }
            poller.join().unwrap();
            if slot.sent.load(Ordering::Acquire) != 0 {
                attend(&slot);
            }
            assert_eq!(slot.served.load(Ordering::Acquire), 1);
            assert!(slot.presence.enter(), "nobody is left there");
        });
    }
}
