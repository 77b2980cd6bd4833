//! Several devices: each is a block of its own, analysed alone, then combined.

use super::Interval;
use super::holm;
use super::judge::Estimate;
use super::power::EFFICIENCY;
use super::special::{normal_cdf, student_critical, student_two_sided};
use serde::{Deserialize, Serialize};

/// The result of one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its estimate of the log-ratio.
    pub log_ratio: f64,
    /// Its standard error.
    pub error: f64,
}

impl Block {
    /// From the estimate of a device. Rounds that are all equal have an error all the same, or one device
    /// would outweigh all others.
    #[must_use]
    pub fn of(estimate: &Estimate) -> Self {
        let error = estimate.round_sd / (estimate.rounds as f64 * EFFICIENCY).sqrt();
        Self { log_ratio: estimate.ratio.ln(), error: error.max(1e-9) }
    }

    fn is_usable(&self) -> bool {
        self.error > 0.0 && self.error.is_finite() && self.log_ratio.is_finite()
    }
}

/// What all devices say together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CombinedEffect {
    /// The mean log-ratio.
    pub log_ratio: f64,
    pub interval: Interval,
    /// Two-sided p-value.
    pub p: f64,
    /// Standard deviation of the true effect between devices.
    pub between: f64,
}

/// Combines with a random effect of the device: DerSimonian and Laird (Controlled Clinical Trials 7,
/// 1986) with the interval of Hartung and Knapp (Statistics in Medicine 20, 2001), which stays honest
/// with few devices. `None` for fewer than two devices or an error that is not above 0.
pub fn combine(blocks: &[Block], level: f64) -> Option<CombinedEffect> {
    if blocks.len() < 2 || !blocks.iter().all(Block::is_usable) {
        return None;
    }
    let df = blocks.len() as f64 - 1.0;
    let between = variance_between(blocks);
    let random = |block: &Block| 1.0 / (block.error.powi(2) + between);
    let (log_ratio, all) = pooled(blocks, &random);
    let spread: f64 = blocks.iter().map(|block| random(block) * (block.log_ratio - log_ratio).powi(2)).sum();
    // Never narrower than the devices' own errors allow.
    let error = ((spread / df).max(1.0) / all).sqrt();
    let reach = student_critical(1.0 - level, df) * error;
    Some(CombinedEffect {
        log_ratio,
        interval: Interval { low: log_ratio - reach, high: log_ratio + reach, level },
        p: student_two_sided(log_ratio / error, df),
        between: between.sqrt(),
    })
}

/// The mean with these weights, and their sum.
fn pooled(blocks: &[Block], weight: &dyn Fn(&Block) -> f64) -> (f64, f64) {
    let all: f64 = blocks.iter().map(weight).sum();
    (blocks.iter().map(|block| weight(block) * block.log_ratio).sum::<f64>() / all, all)
}

/// The variance of the true effect between devices, by the method of moments.
fn variance_between(blocks: &[Block]) -> f64 {
    let fixed = |block: &Block| block.error.powi(-2);
    let (mean, all) = pooled(blocks, &fixed);
    let spread: f64 = blocks.iter().map(|block| fixed(block) * (block.log_ratio - mean).powi(2)).sum();
    let squares: f64 = blocks.iter().map(|block| fixed(block).powi(2)).sum();
    ((spread - (blocks.len() as f64 - 1.0)) / (all - squares / all)).max(0.0)
}

/// The share of the spread between devices that their own errors do not explain, in 0 .. 1 (I squared:
/// Higgins and Thompson, Statistics in Medicine 21, 2002).
pub fn unexplained(blocks: &[Block]) -> f64 {
    if blocks.len() < 2 || !blocks.iter().all(Block::is_usable) {
        return 0.0;
    }
    let fixed = |block: &Block| block.error.powi(-2);
    let (mean, _) = pooled(blocks, &fixed);
    let spread: f64 = blocks.iter().map(|block| fixed(block) * (block.log_ratio - mean).powi(2)).sum();
    if spread > 0.0 { (1.0 - (blocks.len() as f64 - 1.0) / spread).max(0.0) } else { 0.0 }
}

/// For each device the probability that it differs so much from what the others say together, adjusted by
/// Holm's method: its studentised deleted residual (Viechtbauer and Cheung, Research Synthesis Methods 1,
/// 2010). All are 1 for fewer than three devices: of two that differ nobody can tell which is the odd one.
pub fn disagreements(blocks: &[Block]) -> Vec<f64> {
    if blocks.len() < 3 || !blocks.iter().all(Block::is_usable) {
        return vec![1.0; blocks.len()];
    }
    let alone = |index: usize| {
        let others: Vec<Block> = [&blocks[..index], &blocks[index + 1..]].concat();
        let between = variance_between(&others);
        let (mean, all) = pooled(&others, &|block: &Block| 1.0 / (block.error.powi(2) + between));
        let deviation = (blocks[index].error.powi(2) + between + 1.0 / all).sqrt();
        2.0 * normal_cdf(-((blocks[index].log_ratio - mean) / deviation).abs())
    };
    holm::adjust(&(0..blocks.len()).map(alone).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    #[test]
    fn the_odd_device_is_found_and_the_others_are_not_blamed() {
        let blocks = [0.01, -0.01, 0.0, 0.4, 0.005].map(|log_ratio| Block { log_ratio, error: 0.02 });
        let odd = disagreements(&blocks);
        assert!(odd[3] < 0.001, "{odd:?}");
        assert!(odd.iter().enumerate().all(|(index, p)| index == 3 || *p > 0.05), "{odd:?}");
        assert!(unexplained(&blocks) > 0.9);
        assert_eq!(disagreements(&blocks[..2]), [1.0, 1.0]);
    }

    #[test]
    fn devices_that_differ_by_their_errors_alone_are_hardly_ever_blamed() {
        let mut random = Random::new(11);
        let trials = 2000;
        let blamed = (0..trials)
            .filter(|_| {
                let blocks: Vec<Block> =
                    (0..6).map(|_| Block { log_ratio: 0.1 + 0.05 * random.normal(), error: 0.05 }).collect();
                disagreements(&blocks).iter().any(|p| *p < 0.05)
            })
            .count();
        // 5% are allowed for all six together; 2000 trials know that to +-1.5%.
        assert!(blamed as f64 / f64::from(trials) < 0.08, "{blamed} of {trials}");
    }

    #[test]
    fn a_block_has_the_error_that_its_rounds_have() {
        let mut random = Random::new(4);
        let logs: Vec<f64> = (0..100).map(|_| 0.2 + 0.1 * random.normal()).collect();
        let block = Block::of(&Estimate::of(&logs, 0.95));
        assert!((block.log_ratio - 0.2).abs() < 0.04 && (block.error - 0.01).abs() < 0.003, "{block:?}");
        assert!(Block::of(&Estimate::of(&[0.5; 8], 0.95)).error > 0.0);
    }

    #[test]
    fn devices_that_agree_give_their_common_value() {
        let blocks = [-0.1, -0.1, -0.1].map(|log_ratio| Block { log_ratio, error: 0.01 });
        let combined = combine(&blocks, 0.95).expect("three devices");
        assert!((combined.log_ratio + 0.1).abs() < 1e-12);
        assert_eq!(combined.between, 0.0);
        assert!(!combined.interval.contains(0.0));
    }

    #[test]
    fn devices_that_disagree_widen_the_interval() {
        let blocks = [-0.3, 0.0, 0.1].map(|log_ratio| Block { log_ratio, error: 0.01 });
        let combined = combine(&blocks, 0.95).expect("three devices");
        assert!(combined.between > 0.1);
        assert!(combined.interval.contains(0.0) && combined.p > 0.05);
    }

    #[test]
    fn one_device_cannot_be_combined() {
        assert_eq!(combine(&[Block { log_ratio: 0.1, error: 0.1 }], 0.95), None);
        assert_eq!(combine(&[Block { log_ratio: 0.1, error: 0.0 }; 2], 0.95), None);
    }
}
