//! The writing end.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use handoff_sync::backoff::{self, Backoff};
use handoff_sync::ring::{Cursor, Shape};

use super::ahead;
use super::descriptor::{Flavor, Synchronized};
use super::error::QueueError;
use super::event_flag::EventFlag;
use super::item::{Item, ItemMut};
use super::message_queue::End;
use super::span::WriteSpan;

/// Writes messages. One thread at a time uses it; it may be sent to another.
pub struct Writer<T, F> {
    pub(super) end: End,
    // The queue's own flag, kept at hand for blocking.
    pub(super) flag: Option<EventFlag>,
    cursor: Cursor,
    backoff: Backoff,
    kind: PhantomData<fn(T, F)>,
}

/// Room in the ring, to be filled in place. Dropped without a commit, nothing was written.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct WriteTransaction<'a, T: Item, F: Flavor> {
    writer: &'a mut Writer<T, F>,
    span: WriteSpan<'a, T>,
}

impl<T: Item, F: Flavor> Writer<T, F> {
    pub(super) fn new(end: End) -> Self {
        let flag = EventFlag::of(end.share.memory());
        Writer { end, flag, cursor: Cursor::default(), backoff: Backoff::default(), kind: PhantomData }
    }

    fn capacity(&self) -> usize {
        (self.shape().size / T::SIZE as u64) as usize
    }

    #[inline]
    fn shape(&self) -> Shape {
        // As in the reader: no division is left where a message's size is a power of 2.
        Shape { quantum: T::SIZE as u64, ..self.end.share.shape() }
    }

    /// Bytes that are free in a synchronized queue.
    #[inline]
    fn free(&mut self) -> Result<u64, QueueError> {
        let free = self.cursor.free(self.end.share.counters(), self.shape());
        free.map_err(|fault| QueueError::from_fault(fault, T::SIZE as u64))
    }

    /// Messages that can be written now. In an unsynchronized queue, where every write succeeds, it
    /// is those that overwrite nothing: 0 once the ring was full, as in FMQ.
    ///
    /// # Errors
    /// [`QueueError::Broken`].
    pub fn available(&mut self) -> Result<usize, QueueError> {
        let free = if F::SYNCHRONIZED {
            self.free()?
        } else {
            let written = self.end.share.counters().write.load(Ordering::Relaxed);
            self.shape().size.saturating_sub(written)
        };
        Ok((free / T::SIZE as u64) as usize)
    }

    /// Bytes for `count` messages once there is room for them.
    #[inline]
    fn room(&mut self, count: usize) -> Result<usize, QueueError> {
        match count.checked_mul(T::SIZE) {
            Some(bytes)
                if F::SYNCHRONIZED && self.cursor.granted(self.end.share.counters().write, bytes as u64) =>
            {
                Ok(bytes)
            }
            _ => self.look(count),
        }
    }

    /// [`Writer::room`] by the reader's counter. No part of the caller's loop: it would take the
    /// registers from what most messages need.
    #[inline(never)]
    fn look(&mut self, count: usize) -> Result<usize, QueueError> {
        let shape = self.shape();
        let bytes = count.checked_mul(T::SIZE).filter(|bytes| *bytes as u64 <= shape.size);
        let Some(bytes) = bytes else {
            return Err(QueueError::TooMany { wanted: count, capacity: self.capacity() });
        };
        if !F::SYNCHRONIZED {
            let located = self.cursor.locate(self.end.share.counters(), shape);
            return located.map(|()| bytes).map_err(|fault| QueueError::from_fault(fault, T::SIZE as u64));
        }
        let mut free = self.free()?;
        if self.backoff.waits(free, shape.size) {
            let before = std::mem::replace(&mut free, self.free()?);
            self.backoff.waited(before, free, shape.size);
        }
        self.backoff.looked(free >= bytes as u64);
        if free < bytes as u64 {
            return Err(QueueError::Full((free / T::SIZE as u64) as usize));
        }
        Ok(bytes)
    }

    #[inline]
    fn span(&self, bytes: usize) -> WriteSpan<'_, T> {
        if !F::SYNCHRONIZED {
            self.cursor.claim(self.end.share.counters(), bytes as u64);
        }
        let runs = self.end.share.runs(self.cursor.offset(), bytes);
        // SAFETY: inside the ring, which stays mapped as long as this end; the ring, the offset and
        // the bytes are whole numbers of messages.
        unsafe { WriteSpan::new(runs) }
    }

    #[inline]
    fn publish(&mut self, bytes: usize) {
        self.cursor.publish(self.end.share.counters(), self.end.share.shape(), bytes as u64);
    }

    /// Writes all of the messages, or none.
    ///
    /// # Errors
    /// [`QueueError::Full`] (never in an unsynchronized queue), [`QueueError::TooMany`],
    /// [`QueueError::Broken`].
    #[inline(always)]
    pub fn write(&mut self, items: &[T]) -> Result<(), QueueError> {
        if items.len() == 1 && F::SYNCHRONIZED { self.write_one(items) } else { self.write_any(items) }
    }

    /// Writes one message.
    ///
    /// A part of the caller's loop, and nobody else gets to see the message's address: so the compiler
    /// has its bytes go to the ring from where they are. Out of the caller's memory they would be read in
    /// larger pieces than they were written, for which a processor waits until all that it wrote before,
    /// in the ring, has left it.
    #[inline(always)]
    fn write_one(&mut self, item: &[T]) -> Result<(), QueueError> {
        if !self.cursor.granted(self.end.share.counters().write, T::SIZE as u64) {
            self.look(1)?;
        }
        let place = self.end.share.place(self.cursor.offset());
        // Lines that the reader has not read yet are still its own.
        if self.cursor.left() >= ahead::AHEAD + T::SIZE as u64 {
            ahead::will_write_all(place.wrapping_add(ahead::AHEAD as usize), T::SIZE);
        }
        // SAFETY: a message's room in the ring.
        T::put_all(item, unsafe { ItemMut::new(place, T::SIZE) });
        self.publish(T::SIZE);
        Ok(())
    }

    #[inline]
    fn write_any(&mut self, items: &[T]) -> Result<(), QueueError> {
        if items.is_empty() {
            return Ok(());
        }
        let bytes = self.room(items.len())?;
        self.span(bytes).put_all(items);
        self.publish(bytes);
        Ok(())
    }

    /// Room for `count` messages in the ring, to be filled in place.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn begin(&mut self, count: usize) -> Result<WriteTransaction<'_, T, F>, QueueError> {
        let bytes = self.room(count)?;
        let runs = {
            let mut span = self.span(bytes);
            span.runs()
        };
        // SAFETY: as in `span`; the transaction borrows this end, so nothing else writes there.
        let span = unsafe { WriteSpan::new(runs) };
        Ok(WriteTransaction { writer: self, span })
    }
}

impl<'a, T: Item, F: Flavor> WriteTransaction<'a, T, F> {
    /// The room.
    pub fn span(&mut self) -> &mut WriteSpan<'a, T> {
        &mut self.span
    }

    /// Sends the first `count` messages.
    ///
    /// # Errors
    /// [`QueueError::BeyondTransaction`].
    pub fn commit(self, count: usize) -> Result<(), QueueError> {
        let held = self.span.len();
        if count > held {
            return Err(QueueError::BeyondTransaction { wanted: count, held });
        }
        self.writer.publish(count * T::SIZE);
        Ok(())
    }
}

impl<T: Item> Writer<T, Synchronized> {
    /// Writes all of the messages, and waits for room where there is none, spinning: for a reader
    /// that runs on another CPU. Gives up after `turns` looks; now and then the CPU is offered to others.
    ///
    /// # Errors
    /// As [`Writer::write`].
    #[inline]
    pub fn write_spinning(&mut self, items: &[T], turns: u64) -> Result<(), QueueError> {
        for turn in 0..turns {
            match self.write(items) {
                Err(QueueError::Full(_)) => backoff::spin(turn),
                other => return other,
            }
        }
        self.write(items)
    }
}

impl<T: Item, F: Flavor> fmt::Debug for Writer<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer(at {} of {} messages)", self.cursor.at / T::SIZE as u64, self.capacity())
    }
}
