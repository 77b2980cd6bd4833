//! A small generator, so that a seed gives the same order of runs and the same resamples everywhere.

/// xoshiro256** by Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM
/// Transactions on Mathematical Software 47 (2021); seeded by their SplitMix64.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        let state = std::array::from_fn(|_| {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mix;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which must be above 0, without bias (Lemire's method).
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            let low = wide as u64;
            if low >= bound.wrapping_neg() % bound {
                return (wide >> 64) as usize;
            }
        }
    }

    /// A number in 0 .. 1, uniform.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_reference() {
        // SplitMix64(0) gives e220a8397b1dcdaf first; xoshiro's first output follows from its state.
        let random = Random::new(0);
        assert_eq!(random.state[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.state[1], 0x6e78_9e6a_a1b9_65f4);
        let expected = random.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        assert_eq!(random.clone().bits(), expected);
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut random = Random::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            random.shuffle(&mut order);
            *counts.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial with p = 1/6.
        assert!(counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn a_bound_is_kept() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(1), 0);
        let mean = (0..10_000).map(|_| random.normal()).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }
}
