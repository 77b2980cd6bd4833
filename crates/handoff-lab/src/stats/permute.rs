//! Exact randomisation tests by counting, and by sampling where counting is out of reach.

use super::random::Random;
use serde::{Deserialize, Serialize};

/// A p-value and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PValue {
    /// The two-sided p-value.
    pub p: f64,
    /// Whether every arrangement was counted; if not, arrangements were sampled.
    pub exact: bool,
}

/// Arrangements that are sampled where there are too many to count.
const SAMPLES: u32 = 100_000;

/// The largest table (in cells times steps) that is filled to count exactly.
const MOST_WORK: u64 = 300_000_000;

/// How many of all `choose(values.len(), chosen)` subsets of that size have a sum at least as far from
/// its expectation as `observed` has, as a share.
pub(super) fn subset_tail(values: &[u64], chosen: usize, observed: u64) -> Option<f64> {
    let total: u64 = values.iter().try_fold(0_u64, |sum, value| sum.checked_add(*value))?;
    let width = usize::try_from(total).ok()?.checked_add(1)?;
    let work = (width as u64).checked_mul(chosen as u64)?.checked_mul(values.len() as u64)?;
    if work > MOST_WORK {
        return None;
    }
    // ways[k * width + s]: subsets of k values with sum s. Exact below 2^53, and beyond that good to
    // 16 digits, which a p-value does not need.
    let mut ways = vec![0.0_f64; (chosen + 1) * width];
    ways[0] = 1.0;
    let mut reached = 0_usize;
    for (index, value) in values.iter().enumerate() {
        let value = *value as usize;
        reached += value;
        for count in (1..=chosen.min(index + 1)).rev() {
            let (below, here) = ways.split_at_mut(count * width);
            let below = &below[(count - 1) * width..];
            for sum in value..=reached {
                here[sum] += below[sum - value];
            }
        }
    }
    // The distance from the expectation, times the number of values to stay in whole numbers.
    let distance = |sum: u64| {
        (i128::from(sum) * values.len() as i128 - i128::from(total) * chosen as i128).unsigned_abs()
    };
    let least = distance(observed);
    let last = &ways[chosen * width..];
    let all: f64 = last.iter().sum();
    let tail: f64 =
        last.iter().enumerate().filter(|(sum, _)| distance(*sum as u64) >= least).map(|(_, n)| n).sum();
    Some(tail / all)
}

/// The values as whole multiples of a power of ten, if they have few decimals, moved so that the least
/// is 0 (which changes no difference of means).
fn whole_numbers(values: &[f64]) -> Option<Vec<u64>> {
    (0..=9).map(|digits| 10_f64.powi(digits)).find_map(|scale| {
        let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
        let whole = scaled.iter().all(|value| value.abs() < 1e15 && (value - value.round()).abs() < 1e-6);
        let least = scaled.iter().copied().fold(f64::INFINITY, f64::min).round();
        whole.then(|| scaled.iter().map(|value| (value.round() - least) as u64).collect())
    })
}

/// Whether a difference of means this large arises when labels are dealt at random, two-sided.
pub fn means_differ(before: &[f64], after: &[f64]) -> PValue {
    let all = [before, after].concat();
    if let Some(whole) = whole_numbers(&all) {
        let observed = whole[..before.len()].iter().sum();
        if let Some(p) = subset_tail(&whole, before.len(), observed) {
            return PValue { p, exact: true };
        }
    }
    let expected = all.iter().sum::<f64>() * before.len() as f64 / all.len() as f64;
    let distance = |values: &[f64]| (values[..before.len()].iter().sum::<f64>() - expected).abs();
    let least = distance(&all) * (1.0 - 1e-12);
    let mut random = Random::new(0x5eed);
    let mut order = all.clone();
    let mut hits = 0_u32;
    for _ in 0..SAMPLES {
        random.shuffle(&mut order);
        hits += u32::from(distance(&order) >= least);
    }
    // The observed arrangement is one of all, so that p is never 0 (Phipson and Smyth, 2010).
    PValue { p: f64::from(hits + 1) / f64::from(SAMPLES + 1), exact: false }
}

/// Pairs up to which [`sign_flip`] counts all sign patterns.
const MOST_PAIRS: usize = 40;

/// Whether a mean of differences this far from 0 arises when the sign of each is tossed, two-sided.
///
/// Counts all 2^n patterns for up to 40 differences: the sums of both halves are sorted, and a pair of
/// pointers counts the combinations beyond the observed sum (the method of Horowitz and Sahni, 1974).
pub fn sign_flip(differences: &[f64]) -> PValue {
    let observed = differences.iter().sum::<f64>().abs();
    let size: f64 = differences.iter().map(|d| d.abs()).sum();
    // Sums that are equal on paper must be equal here.
    let least = observed - 1e-11 * size;
    if differences.len() <= MOST_PAIRS {
        let (left, right) = differences.split_at(differences.len() / 2);
        let (left, right) = (signed_sums(left), signed_sums(right));
        // By symmetry the lower tail is as heavy as the upper one; both meet only where least <= 0.
        let upper = count_at_least(&left, &right, least);
        let all = left.len() as f64 * right.len() as f64;
        return PValue { p: (2.0 * upper / all).min(1.0), exact: true };
    }
    let mut random = Random::new(0x5eed);
    let mut hits = 0_u32;
    for _ in 0..SAMPLES {
        let mut bits = 0_u64;
        let mut sum = 0.0;
        for (index, difference) in differences.iter().enumerate() {
            if index % 64 == 0 {
                bits = random.bits();
            }
            sum += if bits & 1 == 0 { *difference } else { -*difference };
            bits >>= 1;
        }
        hits += u32::from(sum.abs() >= least);
    }
    PValue { p: f64::from(hits + 1) / f64::from(SAMPLES + 1), exact: false }
}

/// The sums of all sign patterns in ascending order, by merging: each value doubles the list.
fn signed_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        let value = value.abs();
        let mut merged = Vec::with_capacity(sums.len() * 2);
        let mut high = 0;
        for low in &sums {
            while high < sums.len() && sums[high] + value < low - value {
                merged.push(sums[high] + value);
                high += 1;
            }
            merged.push(low - value);
        }
        merged.extend(sums[high..].iter().map(|sum| sum + value));
        sums = merged;
    }
    // Rounding can swap neighbours that are equal on paper.
    sums.sort_by(f64::total_cmp);
    sums
}

fn count_at_least(left: &[f64], right: &[f64], least: f64) -> f64 {
    let mut first = right.len();
    let mut count = 0.0;
    for sum in left {
        while first > 0 && sum + right[first - 1] >= least {
            first -= 1;
        }
        count += (right.len() - first) as f64;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute_force(differences: &[f64]) -> f64 {
        let observed = differences.iter().sum::<f64>().abs();
        let patterns = 1_u32 << differences.len();
        let hits = (0..patterns)
            .filter(|pattern| {
                let sum: f64 = differences
                    .iter()
                    .enumerate()
                    .map(|(i, d)| if pattern >> i & 1 == 0 { *d } else { -*d })
                    .sum();
                sum.abs() >= observed - 1e-9
            })
            .count();
        hits as f64 / f64::from(patterns)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn halves_count_as_all_patterns_do(whole in proptest::collection::vec(-20_i32..20, 1..11)) {
            let differences: Vec<f64> = whole.into_iter().map(f64::from).collect();
            prop_assert!((sign_flip(&differences).p - brute_force(&differences)).abs() < 1e-12);
        }

        #[test]
        fn sampling_agrees_with_counting(seed in 0_u64..1000) {
            let mut random = Random::new(seed);
            let values: Vec<f64> = (0..12).map(|_| (random.unit() * 100.0).round()).collect();
            let exact = means_differ(&values[..6], &values[6..]);
            prop_assert!(exact.exact);
            // Irrational factors cannot be counted, and change nothing but that.
            let scaled: Vec<f64> = values.iter().map(|v| v * std::f64::consts::PI).collect();
            let sampled = means_differ(&scaled[..6], &scaled[6..]);
            prop_assert!(!sampled.exact);
            prop_assert!((exact.p - sampled.p).abs() < 0.01, "{exact:?} {sampled:?}");
        }
    }

    #[test]
    fn two_groups_that_never_mix() {
        // 2 of choose(6, 3) = 20 arrangements are as extreme.
        let p = means_differ(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0]);
        assert_eq!(p, PValue { p: 0.1, exact: true });
        assert_eq!(sign_flip(&[1.0; 10]), PValue { p: 2.0 / 1024.0, exact: true });
        assert_eq!(sign_flip(&[0.0; 4]).p, 1.0);
        assert_eq!(sign_flip(&[]).p, 1.0);
        assert!(!sign_flip(&[1.0; 41]).exact);
    }
}
