//! The runtime's own inheritance over the driver: where both sides choose so, the caller's priority
//! travels in front of the interface token, and the thread that serves takes it over by itself.
//!
//! Mainline's driver in C lends the nice value only and the one in Rust nothing, so that a real-time caller is served
//! by a normal thread.
//! The thread that is woken runs at its own priority until it has read the claim: behind others that
//! are more urgent than that, a caller waits as it does without. Only a kernel that wakes the thread
//! at the caller's priority closes that gap.

use std::cell::Cell;
use std::sync::OnceLock;

use handoff_placement::{Priority, Tid};

use super::device::Implementation;
use crate::claim::Claim;
use crate::code::Code;
use crate::parcel::{Reader, Writer};
use crate::{Result, pool, shm, stats};

/// Asks an object whether calls to it may carry a claim. Whoever does not know the question says so, as
/// for any transaction that it does not know: objects of other runtimes get plain calls.
pub(super) const ASK: Code = u32::from_be_bytes(*b"_HPR");

/// In a transaction's flags: a claim stands in front of the interface token. The driver passes flags that
/// it does not know on.
pub(super) const TF_CLAIM: u32 = 0x0800_0000;

thread_local! {
    // What a looper runs at, as it set it itself; `None` on every other thread.
    static LOOPER: Cell<Option<Priority>> = const { Cell::new(None) };
    // Calls that this thread serves, one inside of the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Puts the calling thread's claim in front of a call.
pub(super) fn write(to: &mut Writer<'_>) -> Result<()> {
    let (priority, tid) = shm::caller();
    to.write_i32(priority as i32)?;
    to.write_i32(tid as i32)
}

/// Takes it from there.
#[cold]
pub(super) fn read(from: &mut Reader<'_>) -> Result<Claim> {
    Ok(Claim { priority: from.read_i32()? as u32, tid: from.read_i32()? as u32 })
}

/// The calling thread serves calls until it ends, beginning at the process's own priority: it was
/// started by whichever thread the driver asked, which may have been raised.
pub(super) fn begin_looping() {
    let base = pool::base();
    if Priority::current().ok() != Some(base) {
        change(base);
    }
    LOOPER.set(Some(base));
}

/// Serves a call at `wanted`.
#[inline(never)]
pub(super) fn at<R>(wanted: Priority, serve: impl FnOnce() -> R) -> R {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    let outcome = match LOOPER.get().filter(|_| depth == 0) {
        Some(now) => {
            // It stays so until another call needs something else: the reply is written at it, and the
            // next call of the same caller finds it set.
            if differs(now, wanted, driver_lends_nice()) && change(wanted) {
                LOOPER.set(Some(wanted));
            }
            serve()
        }
        None => {
            let before = Priority::current().ok().filter(|before| *before != wanted);
            let changed = before.is_some() && change(wanted);
            let outcome = serve();
            if let (true, Some(before)) = (changed, before) {
                change(before);
            }
            outcome
        }
    };
    DEPTH.set(depth);
    outcome
}

/// Whether a thread that set `now` itself has to change to serve at `wanted`. A nice value is the driver's to lend,
/// where the driver does so.
fn differs(now: Priority, wanted: Priority, driver_lends_nice: bool) -> bool {
    (now.policy, now.rt) != (wanted.policy, wanted.rt) || (!driver_lends_nice && now.nice != wanted.nice)
}

fn driver_lends_nice() -> bool {
    static LENDS: OnceLock<bool> = OnceLock::new();
    *LENDS.get_or_init(|| Implementation::running() != Implementation::Rust)
}

fn change(wanted: Priority) -> bool {
    match wanted.apply(Tid::current()) {
        Ok(()) => {
            stats::PRIORITY_CHANGES.add();
            // Calls that this thread makes meanwhile claim what it has now.
            shm::priority_changed();
            true
        }
        Err(error) => {
            stats::inherit_denied(&error);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;
    use handoff_testkit::{require, require_realtime};

    #[test]
    fn a_claim_goes_there_and_back() {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        write(&mut writer).unwrap();
        writer.finish();
        let claim = read(&mut Reader::new(SharedBytes::from_slice(&bytes))).unwrap();
        assert_eq!(claim.tid, Tid::current().as_raw().unsigned_abs());
        assert_eq!(Priority::unpack(claim.priority), Priority::current().ok());
        assert!(read(&mut Reader::new(SharedBytes::from_slice(&bytes[..5]))).is_err());
    }

    #[test]
    fn a_nice_value_is_set_where_the_driver_lends_none() {
        let (now, nicer) = (Priority::other(0), Priority::other(-5));
        assert!(!differs(now, nicer, true) && differs(now, nicer, false));
        assert!(!differs(now, now, false) && differs(now, Priority::fifo(1), true));
    }

    #[test]
    fn a_looper_stays_raised_and_others_go_back() {
        require!(require_realtime());
        let urgent = Priority::fifo(7);
        std::thread::spawn(move || {
            let normal = Priority::current().unwrap();
            let within = at(urgent, || Priority::current().unwrap());
            assert_eq!((within, Priority::current().unwrap()), (urgent, normal), "no looper");
            begin_looping();
            at(urgent, || {
                at(Priority::fifo(3), || assert_eq!(Priority::current().unwrap(), Priority::fifo(3)));
                assert_eq!(Priority::current().unwrap(), urgent, "a nested call gives it back");
            });
            assert_eq!(Priority::current().unwrap(), urgent, "until another call needs something else");
            at(pool::base(), || assert_eq!(Priority::current().unwrap(), pool::base()));
        })
        .join()
        .unwrap();
    }
}
