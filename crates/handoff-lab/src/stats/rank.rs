//! Ranks, rank correlation, and the exact distributions of rank sums.

use super::special::student_two_sided;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Twice the midranks, so that ties stay whole numbers, and the sizes of the groups of ties.
pub(super) fn doubled_ranks(values: &[f64]) -> (Vec<u64>, Vec<usize>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut ties = Vec::new();
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        // The mean of ranks start + 1 ..= end, doubled.
        for index in &order[start..end] {
            ranks[*index] = (start + 1 + end) as u64;
        }
        ties.push(end - start);
        start = end;
    }
    (ranks, ties)
}

/// The midranks of the values, from 1.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    doubled_ranks(values).0.into_iter().map(|rank| rank as f64 / 2.0).collect()
}

/// Pearson's correlation; 0 if either side does not vary.
pub fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (super::describe::mean(x), super::describe::mean(y));
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    if scale > 0.0 { (sum(&|a, b| a * b) / scale).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Up to so many pairs the p-value of Spearman's correlation is counted out: 5040 orders.
const EXACT_PAIRS: usize = 7;

/// Spearman's rank correlation and its p-value: exact for up to 7 pairs, where Student's t
/// calls three values in a row certain, and by Student's t with n - 2 degrees of freedom beyond.
pub fn spearman(x: &[f64], y: &[f64]) -> (f64, f64) {
    let (x, mut y) = (ranks(x), ranks(y));
    let rho = correlation(&x, &y);
    let df = x.len() as f64 - 2.0;
    if df <= 0.0 {
        return (rho, 1.0);
    }
    if x.len() <= EXACT_PAIRS {
        let (mut orders, mut as_far) = (0.0, 0.0);
        each_order(&mut y, 0, &mut |y| {
            orders += 1.0;
            // A hair, for orders that are as far on paper.
            as_far += f64::from(correlation(&x, y).abs() >= rho.abs() - 1e-9);
        });
        return (rho, as_far / orders);
    }
    if rho.abs() >= 1.0 {
        return (rho, 0.0);
    }
    (rho, student_two_sided(rho * (df / (1.0 - rho * rho)).sqrt(), df))
}

/// Calls `with` for each order of the values from `start` on; leaves them in the order they came in.
fn each_order(values: &mut [f64], start: usize, with: &mut dyn FnMut(&[f64])) {
    if start + 1 >= values.len() {
        with(values);
        return;
    }
    for other in start..values.len() {
        values.swap(start, other);
        each_order(values, start + 1, with);
        values.swap(start, other);
    }
}

/// Probability of each value of the sum of a random subset of the ranks 1 ..= n (Wilcoxon's signed-rank
/// statistic without ties).
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let mut chance = vec![0.0; n * (n + 1) / 2 + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for rank in 1..=n {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    chance
}

/// The smallest sum that the signed-rank statistic of `n` values does not exceed with probability of at
/// least `p`. Remembered, since stopping rules ask for the same few after each round.
pub(super) fn signed_rank_quantile(p: f64, n: usize) -> usize {
    static KNOWN: Mutex<BTreeMap<(u64, usize), usize>> = Mutex::new(BTreeMap::new());
    let key = (p.to_bits(), n);
    // A panic elsewhere cannot leave a wrong entry: each is written whole.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(quantile) = known().get(&key) {
        return *quantile;
    }
    let quantile = quantile_of(&signed_rank_distribution(n), p);
    known().insert(key, quantile);
    quantile
}

/// The same of Mann and Whitney's U of groups of `n` and `m`, without ties.
pub(super) fn rank_sum_quantile(p: f64, n: usize, m: usize) -> usize {
    // ways[k][s]: subsets of k of the ranks so far with sum s; U is the sum above the least possible.
    let width = n * m + 1;
    let mut ways = vec![vec![0.0_f64; width]; n + 1];
    ways[0][0] = 1.0;
    // Recurrence on the largest rank: taken as the k-th smallest it adds rank - k to U.
    for rank in 1..=n + m {
        for count in (1..=n.min(rank)).rev() {
            let gain = rank - count;
            for sum in (gain..width).rev() {
                let add = ways[count - 1][sum - gain];
                ways[count][sum] += add;
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    quantile_of(&ways[n].iter().map(|count| count / all).collect::<Vec<_>>(), p)
}

fn quantile_of(chance: &[f64], p: f64) -> usize {
    let mut sum = 0.0;
    for (value, share) in chance.iter().enumerate() {
        sum += share;
        // A hair, so that a probability that is exactly p on paper counts as reached.
        if sum >= p - 1e-12 {
            return value;
        }
    }
    chance.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_ranks() {
        assert_eq!(ranks(&[10.0, 20.0, 10.0, 30.0]), [1.5, 3.0, 1.5, 4.0]);
        assert_eq!(doubled_ranks(&[1.0, 1.0, 1.0]).1, [3]);
    }

    /// R: `qsignrank(.025, c(6, 10, 22))`, `qwilcox(.025, 10, 10)`, `qwilcox(.025, 22, 22)`.
    #[test]
    fn quantiles_are_those_of_r() {
        assert_eq!(signed_rank_quantile(0.025, 6), 1);
        assert_eq!(signed_rank_quantile(0.025, 10), 9);
        assert_eq!(signed_rank_quantile(0.025, 22), 66);
        assert_eq!(rank_sum_quantile(0.025, 10, 10), 24);
        assert_eq!(rank_sum_quantile(0.025, 5, 7), 6);
    }

    #[test]
    fn correlations() {
        let (rho, p) = spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]);
        // R: `cor.test(1:4, 1:4, method = "spearman")`: 2 of 24 orders.
        assert!(rho == 1.0 && (p - 1.0 / 12.0).abs() < 1e-12, "{p}");
        let (rho, p) = spearman(&[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]);
        assert!((rho - 0.5).abs() < 1e-12 && (p - 1.0).abs() < 1e-12, "{rho} {p}");
        let more: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(spearman(&more, &more), (1.0, 0.0));
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
        let (rho, _) = spearman(&[1.0, 2.0, 3.0], &[9.0, 4.0, 1.0]);
        assert_eq!(rho, -1.0);
    }
}
