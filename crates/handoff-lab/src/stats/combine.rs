//! Several devices: each is a block of its own, analysed alone, then combined.

use super::Interval;
use super::special::{student_critical, student_two_sided};
use serde::{Deserialize, Serialize};

/// The result of one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its estimate of the log-ratio.
    pub log_ratio: f64,
    /// Its standard error.
    pub error: f64,
}

/// What all devices say together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Combined {
    /// The mean log-ratio.
    pub log_ratio: f64,
    /// Its interval.
    pub interval: Interval,
    /// Two-sided p-value.
    pub p: f64,
    /// Standard deviation of the true effect between devices.
    pub between: f64,
}

/// Combines with a random effect of the device: DerSimonian and Laird (Controlled Clinical Trials 7,
/// 1986) with the interval of Hartung and Knapp (Statistics in Medicine 20, 2001), which stays honest
/// with few devices. `None` for fewer than two devices or an error that is not above 0.
#[must_use]
pub fn combine(blocks: &[Block], level: f64) -> Option<Combined> {
    let usable = |block: &Block| block.error > 0.0 && block.error.is_finite() && block.log_ratio.is_finite();
    if blocks.len() < 2 || !blocks.iter().all(usable) {
        return None;
    }
    let df = blocks.len() as f64 - 1.0;
    let pooled = |weight: &dyn Fn(&Block) -> f64| {
        let all: f64 = blocks.iter().map(weight).sum();
        (blocks.iter().map(|block| weight(block) * block.log_ratio).sum::<f64>() / all, all)
    };
    let fixed = |block: &Block| block.error.powi(-2);
    let (mean, all) = pooled(&fixed);
    let spread: f64 = blocks.iter().map(|block| fixed(block) * (block.log_ratio - mean).powi(2)).sum();
    let squares: f64 = blocks.iter().map(|block| fixed(block).powi(2)).sum();
    let between = ((spread - df) / (all - squares / all)).max(0.0);
    let random = |block: &Block| 1.0 / (block.error.powi(2) + between);
    let (log_ratio, all) = pooled(&random);
    let spread: f64 = blocks.iter().map(|block| random(block) * (block.log_ratio - log_ratio).powi(2)).sum();
    // Never narrower than the devices' own errors allow.
    let error = ((spread / df).max(1.0) / all).sqrt();
    let reach = student_critical(1.0 - level, df) * error;
    Some(Combined {
        log_ratio,
        interval: Interval { low: log_ratio - reach, high: log_ratio + reach, level },
        p: student_two_sided(log_ratio / error, df),
        between: between.sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
