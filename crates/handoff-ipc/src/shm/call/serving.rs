//! Which call this thread is serving: calls that its handler makes back to the waiting process are
//! nested in it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::slot::Slot;
use crate::shm::link::Link;
use crate::{Error, Result};

/// Calls that a thread serves inside of calls that it waits for, at the most.
const MOST_NESTED: u32 = 16;

/// One call that is being served; frames of a thread lie on its stack.
struct Frame {
    link: *const Link,
    slot: *const Slot,
}

thread_local! {
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
    static NESTED: Cell<u32> = const { Cell::new(0) };
    // Below this address so little of the thread's stack is left that no further call is served on it.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// One more call that is served on a thread that waits, until this goes.
pub(crate) struct Deeper(());

impl Drop for Deeper {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// Before a thread that waits for a call serves another one on top of it. A peer that is called back may call back
/// again, without an end: it is refused while there is stack left to do so.
#[cold]
pub(crate) fn deeper() -> Result<Deeper> {
    let here = 0_u8;
    let enough = (&raw const here).addr() >= lowest();
    if NESTED.get() >= MOST_NESTED || !enough {
        return Err(Error::TooDeep);
    }
    NESTED.set(NESTED.get() + 1);
    Ok(Deeper(()))
}

/// A third of the stack is kept.
fn lowest() -> usize {
    if let Some(lowest) = LOWEST.get() {
        return lowest;
    }
    let lowest = stack().map_or(0, |(start, size)| start + size / 3);
    LOWEST.set(Some(lowest));
    lowest
}

/// The lowest address of this thread's stack, and its size.
fn stack() -> Option<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: `pthread_getattr_np` fills the attributes in where it returns 0; they are destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then_some((start.addr(), size))
    }
}

/// Puts the former frame back, also when the handler panics.
struct Restore(*const Frame);

impl Drop for Restore {
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}

/// Runs a handler inside of a call that came over `link` in `slot`.
#[inline]
pub(crate) fn inside<R>(link: &Arc<Link>, slot: &Slot, handler: impl FnOnce() -> R) -> R {
    let frame = Frame { link: Arc::as_ptr(link), slot };
    // The frame and what it points to outlive `handler`, and the pointer is taken back after it.
    let _restore = Restore(INNERMOST.replace(&raw const frame));
    handler()
}

/// The slot of the call that this thread serves, as long as the thread is inside of its handler.
pub(crate) struct Outer {
    slot: *const Slot,
}

/// The innermost call that this thread serves, if the process at the other end of `link` waits for
/// it.
#[inline]
pub(crate) fn innermost(link: &Arc<Link>) -> Option<Outer> {
    let frame = INNERMOST.get();
    if frame.is_null() {
        return None;
    }
    // SAFETY: a frame that is not null belongs to an `inside` further up on this very stack.
    let frame = unsafe { &*frame };
    ptr::eq(frame.link, Arc::as_ptr(link)).then_some(Outer { slot: frame.slot })
}

/// For tests: what a hostile server does to the word of the call that it serves.
#[cfg(test)]
pub(super) fn with_word(then: impl FnOnce(&AtomicU32)) {
    // SAFETY: as in `innermost`; the tests are inside of a handler.
    let frame = unsafe { INNERMOST.get().as_ref() }.unwrap();
    let outer = Outer { slot: frame.slot };
    then(outer.word());
}

impl Outer {
    fn slot(&self) -> &Slot {
        // SAFETY: as in `innermost`; the type is neither Send nor kept beyond a call (client.rs).
        unsafe { &*self.slot }
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        self.slot().word()
    }

    pub(crate) fn set_nested(&self, slot: u32) {
        self.slot().set_nested(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_serves_so_many_nested_calls_and_no_more() {
        let all: Vec<_> = (0..MOST_NESTED).map(|_| deeper().unwrap()).collect();
        assert!(matches!(deeper(), Err(Error::TooDeep)));
        drop(all);
        assert!(deeper().is_ok());
    }

    /// Uses a kibibyte of stack a level.
    fn refused_at(levels: u32) -> u32 {
        let used = std::hint::black_box([0_u8; 1024]);
        // Not counted: here for the stack.
        let refused = deeper().is_err();
        if refused || levels == 100_000 { levels } else { refused_at(levels + 1) + u32::from(used[0]) }
    }

    #[test]
    fn a_third_of_the_stack_is_left() {
        let refused = |size: usize| {
            let thread = std::thread::Builder::new().stack_size(size);
            thread.spawn(|| refused_at(0)).unwrap().join().unwrap()
        };
        let (small, large) = (refused(256 << 10), refused(2 << 20));
        assert!(small > 0 && small < 180, "{small} KiB of 256");
        assert!(large > 4 * small && large < 1400, "{large} KiB of 2048");
        let (start, size) = stack().unwrap();
        let here = (&raw const size).addr();
        assert!(start < here && here < start + size);
    }
}
