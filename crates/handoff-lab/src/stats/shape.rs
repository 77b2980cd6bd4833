//! What is wrong with a series of values: drift, autocorrelation, two modes, outliers.

use super::describe::{mean, median, robust_sd, sorted, variance};
use super::rank::spearman;
use serde::{Deserialize, Serialize};

/// A trend over the order in which values were taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Spearman's correlation of value and position.
    pub rho: f64,
    /// Its two-sided p-value.
    pub p: f64,
}

impl Drift {
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let order: Vec<f64> = (0..values.len()).map(|index| index as f64).collect();
        let (rho, p) = spearman(&order, values);
        Self { rho, p }
    }

    /// Whether it is worth a warning: p below 1%, since many series are looked at.
    pub fn is_clear(&self) -> bool {
        self.p < 0.01
    }
}

/// Correlation of each value with the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Autocorrelation {
    /// The coefficient at lag 1, freed from its bias of -1/n.
    pub lag1: f64,
    /// How many standard errors it is away from 0.
    pub z: f64,
}

impl Autocorrelation {
    /// Measures it; 0 for fewer than four values or values that do not vary.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let middle = mean(values);
        let size: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
        if values.len() < 4 || size <= 0.0 {
            return Self { lag1: 0.0, z: 0.0 };
        }
        let product: f64 = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
        let lag1 = product / size + 1.0 / n;
        Self { lag1, z: lag1 * n.sqrt() }
    }

    /// Whether neighbours resemble each other so much that rounds are no longer worth a round each.
    pub fn is_clear(&self) -> bool {
        self.lag1 > 0.2 && self.z > 2.6
    }

    /// How many independent values so many values are worth.
    pub fn worth(&self, count: usize) -> f64 {
        let lag1 = self.lag1.clamp(0.0, 0.95);
        count as f64 * (1.0 - lag1) / (1.0 + lag1)
    }
}

/// Two groups of values with an empty valley between.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bimodality {
    /// The middle of the lower group.
    pub low: f64,
    /// The middle of the upper group.
    pub high: f64,
    /// The share of values in the upper group.
    pub upper_share: f64,
    /// Distance of the groups by their joint standard deviation (Ashman's D; Ashman, Bird and Zepf,
    /// Astronomical Journal 108, 1994).
    pub separation: f64,
}

/// Below this separation a split is what any smooth distribution gives: a normal one cut in its middle
/// has 2.6, a uniform one 3.5.
const CLEAR_SEPARATION: f64 = 5.5;

impl Bimodality {
    /// Finds the split with the least variance inside of both groups; `None` unless both hold a sixth
    /// of the values and are clearly apart. One or two outliers are no second hump.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let n = sorted.len();
        let least = (n / 6).max(3);
        let split = (least..n.checked_sub(least)? + 1).min_by(|a, b| {
            let inside = |split: &usize| {
                let (low, high) = sorted.split_at(*split);
                variance(low) * low.len() as f64 + variance(high) * high.len() as f64
            };
            inside(a).total_cmp(&inside(b))
        })?;
        let (low, high) = sorted.split_at(split);
        let joint = (0.5 * (variance(low) + variance(high))).sqrt();
        let distance = mean(high) - mean(low);
        if distance <= 0.0 {
            return None;
        }
        // Quantised values can have groups without any variance.
        let separation = if joint > 0.0 { distance / joint } else { f64::MAX };
        (separation > CLEAR_SEPARATION).then(|| Self {
            low: median(low),
            high: median(high),
            upper_share: high.len() as f64 / n as f64,
            separation,
        })
    }
}

/// The positions of values more than `reach` robust standard deviations from the median (Iglewicz and
/// Hoaglin, "How to Detect and Handle Outliers", 1993, who advise 3.5). They are shown, never dropped.
pub fn outliers(values: &[f64], reach: f64) -> Vec<usize> {
    let (middle, spread) = (median(values), robust_sd(values));
    if spread <= 0.0 {
        return Vec::new();
    }
    let far = |value: &f64| (value - middle).abs() > reach * spread;
    values.iter().enumerate().filter(|(_, value)| far(value)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    fn series(seed: u64, n: usize, mut f: impl FnMut(usize, &mut Random) -> f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..n).map(|index| f(index, &mut random)).collect()
    }

    #[test]
    fn a_trend_is_drift_and_noise_is_not() {
        assert!(Drift::of(&series(1, 20, |i, r| i as f64 + r.normal())).is_clear());
        let false_alarms =
            (0..500).filter(|seed| Drift::of(&series(*seed, 20, |_, r| r.normal())).is_clear()).count();
        assert!(false_alarms <= 14, "{false_alarms} of 500");
    }

    #[test]
    fn a_wandering_series_is_autocorrelated() {
        let mut level = 0.0;
        let wandering = series(2, 60, |_, r| {
            level = 0.8 * level + r.normal();
            level
        });
        let found = Autocorrelation::of(&wandering);
        assert!(found.is_clear(), "{found:?}");
        assert!(found.worth(60) < 30.0);
        let alarms = (0..500)
            .filter(|seed| Autocorrelation::of(&series(*seed, 30, |_, r| r.normal())).is_clear())
            .count();
        assert!(alarms <= 14, "{alarms} of 500");
        assert_eq!(Autocorrelation::of(&[1.0; 10]).lag1, 0.0);
    }

    #[test]
    fn two_modes_are_seen_and_smooth_shapes_are_not() {
        let two = series(3, 30, |i, r| if i % 3 == 0 { 60.0 } else { 4.0 } + r.normal());
        let found = Bimodality::of(&two).expect("two modes");
        assert!((found.upper_share - 1.0 / 3.0).abs() < 1e-9);
        assert!((found.low - 4.0).abs() < 1.0 && (found.high - 60.0).abs() < 1.0);
        let smooth: [fn(&mut Random) -> f64; 3] =
            [|r| r.normal(), |r| r.unit(), |r| (0.5 * r.normal()).exp()];
        for shape in smooth {
            let alarms =
                (0..300).filter(|seed| Bimodality::of(&series(*seed, 25, |_, r| shape(r))).is_some()).count();
            assert!(alarms <= 9, "{alarms} of 300");
        }
        assert_eq!(Bimodality::of(&[1.0, 2.0, 3.0]), None);
        assert_eq!(Bimodality::of(&[1.0; 20]), None);
        assert_eq!(Bimodality::of(&[]), None);
    }

    #[test]
    fn outliers_are_named() {
        let mut values = series(4, 30, |_, r| r.normal());
        values[7] = 30.0;
        assert_eq!(outliers(&values, 5.0), [7]);
        assert!(outliers(&[1.0; 5], 3.5).is_empty());
    }
}
