//! Oneway calls: a ring of records each way on a link, and the queues behind it.
//!
//! The caller copies its request into the ring (`send.rs`) and goes on; it makes a system call only if nobody at the
//! other end looks. One thread there (`receive.rs`) takes records out and appends each to its object's queue, where
//! they are served one at a time and in order. A full ring is the sender's error; when calls keep their place in it
//! after they were taken out says `backlog.rs`. `ring.rs` is the memory, `bell.rs` says who looks at it, `stay.rs` in which order, `adaptive_spin.rs`
//! how long a thread looks, and `ends.rs` has what either end remembers.

#[cfg(not(loom))]
mod adaptive_spin;
#[cfg(not(loom))]
mod backlog;
mod bell;
#[cfg(not(loom))]
pub(crate) mod ends;
#[cfg(not(loom))]
mod receive;
#[cfg(not(loom))]
pub(crate) mod ring;
#[cfg(not(loom))]
mod send;
#[cfg(any(not(loom), test))]
mod stay;

#[cfg(not(loom))]
pub(crate) use ends::{INBOX, Receiver, Sender};
#[cfg(not(loom))]
pub(crate) use ring::REGION;
#[cfg(not(loom))]
pub(crate) use send::send;
