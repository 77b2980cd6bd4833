//! Oneway calls: `ring.rs` is their memory, `bell.rs` says who looks at it, `backlog.rs` when a call's place is
//! free again, `patience.rs` how long a thread looks; `ends.rs` has the sending and the receiving end.

#[cfg(not(loom))]
mod backlog;
mod bell;
#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod patience;
#[cfg(not(loom))]
pub(crate) mod ring;

#[cfg(not(loom))]
pub(crate) use ends::{INBOX, Receiver, Sender, send};
#[cfg(not(loom))]
pub(crate) use ring::REGION;
