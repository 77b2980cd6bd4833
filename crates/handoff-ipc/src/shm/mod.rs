//! The `shm` engine: calls between processes through shared memory, in user space.
//!
//! Read in this order: `word.rs` is the hand-off protocol, `wait.rs` how both sides sleep at it, `slot.rs` the memory it governs,
//! `client.rs` and `server.rs` the two sides of a call; `follow.rs` decides how to wait.
//! Oneway calls go another way: `ring.rs`, `bell.rs` and `backlog.rs`, and `oneway.rs` with both ends. Off the
//! fast path, `core.rs` connects processes and reads their control messages (`wire.rs`,
//! `socket.rs`), and `link/` holds what two processes share: objects, slots, descriptors, death.
//! Calls and handlers without a thread (feature `tokio`) are in `outstanding.rs` and `tasks.rs`.

#[cfg(not(loom))]
mod backlog;
mod bell;
#[cfg(not(loom))]
mod caller_slot;
#[cfg(not(loom))]
mod client;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
pub(crate) mod follow;
mod gate;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod objects;
#[cfg(not(loom))]
mod oneway;
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) mod outstanding;
#[cfg(all(test, not(loom)))]
mod pair;
#[cfg(not(loom))]
mod patience;
#[cfg(not(loom))]
pub mod phases;
#[cfg(not(loom))]
mod place;
#[cfg(not(loom))]
pub(crate) mod region;
#[cfg(not(loom))]
mod remote;
#[cfg(not(loom))]
pub(crate) mod ring;
#[cfg(not(loom))]
mod server;
#[cfg(not(loom))]
mod serving;
#[cfg(not(loom))]
mod slot;
#[cfg(not(loom))]
mod socket;
mod spurious;
pub(crate) mod sync;
mod wait;
#[cfg(not(loom))]
pub(crate) mod wire;
mod word;

#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
pub(crate) use client::me as caller;
#[cfg(not(loom))]
pub use engine::{ShmEngine, follow_callers, priority_changed};
