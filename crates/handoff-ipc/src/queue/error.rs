//! What can go wrong with a queue.

use handoff_sync::ring::Fault;

/// A read or write that did not happen: nothing was transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue has not room enough.
    #[error("the queue has room for {0} more messages only: the reader does not keep up")]
    Full(usize),
    /// The queue has not so many messages.
    #[error("the queue holds {0} messages only")]
    Empty(usize),
    /// The queue could never hold so many messages at a time.
    #[error("{wanted} messages at a time are more than the queue's capacity of {capacity}")]
    TooMany {
        /// Messages asked for.
        wanted: usize,
        /// Messages the queue holds.
        capacity: usize,
    },
    /// The writer of an unsynchronized queue overtook this reader, which goes on with what is
    /// written from now on.
    #[error("the writer overtook this reader: {0} messages were lost to it")]
    Overflow(u64),
    /// Another process wrote a counter that cannot be.
    #[error("the queue is broken: {0}")]
    Broken(&'static str),
    /// The time is over.
    #[error("nothing happened within the time allowed")]
    TimedOut,
    /// Blocking needs an event flag, and the queue has none.
    #[error("the queue has no event flag to wait for: make it with one, or pass one")]
    NoEventFlag,
    /// A set of no bits was to be waited for.
    #[error("no bits to wait for: name at least one")]
    NoBits,
    /// The writer, or the one reader of a synchronized queue, is in use.
    #[error("the queue's {0} is already in use in this process")]
    InUse(&'static str),
    /// More was committed than the transaction holds.
    #[error("{wanted} messages committed of a transaction of {held}")]
    BeyondTransaction {
        /// Messages committed.
        wanted: usize,
        /// Messages of the transaction.
        held: usize,
    },
}

impl QueueError {
    /// What a counter was found to be, for messages of `quantum` bytes.
    #[cold]
    pub(super) fn from_fault(fault: Fault, quantum: u64) -> Self {
        match fault {
            Fault::Misaligned(_) => QueueError::Broken("a counter is not at the start of a message"),
            Fault::Apart { .. } => QueueError::Broken("its counters are further apart than it is long"),
            Fault::Overflow(bytes) => QueueError::Overflow(bytes / quantum),
        }
    }
}
