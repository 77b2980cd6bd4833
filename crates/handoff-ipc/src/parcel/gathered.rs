//! Buffers that a parcel refers to instead of holding them: the engine takes them from where they are.
#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::OwnedFd;

use crate::{Error, Result};

/// A buffer of this size or larger is worth an object of its own; smaller ones are cheaper to copy.
pub(crate) const GATHER_FROM: usize = 512;

/// Bytes outside of a parcel, readable until the engine has taken the parcel over.
pub struct GatheredBuffer {
    // Invariant: `start..start + len` is readable as long as this value exists, or as long as the
    // borrow lasts that whoever made it vouched for.
    start: *const u8,
    len: usize,
    owner: Option<Box<dyn Send>>,
}

// SAFETY: the bytes are only read; the owner may be sent, and a borrow is of bytes that are `Sync`.
unsafe impl Send for GatheredBuffer {}

impl GatheredBuffer {
    /// Bytes that come along with what owns them.
    pub(crate) fn owned(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        let owner = Box::new(bytes);
        // The owner does not move any more, and nobody else can reach it.
        let (start, len) = {
            let bytes = (*owner).as_ref();
            (bytes.as_ptr(), bytes.len())
        };
        GatheredBuffer { start, len, owner: Some(owner) }
    }

    /// Bytes of somebody else.
    ///
    /// # Safety
    /// They must stay readable until the parcel is taken over or dropped.
    pub(crate) unsafe fn borrowed(start: *const u8, len: usize) -> Self {
        GatheredBuffer { start, len, owner: None }
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The same bytes, copied if they are borrowed: for a parcel that outlives the borrow.
    pub(crate) fn into_owned(self) -> Self {
        if self.owner.is_some() {
            return self;
        }
        let mut copy: Vec<u8> = Vec::with_capacity(self.len);
        // SAFETY: readable by the type's invariant; the capacity was just reserved, and what is
        // written is what the length says.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start, copy.as_mut_ptr(), self.len);
            copy.set_len(self.len);
        }
        GatheredBuffer::owned(copy)
    }
}

impl fmt::Debug for GatheredBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatheredBuffer({} bytes)", self.len)
    }
}

/// Descriptors and numbers that belong together: HIDL's `handle`, the C library's `native_handle_t`.
#[derive(Debug, Default)]
pub struct Handle {
    /// The descriptors.
    pub fds: Vec<OwnedFd>,
    /// What the two sides know to make of them.
    pub ints: Vec<i32>,
}

impl Handle {
    /// `NATIVE_HANDLE_MAX_FDS` and `NATIVE_HANDLE_MAX_INTS`.
    pub const MOST: usize = 1024;

    /// Both counts, checked.
    pub(crate) fn counts(fds: usize, ints: usize) -> Result<(i32, i32)> {
        match (i32::try_from(fds), i32::try_from(ints)) {
            (Ok(fd_count), Ok(int_count)) if fds <= Self::MOST && ints <= Self::MOST => {
                Ok((fd_count, int_count))
            }
            _ => Err(Error::TooLarge { size: fds.max(ints), limit: Self::MOST }),
        }
    }
}

/// `sizeof(native_handle_t)`: version (which is this size), counts of descriptors and of numbers.
pub(crate) const NATIVE_HANDLE: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bytes_become_owned_and_owned_ones_stay_where_they_are() {
        let bytes = vec![1u8, 2, 3];
        // SAFETY: `bytes` outlives the value.
        let borrowed = unsafe { GatheredBuffer::borrowed(bytes.as_ptr(), bytes.len()) };
        assert_eq!(borrowed.start(), bytes.as_ptr());
        let copied = borrowed.into_owned();
        assert_ne!(copied.start(), bytes.as_ptr());
        drop(bytes);
        // SAFETY: the value owns its bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(copied.start(), copied.len()) }, [1, 2, 3]);
        let start = copied.start();
        assert_eq!(copied.into_owned().start(), start);
    }

    #[test]
    fn a_handle_has_limits() {
        assert!(Handle::counts(1024, 0).is_ok());
        assert!(Handle::counts(1025, 0).is_err());
        assert!(Handle::counts(0, usize::MAX).is_err());
    }
}
