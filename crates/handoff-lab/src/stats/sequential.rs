//! When to stop, so that the error rate stays what it says.
//!
//! Looking after each round and stopping at p < .05 is wrong in 22 to 24% of A/A runs. The three rules
//! here kept to 6% on recorded noise (`cargo xtask bench lab-errors` repeats that).

use super::levels::pocock;
use super::paired::hodges_lehmann;
use serde::{Deserialize, Serialize};

/// A rule for stopping, chosen before the first round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "rule")]
pub enum Stopping {
    /// So many rounds, one look, error rate 5%.
    Fixed { rounds: usize },
    /// Looks after these rounds, each at the level that keeps 5% in all ([`pocock`]).
    Looks {
        /// Rounds after which to look, ascending.
        looks: Vec<usize>,
    },
    /// Until the interval is narrow, at an error rate of 3% that pays for looking after each round.
    Width {
        /// Half of the interval's width, as a share: 0.025 is 2.5%.
        half_width: f64,
        /// No look before so many rounds.
        least: usize,
        /// Stop here in any case.
        most: usize,
    },
}

/// The error rate of all looks together.
const TOTAL: f64 = 0.05;

/// The error rate of an interval that is looked at after each round.
const WIDTH_ALPHA: f64 = 0.03;

impl Default for Stopping {
    fn default() -> Self {
        Self::Looks { looks: vec![10, 20, 40] }
    }
}

impl Stopping {
    /// The largest number of looks of [`Stopping::Looks`]: more would hardly leave a level for each.
    pub const MOST_LOOKS: usize = 8;

    /// The error rate of each look; an interval has the level of one minus this.
    pub fn alpha(&self) -> f64 {
        match self {
            Self::Fixed { .. } => TOTAL,
            Self::Looks { looks } => pocock(looks, TOTAL),
            Self::Width { .. } => WIDTH_ALPHA,
        }
    }

    /// The most rounds that it can take.
    pub fn most_rounds(&self) -> usize {
        match self {
            Self::Fixed { rounds } => *rounds,
            Self::Looks { looks } => looks.last().copied().unwrap_or(0),
            Self::Width { most, .. } => *most,
        }
    }

    /// Whether to stop after these rounds. `margin` is the log-ratio below which nobody cares: an
    /// interval inside of it answers the question as well as one that excludes 0.
    pub fn is_over(&self, log_ratios: &[f64], margin: f64) -> bool {
        let rounds = log_ratios.len();
        if rounds >= self.most_rounds() {
            return true;
        }
        match self {
            Self::Fixed { .. } => false,
            Self::Looks { looks } => {
                looks.contains(&rounds) && {
                    let (_, interval) = hodges_lehmann(log_ratios, 1.0 - self.alpha());
                    let inside = -margin < interval.low && interval.high < margin;
                    !interval.contains(0.0) || inside
                }
            }
            Self::Width { half_width, least, .. } => {
                rounds >= *least && {
                    let (_, interval) = hodges_lehmann(log_ratios, 1.0 - self.alpha());
                    (interval.high - interval.low) / 2.0 < half_width.ln_1p()
                }
            }
        }
    }

    /// It in words, for a plan.
    pub fn describe(&self) -> String {
        match self {
            Self::Fixed { rounds } => format!("{rounds} rounds"),
            Self::Looks { looks } => {
                let looks: Vec<String> = looks.iter().map(ToString::to_string).collect();
                format!("a look after {} rounds, at alpha {:.4} each", looks.join(", "), self.alpha())
            }
            Self::Width { half_width, least, most } => format!(
                "until the interval is narrower than +-{:.1}% (alpha {}), {least} to {most} rounds",
                half_width * 100.0,
                self.alpha()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_effect_stops_at_the_first_look_and_not_before() {
        let rule = Stopping::default();
        let logs: Vec<f64> = (0..40).map(|i| 0.3 + 0.01 * f64::from(i % 5)).collect();
        assert!(!rule.is_over(&logs[..9], 0.02));
        assert!(rule.is_over(&logs[..10], 0.02));
        assert!(!rule.is_over(&logs[..11], 0.02));
    }

    #[test]
    fn no_effect_within_the_margin_stops_as_well() {
        let logs: Vec<f64> = (0..40).map(|i| 0.001 * f64::from(i % 3 - 1)).collect();
        assert!(Stopping::default().is_over(&logs[..10], 0.02));
        assert!(!Stopping::default().is_over(&logs[..10], 0.0001));
        assert!(!Stopping::Fixed { rounds: 12 }.is_over(&logs[..11], 0.02));
        assert!(Stopping::Fixed { rounds: 12 }.is_over(&logs[..12], 0.02));
    }

    #[test]
    fn width_waits_for_precision() {
        let rule = Stopping::Width { half_width: 0.025, least: 10, most: 30 };
        let narrow: Vec<f64> = (0..40).map(|i| 0.01 * f64::from(i % 3 - 1)).collect();
        let wide: Vec<f64> = narrow.iter().map(|v| v * 50.0).collect();
        assert!(!rule.is_over(&narrow[..9], 0.02));
        assert!(rule.is_over(&narrow[..12], 0.02));
        assert!(!rule.is_over(&wide[..29], 0.02));
        assert!(rule.is_over(&wide[..30], 0.02));
    }
}
