//! Percentile bootstrap of a ratio of two groups (Efron and Tibshirani, 1993, chapter 13).
//!
//! For tables whose runs were not paired. The verdict of an experiment uses
//! [`paired::hodges_lehmann`](super::paired::hodges_lehmann) instead, whose error rate holds on real
//! noise where the bootstrap's does not.

use super::Interval;
use super::describe::{quantile, sorted};
use super::random::Random;

/// The interval of `statistic(after) / statistic(before)` when both groups are drawn anew.
///
/// `statistic` may reorder what it gets.
pub fn ratio(
    before: &[f64],
    after: &[f64],
    statistic: impl Fn(&mut [f64]) -> f64,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Interval {
    let mut random = Random::new(seed);
    let (mut b, mut a) = (before.to_vec(), after.to_vec());
    let ratios: Vec<f64> = (0..resamples)
        .map(|_| {
            for slot in &mut b {
                *slot = before[random.below(before.len())];
            }
            for slot in &mut a {
                *slot = after[random.below(after.len())];
            }
            statistic(&mut a) / statistic(&mut b)
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    let ratios = sorted(&ratios);
    let tail = (1.0 - level) / 2.0;
    Interval { low: quantile(&ratios, tail), high: quantile(&ratios, 1.0 - tail), level }
}

/// The mean, as a statistic for [`ratio`].
pub fn mean(values: &mut [f64]) -> f64 {
    super::describe::mean(values)
}

/// The median, as a statistic for [`ratio`].
pub fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() == middle && values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    0.5 * (lower + upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_median_is_the_median() {
        for values in [vec![3.0, 1.0, 2.0], vec![4.0, 1.0, 3.0, 2.0], vec![5.0], vec![1.0, 1.0, 9.0, 9.0]] {
            assert_eq!(median(&mut values.clone()), super::super::describe::median(&values));
        }
    }

    #[test]
    fn the_seed_decides() {
        let (before, after) = ([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 6.0]);
        let run = |seed| ratio(&before, &after, mean, 500, 0.95, seed);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert!(run(1).contains(1.5));
    }
}
