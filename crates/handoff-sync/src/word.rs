//! The hand-off protocol: one 32-bit word between a caller and the thread that serves it.
//!
//! Each hand-off is one atomic exchange. What stood in the word before tells whoever handed off
//! what is left to do: nothing (the peer is running and looks), a `FUTEX_WAKE` (it sleeps), or a
//! ring at the peer's control socket (no thread looks at this slot). No wake-up can be lost,
//! because a side says that it sleeps in the same word that the other side exchanges.
//!
//! ```text
//! caller                                      server
//! FREE ── post_request ──> REQUEST ──────────────> await_request
//!                             │  <── nest ──         (its handler calls the caller's process back)
//! await_reply <── REPLY = FREE ── post_reply ─────────┘
//!    └─ abandon ──> ABANDONED ── post_reply ──> FREE  (deadline passed; the reply is dropped)
//! ```
//!
//! The word lies in memory that the peer may scribble on. Nothing but the two peers' own progress
//! depends on it; whether the peer is dead is known from a flag in private memory.

use crate::futex::{AtomicU32, Ordering, WakeAction};

const PHASE: u32 = 0x0f;
/// The reply is in the slot, or nothing was ever asked: the caller may post.
pub const FREE: u32 = 0;
/// A request is in the slot.
pub const REQUEST: u32 = 1;
/// The serving thread wants the waiting caller to serve another slot.
pub const NESTED: u32 = 2;
/// The caller went away before the reply came.
pub const ABANDONED: u32 = 3;
/// The peer's process is gone.
pub const DEAD: u32 = 4;

/// A thread of the server looks at this slot.
pub const ATTENDED: u32 = 0x10;
/// The server's thread sleeps on the word.
pub const SERVER_SLEEPS: u32 = 0x20;
/// The caller's thread sleeps on the word.
pub const CALLER_SLEEPS: u32 = 0x40;
/// No thread waits for the reply: the caller's process is told at its control socket.
pub const CALLER_AWAY: u32 = 0x80;

/// All that a word may say: anything else ends the link.
const ASLEEP_FOR_REPLY: u32 = REQUEST | CALLER_SLEEPS;
const REQUEST_AWAY: u32 = REQUEST | CALLER_AWAY;
const ABANDONED_AWAY: u32 = ABANDONED | CALLER_AWAY;
const AWAKE_FOR_REQUEST: u32 = FREE | ATTENDED;
const ASLEEP_FOR_REQUEST: u32 = FREE | ATTENDED | SERVER_SLEEPS;

/// What the caller finds in the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Not yet.
    Pending,
    /// The reply is in the slot.
    Ready,
    /// A nested call to serve.
    Nested,
    /// The server's process is gone.
    Dead,
    /// A value that no caller finds.
    Broken,
}

/// What the server finds in the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Not yet.
    Pending,
    /// A request is in the slot.
    Ready,
    /// The caller's process is gone.
    Dead,
    /// A value that no server finds.
    Broken,
}

/// Hands a request over. With `sleeps` the caller is about to sleep, which saves it an exchange.
#[inline]
pub fn post_request(word: &AtomicU32, sleeps: bool) -> WakeAction {
    post(word, if sleeps { CALLER_SLEEPS } else { 0 })
}

/// Hands over a request that no thread will wait for.
#[inline]
pub fn post_away(word: &AtomicU32) -> WakeAction {
    post(word, CALLER_AWAY)
}

/// Hands a request over, with what the caller does meanwhile.
#[inline]
fn post(word: &AtomicU32, caller: u32) -> WakeAction {
    let old = word.swap(REQUEST | caller, Ordering::AcqRel);
    if old & ATTENDED == 0 {
        WakeAction::Notify
    } else if old & SERVER_SLEEPS != 0 {
        WakeAction::Wake
    } else {
        WakeAction::Nothing
    }
}

/// Looks for the reply.
#[inline]
pub fn poll_reply(word: &AtomicU32) -> Reply {
    // The two that a caller finds while both sides run, in the order in which it finds them.
    match word.load(Ordering::Acquire) {
        REQUEST => Reply::Pending,
        AWAKE_FOR_REQUEST => Reply::Ready,
        other => other_reply(other),
    }
}

#[inline(never)]
fn other_reply(word: u32) -> Reply {
    if word == ASLEEP_FOR_REPLY { Reply::Pending } else { reply(word) }
}

/// Looks for the reply to a request of [`post_away`].
#[inline]
pub fn poll_away(word: &AtomicU32) -> Reply {
    match word.load(Ordering::Acquire) {
        REQUEST_AWAY => Reply::Pending,
        other => reply(other),
    }
}

/// What a caller finds that is not its request.
#[inline]
fn reply(word: u32) -> Reply {
    match word {
        FREE | AWAKE_FOR_REQUEST | ASLEEP_FOR_REQUEST => Reply::Ready,
        NESTED => Reply::Nested,
        DEAD => Reply::Dead,
        // Among them ABANDONED, which the caller alone writes.
        _ => Reply::Broken,
    }
}

/// Says that the caller is about to sleep. `Some(value)`: sleep while the word holds it; `None`:
/// there is something to look at.
#[inline]
pub fn caller_may_sleep(word: &AtomicU32) -> Option<u32> {
    match word.compare_exchange(REQUEST, ASLEEP_FOR_REPLY, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) | Err(ASLEEP_FOR_REPLY) => Some(ASLEEP_FOR_REPLY),
        Err(_) => None,
    }
}

/// Takes a nested call up: the word is back at REQUEST, for the reply or the next nested call.
#[inline]
pub fn accept_nested(word: &AtomicU32) -> bool {
    word.compare_exchange(NESTED, REQUEST, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Gives the request up. Anything but `Pending` says what came in the meantime instead: then the
/// request was not given up.
pub fn abandon(word: &AtomicU32) -> Reply {
    for asleep in [0, CALLER_SLEEPS, 0, CALLER_SLEEPS] {
        if word.compare_exchange(REQUEST | asleep, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Reply::Pending;
        }
    }
    match poll_reply(word) {
        // The word flickers: only a peer that breaks the protocol writes it back and forth.
        Reply::Pending => Reply::Broken,
        other => other,
    }
}

/// Gives up a request of [`post_away`]. The caller's process is told all the same when the server is done
/// with it. As [`abandon`] otherwise.
pub fn abandon_away(word: &AtomicU32) -> Reply {
    match word.compare_exchange(REQUEST_AWAY, ABANDONED_AWAY, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Reply::Pending,
        Err(other) => reply(other),
    }
}

/// True once the server is done with a request that was given up.
#[inline]
pub fn is_free(word: &AtomicU32) -> bool {
    word.load(Ordering::Acquire) & PHASE == FREE
}

/// Hands the reply over. `attend`: this thread looks at the slot from now on; `sleeps`: it is about
/// to sleep.
#[inline]
pub fn post_reply(word: &AtomicU32, attend: bool, sleeps: bool) -> WakeAction {
    let new = match (attend, sleeps) {
        (false, _) => FREE,
        (true, false) => FREE | ATTENDED,
        (true, true) => FREE | ATTENDED | SERVER_SLEEPS,
    };
    let old = word.swap(new, Ordering::AcqRel);
    if old & (CALLER_SLEEPS | CALLER_AWAY) == 0 {
        WakeAction::Nothing
    } else if old & CALLER_SLEEPS != 0 {
        WakeAction::Wake
    } else {
        WakeAction::Notify
    }
}

/// Looks for a request.
#[inline]
pub fn poll_request(word: &AtomicU32) -> Request {
    // The two that a server finds while both sides run, in the order in which it finds them.
    match word.load(Ordering::Acquire) {
        AWAKE_FOR_REQUEST => Request::Pending,
        REQUEST => Request::Ready,
        other => request(other),
    }
}

#[inline(never)]
fn request(word: u32) -> Request {
    match word {
        REQUEST | ASLEEP_FOR_REPLY | REQUEST_AWAY => Request::Ready,
        FREE | AWAKE_FOR_REQUEST | ASLEEP_FOR_REQUEST => Request::Pending,
        // Given up before this thread saw it: it is served all the same, the reply is dropped.
        ABANDONED | ABANDONED_AWAY => Request::Ready,
        DEAD => Request::Dead,
        _ => Request::Broken,
    }
}

/// Says that the serving thread is about to sleep. `Ok(value)`: sleep while the word holds it. `Err`: what it
/// says instead; `Pending` only if the peer wrote that nobody attends.
#[inline]
pub fn server_may_sleep(word: &AtomicU32) -> Result<u32, Request> {
    match word.compare_exchange(AWAKE_FOR_REQUEST, ASLEEP_FOR_REQUEST, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) | Err(ASLEEP_FOR_REQUEST) => Ok(ASLEEP_FOR_REQUEST),
        Err(other) => Err(request(other)),
    }
}

/// Takes back that the serving thread sleeps: something else than a request wants it. Wake it after this.
///
/// The thread looks for whatever that is after it has said that it sleeps, and sleeps only while the
/// word still says so: one of the two sees the other.
pub fn rouse(word: &AtomicU32) {
    word.fetch_and(!SERVER_SLEEPS, Ordering::AcqRel);
}

/// Says that no thread looks at the slot any longer. False: a request came first, serve it.
pub fn detach(word: &AtomicU32) -> bool {
    for asleep in [SERVER_SLEEPS, 0] {
        let from = FREE | ATTENDED | asleep;
        if word.compare_exchange(from, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
    }
    poll_request(word) != Request::Ready
}

/// Asks the waiting caller to serve a nested call. `Some(true)`: wake it; `Some(false)`: it looks;
/// `None`: it does not wait any longer.
pub fn nest(word: &AtomicU32) -> Option<bool> {
    // Twice: the caller may fall asleep between the two.
    for _ in 0..2 {
        for asleep in [0, CALLER_SLEEPS] {
            if word.compare_exchange(REQUEST | asleep, NESTED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Some(asleep != 0);
            }
        }
    }
    None
}

/// The peer's process is gone: whoever waits must look. The private flag was set before.
pub fn kill(word: &AtomicU32) {
    word.swap(DEAD, Ordering::AcqRel);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_slot_rings_and_an_attended_one_does_not() {
        let word = AtomicU32::new(0);
        assert_eq!(post_request(&word, false), WakeAction::Notify);
        assert_eq!(poll_request(&word), Request::Ready);
        assert_eq!(post_reply(&word, true, false), WakeAction::Nothing);
        assert_eq!(poll_reply(&word), Reply::Ready);
        assert_eq!(post_request(&word, true), WakeAction::Nothing);
        assert_eq!(post_reply(&word, true, true), WakeAction::Wake, "a caller that sleeps is woken");
        assert_eq!(post_request(&word, false), WakeAction::Wake);
    }

    #[test]
    fn an_abandoned_request_is_free_after_the_late_reply() {
        let word = AtomicU32::new(0);
        post_request(&word, false);
        assert_eq!(abandon(&word), Reply::Pending);
        assert!(!is_free(&word));
        assert_eq!(post_reply(&word, false, false), WakeAction::Nothing, "nobody waits for a late reply");
        assert!(is_free(&word));
    }

    #[test]
    fn a_caller_without_a_thread_is_told_at_its_socket() {
        let word = AtomicU32::new(0);
        assert_eq!(post_away(&word), WakeAction::Notify);
        assert_eq!(poll_request(&word), Request::Ready);
        assert_eq!(nest(&word), None, "nobody there could serve a nested call");
        assert_eq!(poll_away(&word), Reply::Pending);
        assert_eq!(poll_reply(&word), Reply::Broken, "no thread waits so");
        assert_eq!(post_reply(&word, true, true), WakeAction::Notify);
        assert_eq!(poll_away(&word), Reply::Ready);
        assert_eq!(post_away(&word), WakeAction::Wake);
        // Given up, it is told as well: the slot is free only then.
        assert_eq!(abandon_away(&word), Reply::Pending);
        assert!(!is_free(&word));
        assert_eq!(poll_request(&word), Request::Ready);
        assert_eq!(post_reply(&word, false, false), WakeAction::Notify);
        assert!(is_free(&word));
        assert_eq!(abandon_away(&word), Reply::Ready, "too late to give up");
    }

    #[test]
    fn abandoning_after_the_reply_gives_the_reply() {
        let word = AtomicU32::new(0);
        post_request(&word, false);
        post_reply(&word, true, false);
        assert_eq!(abandon(&word), Reply::Ready);
    }

    #[test]
    fn detaching_loses_no_request() {
        let word = AtomicU32::new(0);
        post_request(&word, false);
        post_reply(&word, true, false);
        post_request(&word, false);
        assert!(!detach(&word));
        post_reply(&word, true, true);
        assert!(detach(&word));
        assert_eq!(post_request(&word, false), WakeAction::Notify);
    }

    #[test]
    fn a_thread_that_is_roused_looks_and_a_request_stays_as_it_is() {
        let word = AtomicU32::new(0);
        post_request(&word, false);
        rouse(&word);
        assert_eq!(poll_request(&word), Request::Ready);
        post_reply(&word, true, false);
        let asleep = server_may_sleep(&word).unwrap();
        rouse(&word);
        assert_ne!(word.load(Ordering::Relaxed), asleep, "the kernel would not let it sleep");
        assert_eq!(post_request(&word, true), WakeAction::Nothing);
        rouse(&word);
        assert_eq!(post_reply(&word, true, true), WakeAction::Wake, "the caller's sleep is its own");
    }

    #[test]
    fn nesting_needs_a_caller_that_waits() {
        let word = AtomicU32::new(0);
        assert_eq!(nest(&word), None);
        post_request(&word, true);
        assert_eq!(nest(&word), Some(true));
        assert_eq!(poll_reply(&word), Reply::Nested);
        assert!(accept_nested(&word));
        assert_eq!(nest(&word), Some(false));
        abandon(&word);
    }

    #[test]
    fn the_dead_are_seen_by_both_sides() {
        let word = AtomicU32::new(0);
        post_request(&word, true);
        kill(&word);
        assert_eq!(poll_reply(&word), Reply::Dead);
        assert_eq!(poll_request(&word), Request::Dead);
        assert_eq!(caller_may_sleep(&word), None);
        assert_eq!(server_may_sleep(&word), Err(Request::Dead));
    }
}

#[cfg(all(test, loom))]
#[path = "word_loom.rs"]
mod loom_model;
