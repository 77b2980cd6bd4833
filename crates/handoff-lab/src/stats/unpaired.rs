//! Two groups whose values do not belong together in pairs.

use super::Interval;
use super::describe::{mean, median, variance};
use super::permute::subset_tail;
use super::rank::{doubled_ranks, rank_sum_quantile};
use super::special::{normal_cdf, student_critical, student_two_sided};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TTest {
    /// The statistic, `after` minus `before`.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Interval of the difference of means.
    pub difference: Interval,
}

/// Welch's test of equal means (Welch, Biometrika 34, 1947).
pub fn welch(before: &[f64], after: &[f64], level: f64) -> TTest {
    let part = |values: &[f64]| variance(values) / values.len() as f64;
    let (b, a) = (part(before), part(after));
    let difference = mean(after) - mean(before);
    let error = (a + b).sqrt();
    let df = (a + b).powi(2) / (a * a / (after.len() as f64 - 1.0) + b * b / (before.len() as f64 - 1.0));
    student(difference, error, df, level)
}

/// A difference with its standard error as a t test.
pub(super) fn student(difference: f64, error: f64, df: f64, level: f64) -> TTest {
    let t = difference / error;
    let reach = student_critical(1.0 - level, df) * error;
    TTest {
        t,
        df,
        p: student_two_sided(t, df),
        difference: Interval { low: difference - reach, high: difference + reach, level },
    }
}

/// Mann and Whitney's test, by its exact distribution with these very ties and by the normal one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Pairs in which `after` is above `before`, ties counted half.
    pub u: f64,
    /// Exact two-sided p-value, unless the groups are too large to count.
    pub exact: Option<f64>,
    /// Normal two-sided p-value, corrected for ties and continuity.
    pub asymptotic: f64,
}

/// See [`MannWhitney`]; Mann and Whitney, Annals of Mathematical Statistics 18 (1947).
pub fn mann_whitney(before: &[f64], after: &[f64]) -> MannWhitney {
    let all = [after, before].concat();
    let (ranks, ties) = doubled_ranks(&all);
    let (n, m) = (after.len() as f64, before.len() as f64);
    let observed: u64 = ranks[..after.len()].iter().sum();
    let u = observed as f64 / 2.0 - n * (n + 1.0) / 2.0;
    let size = n + m;
    let tied: f64 = ties.iter().map(|t| (*t as f64).powi(3) - *t as f64).sum();
    let sigma = (n * m / 12.0 * (size + 1.0 - tied / (size * (size - 1.0)))).sqrt();
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / sigma;
    MannWhitney {
        u,
        exact: subset_tail(&ranks, after.len(), observed),
        asymptotic: if sigma > 0.0 { (2.0 * normal_cdf(-z)).min(1.0) } else { 1.0 },
    }
}

/// The median of all ratios `after / before` and the exact interval from Mann and Whitney's
/// distribution (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963). All values must be
/// above 0.
pub fn hodges_lehmann_ratio(before: &[f64], after: &[f64], level: f64) -> (f64, Interval) {
    let mut logs: Vec<f64> = after.iter().flat_map(|a| before.iter().map(move |b| (a / b).ln())).collect();
    logs.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    let rank = rank_sum_quantile(tail, after.len(), before.len());
    let interval = match rank.checked_sub(1) {
        Some(below) => Interval { low: logs[below].exp(), high: logs[logs.len() - 1 - below].exp(), level },
        None => Interval { low: 0.0, high: f64::INFINITY, level },
    };
    (median(&logs).exp(), interval)
}
