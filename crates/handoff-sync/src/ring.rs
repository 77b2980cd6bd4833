//! The protocol of a queue's counters.
//!
//! Both count bytes without end; a message lies at its counter modulo the ring's size. The writer
//! publishes what it wrote by moving `write`, a synchronized reader frees what it read by moving
//! `read`. An unsynchronized reader's counter is its own, and the writer never waits for it: such a
//! reader copies first and then looks whether what it copied may have been overwritten meanwhile.
//!
//! `reserve` closes a gap that FMQ has there: with `write` alone a reader that is just one ring
//! behind cannot see that the writer has begun to write over its message. A writer of ours says so
//! in `reserve` before it touches the ring. It is a word of its own at the end of the descriptor,
//! which other implementations ignore.
//!
//! Every counter lies in memory that a peer may scribble on. Each value is checked against the other
//! one before it is used, and offsets are below the ring's size whatever the counters say.

use crate::futex::{AtomicU64, Ordering, fence};

/// The counters in shared memory.
#[derive(Clone, Copy)]
pub struct Counters<'a> {
    /// Bytes read, by a synchronized reader.
    pub read: &'a AtomicU64,
    /// Bytes written.
    pub write: &'a AtomicU64,
    /// How far the writer may have written already.
    pub reserve: Option<&'a AtomicU64>,
}

/// How large a ring and its messages are. The first is a multiple of the second; neither is 0.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of the ring.
    pub size: u64,
    /// Bytes of a message.
    pub quantum: u64,
}

/// What a counter in shared memory was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A counter is not at the start of a message.
    Misaligned(u64),
    /// The counters are further apart than the ring is long.
    Apart {
        /// Bytes read.
        read: u64,
        /// Bytes written.
        write: u64,
    },
    /// The writer went past the reader; this many bytes were passed over.
    Overflow(u64),
}

/// Where one end stands.
/// A new one looks at everything anew on its first use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    /// Bytes that this end has read or written.
    pub at: u64,
    /// What it was at the ring's start: less than a ring ago, always. Kept in place of the offset, which
    /// would have to be stored for each message.
    lap: u64,
    /// How far this end may go by what it last saw of the other one's counter: never more than a
    /// ring ahead of `at`.
    limit: u64,
}

impl Cursor {
    /// Offset of the next message in the ring.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.at.wrapping_sub(self.lap)
    }

    /// Bytes that this end may go by what it last saw.
    #[inline]
    pub fn left(&self) -> u64 {
        self.limit.wrapping_sub(self.at)
    }

    /// Takes the value of a counter over.
    #[cold]
    fn jump(&mut self, to: u64, shape: Shape) -> Result<(), Fault> {
        if to % shape.quantum != 0 {
            return Err(Fault::Misaligned(to));
        }
        self.at = to;
        self.lap = to - to % shape.size;
        self.limit = to;
        Ok(())
    }

    #[inline]
    fn advance(&mut self, bytes: u64, shape: Shape) {
        self.at = self.at.wrapping_add(bytes);
        if self.offset() >= shape.size {
            self.lap = self.lap.wrapping_add(shape.size);
        }
    }

    /// Bytes between the two counters, checked.
    #[inline]
    fn between(read: u64, write: u64, shape: Shape) -> Result<u64, Fault> {
        let bytes = write.wrapping_sub(read);
        if bytes > shape.size {
            return Err(Fault::Apart { read, write });
        }
        if bytes % shape.quantum != 0 {
            return Err(Fault::Misaligned(write));
        }
        Ok(bytes)
    }

    /// Synchronized: whether `want` bytes are this end's by what it last saw, and nobody moved its
    /// `own` counter.
    ///
    /// This is all that most messages cost: the other end's counter is looked at and checked where
    /// this says no.
    #[inline]
    pub fn granted(&self, own: &AtomicU64, want: u64) -> bool {
        own.load(Ordering::Relaxed) == self.at && self.left() >= want
    }

    /// Synchronized writer: bytes that are free by the reader's counter.
    #[inline]
    pub fn free(&mut self, counters: Counters<'_>, shape: Shape) -> Result<u64, Fault> {
        let own = counters.write.load(Ordering::Relaxed);
        if own != self.at {
            // Another writer was here before, or somebody scribbled.
            self.jump(own, shape)?;
        }
        let read = counters.read.load(Ordering::Acquire);
        let free = shape.size - Self::between(read, self.at, shape)?;
        self.limit = self.at.wrapping_add(free);
        Ok(free)
    }

    /// Unsynchronized writer: takes its own counter over if it moved.
    #[inline]
    pub fn locate(&mut self, counters: Counters<'_>, shape: Shape) -> Result<(), Fault> {
        let own = counters.write.load(Ordering::Relaxed);
        if own == self.at { Ok(()) } else { self.jump(own, shape) }
    }

    /// Unsynchronized writer: says that `bytes` from here on are about to be overwritten.
    #[inline]
    pub fn claim(&self, counters: Counters<'_>, bytes: u64) {
        if let Some(reserve) = counters.reserve {
            reserve.store(self.at.wrapping_add(bytes), Ordering::Relaxed);
            // Before any store to the ring.
            fence(Ordering::Release);
        }
    }

    /// Writer: `bytes` from here on are written.
    #[inline]
    pub fn publish(&mut self, counters: Counters<'_>, shape: Shape, bytes: u64) {
        self.advance(bytes, shape);
        counters.write.store(self.at, Ordering::Release);
    }

    /// Synchronized reader: bytes that are there by the writer's counter.
    #[inline]
    pub fn ready(&mut self, counters: Counters<'_>, shape: Shape) -> Result<u64, Fault> {
        let own = counters.read.load(Ordering::Relaxed);
        if own != self.at {
            self.jump(own, shape)?;
        }
        let write = counters.write.load(Ordering::Acquire);
        let there = Self::between(self.at, write, shape)?;
        self.limit = write;
        Ok(there)
    }

    /// Synchronized reader: `bytes` from here on may be written over.
    #[inline]
    pub fn consume(&mut self, counters: Counters<'_>, shape: Shape, bytes: u64) {
        self.advance(bytes, shape);
        counters.read.store(self.at, Ordering::Release);
    }

    /// Unsynchronized reader: bytes that are there. After an overflow the reader stands at the
    /// newest end.
    #[inline]
    pub fn behind(&mut self, counters: Counters<'_>, shape: Shape) -> Result<u64, Fault> {
        let write = counters.write.load(Ordering::Acquire);
        let bytes = write.wrapping_sub(self.at);
        if bytes > shape.size {
            return Err(self.overflow(write, shape));
        }
        if bytes % shape.quantum != 0 {
            return Err(Fault::Misaligned(write));
        }
        Ok(bytes)
    }

    /// Unsynchronized reader: what was copied from here on was not written over meanwhile; the
    /// reader goes on behind it.
    #[inline]
    pub fn keep(&mut self, counters: Counters<'_>, shape: Shape, bytes: u64) -> Result<(), Fault> {
        // After all loads from the ring.
        fence(Ordering::Acquire);
        // `reserve` first: looked at later, it could be more than a ring ahead of an older `write`.
        let claimed = counters.reserve.map(|reserve| reserve.load(Ordering::Acquire));
        let write = counters.write.load(Ordering::Relaxed);
        // One that is not just ahead of `write` is old, or of a writer that does not use it.
        let newest = claimed.filter(|claimed| claimed.wrapping_sub(write) <= shape.size).unwrap_or(write);
        if newest.wrapping_sub(self.at) > shape.size {
            return Err(self.overflow(write, shape));
        }
        self.advance(bytes, shape);
        Ok(())
    }

    #[cold]
    fn overflow(&mut self, write: u64, shape: Shape) -> Fault {
        let lost = write.wrapping_sub(self.at);
        match self.jump(write, shape) {
            Ok(()) => Fault::Overflow(lost),
            Err(fault) => fault,
        }
    }

    /// Unsynchronized reader: goes to the newest end. Gives how many bytes were passed over.
    pub fn skip(&mut self, counters: Counters<'_>, shape: Shape) -> Result<u64, Fault> {
        let write = counters.write.load(Ordering::Acquire);
        let passed = write.wrapping_sub(self.at);
        self.jump(write, shape)?;
        Ok(passed)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "ring_loom.rs"]
mod loom_model;
