//! How many rounds an answer needs, and what a run could have seen.

use super::Interval;
use super::describe::{robust_sd, sd};
use super::special::{normal_cdf, normal_quantile, student_critical};
use super::unpaired::TTest;

/// Rounds for a two-sided test at `alpha` to find `log_effect` with probability `power`, when the
/// log-ratios of the rounds have this standard deviation; at least 6, below which no 95% interval
/// exists. `None` if the effect is 0 or the answer is beyond a billion.
///
/// At 5% and 80% power this is (2.8 sd / effect)^2.
pub fn rounds_needed(log_effect: f64, sd: f64, alpha: f64, power: f64) -> Option<u64> {
    let z = normal_quantile(1.0 - alpha / 2.0) + normal_quantile(power);
    let rounds = (z * sd / log_effect).powi(2).ceil();
    (rounds.is_finite() && rounds < 1e9).then(|| (rounds as u64).max(6))
}

/// The smallest log-effect that `rounds` find with probability `power`.
pub fn smallest_effect(rounds: usize, sd: f64, alpha: f64, power: f64) -> f64 {
    (normal_quantile(1.0 - alpha / 2.0) + normal_quantile(power)) * sd / (rounds as f64).sqrt()
}

/// How much of the data the signed-rank test uses where noise is normal: 3 / pi (Hodges and Lehmann,
/// 1956). Where noise has long tails it uses more than Student's test does.
pub(super) const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// The standard deviation of single rounds as the interval of all of them tells it: that of normal noise
/// which would have given an interval of this width. Where noise has long tails or two modes, this
/// predicts what more rounds will do; neither the plain nor a robust deviation does.
///
/// The robust deviation where there is no interval.
pub fn round_sd(log_ratios: &[f64], interval: Interval) -> f64 {
    let rounds = log_ratios.len() as f64;
    if interval.is_bounded() && log_ratios.len() > 1 {
        let critical = student_critical(1.0 - interval.level, rounds - 1.0);
        let width = interval.high - interval.low;
        return width / 2.0 / critical * (rounds * EFFICIENCY).sqrt();
    }
    let robust = robust_sd(log_ratios);
    if robust > 0.0 { robust } else { sd(log_ratios) }
}

/// The probability that the signed-rank interval at `alpha` excludes 0 when `log_effect` is there, for
/// normal noise of this standard deviation.
pub fn power_of_rounds(log_effect: f64, sd: f64, rounds: usize, alpha: f64) -> f64 {
    if rounds < 2 {
        return 0.0;
    }
    let shift = log_effect.abs() / sd * (rounds as f64 * EFFICIENCY).sqrt();
    noncentral_power(shift, rounds as f64 - 1.0, alpha)
}

/// The probability that Student's test on two groups of `per_arm` values finds a difference of `d`
/// standard deviations.
pub fn power_of_groups(d: f64, per_arm: usize, alpha: f64) -> f64 {
    if per_arm < 2 {
        return 0.0;
    }
    let n = per_arm as f64;
    noncentral_power(d.abs() * (n / 2.0).sqrt(), 2.0 * n - 2.0, alpha)
}

/// The probability that a t statistic with this shift is significant: the noncentral t distribution,
/// integrated over the standard deviation that the test will estimate.
fn noncentral_power(shift: f64, df: f64, alpha: f64) -> f64 {
    let critical = student_critical(alpha, df);
    // The estimate over the true value has the density of chi by sqrt(df).
    let log_norm = (df / 2.0) * (df / 2.0).ln() - libm::lgamma(df / 2.0) + std::f64::consts::LN_2;
    let density = |s: f64| (log_norm + (df - 1.0) * s.ln() - df * s * s / 2.0).exp();
    let reject = |s: f64| normal_cdf(shift - critical * s) + normal_cdf(-shift - critical * s);
    // Simpson's rule over all that has weight: ten standard deviations of the estimate.
    let reach = 10.0 / (2.0 * df).sqrt();
    let (low, high) = ((1.0 - reach).max(1e-9), 1.0 + reach);
    let steps = 400;
    let width = (high - low) / f64::from(steps);
    let sum: f64 = (0..=steps)
        .map(|step| {
            let s = low + width * f64::from(step);
            let weight = match step {
                0 => 1.0,
                last if last == steps => 1.0,
                odd if odd % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(s) * reject(s)
        })
        .sum();
    (sum * width / 3.0).clamp(0.0, 1.0)
}

/// Values in each of two groups for Student's test to find `d` standard deviations with probability
/// `power`; `None` beyond ten million.
pub fn values_per_arm(d: f64, alpha: f64, power: f64) -> Option<usize> {
    let mut high = 2;
    while power_of_groups(d, high, alpha) < power {
        high *= 2;
        if high > 10_000_000 {
            return None;
        }
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if power_of_groups(d, middle, alpha) < power {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// The effect that a t test saw, in standard deviations of one value, for groups of equal size.
pub fn effect_of(test: &TTest, per_arm: usize) -> f64 {
    test.t.abs() / (per_arm as f64 / 2.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::paired::hodges_lehmann;
    use crate::stats::random::Random;

    #[test]
    fn rounds_for_five_percent() {
        let five = 1.05_f64.ln();
        // 21 at sd .079 by the rule of 2.8, which rounds up 2.8016.
        assert!(matches!(rounds_needed(five, 0.079, 0.05, 0.8), Some(20..=21)));
        assert!(matches!(rounds_needed(five, 0.147, 0.05, 0.8), Some(71..=72)));
        assert!(matches!(rounds_needed(five, 0.35, 0.05, 0.8), Some(400..=405)));
        assert_eq!(rounds_needed(0.0, 0.1, 0.05, 0.8), None);
        assert_eq!(rounds_needed(five, 0.001, 0.05, 0.8), Some(6));
        let seen = smallest_effect(21, 0.079, 0.05, 0.8);
        assert!((seen.exp() - 1.05).abs() < 0.001, "{seen}");
    }

    /// R: `power.t.test(n = 20, delta = 1)` is 0.8689528, `power.t.test(power = .9, delta = 1)` 22.02.
    #[test]
    fn power_is_that_of_the_noncentral_t() {
        assert!((power_of_groups(1.0, 20, 0.05) - 0.868_952_8).abs() < 1e-4);
        assert_eq!(values_per_arm(1.0, 0.05, 0.9), Some(23));
        assert!((power_of_groups(0.0, 10, 0.05) - 0.05).abs() < 1e-4);
        assert_eq!(values_per_arm(0.0, 0.05, 0.8), None);
    }

    #[test]
    fn power_comes_out_as_predicted() {
        let (effect, sd, rounds) = (0.05, 0.079, 21);
        let mut random = Random::new(3);
        let found = (0..1000)
            .filter(|_| {
                let logs: Vec<f64> = (0..rounds).map(|_| effect + sd * random.normal()).collect();
                !hodges_lehmann(&logs, 0.95).1.contains(0.0)
            })
            .count() as f64
            / 1000.0;
        let predicted = power_of_rounds(effect, sd, rounds, 0.05);
        // 1000 trials know a power of 0.8 to +-0.013.
        assert!((found - predicted).abs() < 0.04, "found {found}, predicted {predicted}");
    }
}
