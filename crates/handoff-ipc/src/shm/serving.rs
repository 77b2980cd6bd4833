//! Which call this thread is serving: calls that its handler makes back to the waiting process are
//! nested in it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::link::Link;
use super::slot::Slot;
use super::sync::AtomicU32;

/// One call that is being served; frames of a thread lie on its stack.
struct Frame {
    link: *const Link,
    slot: *const Slot,
}

thread_local! {
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
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
