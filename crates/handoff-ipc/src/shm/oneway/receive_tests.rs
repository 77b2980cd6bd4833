//! What a peer can write into the ring of its oneway calls, and what the receiver does about it.

use super::super::ring::Ring;
use super::*;
use crate::Service;
use crate::object::Transaction;
use crate::shm::pair::{Pair, await_that};
use crate::shm::wire::Message;
use std::sync::atomic::AtomicU64;

#[derive(Default)]
struct Count(Arc<AtomicU64>);

impl Service for Count {
    fn descriptor(&self) -> &str {
        "test.ICount"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A service to which one oneway call was made.
fn after_a_call() -> Pair {
    let count = Arc::new(AtomicU64::new(0));
    let pair = Pair::serve(Count(Arc::clone(&count)));
    pair.object.transaction(1).oneway(|_| Ok(())).unwrap();
    await_that("the call is served", || count.load(Ordering::Relaxed) == 1);
    pair
}

/// Says how far the sender has written, relative to where it was.
fn say_written(pair: &Pair, ahead: u32) {
    let sender = lock(&pair.link().oneway_out);
    let sender = sender.as_ref().unwrap();
    sender.ring.set_written(sender.written.wrapping_add(ahead));
    drop(pair.link().send(Message::Post, Vec::new()));
    futex::wake(sender.ring.bell());
}

#[test]
fn a_ring_written_backwards_or_too_far_ends_the_link() {
    for ahead in [0_u32.wrapping_sub(32), DATA as u32 + 32, 1 << 31, 16] {
        let pair = after_a_call();
        say_written(&pair, ahead);
        pair.await_hang_up();
    }
}

#[test]
fn what_was_wrong_once_stays_wrong() {
    let (ring, _file) = Ring::create().unwrap();
    let mut drained = DrainState::default();
    ring.set_written(64);
    assert!(drained.has_more(&ring));
    // Back where it was: the thread would go to sleep, and be woken for the next lie.
    ring.set_written(0);
    assert!(drained.has_more(&ring));
    ring.set_written(64);
    assert!(drained.end(&ring).is_err());
}

#[test]
fn a_bell_that_never_rests_is_found_out() {
    let mut drained = DrainState::default();
    for _ in 0..10_000_000 {
        drained.note_idle();
        if drained.never_rests {
            return;
        }
    }
    panic!("a thread that never sleeps");
}

#[test]
fn what_is_secret_does_not_stay_in_the_ring() {
    const SECRET: &[u8] = b"nobody else is to see this";
    let count = Arc::new(AtomicU64::new(0));
    let pair = Pair::serve(Count(Arc::clone(&count)));
    let in_the_ring = |at: u32| {
        let sender = lock(&pair.link().oneway_out);
        let bytes = sender.as_ref().unwrap().ring.payload(at, 64);
        bytes.windows(SECRET.len()).any(|part| part == SECRET)
    };
    let call = || pair.object.transaction(1);
    for (call, at, stays) in [(call(), 0, true), (call().clear_buffers(), 64, false), (call(), 128, true)] {
        let before = count.load(Ordering::Relaxed);
        call.oneway(|w| w.write_bytes(SECRET)).unwrap();
        await_that("the call is served", || count.load(Ordering::Relaxed) > before);
        assert_eq!(in_the_ring(at), stays);
    }
}
