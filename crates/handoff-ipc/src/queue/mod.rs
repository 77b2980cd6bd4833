//! Message queues: typed values in shared memory, from one process to another without a call.
//!
//! Memory layout, descriptor and rules are those of Android's fast message queue (FMQ, `libfmq`), so
//! that either end may be Android's. A queue is made by one process, its [`Descriptor`] travels in a
//! parcel on any engine, and another process attaches to it.
//!
//! | | [`Synchronized`] | [`Unsynchronized`] |
//! |---|---|---|
//! | writers | one | one |
//! | readers | one | any number, each sees every message |
//! | full | the write fails, nothing is lost | the oldest messages are overwritten |
//! | a reader that is too slow | holds the writer up | is told of the overflow, loses what is in the ring |
//! | blocking | yes, with an [`EventFlag`] | no; an [`EventFlag`] may be waited for by hand |
//!
//! Nothing is transferred in part: a read or write of `n` messages moves all of them or none.
//!
//! ```
//! use handoff_ipc::queue::{MessageQueue, Synchronized};
//!
//! // One process makes it and sends `queue.descriptor()?` in a parcel …
//! let queue = MessageQueue::<u32, Synchronized>::with_event_flag(128)?;
//! let mut writer = queue.writer()?;
//! writer.write(&[1, 2, 3])?;
//!
//! // … another attaches to what it received.
//! let theirs = MessageQueue::attach(queue.descriptor()?)?;
//! let mut reader = theirs.reader()?;
//! let mut values = [0; 3];
//! reader.read_blocking(&mut values, None)?;
//! assert_eq!(values, [1, 2, 3]);
//! # Ok::<(), handoff_ipc::Error>(())
//! ```
//!
//! **What a peer can do.** It may write any value anywhere into the memory at any time. Counters are
//! checked on each use: one that is out of range or not at the start of a message is
//! [`QueueError::Broken`], and no access leaves the ring. What the messages hold is the peer's word.
//! Memory whose size is not sealed is refused, because its owner could take it away under a reader
//! ([`Descriptor::trusting_memory`] accepts it from a peer that is trusted).
//!
//! Read in this order: `handoff_sync::ring` is the protocol of the counters, `handoff_sync::event_word` that of the
//! flag, `memory.rs` what they lie in, `writer.rs` and `reader.rs` the two ends.

mod ahead;
#[cfg(feature = "tokio")]
mod asynchronous;
mod blocking;
mod builder;
mod descriptor;
mod error;
mod event_flag;
mod item;
mod memory;
mod message_queue;
mod reader;
mod span;
#[cfg(feature = "tokio")]
mod watcher;
mod writer;

pub use blocking::Blocking;
pub use builder::Builder;
pub use descriptor::{Descriptor, Flavor, Grantor, Role, Synchronized, Unsynchronized};
pub use error::QueueError;
pub use event_flag::{EventFlag, NOT_EMPTY, NOT_FULL};
pub use item::{Item, ItemMut, ItemRef};
pub use message_queue::MessageQueue;
pub use reader::{ReadTransaction, Reader};
pub use span::{ReadSpan, WriteSpan};
pub use writer::{WriteTransaction, Writer};
