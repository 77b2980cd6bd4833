//! Differences within pairs or rounds.

use super::Interval;
use super::describe::{mean, sd};
use super::rank::{doubled_ranks, signed_rank_quantile};
use super::special::normal_quantile;
use super::unpaired::{TTest, student};

/// Rounds up to which the signed-rank distribution is computed exactly; beyond, its normal limit is
/// closer than any rounding that matters.
const EXACT: usize = 200;

/// Student's test that the mean difference is 0.
pub fn t_test(differences: &[f64], level: f64) -> TTest {
    let n = differences.len() as f64;
    student(mean(differences), sd(differences) / n.sqrt(), n - 1.0, level)
}

/// Exact two-sided p-value of Wilcoxon's signed-rank test; zeros are dropped, ties share their ranks
/// (Wilcoxon, Biometrics Bulletin 1, 1945; distribution counted for these very ties).
pub fn wilcoxon(differences: &[f64]) -> f64 {
    // Differences that are equal on paper (0.089 - 0.085 and 0.085 - 0.081) must tie here.
    let grain = differences.iter().fold(0.0_f64, |most, d| most.max(d.abs())) * 1e-10;
    let rounded = differences.iter().map(|d| if grain > 0.0 { (d / grain).round() } else { 0.0 });
    let kept: Vec<f64> = rounded.filter(|d| *d != 0.0).collect();
    let (ranks, _) = doubled_ranks(&kept.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let total: u64 = ranks.iter().sum();
    let observed: u64 = kept.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let mut chance = vec![0.0_f64; total as usize + 1];
    chance[0] = 1.0;
    for rank in &ranks {
        let rank = *rank as usize;
        for sum in (0..chance.len()).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    let distance = |sum: u64| (2 * i128::from(sum) - i128::from(total)).unsigned_abs();
    let tail: f64 = chance
        .iter()
        .enumerate()
        .filter(|(sum, _)| distance(*sum as u64) >= distance(observed))
        .map(|(_, share)| share)
        .sum();
    tail.min(1.0)
}

/// The median of all pairwise means of the differences, and the exact interval from the signed-rank
/// distribution (Hodges and Lehmann, 1963; Hollander, Wolfe and Chicken, section 3.3).
///
/// Too few differences for the level (fewer than six at 95%) give an unbounded interval; none give NaN.
pub fn hodges_lehmann(differences: &[f64], level: f64) -> (f64, Interval) {
    let n = differences.len();
    let mut walsh = Vec::with_capacity(n * (n + 1) / 2);
    for (index, first) in differences.iter().enumerate() {
        walsh.extend(differences[index..].iter().map(|second| 0.5 * (first + second)));
    }
    let tail = (1.0 - level) / 2.0;
    let rank = if n <= EXACT {
        signed_rank_quantile(tail, n)
    } else {
        let n = n as f64;
        let sigma = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        (n * (n + 1.0) / 4.0 + normal_quantile(tail) * sigma).floor() as usize
    };
    let Some(last) = walsh.len().checked_sub(1) else {
        return (f64::NAN, Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, level });
    };
    // Four of the values are needed in their places: sorting them all would take several times as long,
    // and a simulation does this a million times.
    let bounded = rank.checked_sub(1).filter(|below| *below < last - below);
    let below = bounded.unwrap_or(0);
    let [low, left, right, high] = in_place(&mut walsh, [below, last / 2, last.div_ceil(2), last - below]);
    let interval = match bounded {
        Some(_) => Interval { low, high, level },
        None => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, level },
    };
    (0.5 * (left + right), interval)
}

/// The values that would stand at these ascending indices if all were sorted.
fn in_place<const N: usize>(values: &mut [f64], indices: [usize; N]) -> [f64; N] {
    let mut start = 0;
    indices.map(|index| {
        // Whatever is before `start` is not above anything after it.
        let from = start.min(index);
        start = index;
        *values[from..].select_nth_unstable_by(index - from, f64::total_cmp).1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    #[test]
    fn too_few_differences_give_no_interval() {
        let (estimate, interval) = hodges_lehmann(&[0.1, 0.2, 0.3, 0.1, 0.2], 0.95);
        assert!((estimate - 0.2).abs() < 0.03);
        assert!(!interval.is_bounded());
        assert!(hodges_lehmann(&[0.1, 0.2, 0.3, 0.1, 0.2, 0.3], 0.95).1.is_bounded());
        assert!(hodges_lehmann(&[], 0.95).0.is_nan());
    }

    #[test]
    fn order_statistics_are_those_of_the_sorted_values() {
        let mut random = Random::new(17);
        for n in 1..60 {
            let values: Vec<f64> = (0..n).map(|_| (random.normal() * 4.0).round()).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let places = [0, (n - 1) / 2, n / 2, n - 1];
            assert_eq!(
                in_place(&mut values.clone(), places),
                places.map(|place| sorted[place]),
                "{values:?}"
            );
        }
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut random = Random::new(11);
        let covered = (0..1000)
            .filter(|_| {
                let values: Vec<f64> = (0..15).map(|_| 0.3 + random.normal()).collect();
                hodges_lehmann(&values, 0.95).1.contains(0.3)
            })
            .count();
        // The exact level at n = 15 is 95.2%; four standard deviations of a binomial around it.
        assert!((924..=980).contains(&covered), "{covered}");
    }

    #[test]
    fn the_normal_limit_continues_the_exact_distribution() {
        let mut random = Random::new(5);
        let values: Vec<f64> = (0..=EXACT).map(|_| random.normal()).collect();
        let (_, exact) = hodges_lehmann(&values[..EXACT], 0.95);
        let (_, normal) = hodges_lehmann(&values, 0.95);
        assert!((exact.low - normal.low).abs() < 0.02 && (exact.high - normal.high).abs() < 0.02);
    }

    #[test]
    fn zeros_are_dropped() {
        assert_eq!(wilcoxon(&[0.0, 1.0, 2.0, 3.0]), wilcoxon(&[1.0, 2.0, 3.0]));
        assert_eq!(wilcoxon(&[0.0]), 1.0);
    }
}
