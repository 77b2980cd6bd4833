//! The level of each of several looks at growing data, so that all of them together keep theirs.

use super::special::{normal_cdf, normal_quantile};
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::{Mutex, PoisonError};

/// Points of the grid on which the density between two looks is carried on; odd, for Simpson's rule.
const POINTS: usize = 257;

/// The level of each look after these numbers of rounds at which all of them together err with
/// probability `total` (two-sided): Pocock's constant boundary (Biometrika 64, 1977), for looks that need
/// not be equally spaced. His published constants are for equal spacing; looks after 10, 20 and 40 rounds
/// at his .0221 err in 5.3% of all runs and not in 5%.
///
/// `looks` must ascend. With one look, or none, it is `total`.
pub fn pocock(looks: &[usize], total: f64) -> f64 {
    if looks.len() < 2 {
        return total;
    }
    static KNOWN: Mutex<BTreeMap<(u64, Vec<usize>), f64>> = Mutex::new(BTreeMap::new());
    let key = (total.to_bits(), looks.to_vec());
    // A panic elsewhere cannot leave a wrong entry: each is written whole.
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *known;
    }
    // All looks together err at least as often as one, and at most as often as their sum.
    let (mut low, mut high) = (total / looks.len() as f64, total);
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if error_of_all(looks, middle) > total { high = middle } else { low = middle }
    }
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, low);
    low
}

/// The probability that any look at this level errs: the density of the sum of normal values that no look
/// has stopped so far is carried on from look to look (Armitage, McPherson and Rowe, JRSS A 132, 1969).
fn error_of_all(looks: &[usize], level: f64) -> f64 {
    let bound = normal_quantile(1.0 - level / 2.0);
    let normal = |x: f64, variance: f64| (-x * x / (2.0 * variance)).exp() / (TAU * variance).sqrt();
    // In units of the first look's time the sum has the variance t, and stops beyond bound * sqrt(t).
    let time = |look: usize| looks[look] as f64 / looks[0] as f64;
    let mut grid = Grid::new(bound);
    let mut density: Vec<f64> = grid.points.iter().map(|x| normal(*x, 1.0)).collect();
    let mut stopped = 2.0 * normal_cdf(-bound);
    for look in 1..looks.len() {
        let step = time(look) - time(look - 1);
        let reach = bound * time(look).sqrt();
        let carry = |weight: &dyn Fn(f64) -> f64| -> f64 {
            grid.points.iter().zip(&grid.weights).zip(&density).map(|((x, w), d)| w * d * weight(*x)).sum()
        };
        let deviation = step.sqrt();
        stopped += carry(&|x| normal_cdf((x - reach) / deviation) + normal_cdf((-x - reach) / deviation));
        let next = Grid::new(reach);
        let carried = next.points.iter().map(|y| carry(&|x| normal(y - x, step))).collect();
        (grid, density) = (next, carried);
    }
    stopped
}

/// Simpson's rule from `-reach` to `reach`.
struct Grid {
    points: Vec<f64>,
    weights: Vec<f64>,
}

impl Grid {
    fn new(reach: f64) -> Self {
        let width = 2.0 * reach / (POINTS - 1) as f64;
        let weight = |index: usize| match index {
            0 => 1.0,
            last if last == POINTS - 1 => 1.0,
            odd if odd % 2 == 1 => 4.0,
            _ => 2.0,
        };
        Self {
            points: (0..POINTS).map(|index| width * index as f64 - reach).collect(),
            weights: (0..POINTS).map(|index| weight(index) * width / 3.0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    /// Pocock 1977, table 1; Jennison and Turnbull, "Group Sequential Methods", table 2.1.
    #[test]
    fn equally_spaced_looks_have_the_published_levels() {
        let published = [0.05, 0.0294, 0.0221, 0.0182, 0.0158, 0.0142, 0.0130, 0.0120];
        for (looks, level) in published.iter().enumerate() {
            let looks: Vec<usize> = (1..=looks + 1).map(|look| look * 10).collect();
            let found = pocock(&looks, 0.05);
            assert!((found - level).abs() < 0.000_1, "{looks:?}: {found}, published {level}");
        }
    }

    #[test]
    fn looks_after_10_20_and_40_err_as_often_as_they_say() {
        let level = pocock(&[10, 20, 40], 0.05);
        assert!((level - 0.020_8).abs() < 0.000_05, "{level}");
        // And by trying it: sums of 1, 1 and 2 normal values, looked at in between.
        let bound = normal_quantile(1.0 - level / 2.0);
        let mut random = Random::new(3);
        let trials = 40_000;
        let wrong = (0..trials)
            .filter(|_| {
                let first = random.normal();
                let second = first + random.normal();
                let third = second + 2.0_f64.sqrt() * random.normal();
                first.abs() > bound || second.abs() > bound * 2.0_f64.sqrt() || third.abs() > bound * 2.0
            })
            .count();
        // Four standard deviations of a share of 5%.
        let share = wrong as f64 / f64::from(trials);
        assert!((share - 0.05).abs() < 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt(), "{share}");
    }

    #[test]
    fn one_look_has_all_of_it() {
        assert_eq!((pocock(&[20], 0.05), pocock(&[], 0.05)), (0.05, 0.05));
    }
}
