//! The loops in which a caller sleeps until its reply comes, and a server until the next request does.
//!
//! The peer may write anything to the word at any time. Each turn ends the wait, sleeps, or takes one of a
//! number of turns that a thread may have without either: a word that flickers ends the link.

use std::time::Duration;

use crate::futex::{self, AtomicU32};
use crate::spurious::SpuriousWakes;
use crate::word::{self, Reply, Request};

/// Nested calls of one call that are taken up after its deadline, for other threads to serve.
const MOST_LATE: u32 = 4;

/// How a caller's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyWait {
    /// The reply is in the slot.
    Ready,
    /// The deadline passed, and the request was given up.
    Expired,
    /// The server's process is gone.
    Dead,
    /// The word is none of the protocol's, or never rests.
    Broken,
}

/// Sleeps until the reply is there. `left` gives the longest time to sleep, `None` once the deadline has passed.
/// `nested` takes a nested call up and says whether there was one; told that it is late, it must not serve it.
#[inline]
pub fn for_reply<E>(
    word: &AtomicU32,
    is_dead: impl Fn() -> bool,
    left: impl Fn() -> Option<Duration>,
    mut nested: impl FnMut(bool) -> Result<bool, E>,
) -> Result<ReplyWait, E> {
    let (mut spurious, mut turns, mut late) = (SpuriousWakes::default(), 0_u32, 0);
    // The word says so only once the flag is set, unless the peer wrote it.
    let dead = |is_dead: &dyn Fn() -> bool| if is_dead() { ReplyWait::Dead } else { ReplyWait::Broken };
    loop {
        match word::poll_reply(word) {
            Reply::Ready => return Ok(ReplyWait::Ready),
            Reply::Dead => return Ok(dead(&is_dead)),
            Reply::Broken => return Ok(ReplyWait::Broken),
            Reply::Nested => {
                let is_late = left().is_none();
                late += u32::from(is_late);
                if late > MOST_LATE || (!nested(is_late)? && spurious.too_many()) {
                    return Ok(ReplyWait::Broken);
                }
                continue;
            }
            Reply::Pending if is_dead() => return Ok(ReplyWait::Dead),
            Reply::Pending if turns > 0 && spurious.too_many() => return Ok(ReplyWait::Broken),
            Reply::Pending => turns = 1,
        }
        let Some(left) = left() else {
            match word::abandon(word) {
                Reply::Pending => return Ok(ReplyWait::Expired),
                Reply::Ready => return Ok(ReplyWait::Ready),
                Reply::Dead => return Ok(dead(&is_dead)),
                Reply::Broken => return Ok(ReplyWait::Broken),
                Reply::Nested => continue,
            }
        };
        if let Some(value) = word::caller_may_sleep(word) {
            futex::wait(word, value, Some(left));
        }
    }
}

/// How a server's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestWait {
    /// There is something in the word to look at.
    Found,
    /// The thread is wanted elsewhere.
    Wanted,
    /// Nothing came for long.
    Idle,
    /// The word is none of the protocol's, or never rests.
    Broken,
}

/// Sleeps until the next request is there, at a word that says that a thread attends. `left` gives the longest
/// time to sleep, `None` once that is over.
#[inline]
pub fn for_request(
    word: &AtomicU32,
    is_wanted: impl Fn() -> bool,
    left: impl Fn() -> Option<Duration>,
) -> RequestWait {
    let (mut spurious, mut turns) = (SpuriousWakes::default(), 0_u32);
    loop {
        match word::poll_request(word) {
            Request::Ready | Request::Dead => return RequestWait::Found,
            Request::Broken => return RequestWait::Broken,
            Request::Pending if turns > 0 && spurious.too_many() => return RequestWait::Broken,
            Request::Pending => turns = 1,
        }
        let left = left();
        // Said first, then looked whether it is wanted elsewhere: whoever recalls it takes that back.
        let asleep = word::server_may_sleep(word);
        if is_wanted() {
            return RequestWait::Wanted;
        }
        let Some(left) = left else { return RequestWait::Idle };
        match asleep {
            Ok(value) => futex::wait(word, value, Some(left)),
            // A caller never says that nobody attends.
            Err(Request::Pending | Request::Broken) => return RequestWait::Broken,
            Err(Request::Ready | Request::Dead) => return RequestWait::Found,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::futex::Ordering;
    use crate::spurious::STOPPED;
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::time::Instant;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));

    fn reply(word: &AtomicU32, left: Option<Duration>) -> ReplyWait {
        let nested = |_| Ok::<_, Infallible>(word::accept_nested(word));
        for_reply(word, || false, || left, nested).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn a_word_that_no_protocol_has_ends_both_waits() {
        let mut words: Vec<u32> = (0..32).map(|bit| 1 << bit).chain(0..512).collect();
        words.extend((0..32).map(|bit| word::REQUEST | 1 << bit));
        for value in words {
            let word = AtomicU32::new(value);
            let found = reply(&word, None);
            assert_ne!(found, ReplyWait::Dead, "{value:#x}: the flag says that it is alive");
            let waits = [word::REQUEST, word::REQUEST | word::CALLER_SLEEPS, word::NESTED].contains(&value);
            assert_eq!(found == ReplyWait::Expired, waits, "{value:#x}: {found:?}");
            let word = AtomicU32::new(value);
            let turns = Cell::new(0);
            let left = || {
                turns.set(turns.get() + 1);
                if turns.get() < 10 { SOON } else { None }
            };
            let found = for_request(&word, || false, left);
            let attended = [word::ATTENDED, word::ATTENDED | word::SERVER_SLEEPS].contains(&value);
            assert_eq!(found == RequestWait::Idle, attended, "{value:#x}: {found:?}");
        }
    }

    #[test]
    fn a_word_that_flickers_ends_both_waits() {
        STOPPED.set(Some(Instant::now()));
        let word = AtomicU32::new(word::REQUEST);
        let nested = |_: bool| {
            word.store(word::NESTED, Ordering::Relaxed);
            Ok::<_, Infallible>(false)
        };
        word.store(word::NESTED, Ordering::Relaxed);
        assert_eq!(for_reply(&word, || false, || SOON, nested), Ok(ReplyWait::Broken));
        let word = AtomicU32::new(word::REQUEST);
        let no_sleep = || Some(Duration::ZERO);
        let nested = |_| Ok::<_, Infallible>(false);
        assert_eq!(for_reply(&word, || false, no_sleep, nested), Ok(ReplyWait::Broken));
        let word = AtomicU32::new(word::ATTENDED);
        assert_eq!(for_request(&word, || false, no_sleep), RequestWait::Broken);
    }

    #[test]
    fn nested_calls_after_the_deadline_are_not_served_here_and_not_without_end() {
        let word = AtomicU32::new(word::NESTED);
        let mut late = 0;
        let nested = |is_late: bool| {
            assert!(is_late);
            late += 1;
            Ok::<_, Infallible>(false)
        };
        assert_eq!(for_reply(&word, || false, || None, nested), Ok(ReplyWait::Broken));
        assert_eq!(late, MOST_LATE);
        // One that is taken up does not keep the request from being given up.
        let word = AtomicU32::new(word::NESTED);
        assert_eq!(reply(&word, None), ReplyWait::Expired);
    }
}
