//! The seam between the programming model and what carries the calls.
//!
//! Two real things stand on either side of it: the shared-memory engine and the kernel's Binder
//! driver (`BC_TRANSACTION` with a handle, `BC_REQUEST_DEATH_NOTIFICATION`, handle 0 as the context
//! object, `BINDER_SET_MAX_THREADS`). Calls to objects of the same process need neither.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::Domain;
use crate::interface::InterfaceId;
use crate::object::{Binder, CallOptions, Code};
use crate::parcel::{Reader, Writer};
use crate::{Error, Result};

/// Which engine carries a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// A direct virtual call in one process.
    Local,
    /// Shared memory and futexes in user space.
    Shm,
    /// The kernel's Binder driver.
    Binder,
}

impl EngineKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Local => "local",
            EngineKind::Shm => "shm",
            EngineKind::Binder => "binder",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no [`EngineKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no engine is called {0:?}: local, shm or binder")]
pub struct UnknownEngine(String);

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        [EngineKind::Local, EngineKind::Shm, EngineKind::Binder]
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

/// A transaction on its way out.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutCall {
    /// Number of the transaction.
    pub code: Code,
    /// Nobody waits for it.
    pub oneway: bool,
    /// How long the caller waits.
    pub deadline: Option<Duration>,
    /// Buffers are cleared when they are freed.
    pub clear_buffers: bool,
    /// The user on whose account it is made.
    pub work_source: Option<u32>,
    /// The interface that the caller means the object to have.
    pub interface: Option<InterfaceId>,
}

impl OutCall {
    /// A synchronous call of this number.
    pub(crate) fn of(code: Code) -> Self {
        OutCall { code, ..OutCall::default() }
    }

    /// [`OutCall::of`], with what the caller asked for.
    pub(crate) fn new(code: Code, options: CallOptions) -> Self {
        let CallOptions { deadline, clear_buffers, work_source, interface } = options;
        OutCall { code, oneway: false, deadline, clear_buffers, work_source, interface }
    }
}

/// Fills in a request; called at most once.
pub type WriteFn<'a> = &'a mut dyn FnMut(&mut Writer<'_>) -> Result<()>;

/// Takes a reply; called at most once.
pub type ReadFn<'a> = &'a mut dyn FnMut(&mut Reader<'_>) -> Result<()>;

/// Hears whether a process is frozen.
pub type FreezeNews = Arc<dyn Fn(bool) + Send + Sync>;

/// An object of another process, as one engine sees it.
pub trait Remote: Send + Sync {
    /// The engine.
    fn engine(&self) -> EngineKind;

    /// Carries one transaction there, and its reply back.
    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()>;

    /// An error if the call means an interface that the object does not have; `transact` begins with it.
    fn check_interface(&self, call: &OutCall) -> Result<()>;

    /// Whether the object's process is known to run as the user of this one.
    fn is_of_own_user(&self) -> bool;

    /// Runs `died` once when the object's process ends.
    fn link_to_death(&self, died: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration>;

    /// Runs `changed` when the object's process is frozen or thawed.
    fn on_freeze(&self, _changed: FreezeNews) -> Result<DeathRegistration> {
        Err(Error::Unsupported { engine: self.engine().name(), what: "tell when a process is frozen".into() })
    }

    /// False once the object's process is known to be gone.
    fn is_alive(&self) -> bool;

    /// Lets an engine know its own objects again when they are sent on.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A death recipient, or one of news of freezing, that is in place. Dropping it takes it back;
/// [`DeathRegistration::keep`] leaves it in place for as long as the object lives.
#[must_use = "dropping it at once takes the death recipient back"]
pub struct DeathRegistration {
    unlink: Option<Box<dyn FnOnce() + Send>>,
}

impl DeathRegistration {
    pub(crate) fn new(unlink: impl FnOnce() + Send + 'static) -> Self {
        DeathRegistration { unlink: Some(Box::new(unlink)) }
    }

    /// Leaves the recipient in place.
    pub fn keep(mut self) {
        self.unlink = None;
    }
}

impl Drop for DeathRegistration {
    fn drop(&mut self) {
        if let Some(unlink) = self.unlink.take() {
            unlink();
        }
    }
}

impl fmt::Debug for DeathRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeathRegistration")
    }
}

/// Carries the calls of a process.
pub trait Engine: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> EngineKind;

    /// The domain that it was opened for; `None` where one engine carries the calls of all.
    fn domain(&self) -> Option<Domain> {
        None
    }

    /// The object that everybody knows: the service manager.
    fn context_object(&self) -> Result<Binder>;

    /// Makes `manager` the object that everybody knows.
    fn become_context_manager(&self, manager: Binder) -> Result<()>;

    /// Limits the threads that serve one user's calls at one time. All users together have twice as many, unless it
    /// is 1.
    fn set_max_threads(&self, threads: usize);

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
    pub held: Held,
}

/// What a process holds for others, as its ledger counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Connections, and descriptors that nobody has taken out of a parcel.
    pub descriptors: u64,
    /// Regions of shared memory that peers made.
    pub mappings: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects of this process that others may call.
    pub exports: u64,
    /// Introductions that were not taken up.
    pub introductions: u64,
    /// Threads that wait for a peer while another one stands in.
    pub threads: u64,
}

impl Held {
    /// True if it is no more than another, of anything.
    pub fn is_within(&self, other: &Held) -> bool {
        let all = |held: &Held| {
            [held.descriptors, held.mappings, held.bytes, held.exports, held.introductions, held.threads]
        };
        all(self).iter().zip(all(other)).all(|(mine, theirs)| *mine <= theirs)
    }
}
