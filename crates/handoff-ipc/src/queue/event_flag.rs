//! Event flags: up to 32 events in one word of shared memory.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use handoff_sync::event_word;

use super::error::QueueError;
use super::memory::Memory;
use crate::{Error, Result, SharedMemory};

/// The bit that a reader sets once there is room (`FMQ_NOT_FULL`).
pub const NOT_FULL: u32 = 1;
/// The bit that a writer sets once there are messages (`FMQ_NOT_EMPTY`).
pub const NOT_EMPTY: u32 = 2;

/// Up to 32 events that processes wait for and raise, one bit each.
///
/// A bit that is raised while nobody waits stays, for whoever waits next; whoever waits for it
/// takes it. A queue may have one of its own ([`MessageQueue::event_flag`](super::MessageQueue::event_flag));
/// one for several queues lies in memory of its own.
///
/// ```
/// use handoff_ipc::queue::EventFlag;
///
/// let flag = EventFlag::new()?;
/// flag.wake(0b101)?;
/// assert_eq!(flag.wait(0b001, None)?, 0b001);
/// assert_eq!(flag.wait(0b110, None)?, 0b100);
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Clone)]
pub struct EventFlag {
    place: FlagMemory,
}

#[derive(Clone)]
enum FlagMemory {
    Queue(Arc<Memory>),
    Memory(Arc<SharedMemory>, usize),
}

impl EventFlag {
    /// One in memory of its own, which [`EventFlag::memory`] gives to be sent to others.
    ///
    /// # Errors
    /// If the kernel has no memory or descriptors left.
    pub fn new() -> Result<Self> {
        Self::over(Arc::new(SharedMemory::new(4096)?), 0)
    }

    /// One at byte `offset` of memory that others have, too.
    ///
    /// # Errors
    /// If the offset is no multiple of 4 or past the end, or the memory is read-only.
    pub fn over(memory: Arc<SharedMemory>, offset: usize) -> Result<Self> {
        match memory.word(offset) {
            Some(_) => Ok(EventFlag { place: FlagMemory::Memory(memory, offset) }),
            None => Err(Error::BadQueue(format!("an event flag at byte {offset} of {memory:?}"))),
        }
    }

    /// The flag of a queue that has one.
    pub(super) fn of(memory: &Arc<Memory>) -> Option<Self> {
        memory.flag().map(|_| EventFlag { place: FlagMemory::Queue(Arc::clone(memory)) })
    }

    /// The memory that it lies in; `None` if that is a queue's.
    pub fn memory(&self) -> Option<&SharedMemory> {
        match &self.place {
            FlagMemory::Memory(memory, _) => Some(memory),
            FlagMemory::Queue(_) => None,
        }
    }

    /// The word in shared memory, one bit an event, for what has its own way to set and take them. Others write to it.
    pub fn word(&self) -> &AtomicU32 {
        let word = match &self.place {
            FlagMemory::Queue(memory) => memory.flag(),
            FlagMemory::Memory(memory, offset) => memory.word(*offset),
        };
        match word {
            Some(word) => word,
            None => unreachable!("it was there when the flag was made, and memory does not change"),
        }
    }

    /// Raises events: all that wait for one that was not raised yet are woken.
    ///
    /// # Errors
    /// [`QueueError::NoBits`].
    #[inline]
    pub fn wake(&self, bits: u32) -> Result<(), QueueError> {
        event_word::wake(self.word(), NonZeroU32::new(bits).ok_or(QueueError::NoBits)?);
        Ok(())
    }

    /// Waits until one of the events is raised and takes those that are. No `timeout` waits for ever.
    ///
    /// # Errors
    /// [`QueueError::NoBits`], [`QueueError::TimedOut`].
    pub fn wait(&self, bits: u32, timeout: Option<Duration>) -> Result<u32, QueueError> {
        let bits = NonZeroU32::new(bits).ok_or(QueueError::NoBits)?;
        event_word::wait(self.word(), bits, timeout.map(deadline)).ok_or(QueueError::TimedOut)
    }

    /// Takes those of the events that are raised, without waiting.
    ///
    /// # Errors
    /// [`QueueError::NoBits`].
    pub fn take(&self, bits: u32) -> Result<u32, QueueError> {
        Ok(event_word::take(self.word(), NonZeroU32::new(bits).ok_or(QueueError::NoBits)?).0)
    }

    /// As [`event_word::retry`].
    pub(super) fn retry<T>(
        &self,
        bits: u32,
        deadline: Option<Duration>,
        attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, QueueError> {
        let bits = NonZeroU32::new(bits).ok_or(QueueError::NoBits)?;
        event_word::retry(self.word(), bits, deadline, attempt).ok_or(QueueError::TimedOut)
    }
}

/// The time of `CLOCK_MONOTONIC`, so much from now.
pub(super) fn deadline(timeout: Duration) -> Duration {
    event_word::now().saturating_add(timeout)
}

impl fmt::Debug for EventFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.word().load(std::sync::atomic::Ordering::Relaxed);
        write!(f, "EventFlag({bits:#x})")
    }
}
