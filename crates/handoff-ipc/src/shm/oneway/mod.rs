//! Oneway calls: a ring of records each way on a link, and the queues behind it.
//!
//! The caller copies its request into the ring (`send.rs`) and goes on; it makes a system call only if nobody at the
//! other end looks. One thread there (`receive.rs`) takes records out and appends each to its object's queue, where
//! they are served one at a time and in order. A full ring is the sender's error; when calls keep their place in it
//! after they were taken out says `backlog.rs`. `ring.rs` is the memory, and `ends.rs` has what either end remembers. Who
//! looks at the ring, in which order and how long is `handoff_sync`'s (`bell`, `stay`, `adaptive_spin`).

mod backlog;
pub(crate) mod ends;
mod receive;
pub(crate) mod ring;
mod send;

pub(crate) use ends::{INBOX, Receiver, Sender};
pub(crate) use ring::REGION;
pub(crate) use send::send;
