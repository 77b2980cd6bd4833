//! Summaries of one group of values.

use serde::{Deserialize, Serialize};

/// The arithmetic mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample variance (divisor n - 1); 0 of fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The sample standard deviation.
pub fn sd(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The median; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// A quantile of sorted values, by linear interpolation (Hyndman and Fan's type 7, the default of R
/// and NumPy); NaN of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let fraction = position - below as f64;
    let above = sorted[(below + 1).min(last)];
    sorted[below] + fraction * (above - sorted[below])
}

/// A standard deviation that single wild values do not move: 1.4826 times the median absolute
/// deviation (consistent for the normal distribution; Rousseeuw and Croux, JASA 88, 1993).
pub fn robust_sd(values: &[f64]) -> f64 {
    let middle = median(values);
    1.482_602_218_505_602 * median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    /// Sample standard deviation.
    pub sd: f64,
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    pub max: f64,
}

impl Summary {
    /// Summarises; all fields but the count are NaN of nothing.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        Self {
            count: values.len(),
            mean: mean(values),
            sd: sd(values),
            min: quantile(&sorted, 0.0),
            q1: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            q3: quantile(&sorted, 0.75),
            max: quantile(&sorted, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = [1.0, 2.0, 3.0, 10.0];
        assert_eq!(quantile(&values, 0.5), 2.5);
        assert_eq!(quantile(&values, 0.25), 1.75);
        assert_eq!(quantile(&values, 1.0), 10.0);
        assert_eq!(quantile(&[4.0], 0.9), 4.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn one_wild_value_does_not_move_the_robust_deviation() {
        let mut values: Vec<f64> = (0..100).map(f64::from).collect();
        let before = robust_sd(&values);
        values[0] = 1e9;
        assert!((robust_sd(&values) / before - 1.0).abs() < 0.05);
    }
}
