//! The memory of a transaction: up to two runs of the ring.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::item::{Item, ItemMut, ItemRef};
use crate::parcel::SharedBytes;

/// Messages of the ring that may be written in place: two runs, the second one from the ring's
/// start. What is not written keeps the bytes that were there before.
#[derive(Debug)]
pub struct WriteSpan<'a, T> {
    // Invariant: each run is writable for 'a and holds whole messages.
    runs: [(*mut u8, usize); 2],
    owner: PhantomData<&'a mut [u8]>,
    kind: PhantomData<fn(T)>,
}

/// Messages of the ring that may be read in place: two runs, the second one from the ring's start.
/// A hostile writer may change them at any time: what counts is what was copied out.
#[derive(Debug)]
pub struct ReadSpan<'a, T> {
    // Invariant: each run is readable for 'a and holds whole messages.
    runs: [(*const u8, usize); 2],
    owner: PhantomData<&'a [u8]>,
    kind: PhantomData<fn() -> T>,
}

impl<'a, T: Item> WriteSpan<'a, T> {
    /// # Safety
    /// Each run (address, bytes) must be writable for `'a` and hold whole messages.
    #[inline]
    pub(super) unsafe fn new(runs: [(*mut u8, usize); 2]) -> Self {
        WriteSpan { runs, owner: PhantomData, kind: PhantomData }
    }

    /// Messages.
    #[inline]
    pub fn len(&self) -> usize {
        (self.runs[0].1 + self.runs[1].1) / T::SIZE
    }

    /// True for a transaction of no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address and bytes of both runs, for what fills memory by itself (a device, a C function). The
    /// second one has no bytes where the messages lie in one piece.
    pub fn runs(&mut self) -> [(*mut u8, usize); 2] {
        self.runs
    }

    /// Puts one message.
    ///
    /// # Panics
    /// If the transaction has no message of this index.
    #[inline]
    pub fn put(&mut self, index: usize, item: &T) {
        let at = index.checked_mul(T::SIZE).filter(|_| index < self.len());
        let at = at.unwrap_or_else(|| panic!("message {index} of a transaction of {}", self.len()));
        let [(first, len), (second, _)] = self.runs;
        // Runs hold whole messages, so a message lies in one of them.
        let start = if at < len { first.wrapping_add(at) } else { second.wrapping_add(at - len) };
        // SAFETY: inside a run (see above), which is writable.
        item.put(unsafe { ItemMut::new(start, T::SIZE) });
    }

    /// Puts messages from the first on.
    ///
    /// # Panics
    /// If they are more than the transaction has.
    #[inline]
    pub fn put_all(&mut self, items: &[T]) {
        assert!(items.len() <= self.len(), "{} messages into a transaction of {}", items.len(), self.len());
        let [(first, len), (second, _)] = self.runs;
        // By far the most often: and then the compiler knows how many bytes one message has.
        if items.len() * T::SIZE <= len {
            // SAFETY: they fit into the first run, as just seen.
            return T::put_all(items, unsafe { ItemMut::new(first, items.len() * T::SIZE) });
        }
        let (head, tail) = items.split_at(len / T::SIZE);
        // SAFETY: `head` fills the first run; what is left fits into the second.
        unsafe {
            T::put_all(head, ItemMut::new(first, head.len() * T::SIZE));
            T::put_all(tail, ItemMut::new(second, tail.len() * T::SIZE));
        }
    }
}

impl<'a, T: Item> ReadSpan<'a, T> {
    /// # Safety
    /// Each run (address, bytes) must be readable for `'a` and hold whole messages.
    #[inline]
    pub(super) unsafe fn new(runs: [(*const u8, usize); 2]) -> Self {
        ReadSpan { runs, owner: PhantomData, kind: PhantomData }
    }

    /// Messages.
    #[inline]
    pub fn len(&self) -> usize {
        (self.runs[0].1 + self.runs[1].1) / T::SIZE
    }

    /// True for a transaction of no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of both runs. The second one is empty where the messages lie in one piece.
    pub fn runs(&self) -> [SharedBytes<'a>; 2] {
        // SAFETY: readable for 'a (type invariant).
        self.runs.map(|(start, len)| unsafe { SharedBytes::new(start, len) })
    }

    /// Reads one message; `None` past the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        if index >= self.len() {
            return None;
        }
        let at = index * T::SIZE;
        let [(first, len), (second, _)] = self.runs;
        let start = if at < len { first.wrapping_add(at) } else { second.wrapping_add(at - len) };
        // SAFETY: inside a run, which holds whole messages.
        Some(T::get(unsafe { ItemRef::new(start, T::SIZE) }))
    }

    /// Reads the first messages.
    ///
    /// # Panics
    /// If more are asked for than there are.
    #[inline]
    pub fn get_all(&self, items: &mut [T]) {
        assert!(items.len() <= self.len(), "{} messages of a transaction of {}", items.len(), self.len());
        let [(first, len), (second, _)] = self.runs;
        // As in `WriteSpan::put_all`.
        if items.len() * T::SIZE <= len {
            // SAFETY: they lie in the first run, as just seen.
            return T::get_all(unsafe { ItemRef::new(first, items.len() * T::SIZE) }, items);
        }
        let (head, tail) = items.split_at_mut(len / T::SIZE);
        // SAFETY: `head` is the first run; what is left lies in the second.
        unsafe {
            T::get_all(ItemRef::new(first, head.len() * T::SIZE), head);
            T::get_all(ItemRef::new(second, tail.len() * T::SIZE), tail);
        }
    }
}
