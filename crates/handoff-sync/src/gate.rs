//! One thread in, and somebody else who closes the door: without a locked instruction on the way in
//! or out.
//!
//! A caller's slot belongs to one thread at a time, which goes in and out with every call; the
//! end of a peer comes once in a connection's life. So all the cost is on the side of the
//! end: it asks the kernel to run a barrier on every CPU that runs a thread of this process
//! (`membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`), and the thread that goes in or out only
//! keeps the compiler from moving its two accesses past each other. Where the kernel has no such
//! call, and until this process has registered for it, both sides run an ordinary fence.
//!
//! To register takes the kernel an RCU grace period, some 15 ms, if the process has threads already. So that is
//! done early ([`prepare`]) or by a thread of its own.

use crate::futex::{AtomicBool, Ordering, fence};

/// Who is in, and whether anybody may still enter.
#[derive(Debug)]
pub struct Gate {
    inside: AtomicBool,
    closed: AtomicBool,
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
        prepare();
        Gate { inside: AtomicBool::new(false), closed: AtomicBool::new(false) }
    }
}

impl Gate {
    /// By the thread that owns the entry at present. False: it is closed, and the thread leaves with
    /// [`Gate::leave`] like one that had been in.
    #[inline]
    pub fn enter(&self) -> bool {
        self.inside.store(true, Ordering::Relaxed);
        light_fence();
        !self.closed.load(Ordering::Acquire)
    }

    /// True if the gate was closed: then cleaning up is this thread's, or was the closer's, and each
    /// of the two must be ready to find it done.
    #[inline]
    pub fn leave(&self) -> bool {
        self.inside.store(false, Ordering::Release);
        light_fence();
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
        let seen = heavy_fence();
        if seen && !self.inside.load(Ordering::Acquire) { Occupancy::Empty } else { Occupancy::Inside }
    }
}

#[inline]
fn light_fence() {
    if is_registered() {
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// After it, every other thread of the process has passed a full barrier, too, or runs its own.
///
/// A closer that finds the process not registered has closed the gate before the fence of [`register`]; whoever finds it
/// registered looks at the gate after that, and sees it closed.
fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    !is_registered() || barrier_everywhere()
}

/// Registers this process for the kernel's barriers, once: at once while it has one thread, else on a thread of its own.
/// Gates work meanwhile, and a little slower.
#[cfg(not(loom))]
pub fn prepare() {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Once;

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The kernel counts a link for each thread, and two for the folder.
        let is_alone = std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3);
        if is_alone {
            register();
        } else {
            // Without a thread the gates keep to fences.
            let thread = std::thread::Builder::new().name("handoff-barrier".into()).stack_size(64 << 10);
            drop(thread.spawn(register));
        }
    });
}

#[cfg(not(loom))]
static REGISTERED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(not(loom))]
fn register() {
    use rustix::thread::{MembarrierCommand, membarrier};

    if membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() {
        fence(Ordering::SeqCst);
        REGISTERED.store(true, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[inline]
fn is_registered() -> bool {
    REGISTERED.load(Ordering::Acquire)
}

#[cfg(not(loom))]
fn barrier_everywhere() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};

    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

// The kernel's barrier cannot be had inside of a model: it checks the fences.
/// Does nothing: a model has fences only.
#[cfg(loom)]
pub fn prepare() {}

#[cfg(loom)]
fn is_registered() -> bool {
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
    /// it gone, with fences, with the kernel's barrier, and while the one follows the other.
    #[test]
    fn what_is_guarded_stays_while_somebody_is_inside() {
        let registers = std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            register();
        });
        let mut expedited = 0;
        while expedited < 200 {
            expedited += u32::from(is_registered());
            take_away_under_a_visitor();
            assert!(!registers.is_finished() || is_registered(), "this kernel has no such barrier");
        }
        registers.join().unwrap();
    }

    fn take_away_under_a_visitor() {
        let gate = Gate { inside: AtomicBool::new(false), closed: AtomicBool::new(false) };
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
