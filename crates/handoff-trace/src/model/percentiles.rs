//! Percentiles of a set of durations that is kept whole.

use serde::{Deserialize, Serialize};

/// Durations in nanoseconds, by rank: a percentile is a value that occurred (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub min: u64,
    pub p50: u64,
    /// Nine of ten are not longer.
    pub p90: u64,
    /// 99 of 100 are not longer.
    pub p99: u64,
    pub max: u64,
    pub sum: u64,
}

impl Percentiles {
    /// Of these values, in any order.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let rank = |percent: usize| {
            let at = (values.len() * percent).div_ceil(100).max(1) - 1;
            values.get(at).copied().unwrap_or(0)
        };
        Self {
            count: values.len() as u64,
            min: values.first().copied().unwrap_or(0),
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: values.last().copied().unwrap_or(0),
            sum: values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_values_that_occurred() {
        let of = Percentiles::of((1..=200).rev().collect());
        assert_eq!(
            (of.count, of.min, of.p50, of.p90, of.p99, of.max, of.sum),
            (200, 1, 100, 180, 198, 200, 20100)
        );
        let one = Percentiles::of(vec![7]);
        assert_eq!((one.min, one.p50, one.p99, one.max), (7, 7, 7, 7));
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }
}
