//! Synchronous calls: `word.rs` is the hand-off protocol, `wait.rs` how both sides sleep at it, `slot.rs` the memory
//! it governs, `client.rs` and `server.rs` the two sides of a call, `caller_slot.rs` and `server_slot.rs` what each keeps of a slot, `request.rs` what the first hands over; `wait_strategy.rs` decides how to wait. Calls and
//! handlers without a thread (feature `tokio`) are in `outstanding.rs` and `tasks.rs`.

#[cfg(not(loom))]
pub(crate) mod caller_slot;
#[cfg(not(loom))]
pub(crate) mod client;
mod gate;
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) mod outstanding;
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) mod pending;
mod presence;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
pub(crate) mod server;
#[cfg(not(loom))]
pub(crate) mod server_slot;
#[cfg(not(loom))]
mod serving;
#[cfg(not(loom))]
pub(crate) mod slot;
mod wait;
#[cfg(not(loom))]
pub(crate) mod wait_strategy;
mod word;
