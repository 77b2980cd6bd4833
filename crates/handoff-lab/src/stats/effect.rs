//! Sizes of effects without a unit.

use super::describe::{mean, variance};

/// Hedges' g: difference of means in pooled standard deviations, corrected for small groups by
/// 1 - 3 / (4 df - 1) (Hedges, Journal of Educational Statistics 6, 1981).
pub fn hedges_g(before: &[f64], after: &[f64]) -> f64 {
    let df = (before.len() + after.len()) as f64 - 2.0;
    let pooled =
        ((before.len() as f64 - 1.0) * variance(before) + (after.len() as f64 - 1.0) * variance(after)) / df;
    (1.0 - 3.0 / (4.0 * df - 1.0)) * (mean(after) - mean(before)) / pooled.sqrt()
}

/// Cliff's delta: how much more often a value of `after` is above one of `before` than below, -1 to 1
/// (Cliff, Psychological Bulletin 114, 1993).
pub fn cliffs_delta(before: &[f64], after: &[f64]) -> f64 {
    let mut balance = 0_i64;
    for a in after {
        for b in before {
            balance += i64::from(a > b) - i64::from(a < b);
        }
    }
    balance as f64 / (before.len() * after.len()) as f64
}
