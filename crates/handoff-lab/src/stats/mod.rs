//! From values to an interval and a verdict, by a procedure whose error rates were measured.
//!
//! The procedure: one value a run, runs in randomised complete blocks (rounds) with the arms A, A'
//! and B, the logarithm of B/A of each round, its Hodges-Lehmann estimate with the exact signed-rank
//! interval, a sign-flip p-value, and stopping rules that keep the error rate ([`sequential`]).
//! A'/A tells whether the procedure itself can be believed on this machine.
//!
//! - [`describe`], [`special`]: summaries, and the distributions behind the rest;
//! - [`unpaired`], [`paired`]: tests and intervals for two groups and for pairs;
//! - [`permute`], [`bootstrap`], [`rank`]: exact and resampling machinery;
//! - [`effect`]: sizes of effects; [`power`]: how many rounds, and what could have been seen;
//! - [`shape`]: what is wrong with a series: drift, autocorrelation, two modes, outliers;
//! - [`change`]: where a series of runs changed its level;
//! - [`sequential`], [`levels`], [`holm`], [`combine`]: several looks, several metrics, several devices;
//! - [`judge`]: all of it put together into a verdict.
//!
//! All functions take finite numbers. The edges (the table reader and the runner) let no others in.

pub mod bootstrap;
pub mod change;
pub mod combine;
pub mod describe;
pub mod effect;
pub mod holm;
pub mod judge;
pub mod levels;
pub mod paired;
pub mod permute;
pub mod power;
pub mod random;
pub mod rank;
pub mod sequential;
pub mod shape;
pub mod special;
pub mod unpaired;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A confidence interval. An end that too few values cannot give is infinite (or 0 for a ratio).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end; `null` in JSON if it is open.
    #[serde(serialize_with = "finite", deserialize_with = "low")]
    pub low: f64,
    /// The upper end; `null` in JSON if it is open.
    #[serde(serialize_with = "finite", deserialize_with = "high")]
    pub high: f64,
    /// The nominal coverage, such as 0.95.
    pub level: f64,
}

impl Interval {
    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Both ends through a growing function, such as `f64::exp`.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high), level: self.level }
    }

    /// Whether both ends are finite.
    pub fn is_bounded(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

/// JSON has no infinity.
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_some(value) } else { serializer.serialize_none() }
}

fn low<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
}

fn high<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}
