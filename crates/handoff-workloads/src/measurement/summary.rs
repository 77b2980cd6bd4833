//! Count, extremes, mean, deviation and true percentiles of the values of one measurement.

use serde::{Deserialize, Serialize};

use super::{BadMeasurement, Histogram};

/// What is usually said of many values; each figure in the unit of its measurement.
///
/// A percentile is the smallest value that at least so many per cent of all values do not exceed
/// (nearest rank): one of the values itself, never a mean of two and never the middle of a bucket.
/// Of a histogram it is exact to the histogram's digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// Standard deviation of a sample (divisor n - 1); 0 for one value.
    pub stddev: f64,
    /// Median (nearest rank).
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Summary {
    /// The summary of a slice; `name` is for the error only.
    pub(super) fn of_samples(name: &str, samples: &[f64]) -> Result<Self, BadMeasurement> {
        if let Some(index) = samples.iter().position(|value| !value.is_finite()) {
            return Err(BadMeasurement::NotFinite { name: name.to_owned(), index });
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Err(BadMeasurement::Empty(name.to_owned()));
        };
        let count = sorted.len() as u64;
        let moments = Moments::of(sorted.iter().map(|value| (*value, 1)));
        let at = |per_cent| sorted[rank(count, per_cent) as usize - 1];
        Ok(Summary::from_parts(count, min, max, moments, at))
    }

    /// The summary of counted values; `name` is for the error only.
    pub(super) fn of_histogram(name: &str, histogram: &Histogram) -> Result<Self, BadMeasurement> {
        let broken = |what| BadMeasurement::Histogram { name: name.to_owned(), what };
        let buckets = &histogram.buckets;
        let (Some((min, _)), Some((max, _))) = (buckets.first(), buckets.last()) else {
            return Err(BadMeasurement::Empty(name.to_owned()));
        };
        if !buckets.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(broken("its values do not rise"));
        }
        if buckets.iter().any(|(_, count)| *count == 0) {
            return Err(broken("a value is listed that was never seen"));
        }
        let count = buckets
            .iter()
            .try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count))
            .ok_or_else(|| broken("it counts more values than 64 bits can"))?;
        let moments = Moments::of(buckets.iter().map(|(value, count)| (*value as f64, *count)));
        let at = |per_cent| {
            let wanted = rank(count, per_cent);
            let mut seen = 0;
            for (value, count) in buckets {
                seen += count;
                if seen >= wanted {
                    return *value as f64;
                }
            }
            *max as f64
        };
        Ok(Summary::from_parts(count, *min as f64, *max as f64, moments, at))
    }

    fn from_parts(count: u64, min: f64, max: f64, moments: Moments, at: impl Fn(f64) -> f64) -> Self {
        Summary {
            count,
            min,
            max,
            mean: moments.mean.clamp(min, max),
            stddev: moments.stddev(),
            p50: at(50.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            p999: at(99.9),
        }
    }
}

/// The nearest rank, from 1, of a percentile among `count` values.
fn rank(count: u64, per_cent: f64) -> u64 {
    // The last digits of 99.9 / 100 must not push the rank of an exact multiple up by one.
    let exact = per_cent / 100.0 * count as f64;
    ((exact - 1e-9 * exact).ceil() as u64).clamp(1, count)
}

/// Mean and sum of squared distances from it, by B. P. Welford's recurrence (Technometrics 4, 1962), which does
/// not lose digits where values are large and alike.
#[derive(Default)]
struct Moments {
    weight: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = (f64, u64)>) -> Self {
        let mut moments = Moments::default();
        for (value, count) in values {
            let count = count as f64;
            moments.weight += count;
            let distance = value - moments.mean;
            moments.mean += distance * count / moments.weight;
            moments.squares += count * distance * (value - moments.mean);
        }
        moments
    }

    fn stddev(&self) -> f64 {
        if self.weight < 2.0 { 0.0 } else { (self.squares / (self.weight - 1.0)).max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(samples: &[f64]) -> Summary {
        Summary::of_samples("x", samples).expect("finite values")
    }

    #[test]
    fn percentiles_are_values_by_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let summary = of(&hundred);
        assert_eq!((summary.p50, summary.p90, summary.p95, summary.p99), (50.0, 90.0, 95.0, 99.0));
        assert_eq!(summary.p999, 100.0);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(of(&thousand).p999, 999.0);
        assert_eq!(of(&[7.0]).p50, 7.0);
        assert_eq!(of(&[1.0, 2.0]).p50, 1.0);
    }

    #[test]
    fn mean_and_deviation_of_known_values() {
        // The example of the standard deviation with divisor n - 1: 2 4 4 4 5 5 7 9.
        let summary = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(summary.mean, 5.0);
        assert!((summary.stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let far = of(&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0]);
        assert!((far.stddev - 1.0).abs() < 1e-9, "{far:?}");
        assert_eq!(of(&[3.0]).stddev, 0.0);
    }

    #[test]
    fn broken_histograms_are_refused() {
        let check = |buckets: Vec<(u64, u64)>| {
            Summary::of_histogram("x", &Histogram { significant_digits: 3, buckets })
        };
        assert!(check(vec![(1, 1), (5, 2)]).is_ok());
        assert!(check(vec![]).is_err());
        assert!(check(vec![(5, 1), (1, 1)]).is_err());
        assert!(check(vec![(5, 0)]).is_err());
        assert!(check(vec![(1, u64::MAX), (2, 1)]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_histogram_says_what_its_samples_say(values in prop::collection::vec(1_u64..5_000_000, 1..400)) {
            let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
            for value in &values {
                histogram.record(*value).expect("it grows");
            }
            let counted = Summary::of_histogram("x", &Histogram::from(&histogram)).expect("values");
            let exact = of(&values.iter().map(|value| *value as f64).collect::<Vec<_>>());
            prop_assert_eq!(counted.count, exact.count);
            let pairs = [
                (counted.min, exact.min),
                (counted.p50, exact.p50),
                (counted.p90, exact.p90),
                (counted.p999, exact.p999),
                (counted.max, exact.max),
            ];
            for (a, b) in pairs {
                prop_assert!((a - b).abs() <= b * 0.001 + 1.0, "{} against {}", a, b);
            }
        }

        #[test]
        fn percentiles_never_cross(values in prop::collection::vec(-1e9_f64..1e9, 1..200)) {
            let s = of(&values);
            let order = [s.min, s.p50, s.p90, s.p95, s.p99, s.p999, s.max];
            prop_assert!(order.is_sorted(), "{:?}", s);
            prop_assert!(values.contains(&s.p95));
        }
    }
}
