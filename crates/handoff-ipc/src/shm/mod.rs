//! The `shm` engine: calls between processes through shared memory, in user space.
//!
//! `call/` has synchronous calls, `oneway/` the others, which go another way. Off the fast path, `core.rs` connects
//! processes and reads their control messages (`wire.rs`, `socket.rs`), and `link/` holds what two processes
//! share: objects, slots, descriptors, death.

mod call;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod objects;
pub(crate) mod oneway;
#[cfg(all(test, not(loom)))]
mod pair;
#[cfg(not(loom))]
pub mod phases;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
mod proxy;
#[cfg(not(loom))]
pub(crate) mod region;
#[cfg(not(loom))]
mod remote;
#[cfg(not(loom))]
mod socket;
mod spurious;
pub(crate) mod sync;
#[cfg(not(loom))]
pub(crate) mod wire;

#[cfg(not(loom))]
mod engine;
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) use call::outstanding;
#[cfg(not(loom))]
use call::{client, slot, wait_strategy};
#[cfg(not(loom))]
pub(crate) use client::me as caller;
#[cfg(not(loom))]
pub use engine::{ShmEngine, follow_callers, priority_changed};
