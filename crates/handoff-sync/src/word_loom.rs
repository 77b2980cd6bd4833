//! Every interleaving of one caller and one server, with loom: `cargo xtask test` runs it with
//! `RUSTFLAGS="--cfg loom"`. The loops are those of `wait.rs`, which `client.rs` and `server.rs` run.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Data;
use loom::thread;

use std::time::Duration;

use super::*;
use crate::futex::{self, AtomicBool, Ordering};
use crate::wait::{self, ReplyWait, RequestWait};

/// Every schedule of so many preemptions: without a bound, two calls take minutes.
fn bounded(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

struct Slot {
    word: AtomicU32,
    payload: Data,
    bell: AtomicU32,
    dead: AtomicBool,
}

fn slot() -> Arc<Slot> {
    Arc::new(Slot {
        word: AtomicU32::new(0),
        payload: Data::new(0),
        bell: AtomicU32::new(0),
        dead: AtomicBool::new(false),
    })
}

fn call(slot: &Slot, value: u32, sleeps: bool) -> Option<u32> {
    slot.payload.store(value, Ordering::Relaxed);
    match post_request(&slot.word, sleeps) {
        WakeAction::Nothing => {}
        WakeAction::Wake => futex::wake(&slot.word),
        WakeAction::Notify => ring(slot),
    }
    match await_reply(slot, |_| unreachable!("nobody nests here")) {
        ReplyWait::Ready => Some(slot.payload.load(Ordering::Relaxed)),
        ReplyWait::Dead => None,
        other => unreachable!("{other:?}"),
    }
}

/// Without a deadline.
fn await_reply(slot: &Slot, nested: impl FnMut(bool) -> bool) -> ReplyWait {
    let mut nested = nested;
    let dead = || slot.dead.load(Ordering::Acquire);
    let nested = |late| Ok::<_, std::convert::Infallible>(nested(late));
    let Ok(found) = wait::for_reply(&slot.word, dead, || Some(Duration::ZERO), nested);
    found
}

fn ring(slot: &Slot) {
    slot.bell.swap(1, Ordering::AcqRel);
    futex::wake(&slot.bell);
}

fn await_bell(slot: &Slot) {
    while slot.bell.swap(0, Ordering::AcqRel) == 0 {
        futex::wait(&slot.bell, 0, None);
    }
}

fn await_request(slot: &Slot) {
    let found = wait::for_request(&slot.word, || false, || Some(Duration::ZERO));
    assert_eq!(found, RequestWait::Found);
}

fn reply(slot: &Slot, attend: bool, sleeps: bool) {
    let value = slot.payload.load(Ordering::Relaxed);
    slot.payload.store(value + 100, Ordering::Relaxed);
    match post_reply(&slot.word, attend, sleeps) {
        WakeAction::Nothing => {}
        WakeAction::Wake => futex::wake(&slot.word),
        // The bell stands for the caller's socket.
        WakeAction::Notify => ring(slot),
    }
}

fn two_calls(caller_sleeps: bool, server_sleeps: bool) {
    bounded(5, move || {
        let slot = slot();
        let server = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                await_bell(&slot);
                reply(&slot, true, server_sleeps);
                await_request(&slot);
                reply(&slot, false, false);
            })
        };
        assert_eq!(call(&slot, 1, caller_sleeps), Some(101));
        assert_eq!(call(&slot, 2, caller_sleeps), Some(102));
        server.join().unwrap();
    });
}

#[test]
fn no_wake_is_lost_when_both_sleep_at_once() {
    two_calls(true, true);
}

#[test]
fn no_wake_is_lost_when_both_look_first() {
    two_calls(false, false);
}

#[test]
fn a_thread_that_leaves_is_rung_back() {
    bounded(5, || {
        let slot = slot();
        let server = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                await_bell(&slot);
                reply(&slot, true, false);
                if detach(&slot.word) {
                    await_bell(&slot);
                }
                reply(&slot, false, false);
            })
        };
        assert_eq!(call(&slot, 1, false), Some(101));
        assert_eq!(call(&slot, 2, false), Some(102));
        server.join().unwrap();
    });
}

/// What `recall` does.
#[test]
fn no_recall_is_lost_when_it_comes_while_the_thread_falls_asleep() {
    loom::model(|| {
        let slot = slot();
        post_request(&slot.word, false);
        let server = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                post_reply(&slot.word, true, false);
                // Here for `recalled`.
                let recalled = || slot.dead.load(Ordering::Relaxed);
                let found = wait::for_request(&slot.word, recalled, || Some(Duration::ZERO));
                assert_eq!(found, RequestWait::Wanted);
                assert!(detach(&slot.word));
            })
        };
        slot.dead.store(true, Ordering::Relaxed);
        rouse(&slot.word);
        futex::wake(&slot.word);
        server.join().unwrap();
    });
}

#[test]
fn a_dead_server_frees_its_caller() {
    loom::model(|| {
        let slot = slot();
        let poller = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                slot.dead.store(true, Ordering::Release);
                kill(&slot.word);
                futex::wake(&slot.word);
            })
        };
        assert_eq!(call(&slot, 1, true), None);
        poller.join().unwrap();
    });
}

#[test]
fn a_call_is_answered_or_given_up_never_both() {
    loom::model(|| {
        let slot = slot();
        slot.payload.store(1, Ordering::Relaxed);
        assert_eq!(post_request(&slot.word, false), WakeAction::Notify);
        let server = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || reply(&slot, false, false))
        };
        match abandon(&slot.word) {
            Reply::Ready => assert_eq!(slot.payload.load(Ordering::Relaxed), 101),
            Reply::Pending => {
                server.join().unwrap();
                assert!(is_free(&slot.word), "the late reply frees the slot");
                return;
            }
            other => unreachable!("{other:?}"),
        }
        server.join().unwrap();
    });
}

#[test]
fn a_call_without_a_thread_is_told_of_or_given_up_and_told_of() {
    for gives_up in [false, true] {
        loom::model(move || {
            let slot = slot();
            slot.payload.store(1, Ordering::Relaxed);
            assert_eq!(post_away(&slot.word), WakeAction::Notify);
            let server = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || reply(&slot, false, false))
            };
            let answered = gives_up && abandon_away(&slot.word) == Reply::Ready;
            await_bell(&slot);
            assert_eq!(poll_reply(&slot.word), Reply::Ready);
            assert!(is_free(&slot.word));
            assert_eq!(slot.payload.load(Ordering::Relaxed), 101, "{answered}");
            server.join().unwrap();
        });
    }
}

#[test]
fn a_nested_call_reaches_the_waiting_caller() {
    loom::model(|| {
        let slot = slot();
        assert_eq!(post_request(&slot.word, false), WakeAction::Notify);
        let server = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                slot.payload.store(7, Ordering::Relaxed);
                if nest(&slot.word).expect("the caller waits") {
                    futex::wake(&slot.word);
                }
                // The nested reply travels in another slot; here the bell stands for it.
                await_bell(&slot);
                reply(&slot, false, false);
            })
        };
        let nested = |late: bool| {
            assert!(!late);
            assert_eq!(slot.payload.load(Ordering::Relaxed), 7);
            assert!(accept_nested(&slot.word));
            ring(&slot);
            true
        };
        assert_eq!(await_reply(&slot, nested), ReplyWait::Ready);
        assert_eq!(slot.payload.load(Ordering::Relaxed), 107);
        server.join().unwrap();
    });
}

/// A peer that writes anything, and then dies: the honest side's wait ends.
fn hostile(words: &'static [u32], honest: fn(&Slot)) {
    // What a peer writes does not depend on what it sees.
    bounded(2, move || {
        let slot = slot();
        let peer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                for word in words {
                    // Exchanged: loom orders plain stores less than the kernel's look at the word does.
                    slot.word.swap(*word, Ordering::AcqRel);
                    futex::wake(&slot.word);
                }
                // What `on_peer_death` does.
                slot.dead.store(true, Ordering::Release);
                kill(&slot.word);
                futex::wake(&slot.word);
            })
        };
        honest(&slot);
        peer.join().unwrap();
    });
}

#[test]
fn a_caller_of_a_hostile_server_comes_back() {
    let caller = |slot: &Slot| {
        post_request(&slot.word, false);
        await_reply(slot, |_| accept_nested(&slot.word));
    };
    for words in [&[NESTED, REQUEST][..], &[REQUEST | CALLER_SLEEPS, NESTED], &[ATTENDED, u32::MAX]] {
        hostile(words, caller);
    }
}

#[test]
fn a_caller_that_gives_up_comes_back_from_a_hostile_server() {
    let caller = |slot: &Slot| {
        post_request(&slot.word, true);
        let dead = || slot.dead.load(Ordering::Acquire);
        let nested = |late: bool| {
            assert!(late);
            Ok::<_, std::convert::Infallible>(accept_nested(&slot.word))
        };
        let Ok(_) = wait::for_reply(&slot.word, dead, || None, nested);
    };
    for words in [&[NESTED, REQUEST][..], &[REQUEST, ABANDONED]] {
        hostile(words, caller);
    }
}

#[test]
fn a_server_of_a_hostile_caller_comes_back() {
    let server = |slot: &Slot| {
        post_reply(&slot.word, true, false);
        let dead = || slot.dead.load(Ordering::Relaxed);
        wait::for_request(&slot.word, dead, || Some(Duration::ZERO));
        detach(&slot.word);
    };
    let asleep = &[ATTENDED | SERVER_SLEEPS, ATTENDED];
    for words in [&[FREE, ATTENDED][..], asleep, &[REQUEST, FREE | SERVER_SLEEPS]] {
        hostile(words, server);
    }
}
