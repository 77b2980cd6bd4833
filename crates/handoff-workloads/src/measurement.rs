//! The typed record in which everything that is measured leaves a workload.
//!
//! One [`Measurement`] is one quantity of one workload: all its values, what they count in
//! ([`Unit`]), what they were read from ([`Clock`]) and which way is better ([`Better`]). Text,
//! JSON, HTML and foreign formats are made from it at the edge, never here.

mod summary;
mod unit;

pub use summary::Summary;
pub use unit::Unit;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One measured quantity with all its values.
///
/// ```
/// use handoff_workloads::measurement::{Better, Clock, Measurement, Unit};
///
/// let trip = Measurement::from_samples(
///     "futex/round_trip", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, vec![2100.0, 2050.0, 9000.0],
/// )?
/// .with_parameter("payload", 8)
/// .with_note("one CPU was busy with another program");
/// assert_eq!(trip.summary().p50, 2100.0);
/// # Ok::<(), handoff_workloads::measurement::BadMeasurement>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Measurement {
    name: String,
    parameters: BTreeMap<String, Parameter>,
    unit: Unit,
    clock: Clock,
    better: Better,
    values: Values,
    summary: Summary,
    notes: Vec<String>,
}

/// The values of a [`Measurement`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Every value, in the order in which it was measured.
    Samples(Vec<f64>),
    /// Values too many to keep: counted in an HDR histogram, without their order.
    Histogram(Histogram),
}

/// What an `hdrhistogram::Histogram` holds, in a form that anything can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Significant decimal digits to which a value was kept (1 to 5).
    pub significant_digits: u8,
    /// `[value, how often]`, rising by value; a value is the largest of those that the digits cannot
    /// tell from it.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&hdrhistogram::Histogram<u64>> for Histogram {
    fn from(source: &hdrhistogram::Histogram<u64>) -> Self {
        Histogram {
            significant_digits: source.sigfig(),
            buckets: source.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect(),
        }
    }
}

/// What a value was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_THREAD_CPUTIME_ID`.
    ThreadCpu,
    /// CPU time of whole processes: `CLOCK_PROCESS_CPUTIME_ID`, `getrusage` or `wait4`.
    ProcessCpu,
    /// A counter of the kernel (`/proc`, `perf_event_open`, SNMP).
    KernelCounter,
    /// Counted by the program itself; no clock was read.
    None,
}

/// Which way a quantity gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better: time, CPU time.
    Lower,
    /// More is better: throughput.
    Higher,
    /// It only describes: context switches, coalesced packets.
    Neither,
}

/// The value of one parameter of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    Bool(bool),
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A name or a list.
    Text(String),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Bool(value) => value.fmt(f),
            Parameter::Int(value) => value.fmt(f),
            Parameter::Float(value) => value.fmt(f),
            Parameter::Text(value) => value.fmt(f),
        }
    }
}

impl Parameter {
    /// The fields of a workload's parameters, by name: a list with commas. What is absent and what has fields of its
    /// own is left out.
    pub(crate) fn of_fields(parameters: &impl Serialize) -> BTreeMap<String, Parameter> {
        let of = |value| match value {
            Value::Array(list) => {
                let list: Vec<String> = list.iter().map(Value::to_string).collect();
                Some(Parameter::Text(list.join(",")))
            }
            value => serde_json::from_value(value).ok(),
        };
        let Ok(Value::Object(fields)) = serde_json::to_value(parameters) else { return BTreeMap::new() };
        fields.into_iter().filter_map(|(name, value)| Some((name, of(value)?))).collect()
    }
}

impl From<bool> for Parameter {
    fn from(value: bool) -> Self {
        Parameter::Bool(value)
    }
}

impl From<i32> for Parameter {
    fn from(value: i32) -> Self {
        Parameter::Int(i64::from(value))
    }
}

impl From<u32> for Parameter {
    fn from(value: u32) -> Self {
        Parameter::Int(i64::from(value))
    }
}

impl From<usize> for Parameter {
    fn from(value: usize) -> Self {
        Parameter::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u64> for Parameter {
    fn from(value: u64) -> Self {
        Parameter::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Parameter {
    fn from(value: f64) -> Self {
        Parameter::Float(value)
    }
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Self {
        Parameter::Text(value.to_owned())
    }
}

impl From<String> for Parameter {
    fn from(value: String) -> Self {
        Parameter::Text(value)
    }
}

/// Values that cannot be a measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMeasurement {
    #[error("{0} has no value: nothing was measured")]
    Empty(String),
    /// An infinity or not a number.
    #[error("value {index} of {name} is not a finite number")]
    NotFinite {
        name: String,
        /// Which value, from 0.
        index: usize,
    },
    /// A histogram that contradicts itself.
    #[error("the histogram of {name} is broken: {what}")]
    Histogram {
        name: String,
        /// What does not hold.
        what: &'static str,
    },
}

impl Measurement {
    /// A measurement that keeps every value, in the order given.
    pub fn from_samples(
        name: impl Into<String>,
        unit: Unit,
        clock: Clock,
        better: Better,
        samples: Vec<f64>,
    ) -> Result<Self, BadMeasurement> {
        Self::from_values(name.into(), unit, clock, better, Values::Samples(samples))
    }

    /// A measurement whose values were counted in `histogram`.
    pub fn from_histogram(
        name: impl Into<String>,
        unit: Unit,
        clock: Clock,
        better: Better,
        histogram: &hdrhistogram::Histogram<u64>,
    ) -> Result<Self, BadMeasurement> {
        Self::from_values(name.into(), unit, clock, better, Values::Histogram(histogram.into()))
    }

    fn from_values(
        name: String,
        unit: Unit,
        clock: Clock,
        better: Better,
        values: Values,
    ) -> Result<Self, BadMeasurement> {
        let summary = match &values {
            Values::Samples(samples) => Summary::of_samples(&name, samples)?,
            Values::Histogram(histogram) => Summary::of_histogram(&name, histogram)?,
        };
        Ok(Measurement {
            name,
            parameters: BTreeMap::new(),
            unit,
            clock,
            better,
            values,
            summary,
            notes: Vec::new(),
        })
    }

    /// The same with one more parameter of the workload written beside it.
    #[must_use]
    pub fn with_parameter(mut self, key: &str, value: impl Into<Parameter>) -> Self {
        self.parameters.insert(key.to_owned(), value.into());
        self
    }

    /// The same under another name.
    #[must_use]
    pub(crate) fn renamed(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The same with all of `parameters` written beside it.
    #[must_use]
    pub fn with_parameters(mut self, parameters: &BTreeMap<String, Parameter>) -> Self {
        self.parameters.extend(parameters.iter().map(|(key, value)| (key.clone(), value.clone())));
        self
    }

    /// The same with a sentence that a reader of the figure must know.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// `workload/quantity`, such as `hackbench/time`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the workload was asked to do.
    pub fn parameters(&self) -> &BTreeMap<String, Parameter> {
        &self.parameters
    }

    /// What each value counts in.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// What each value was read from.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn better(&self) -> Better {
        self.better
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Count, extremes, mean, deviation and percentiles, in [`Measurement::unit`].
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What a reader of the figure must know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The serialised form. The summary is written for readers, and never believed when read back.
#[derive(Serialize, Deserialize)]
struct Wire {
    name: String,
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    unit: Unit,
    clock: Clock,
    better: Better,
    #[serde(default, skip_deserializing)]
    summary: Option<Summary>,
    values: Values,
    #[serde(default)]
    notes: Vec<String>,
}

impl From<Measurement> for Wire {
    fn from(from: Measurement) -> Self {
        Wire {
            name: from.name,
            parameters: from.parameters,
            unit: from.unit,
            clock: from.clock,
            better: from.better,
            summary: Some(from.summary),
            values: from.values,
            notes: from.notes,
        }
    }
}

impl TryFrom<Wire> for Measurement {
    type Error = BadMeasurement;

    fn try_from(wire: Wire) -> Result<Self, BadMeasurement> {
        let read = Measurement::from_values(wire.name, wire.unit, wire.clock, wire.better, wire.values)?;
        Ok(Measurement { parameters: wire.parameters, notes: wire.notes, ..read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Measurement {
        Measurement::from_samples(
            "pipe/round_trip",
            Unit::Nanoseconds,
            Clock::Monotonic,
            Better::Lower,
            vec![5.0, 1.0, 3.0],
        )
        .expect("finite values")
        .with_parameter("payload", 8)
        .with_parameter("placement", "same-cpu")
        .with_note("noisy")
    }

    #[test]
    fn json_round_trip_keeps_everything() {
        let written = serde_json::to_string(&sample()).expect("serialises");
        assert!(written.contains(r#""unit":"ns""#), "{written}");
        assert!(written.contains(r#""values":{"samples":[5.0,1.0,3.0]}"#), "{written}");
        let read: Measurement = serde_json::from_str(&written).expect("reads back");
        assert_eq!(read, sample());
    }

    #[test]
    fn a_written_summary_is_not_believed() {
        let written = serde_json::to_string(&sample()).expect("serialises");
        let forged = written.replace(r#""p50":3.0"#, r#""p50":1.0"#);
        assert_ne!(written, forged, "the median is in the JSON");
        let read: Measurement = serde_json::from_str(&forged).expect("reads back");
        assert_eq!(read.summary().p50, 3.0);
    }

    #[test]
    fn nothing_measured_is_refused() {
        let empty =
            |samples| Measurement::from_samples("x", Unit::Count, Clock::None, Better::Neither, samples);
        assert_eq!(empty(vec![]), Err(BadMeasurement::Empty("x".into())));
        assert_eq!(empty(vec![1.0, f64::NAN]), Err(BadMeasurement::NotFinite { name: "x".into(), index: 1 }));
        let json = r#"{"name":"x","unit":"s","clock":"none","better":"lower","values":{"samples":[]}}"#;
        let error = serde_json::from_str::<Measurement>(json).expect_err("no value");
        assert!(error.to_string().contains("nothing was measured"), "{error}");
    }

    #[test]
    fn a_histogram_survives_json() {
        let mut source = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
        for value in 1..=10_000_u64 {
            source.record(value).expect("it grows");
        }
        let written =
            Measurement::from_histogram("x", Unit::Nanoseconds, Clock::Monotonic, Better::Lower, &source)
                .expect("values");
        let json = serde_json::to_string(&written).expect("serialises");
        let read: Measurement = serde_json::from_str(&json).expect("reads back");
        assert_eq!(read, written);
        assert_eq!(read.summary().count, 10_000);
        assert_eq!(read.summary().min, 1.0);
        assert!((read.summary().max / 10_000.0 - 1.0).abs() < 0.001);
        assert!((read.summary().p90 / 9000.0 - 1.0).abs() < 0.001);
    }
}
