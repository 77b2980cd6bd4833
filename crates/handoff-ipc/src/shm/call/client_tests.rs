//! What a peer can write to the word of a call, and what the other side does about it.

use super::*;
use crate::Service;
use crate::object::Transaction;
use crate::parcel::Writer;
use crate::shm::pair::{Pair, await_that};
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a value to the word of the call that it serves, and goes on when it is told to.
#[derive(Default)]
struct Scribbler {
    goes_on: Arc<AtomicBool>,
}

impl Service for Scribbler {
    fn descriptor(&self) -> &str {
        "test.IScribbler"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, reply, .. } = transaction;
        if code == 4 {
            await_that("the caller is back", || self.goes_on.load(Ordering::Acquire));
        }
        if code >= 3 {
            return reply.write_shared(data.read_bytes()?);
        }
        if code == 2 {
            let value = data.read_i32()? as u32;
            serving::with_word(|word| {
                word.store(value, Ordering::Release);
                futex::wake(word);
            });
            await_that("the caller is back", || self.goes_on.load(Ordering::Acquire));
        }
        Ok(())
    }
}

#[test]
fn a_server_that_writes_what_no_protocol_has_ends_the_link() {
    for value in [word::REQUEST | 0x100, word::REQUEST | word::CALLER_AWAY, word::ABANDONED, word::DEAD, 0x20]
    {
        let scribbler = Scribbler::default();
        let goes_on = Arc::clone(&scribbler.goes_on);
        let pair = Pair::serve(scribbler);
        let error = pair.object.transaction(2).call(|w| w.write(&(value as i32)), |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{value:#x}: {error}");
        goes_on.store(true, Ordering::Release);
        pair.await_hang_up();
    }
}

#[test]
fn a_call_has_an_end_though_the_server_says_again_and_again_that_it_nests() {
    let scribbler = Scribbler::default();
    let goes_on = Arc::clone(&scribbler.goes_on);
    let pair = Pair::serve(scribbler);
    // The slot of the nested call is never opened: the word's first neighbour, the code, names it. It is waited
    // for no longer than the deadline.
    let write = |w: &mut Writer<'_>| w.write(&(word::NESTED as i32));
    let error =
        pair.object.transaction(2).deadline(Duration::from_millis(50)).call(write, |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::DeadlineExpired(_)), "{error}");
    goes_on.store(true, Ordering::Release);
}

/// Writes to the word between two calls, as long as the link lives.
fn scribble_between_calls(value: u32) {
    let pair = Pair::serve(Scribbler::default());
    await_that("the server hangs up", || {
        drop(pair.object.transaction(1).call(|_| Ok(()), |_| Ok(())));
        let slot = pair.link().caller_slots.first();
        if let Some(Ok(mut claimed)) = slot.as_ref().map(|slot| slot.claim()) {
            let word = claimed.parts().0.word();
            word.store(value, Ordering::Release);
            futex::wake(word);
            // A thread that stays at the slot sees it; a while later there is none.
            drop(pair.link().send(crate::shm::wire::Message::Call { slot: 0 }, Vec::new()));
        }
        std::thread::sleep(Duration::from_millis(20));
        pair.link().is_dead()
    });
}

#[test]
fn a_caller_that_writes_what_no_protocol_has_ends_the_link() {
    for value in [word::NESTED, word::DEAD, word::REQUEST | 0x100, word::SERVER_SLEEPS, u32::MAX] {
        scribble_between_calls(value);
    }
}

#[test]
fn a_caller_that_says_that_nobody_attends_ends_the_link() {
    scribble_between_calls(word::FREE);
}

#[test]
fn the_memory_of_a_large_reply_goes_once_it_was_read_and_the_slot_is_idle() {
    let pair = Pair::serve(Scribbler::default());
    let bytes: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    let echo = |reads: &mut dyn FnMut()| {
        let read = |r: &mut Reader<'_>| {
            reads();
            Ok(r.read_bytes()?.to_vec())
        };
        assert!(pair.object.transaction(3).call(|w| w.write_bytes(&bytes), read).unwrap() == bytes);
    };
    let pages = || {
        let slot = pair.link().caller_slots.first().unwrap();
        let mut claimed = slot.claim().unwrap();
        claimed.parts().0.pages_of_reply()
    };
    // As long as it is being read, it stays, also when the thread has gone from the slot.
    echo(&mut || std::thread::sleep(Duration::from_secs(3)));
    echo(&mut || ());
    await_that("the memory is given back", || pages() == 0);
    echo(&mut || ());
}

/// Where `SECRET` stands in the first slot of a link: in which areas.
fn secrets(pair: &Pair) -> usize {
    let slot = pair.link().caller_slots.first().unwrap();
    let mut claimed = slot.claim().unwrap();
    let has_it = |area| {
        let all = claimed.parts().0.payload(area, Meta(0), super::super::slot::MAX_PAYLOAD as u32);
        all.unwrap().to_vec().windows(SECRET.len()).any(|part| part == SECRET)
    };
    [Area::A, Area::B].into_iter().map(has_it).filter(|has| *has).count()
}

const SECRET: &[u8] = b"nobody else is to see this";

/// A secret at both ends of so many bytes.
fn secret(len: usize) -> Vec<u8> {
    let mut bytes = vec![7; len];
    bytes[..SECRET.len()].copy_from_slice(SECRET);
    bytes[len - SECRET.len()..].copy_from_slice(SECRET);
    bytes
}

#[test]
fn what_is_secret_does_not_stay_in_the_slot() {
    for len in [64, 900, 5000, 1 << 20] {
        let pair = Pair::serve(Scribbler::default());
        let (bytes, echo) = (secret(len), pair.object.transaction(3));
        let answer: Vec<u8> = echo.call(|w| w.write_bytes(&bytes), |r| Ok(r.read_bytes()?.to_vec())).unwrap();
        assert!(answer == bytes && secrets(&pair) > 0, "{len}: what is no secret stays");
        let echo = pair.object.transaction(3).clear_buffers();
        let answer: Vec<u8> = echo.call(|w| w.write_bytes(&bytes), |r| Ok(r.read_bytes()?.to_vec())).unwrap();
        assert!(answer == bytes && secrets(&pair) == 0, "{len}");
    }
}

#[test]
fn a_secret_of_a_call_that_was_given_up_goes_when_the_callee_is_done() {
    for len in [64, 900, 5000, 1 << 20] {
        let scribbler = Scribbler::default();
        let goes_on = Arc::clone(&scribbler.goes_on);
        let pair = Pair::serve(scribbler);
        let late = pair.object.transaction(4).clear_buffers().deadline(Duration::from_millis(20));
        let error = late.call(|w| w.write_bytes(&secret(len)), |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::DeadlineExpired(_)), "{error}");
        assert!(secrets(&pair) > 0, "the callee may be reading it");
        goes_on.store(true, Ordering::Release);
        await_that("the secret is gone", || {
            // A thread that wants a slot looks at it.
            let call = || pair.object.transaction(1).call(|_| Ok(()), |_| Ok(()));
            std::thread::scope(|scope| scope.spawn(call).join()).unwrap().unwrap();
            secrets(&pair) == 0
        });
    }
}
