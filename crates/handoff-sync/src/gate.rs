//! One thread in, and somebody else who closes the door: without a locked instruction on the way in
//! or out.
//!
//! A caller's slot belongs to one thread at a time, which goes in and out with every call; the
//! end of a peer comes once in a connection's life. So all the cost is on the side of the
//! end: it asks the kernel to run a barrier on every CPU that runs a thread of this process
//! (`membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`), and the thread that goes in or out only
//! keeps the compiler from moving its two accesses past each other. Where the kernel has no such
//! call, both sides run an ordinary fence.

use crate::futex::{AtomicBool, Ordering, fence};

/// Who is in, and whether anybody may still enter.
#[derive(Debug)]
pub struct Gate {
    inside: AtomicBool,
    closed: AtomicBool,
    /// The closing side interrupts the others, see [`expedited`].
    expedited: bool,
}

/// What [`Gate::close`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// Nobody is inside, and nobody will be: what the gate guards is the closer's.
    Empty,
    /// A thread is inside. It learns from [`Gate::leave`] that it is to clean up.
    Inside,
}

impl Default for Gate {
    /// Open, with nobody inside.
    fn default() -> Self {
        Gate { inside: AtomicBool::new(false), closed: AtomicBool::new(false), expedited: expedited() }
    }
}

impl Gate {
    /// By the thread that owns the entry at present. False: it is closed, and the thread leaves with
    /// [`Gate::leave`] like one that had been in.
    #[inline]
    pub fn enter(&self) -> bool {
        self.inside.store(true, Ordering::Relaxed);
        self.light_fence();
        !self.closed.load(Ordering::Acquire)
    }

    /// True if the gate was closed: then cleaning up is this thread's, or was the closer's, and each
    /// of the two must be ready to find it done.
    #[inline]
    pub fn leave(&self) -> bool {
        self.inside.store(false, Ordering::Release);
        self.light_fence();
        self.closed.load(Ordering::Acquire)
    }

    /// Whether [`Gate::close`] was called.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Nobody enters after this.
    pub fn close(&self) -> Occupancy {
        self.closed.store(true, Ordering::Release);
        // A fence that the kernel refuses leaves the guarded thing to the last owner's drop.
        let seen = self.heavy_fence();
        if seen && !self.inside.load(Ordering::Acquire) { Occupancy::Empty } else { Occupancy::Inside }
    }

    #[inline]
    fn light_fence(&self) {
        if self.expedited {
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// After it, every other thread of the process has passed a full barrier, too, or runs its own.
    fn heavy_fence(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.expedited || barrier_everywhere()
    }
}

#[cfg(not(loom))]
fn expedited() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::OnceLock;

    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

#[cfg(not(loom))]
fn barrier_everywhere() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};

    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

// The kernel's barrier cannot be had inside of a model: it checks the fences.
#[cfg(loom)]
fn expedited() -> bool {
    false
}

#[cfg(loom)]
fn barrier_everywhere() -> bool {
    true
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_enters_a_closed_gate() {
        let gate = Gate::default();
        assert!(gate.enter() && !gate.leave() && !gate.is_closed());
        assert_eq!(gate.close(), Occupancy::Empty);
        assert!(!gate.enter() && gate.leave() && gate.is_closed());
    }

    #[test]
    fn whoever_is_inside_is_told_when_it_leaves() {
        let gate = Gate::default();
        assert!(gate.enter());
        assert_eq!(gate.close(), Occupancy::Inside);
        assert!(gate.leave());
    }

    /// The thing that the gate guards is taken away under threads that go in and out: none may see
    /// it gone, with the kernel's barrier as it is used in earnest and with fences.
    #[test]
    fn what_is_guarded_stays_while_somebody_is_inside() {
        for expedited in [expedited(), false] {
            for _ in 0..200 {
                let gate = Gate { expedited, ..Gate::default() };
                let (guarded, entered) = (AtomicU64::new(7), AtomicU64::new(0));
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while gate.enter() {
                            assert_eq!(guarded.load(Ordering::Relaxed), 7);
                            entered.fetch_add(1, Ordering::Relaxed);
                            if gate.leave() {
                                return;
                            }
                        }
                        gate.leave();
                    });
                    while entered.load(Ordering::Relaxed) == 0 {
                        std::hint::spin_loop();
                    }
                    if gate.close() == Occupancy::Empty {
                        guarded.store(0, Ordering::Relaxed);
                    }
                });
            }
        }
    }
}

/// Every interleaving of one closing side and a thread that goes in and out.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    #[test]
    fn what_is_guarded_goes_once_everybody_has_left_and_surely_goes() {
        loom::model(|| {
            let gate = Arc::new(Gate::default());
            // 1: there; 0: gone.
            let guarded = Arc::new(AtomicU32::new(1));
            let user = {
                let (gate, guarded) = (Arc::clone(&gate), Arc::clone(&guarded));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let entered = gate.enter();
                        if entered {
                            assert_eq!(guarded.load(Ordering::Relaxed), 1, "gone under whoever is inside");
                        }
                        if gate.leave() {
                            guarded.store(0, Ordering::Relaxed);
                            return;
                        }
                    }
                })
            };
            if gate.close() == Occupancy::Empty {
                guarded.store(0, Ordering::Relaxed);
            }
            user.join().unwrap();
            assert_eq!(guarded.load(Ordering::Relaxed), 0, "nobody cleaned up");
        });
    }
}
