//! Copies large buffers into a parcel so that whoever reads them next finds their beginning in the cache.
#![allow(unsafe_code)]

/// From so many bytes on, a buffer and its copy fill the caches that a CPU has for itself.
const LARGE: usize = 256 << 10;
/// Bytes that are copied at once: fewer begin too often, more leave too little of the beginning behind.
const PIECE: usize = 64 << 10;

/// Copies `len` bytes.
///
/// Large ones piece by piece from the end to the beginning. Whoever reads a parcel begins at its beginning,
/// which is what was copied last and is still in the cache; read to the end, it leaves the end there, where
/// the next copy into the same slot begins. From the beginning to the end, each would look for just what the
/// other drove out.
///
/// # Safety
///
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len < LARGE {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, len) };
    } else {
        // SAFETY: the same.
        unsafe { copy_large(from, to, len) };
    }
}

#[cold]
unsafe fn copy_large(from: *const u8, to: *mut u8, len: usize) {
    let mut end = len;
    while end > 0 {
        let piece = end.min(PIECE);
        end -= piece;
        // SAFETY: `end + piece <= len`, of which the caller said that both sides have as many.
        unsafe { to.add(end).copy_from_nonoverlapping(from.add(end), piece) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_goes_to_its_place_and_no_other() {
        for len in [0, 1, LARGE - 1, LARGE, LARGE + 1, LARGE + PIECE - 1, LARGE + PIECE + 1, 1 << 20] {
            let from: Vec<u8> = (0..len).map(|at| ((at * 31) >> 3) as u8).collect();
            let mut to = vec![0xaa; len + 2];
            // SAFETY: `len` bytes are there on both sides, in vectors of their own.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(1), len) };
            assert!(to[1..=len] == from, "{len}");
            assert_eq!((to[0], to[len + 1]), (0xaa, 0xaa), "{len}");
        }
    }
}
