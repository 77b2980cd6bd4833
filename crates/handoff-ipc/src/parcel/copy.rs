//! Copies what a parcel is made of: short runs where they are used, large ones so that whoever reads them next
//! finds their beginning in the cache.
#![allow(unsafe_code)]

/// Up to this length, a run is copied without a call of the C library.
const SHORT: usize = 128;
/// From so many bytes on, a buffer and its copy fill the caches that a CPU has for itself.
const LARGE: usize = 256 << 10;
/// Bytes of a large one that are copied at once: fewer begin too often, more leave too little of the
/// beginning behind.
const PIECE: usize = 64 << 10;
/// From 2 KiB on, the C library lets the processor copy (`rep movsb`), which then need not fetch the lines that it overwrites:
/// where another CPU has them, that halves the time of a copy. Where the target begins up to a cache line further into its
/// page than the source does, some processors then go byte by byte: each load is taken for one of what was just stored,
/// whose address ends alike. 64 KiB take 33 us in place of 1.5. A run of this length is copied with vectors.
const SHORT_PIECE: usize = 31 * 64;
const PAGE: usize = 4096;

/// Memory for a copy of `len` bytes that its owner may copy on with the C library, into memory of just that size: allocators
/// put that 16 bytes further into its page, which is what [`SHORT_PIECE`] tells of, unless this one is longer by a cache line.
#[inline]
pub(super) fn room_for(len: usize) -> usize {
    if len > SHORT_PIECE { len + 64 } else { len }
}

/// Copies `len` bytes.
///
/// Large runs go piece by piece from the end to the beginning. Whoever reads a parcel begins at its beginning,
/// which is what was copied last and is still in the cache; read to the end, it leaves the end there, where
/// the next copy into the same slot begins. From the beginning to the end, each would look for just what the
/// other drove out.
///
/// # Safety
///
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise, in each of them.
    unsafe {
        if len <= SHORT {
            copy_short(from, to, len);
        } else if len <= SHORT_PIECE {
            to.copy_from_nonoverlapping(from, len);
        } else {
            copy_large(from, to, len);
        }
    }
}

/// Copies both ends of a run, which may overlap: that takes no loop, and so no compiler makes it a call of the C
/// library again. A byte that is read twice and changed by its owner in between arrives as one of the two.
#[inline]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the caller; both ends have at most `len` bytes.
    unsafe {
        if len >= 16 {
            if len >= 64 {
                copy_ends::<[u128; 4]>(from, to, len);
            } else if len >= 32 {
                copy_ends::<[u128; 2]>(from, to, len);
            } else {
                copy_ends::<u128>(from, to, len);
            }
        } else if len >= 8 {
            copy_ends::<u64>(from, to, len);
        } else if len >= 4 {
            copy_ends::<u32>(from, to, len);
        } else if len >= 2 {
            copy_ends::<u16>(from, to, len);
        } else if len == 1 {
            to.write(from.read());
        }
    }
}

/// Copies the first and the last bytes of a run, as many as `W` has.
///
/// # Safety
///
/// As for [`std::ptr::copy_nonoverlapping`], and `W` is an integer or an array of some with at most `len` bytes.
#[inline(always)]
unsafe fn copy_ends<W: Copy>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<W>();
    // SAFETY: by the caller, `last` is not below 0 and both ends lie within the run.
    unsafe {
        let (head, tail) = (from.cast::<W>().read_unaligned(), from.add(last).cast::<W>().read_unaligned());
        to.cast::<W>().write_unaligned(head);
        to.add(last).cast::<W>().write_unaligned(tail);
    }
}

/// Whether a target begins up to a cache line further into its page than its source does.
pub(crate) fn is_slightly_ahead(to: usize, from: usize) -> bool {
    (1..64).contains(&(to.wrapping_sub(from) % PAGE))
}

#[cold]
unsafe fn copy_large(from: *const u8, to: *mut u8, len: usize) {
    let most = match len {
        _ if is_slightly_ahead(to.addr(), from.addr()) => SHORT_PIECE,
        LARGE.. => PIECE,
        _ => len,
    };
    let mut end = len;
    while end > 0 {
        let piece = end.min(most);
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
        let large = [LARGE - 1, LARGE, LARGE + 1, LARGE + PIECE - 1, LARGE + PIECE + 1, 1 << 20];
        let pieces = [SHORT_PIECE, SHORT_PIECE + 1, 2 * SHORT_PIECE, 2 * SHORT_PIECE + 1, PAGE, PAGE + 1];
        for len in (0..SHORT + 9).chain(pieces).chain(large) {
            // Both begin at the same place of a page, the source further into it, and the target.
            for (skew, ahead) in [(0, 0), (1, 0), (3, 0), (7, 0), (0, 1), (1, 8), (0, 63), (0, 64)] {
                let mut from = vec![0; len + skew + PAGE];
                let source = from.as_ptr().align_offset(PAGE) + skew;
                from[source..].iter_mut().enumerate().for_each(|(at, byte)| *byte = ((at * 31) >> 3) as u8);
                let mut to = vec![0xee; len + 2 * PAGE];
                let target = to.as_ptr().align_offset(PAGE) + skew + ahead;
                // SAFETY: `len` bytes are there on both sides, in vectors of their own.
                unsafe { copy(from.as_ptr().add(source), to.as_mut_ptr().add(target), len) };
                let (before, rest) = to.split_at(target);
                assert!(rest[..len] == from[source..][..len], "{len} from {skew}, {ahead} ahead");
                let others = before.iter().chain(&rest[len..]);
                assert!(others.copied().all(|byte| byte == 0xee), "{len} from {skew}, {ahead} ahead");
            }
        }
    }
}
