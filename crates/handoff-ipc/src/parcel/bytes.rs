//! A borrowed run of bytes that another process may still be writing to.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

use super::copy::{copy, room_for};

/// Bytes inside a parcel, borrowed from where the engine received them.
///
/// The memory may be shared with a hostile peer that keeps changing it, so no `&[u8]` to it is
/// ever made: every access copies out, and two reads of one byte may differ. Validate what was
/// copied, not what is still here.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *const u8,
    len: usize,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> SharedBytes<'a> {
    /// # Safety
    /// `start..start + len` must stay mapped and readable for `'a`. Others may write to it.
    #[inline]
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        SharedBytes { start, len, owner: PhantomData }
    }

    /// Private memory as the same type.
    #[inline]
    pub fn from_slice(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice is mapped and readable for its lifetime.
        unsafe { SharedBytes::new(bytes.as_ptr(), bytes.len()) }
    }

    /// Where they lie, for what reads memory by itself (a device, a C function). The peer may write to them meanwhile.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sub-range `from..from + len`, or `None` where it reaches past the end.
    #[inline]
    pub fn slice(&self, from: usize, len: usize) -> Option<SharedBytes<'a>> {
        if from.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the range was just checked to lie inside this one.
        Some(unsafe { SharedBytes::new(self.start.add(from), len) })
    }

    /// Copies the first `to.len()` bytes out. Returns how many were copied: less than asked where
    /// there are fewer.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let n = self.len.min(to.len());
        // SAFETY: `n` bytes are readable here (type invariant) and writable there; private and
        // received memory do not overlap. A peer's concurrent write can tear the copy, which is
        // why the contents carry no trust.
        unsafe { copy(self.start, to.as_mut_ptr(), n) };
        n
    }

    /// A private copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut private = Vec::new();
        self.copy_into(&mut private);
        private
    }

    /// A private copy in the place of what a vector holds, whose memory is used again.
    #[inline]
    pub(crate) fn copy_into(&self, private: &mut Vec<u8>) {
        private.clear();
        if private.capacity() < self.len {
            private.reserve_exact(room_for(self.len));
        }
        // SAFETY: as in `copy_to`; the capacity was just looked at, and all of it is written
        // before the length says so.
        unsafe {
            self.copy_to_raw(private.as_mut_ptr());
            private.set_len(self.len);
        }
    }

    /// One byte, or `None` past the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u8> {
        // SAFETY: the index is inside (type invariant); volatile, because a peer may write.
        (index < self.len).then(|| unsafe { self.start.add(index).read_volatile() })
    }

    /// Calls `visit` with private copies of successive pieces of at most `N` bytes: the way to
    /// go over large data once without a second buffer of its size.
    #[inline]
    pub fn for_each_chunk<const N: usize>(&self, mut visit: impl FnMut(&[u8])) {
        const { assert!(N > 0, "pieces have at least one byte") };
        let mut piece = [0u8; N];
        let mut at = 0;
        // Whole pieces have a size that the compiler knows: small ones never leave the registers.
        while self.len - at >= N {
            // SAFETY: `N` bytes are readable from `at` on (just compared); `piece` is private and has as many.
            unsafe { piece.as_mut_ptr().copy_from_nonoverlapping(self.start.add(at), N) };
            // What is visited is this copy: the compiler may not go back to where it came from.
            compiler_fence(Ordering::SeqCst);
            visit(&piece);
            at += N;
        }
        if let Some(rest) = self.slice(at, self.len - at).filter(|rest| !rest.is_empty()) {
            let n = rest.copy_to(&mut piece);
            visit(&piece[..n]);
        }
    }

    /// True if these bytes were `other` when each was looked at.
    #[inline]
    pub(crate) fn equals(&self, other: &[u8]) -> bool {
        if self.len != other.len() {
            return false;
        }
        // Without a call of the C library, which would take longer than a short comparison.
        let mut words = other.chunks_exact(8);
        let (rest, at_rest) = (words.remainder(), words.len() * 8);
        let same = words.by_ref().enumerate().all(|(index, word)| {
            let mut found = [0; 8];
            // SAFETY: this is as long as `other`, which has eight bytes here; copied out once, torn or not.
            unsafe { found.as_mut_ptr().copy_from_nonoverlapping(self.start.add(index * 8), 8) };
            word.try_into().is_ok_and(|word: [u8; 8]| found == word)
        });
        same && rest.iter().zip(at_rest..).all(|(byte, at)| self.get(at) == Some(*byte))
    }

    /// Copies all bytes to `to`, as fast as this machine can: where the C library's copy of some lengths goes byte by byte because
    /// of how both places lie in their pages, another one is taken.
    ///
    /// # Safety
    /// `self.len()` bytes from `to` must be writable and must not overlap this range.
    #[inline]
    pub unsafe fn copy_to_raw(&self, to: *mut u8) {
        // SAFETY: by the caller for `to`, by the type's invariant for `start`.
        unsafe { copy(self.start, to, self.len) }
    }

    #[inline]
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }
}

/// Writes bytes one after the other into a parcel, where a peer may see and change them: no `&mut [u8]` to them is
/// ever made.
///
/// Also a [`std::io::Write`], whose `write_all` fails where the bytes end.
#[derive(Debug)]
pub struct BytesWriter<'a> {
    // Invariant: `at..at + left` is writable for 'a, and nobody in this process refers to it.
    at: *mut u8,
    left: usize,
    owner: PhantomData<&'a mut [u8]>,
}

impl BytesWriter<'_> {
    /// # Safety
    /// `at..at + len` must be writable as long as the value lives, and nobody in this process may refer to it.
    pub(super) unsafe fn new(at: *mut u8, len: usize) -> Self {
        BytesWriter { at, left: len, owner: PhantomData }
    }

    /// Bytes that can still be written.
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Writes as many of `bytes` as there is room for; gives their number.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.left);
        // SAFETY: `len` bytes are writable from `at` on (type invariant), and `bytes` is not among them, since
        // it is borrowed. Behind them is at most the end.
        unsafe {
            copy(bytes.as_ptr(), self.at, len);
            self.at = self.at.add(len);
        }
        self.left -= len;
        len
    }
}

impl std::io::Write for BytesWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.push(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} bytes)", self.len)
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        SharedBytes::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_inside() {
        let bytes = SharedBytes::from_slice(b"hello");
        assert_eq!(bytes.slice(1, 3).unwrap().to_vec(), b"ell");
        assert!(bytes.slice(1, 5).is_none());
        assert!(bytes.slice(usize::MAX, 2).is_none());
        assert_eq!(bytes.get(4), Some(b'o'));
        assert_eq!(bytes.get(5), None);
    }

    #[test]
    fn equal_bytes_are_equal_at_every_length() {
        let data: Vec<u8> = (0..200).collect();
        for len in [0, 1, 63, 64, 65, 128, 200] {
            let bytes = SharedBytes::from_slice(&data[..len]);
            assert!(bytes.equals(&data[..len]), "{len}");
            assert!(len == 200 || !bytes.equals(&data[..len + 1]), "{len}");
            assert!(len == 0 || !bytes.equals(&data[..len - 1]), "{len}");
            let mut other = data[..len].to_vec();
            if let Some(last) = other.last_mut() {
                *last ^= 1;
                assert!(!bytes.equals(&other), "{len}");
            }
        }
    }

    #[test]
    fn chunks_cover_everything_once() {
        let data: Vec<u8> = (0..=255).cycle().take(1000).map(|b: u16| b as u8).collect();
        let mut seen = Vec::new();
        SharedBytes::from_slice(&data).for_each_chunk::<64>(|c| seen.extend_from_slice(c));
        assert_eq!(seen, data);
    }
}
