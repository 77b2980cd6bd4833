//! The seam between the programming model and what carries the calls.
//!
//! Three real things stand on the other side of it: the shared-memory engine, the kernel's Binder
//! driver (`BC_TRANSACTION` with a handle, `BC_REQUEST_DEATH_NOTIFICATION`, handle 0 as the context
//! object, `BINDER_SET_MAX_THREADS`), and Binder RPC over sockets. Calls to objects of the same process need none.

use crate::Result;
pub use crate::call::OutCall;
use crate::context::Context;
pub use crate::death::DeathRegistration;
pub use crate::engine_kind::{EngineKind, UnknownEngine};
use crate::object::Binder;
pub use crate::object::{FreezeNews, ReadFn, Remote, WriteFn};
pub use crate::stats::HeldResources;

/// Carries the calls of a process.
pub trait Engine: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> EngineKind;

    /// The context that it was opened for; `None` where one engine carries the calls of all.
    fn context(&self) -> Option<Context> {
        None
    }

    /// The object that everybody knows: the service manager.
    fn context_object(&self) -> Result<Binder>;

    /// Makes `manager` the object that everybody knows.
    fn become_context_manager(&self, manager: Binder) -> Result<()>;

    /// Other processes that have a reference to an object of this one, without the service manager's, and introductions to it
    /// that are under way, of which one process may have several; if the engine knows.
    fn holders(&self, _object: &Binder) -> Option<usize> {
        None
    }

    /// Limits the threads that serve one user's calls at one time. All users together have twice as many, unless it
    /// is 1.
    fn set_max_threads(&self, threads: usize);

    /// Has the calling thread look at its priority before its next call. Without it, a thread that changes its
    /// priority notices within 16 calls.
    fn priority_changed(&self) {
        crate::shm::priority_changed();
    }

    /// What happened so far.
    fn stats(&self) -> EngineStats;
}

/// What an engine did since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Synchronous calls made by this process.
    pub calls: u64,
    /// Synchronous calls served by this process.
    pub served: u64,
    /// Oneway calls served by this process.
    pub served_oneway: u64,
    /// Calls whose reply was caught spinning.
    pub spun: u64,
    /// Calls that slept in the kernel until their reply came.
    pub slept: u64,
    /// Calls made with the callee asked to wait beside its caller.
    pub beside: u64,
    /// Times a serving thread took over another priority.
    pub priority_changes: u64,
    /// Times a busy thread was raised for a more urgent caller that queued behind it.
    pub raised: u64,
    /// Priorities that this process may not set: inheritance was not possible.
    pub inherit_denied: u64,
    /// Threads of the pool, now.
    pub threads: u64,
    /// Connections to other processes, now.
    pub links: u64,
    /// Oneway calls of this process after which the kernel's driver suspected it of flooding the receiver.
    pub oneway_spam: u64,
    /// Returns of the kernel's driver that this version does not know, and passed over.
    pub unknown_returns: u64,
    /// What peers asked this process to hold for them beyond their share, and were refused.
    pub refused: u64,
    /// Control messages that were read from other processes.
    pub messages: u64,
    /// What this process holds for others, now.
    pub held: HeldResources,
}
