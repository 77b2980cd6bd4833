//! Asks for cache lines before they are written to.
//!
//! A line of the ring that a writer comes to was read by the other end a lap ago: to write to it, the
//! CPU has to take it back, which takes as long as a store to memory that another CPU has. Stores
//! leave a CPU one after the other, so each of them would wait for its line. Asked for some messages
//! ahead, the lines come side by side.
#![allow(unsafe_code)]

/// How far ahead, in bytes.
pub(super) const AHEAD: u64 = 1024;
/// Of a larger message the lines come side by side anyway.
const MOST: usize = 256;
/// Bytes.
const LINE: usize = 64;

/// A message of so many bytes is about to be written at `at`.
#[inline(always)]
pub(super) fn will_write_all(at: *const u8, bytes: usize) {
    if bytes <= MOST {
        (0..bytes.div_ceil(LINE)).for_each(|line| will_write(at.wrapping_add(line * LINE)));
    }
}

/// The line that holds this address is about to be written to. Any address will do: this is a hint, which
/// the CPU leaves aside where nothing is mapped.
#[inline(always)]
fn will_write(at: *const u8) {
    // SAFETY: a prefetch changes nothing that a program can see, and never faults.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        for at in [0, 1, usize::MAX, usize::MAX / 2, 1 << 46] {
            will_write_all(std::ptr::without_provenance(at), MOST);
        }
        let bytes = [7_u8; 4 * LINE];
        (0..=MOST + 1).for_each(|len| will_write_all(bytes.as_ptr(), len));
        assert_eq!(bytes, [7; 4 * LINE], "nothing is written");
    }
}
