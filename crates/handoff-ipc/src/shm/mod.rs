//! The `shm` engine: calls between processes through shared memory, in user space.
//!
//! `call/` has synchronous calls, `oneway/` the others, which go another way. Off the fast path, `core.rs` connects
//! processes and reads their control messages (`wire.rs`, `socket.rs`), and `link/` holds what two processes
//! share: objects, slots, descriptors, death.

mod call;
mod core;
mod engine;
mod link;
mod objects;
pub(crate) mod oneway;
#[cfg(test)]
mod pair;
pub mod phases;
mod place;
mod proxy;
pub(crate) mod region;
mod remote;
mod socket;
pub(crate) mod wire;

#[cfg(feature = "tokio")]
pub(crate) use call::outstanding;
pub(crate) use call::serving::deeper;
use call::{client, slot};
pub(crate) use client::{me as caller, priority_changed};
pub use engine::ShmEngine;
pub(crate) use socket::{
    Received, peer as peer_of, receive_bytes, refuse_descriptors, refuses_descriptors, turn_down,
};
