//! The reading end.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;

use handoff_sync::backoff::{self, Backoff};
use handoff_sync::ring::{Cursor, Shape};

use super::descriptor::{Flavor, Synchronized, Unsynchronized};
use super::error::QueueError;
use super::event_flag::EventFlag;
use super::item::{Item, ItemRef};
use super::message_queue::End;
use super::span::ReadSpan;

/// Reads messages. One thread at a time uses it; it may be sent to another.
pub struct Reader<T, F> {
    pub(super) end: End,
    // The queue's own flag, kept at hand for blocking.
    pub(super) flag: Option<EventFlag>,
    cursor: Cursor,
    backoff: Backoff,
    kind: PhantomData<fn() -> (T, F)>,
}

/// Messages in the ring, to be read in place. Dropped without a commit, they are read again.
#[derive(Debug)]
#[must_use = "the messages stay in the queue until `commit`"]
pub struct ReadTransaction<'a, T: Item, F: Flavor> {
    reader: &'a mut Reader<T, F>,
    span: ReadSpan<'a, T>,
}

impl<T: Item, F: Flavor> Reader<T, F> {
    pub(super) fn new(end: End) -> Self {
        let flag = EventFlag::of(end.share.memory());
        Reader { end, flag, cursor: Cursor::default(), backoff: Backoff::default(), kind: PhantomData }
    }

    fn capacity(&self) -> usize {
        (self.shape().size / T::SIZE as u64) as usize
    }

    #[inline]
    fn shape(&self) -> Shape {
        // The size of a message as the compiler knows it: no division is left where it is a power of 2.
        Shape { quantum: T::SIZE as u64, ..self.end.share.shape() }
    }

    /// Bytes that are there.
    #[inline]
    fn there(&mut self) -> Result<u64, QueueError> {
        let (counters, shape) = (self.end.share.counters(), self.shape());
        let there = match F::SYNCHRONIZED {
            true => self.cursor.ready(counters, shape),
            false => self.cursor.behind(counters, shape),
        };
        there.map_err(|fault| QueueError::from_fault(fault, T::SIZE as u64))
    }

    /// Messages that can be read now.
    ///
    /// # Errors
    /// [`QueueError::Broken`]; [`QueueError::Overflow`] in an unsynchronized queue, after which this
    /// reader stands at the newest end.
    pub fn available(&mut self) -> Result<usize, QueueError> {
        Ok((self.there()? / T::SIZE as u64) as usize)
    }

    /// Bytes of `count` messages once they are there.
    #[inline]
    fn claim(&mut self, count: usize) -> Result<usize, QueueError> {
        match count.checked_mul(T::SIZE) {
            Some(bytes)
                if F::SYNCHRONIZED && self.cursor.granted(self.end.share.counters().read, bytes as u64) =>
            {
                Ok(bytes)
            }
            _ => self.look(count),
        }
    }

    /// [`Reader::claim`] by the writer's counter. No part of the caller's loop: it would take the
    /// registers from what most messages need.
    #[inline(never)]
    fn look(&mut self, count: usize) -> Result<usize, QueueError> {
        let bytes = count.checked_mul(T::SIZE).filter(|bytes| *bytes as u64 <= self.shape().size);
        let Some(bytes) = bytes else {
            return Err(QueueError::TooMany { wanted: count, capacity: self.capacity() });
        };
        let mut there = self.there()?;
        if F::SYNCHRONIZED && self.backoff.waits(there, self.shape().size) {
            let before = std::mem::replace(&mut there, self.there()?);
            self.backoff.waited(before, there, self.shape().size);
        }
        self.backoff.looked(there >= bytes as u64);
        if there < bytes as u64 {
            return Err(QueueError::Empty((there / T::SIZE as u64) as usize));
        }
        Ok(bytes)
    }

    #[inline]
    fn span(&self, bytes: usize) -> ReadSpan<'_, T> {
        let runs = self.end.share.runs(self.cursor.offset(), bytes);
        // SAFETY: inside the ring, which stays mapped as long as this end; the ring, the offset and
        // the bytes are whole numbers of messages.
        unsafe { ReadSpan::new(runs.map(|(start, len)| (start.cast_const(), len))) }
    }

    #[inline]
    fn finish(&mut self, bytes: usize) -> Result<(), QueueError> {
        let (counters, shape) = (self.end.share.counters(), self.shape());
        if F::SYNCHRONIZED {
            self.cursor.consume(counters, shape, bytes as u64);
            return Ok(());
        }
        let kept = self.cursor.keep(counters, shape, bytes as u64);
        kept.map_err(|fault| QueueError::from_fault(fault, T::SIZE as u64))
    }

    /// Fills `items` with the next messages, or reads none. After an error what `items` holds means
    /// nothing.
    ///
    /// # Errors
    /// [`QueueError::Empty`], [`QueueError::TooMany`], [`QueueError::Broken`];
    /// [`QueueError::Overflow`] in an unsynchronized queue, after which this reader stands at the
    /// newest end.
    #[inline(always)]
    pub fn read(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        if items.len() == 1 && F::SYNCHRONIZED { self.read_one(items) } else { self.read_any(items) }
    }

    /// Reads one message; as in the writer, a part of the caller's loop.
    #[inline(always)]
    fn read_one(&mut self, item: &mut [T]) -> Result<(), QueueError> {
        if !self.cursor.granted(self.end.share.counters().read, T::SIZE as u64) {
            self.look(1)?;
        }
        // SAFETY: a message in the ring.
        T::get_all(unsafe { ItemRef::new(self.end.share.place(self.cursor.offset()), T::SIZE) }, item);
        self.cursor.consume(self.end.share.counters(), self.shape(), T::SIZE as u64);
        Ok(())
    }

    #[inline]
    fn read_any(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        if items.is_empty() {
            return Ok(());
        }
        let bytes = self.claim(items.len())?;
        self.span(bytes).get_all(items);
        self.finish(bytes)
    }

    /// The next `count` messages, to be read in place.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn begin(&mut self, count: usize) -> Result<ReadTransaction<'_, T, F>, QueueError> {
        let bytes = self.claim(count)?;
        let runs = self.end.share.runs(self.cursor.offset(), bytes);
        // SAFETY: as in `span`; the transaction borrows this end, so the memory stays.
        let span = unsafe { ReadSpan::new(runs.map(|(start, len)| (start.cast_const(), len))) };
        Ok(ReadTransaction { reader: self, span })
    }
}

impl<'a, T: Item, F: Flavor> ReadTransaction<'a, T, F> {
    /// The messages.
    pub fn span(&self) -> &ReadSpan<'a, T> {
        &self.span
    }

    /// Frees the first `count` messages for the writer.
    ///
    /// # Errors
    /// [`QueueError::BeyondTransaction`]; [`QueueError::Overflow`] in an unsynchronized queue: what
    /// was read may have been overwritten meanwhile.
    pub fn commit(self, count: usize) -> Result<(), QueueError> {
        let held = self.span.len();
        if count > held {
            return Err(QueueError::BeyondTransaction { wanted: count, held });
        }
        self.reader.finish(count * T::SIZE)
    }
}

impl<T: Item> Reader<T, Synchronized> {
    /// Reads, and waits for messages where there are too few, spinning: for a writer that runs on
    /// another CPU. Gives up after `turns` looks; now and then the CPU is offered to others.
    ///
    /// # Errors
    /// As [`Reader::read`].
    #[inline]
    pub fn read_spinning(&mut self, items: &mut [T], turns: u64) -> Result<(), QueueError> {
        for turn in 0..turns {
            match self.read(items) {
                Err(QueueError::Empty(_)) => backoff::spin(turn),
                other => return other,
            }
        }
        self.read(items)
    }
}

impl<T: Item> Reader<T, Unsynchronized> {
    /// Goes to the newest end, past everything that was written. Gives the number of messages that
    /// were passed over.
    ///
    /// # Errors
    /// [`QueueError::Broken`].
    pub fn skip_to_newest(&mut self) -> Result<u64, QueueError> {
        let passed = self.cursor.skip(self.end.share.counters(), self.shape());
        match passed {
            Ok(bytes) => Ok(bytes / T::SIZE as u64),
            Err(fault) => Err(QueueError::from_fault(fault, T::SIZE as u64)),
        }
    }
}

impl<T: Item, F: Flavor> fmt::Debug for Reader<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader(at {} of {} messages)", self.cursor.at / T::SIZE as u64, self.capacity())
    }
}
