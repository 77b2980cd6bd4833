//! Maps by numbers that this process gave out itself: nobody outside can choose keys that collide, so
//! that a hash which resists that would only cost time on every call.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by own numbers.
pub(super) type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4).
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_spread() {
        let hash = |number: u64| {
            let mut hasher = Spread::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        // A table of 128 places takes the low bits for the place and the high ones for a tag.
        let places: std::collections::HashSet<u64> = (0..128).map(|number| hash(number) % 128).collect();
        let tags: std::collections::HashSet<u64> = (0..128).map(|number| hash(number) >> 57).collect();
        assert_eq!(places.len(), 128);
        assert!(tags.len() > 64, "{}", tags.len());
    }
}
