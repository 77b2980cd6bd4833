//! What a thread has for its calls: in one place, as each access to what is a thread's own is a call of the linker's.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::CString;
use std::ptr;

use handoff_ipc::CallingIdentity;

use crate::parcel::AParcel;

/// Parcels that a thread keeps for its next calls.
const SPARES: usize = 4;

/// A call that a thread serves.
pub(crate) struct Serving {
    /// The security context of its caller.
    pub(crate) sid: Option<CString>,
    /// Its caller, where another thread took the call.
    pub(crate) caller: Option<CallingIdentity>,
}

pub(crate) struct Thread {
    /// The innermost call that this thread serves: null, or on the stack of the function that runs and put it here.
    pub(crate) serving: Cell<*const Serving>,
    /// Whether it waits for the answer to a call of its own.
    pub(crate) calls: Cell<bool>,
    // The first `kept` are of `Box::into_raw`, and nobody else has them.
    spares: [Cell<*mut AParcel>; SPARES],
    kept: Cell<usize>,
    // Whether somebody is there who frees them at the thread's end.
    keeps: Cell<bool>,
}

/// Frees what a thread has kept when the thread ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        with(|thread| {
            thread.keeps.set(false);
            while let Some(spare) = thread.pop() {
                drop(spare);
            }
        });
    }
}

thread_local! {
    // Nothing is done with it at the thread's end, so that what runs then can still call.
    static THREAD: Thread = const {
        Thread {
            serving: Cell::new(ptr::null()),
            calls: Cell::new(false),
            spares: [const { Cell::new(ptr::null_mut()) }; SPARES],
            kept: Cell::new(0),
            keeps: Cell::new(false),
        }
    };
    static END: End = const { End };
}

/// Gives `work` what is this thread's.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(work)
}

impl Thread {
    #[inline]
    fn pop(&self) -> Option<Box<AParcel>> {
        let last = self.kept.get().checked_sub(1)?;
        self.kept.set(last);
        // SAFETY: one of the first `kept`, and not among them any longer.
        Some(unsafe { Box::from_raw(self.spares[last].get()) })
    }

    /// A parcel that was kept, or a new one.
    #[inline]
    pub(crate) fn take(&self) -> Box<AParcel> {
        self.pop().unwrap_or_default()
    }

    /// Keeps the memory of a parcel for a later call, if there is room for one more.
    #[inline]
    pub(crate) fn keep(&self, mut parcel: Box<AParcel>) {
        // Where an object ends with it, code of C runs, which takes and keeps parcels: before the list is looked at.
        if !parcel.becomes_spare() {
            return;
        }
        let kept = self.kept.get();
        if kept < SPARES && (self.keeps.get() || self.begins_to_keep()) {
            self.spares[kept].set(Box::into_raw(parcel));
            self.kept.set(kept + 1);
        }
    }

    /// When the first one comes; false once the thread ends.
    #[cold]
    fn begins_to_keep(&self) -> bool {
        self.keeps.set(END.try_with(|_| ()).is_ok());
        self.keeps.get()
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn AParcel_create() -> *mut AParcel {
    with(Thread::take).give()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_delete(parcel: *mut AParcel) {
    if !parcel.is_null() {
        // SAFETY: made by `give`, and nobody uses it afterwards.
        let parcel = unsafe { Box::from_raw(parcel) };
        with(|thread| thread.keep(parcel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_that_is_kept_is_the_next_one_and_a_sensitive_one_is_not_kept() {
        with(|thread| {
            let parcel = thread.take();
            let place = (&raw const *parcel).addr();
            thread.keep(parcel);
            let again = thread.take();
            assert_eq!(((&raw const *again).addr(), thread.kept.get()), (place, 0));
            again.is_sensitive.set(true);
            thread.keep(again);
            assert_eq!(thread.kept.get(), 0, "nothing was kept");
        });
    }

    #[test]
    fn a_thread_keeps_a_few_parcels_and_none_after_its_end() {
        /// Calls when its thread ends, before or after what was kept is freed.
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                with(|thread| thread.keep(thread.take()));
            }
        }
        thread_local!(static LATE: Late = const { Late });
        let works = |first: bool| {
            std::thread::spawn(move || {
                if first {
                    LATE.with(|_| ());
                }
                let parcels: Vec<_> = (0..SPARES + 2).map(|_| with(Thread::take)).collect();
                parcels.into_iter().for_each(|parcel| with(|thread| thread.keep(parcel)));
                LATE.with(|_| ());
                with(|thread| thread.kept.get())
            })
        };
        for first in [true, false] {
            assert_eq!(works(first).join().unwrap(), SPARES);
        }
    }
}
