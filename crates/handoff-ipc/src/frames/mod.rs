//! Frames: buffers that one process fills and others look at, again and again, without a copy.
//!
//! A *pool* has up to 31 buffers in sealed memory that consumers can only read. The producer takes a free
//! one, fills it and publishes it; each consumer holds it as long as it looks, and gives it back. No call
//! is made for a frame: both directions are bits of an event flag (the fences), which cost a system call
//! only if somebody sleeps.
//!
//! ```
//! use std::time::Duration;
//! use handoff_ipc::frames::{FrameConsumer, FrameOptions, FramePool};
//!
//! // The producer registers `pool.binder()` under a name …
//! let pool = FramePool::new(FrameOptions::new(4, 640 * 480))?;
//! let mut camera = FrameConsumer::subscribe(&pool.binder())?;
//! let mut frame = pool.acquire(Some(Duration::from_secs(1)))?;
//! frame.write_at(0, b"pixels")?;
//! frame.publish(6)?;
//!
//! // … and a consumer, in this process or another, looks at what comes.
//! let frame = camera.next(Some(Duration::from_secs(1)))?;
//! assert_eq!(frame.bytes().to_vec(), b"pixels");
//! # Ok::<(), handoff_ipc::Error>(())
//! ```
//!
//! **What a consumer can do.** Each has a page of its own for its bits, and says there only which frames *it*
//! gives back: bits of frames that it does not hold are not looked at. It can hold no more than
//! [`FrameOptions::max_held`] frames; while it does, it misses further ones. It can only read frames. One
//! that dies gives back what it held, and with [`FrameOptions::reclaim_after`] so does one that never does.
//! What it could still do is to keep others waiting by holding frames: give the pool more buffers than
//! consumers may hold together.
//!
//! **What a producer can do.** Change a frame while it is looked at, or say nonsense about it: lengths are
//! checked, and [`SharedBytes`](crate::parcel::SharedBytes) is read by copies.

mod consumer;
mod producer;

use std::sync::Arc;
use std::time::Duration;

pub use consumer::{Frame, FrameConsumer};
pub use producer::{FrameOptions, FramePool, FrameSlot};

use crate::code::Code;
use crate::queue::EventFlag;
use crate::{Error, Result, SharedMemory};

/// The interface of a pool.
pub(crate) const DESCRIPTOR: &str = "handoff.IFramePool";
/// Takes an object of the consumer, whose end is its own; gives the memory of [`Shared`].
const SUBSCRIBE: Code = 1;
/// Oneway; takes the same object: the consumer wants no more frames.
const UNSUBSCRIBE: Code = 2;

/// Most buffers: one bit each, and one for news.
const MOST: usize = 31;
/// In a consumer's flag of what is ready: look whether the producer lives.
const NEWS: u32 = 1 << 31;

/// Bytes of what is told of one frame: number, time, length, eight bytes each.
const ABOUT: usize = 32;
/// Longest wait without a look at whether the other side lives.
const LOOK: Duration = Duration::from_millis(100);

/// What a consumer shares with the producer alone: bits of frames that are ready, and that it gave back.
struct Bits {
    ready: EventFlag,
    returned: EventFlag,
}

impl Bits {
    fn over(memory: SharedMemory) -> Result<Self> {
        let memory = Arc::new(memory);
        // Apart from each other, so that the two sides do not fight for a cache line.
        Ok(Bits { ready: EventFlag::over(Arc::clone(&memory), 0)?, returned: EventFlag::over(memory, 128)? })
    }
}

/// What is told of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct About {
    sequence: u64,
    time_ns: u64,
    len: u64,
}

impl About {
    fn to_bytes(self) -> [u8; ABOUT] {
        let mut bytes = [0; ABOUT];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn read(memory: &SharedMemory, index: usize) -> Result<Self> {
        let bytes = memory.bytes().slice(index * ABOUT, ABOUT);
        let bytes =
            bytes.ok_or_else(|| Error::Protocol(format!("nothing is told of frame {index}")))?.to_vec();
        let word =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(About { sequence: word(0), time_ns: word(8), len: word(16) })
    }
}

/// The bit of a buffer.
fn bit(index: usize) -> u32 {
    1 << index
}

#[cfg(test)]
mod tests;
