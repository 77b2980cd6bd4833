//! Memory that a process shares with the children it forks (`mmap`, `MAP_SHARED | MAP_ANONYMOUS`).
//!
//! <https://man7.org/linux/man-pages/man2/mmap.2.html>
//!
//! Only children of this process map it, and they run this program: the protocol of the workload
//! says whose turn it is to touch which bytes. Words are atomics; plain bytes are copied, never
//! borrowed.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A zeroed mapping that is shared across `fork`.
#[derive(Debug)]
pub(crate) struct SharedRegion {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; all access is by atomics or by copies whose order the
// workload's protocol keeps.
unsafe impl Send for SharedRegion {}
// SAFETY: as above.
unsafe impl Sync for SharedRegion {}

impl SharedRegion {
    /// Maps `len` zeroed bytes, and touches each page so that no fault is measured later.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(4096);
        // SAFETY: a new anonymous mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedRegion { start, len })
    }

    /// The 32-bit word at byte `offset`.
    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4);
        assert!(offset.is_multiple_of(4), "word at {offset} is not aligned");
        // SAFETY: in bounds and aligned (checked), alive as long as `self`, and every access to
        // these bytes in any process is atomic or ordered by the protocol.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The 64-bit word at byte `offset`.
    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert!(offset.is_multiple_of(8), "word at {offset} is not aligned");
        // SAFETY: as for `u32`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies `from` into the region at `offset`. It must be the caller's turn to write there.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        self.check(offset, from.len());
        // SAFETY: in bounds (checked); `from` is private memory, so they do not overlap.
        unsafe { self.start.as_ptr().add(offset).copy_from_nonoverlapping(from.as_ptr(), from.len()) }
    }

    /// Copies `len` bytes inside the region. It must be the caller's turn on both places.
    pub(crate) fn copy_within(&self, from: usize, to: usize, len: usize) {
        self.check(from, len);
        self.check(to, len);
        // SAFETY: both in bounds (checked); `copy` allows them to overlap.
        unsafe { self.start.as_ptr().add(to).copy_from(self.start.as_ptr().add(from), len) }
    }

    fn check(&self, offset: usize, len: usize) {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(fits, "{len} bytes at {offset} are outside of the region of {}", self.len);
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `new`, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "the region was mapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let region = SharedRegion::new(8192).expect("memory");
        region.write(64, &7_u64.to_ne_bytes());
        region.copy_within(64, 8184, 8);
        assert_eq!(region.u64(8184).load(Ordering::Relaxed), 7);
        region.u32(0).store(9, Ordering::Relaxed);
        assert_eq!(region.u32(0).load(Ordering::Relaxed), 9);
    }

    #[test]
    #[should_panic(expected = "outside of the region")]
    fn out_of_bounds_is_caught() {
        SharedRegion::new(4096).expect("memory").write(4090, &[0; 7]);
    }

    #[test]
    #[should_panic(expected = "outside of the region")]
    fn an_overflowing_offset_is_caught() {
        SharedRegion::new(4096).expect("memory").u64(usize::MAX - 7);
    }
}
