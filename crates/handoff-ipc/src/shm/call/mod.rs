//! Synchronous calls: `slot.rs` is the memory that a hand-off word governs, `client.rs` and `server.rs` the two sides of
//! a call, `caller_slot.rs` and `server_slot.rs` what each keeps of a slot, `request.rs` what the first hands over. The
//! word, the loops that wait at it and how to wait are `handoff_sync`'s. Calls and handlers without a thread (feature
//! `tokio`) are in `outstanding.rs` and `tasks.rs`.

pub(crate) mod caller_slot;
pub(crate) mod client;
#[cfg(feature = "tokio")]
pub(crate) mod outstanding;
#[cfg(feature = "tokio")]
pub(crate) mod pending;
mod request;
pub(crate) mod server;
pub(crate) mod server_slot;
pub(crate) mod serving;
pub(crate) mod slot;
