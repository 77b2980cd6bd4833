//! What one run of a workload gives: measurements, and the counters beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measurement::{BadMeasurement, Better, Clock, Measurement, Parameter, Unit};

/// The result of one run of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the workload, such as `hackbench`.
    pub workload: String,
    /// What it was asked to do.
    pub parameters: BTreeMap<String, Parameter>,
    /// What was measured, the most telling first.
    pub measurements: Vec<Measurement>,
    /// What the kernel counted meanwhile.
    pub counters: Vec<Counter>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The outcome of a workload that was asked for `parameters`, before anything is in it.
    pub(crate) fn of(workload: &str, parameters: BTreeMap<String, Parameter>) -> Self {
        Outcome {
            workload: workload.to_owned(),
            parameters,
            measurements: Vec::new(),
            counters: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the measurement `workload/quantity`.
    pub(crate) fn add(
        &mut self,
        quantity: &str,
        unit: Unit,
        clock: Clock,
        better: Better,
        values: Vec<f64>,
    ) -> Result<(), BadMeasurement> {
        let name = format!("{}/{quantity}", self.workload);
        self.push(Measurement::from_samples(name, unit, clock, better, values)?);
        Ok(())
    }

    /// Adds a measurement, with what the workload was asked for beside it.
    pub(crate) fn push(&mut self, measurement: Measurement) {
        self.measurements.push(measurement.with_parameters(&self.parameters));
    }

    /// The measurement called `name`, such as `hackbench/time`.
    pub fn measurement(&self, name: &str) -> Option<&Measurement> {
        self.measurements.iter().find(|measurement| measurement.name() == name)
    }

    /// The counter called `name`, if it could be counted.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|counter| counter.name == name).and_then(|counter| counter.value)
    }
}

/// A counter of the kernel, or why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name as `perf stat` or `nstat` has it, such as `context-switches` or `TcpExtTCPAutoCorking`;
    /// a prefix such as `sender.` says whose it is.
    pub name: String,
    /// How much it grew during the run; `task-clock` in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// Why there is no value, such as `not supported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Counter {
    /// A value, or the reason why there is none.
    pub fn new(name: impl Into<String>, value: Result<u64, String>) -> Self {
        let (value, why_not) = match value {
            Ok(value) => (Some(value), None),
            Err(why) => (None, Some(why)),
        };
        Counter { name: name.into(), value, why_not }
    }

    /// Adds counters of several processes, name by name; one that a process lacks is lacking.
    pub(crate) fn sum(prefix: &str, processes: &[Vec<Counter>]) -> Vec<Counter> {
        let mut sums: Vec<Counter> = Vec::new();
        for counter in processes.iter().flatten() {
            let name = format!("{prefix}{}", counter.name);
            match sums.iter_mut().find(|sum| sum.name == name) {
                None => sums.push(Counter { name, ..counter.clone() }),
                Some(sum) => match (sum.value, counter.value) {
                    (Some(a), Some(b)) => sum.value = Some(a.saturating_add(b)),
                    _ => {
                        sum.value = None;
                        sum.why_not = sum.why_not.take().or_else(|| counter.why_not.clone());
                    }
                },
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_processes_add_up_and_gaps_stay_gaps() {
        let process = |switches, cycles: Result<u64, String>| {
            vec![Counter::new("context-switches", Ok(switches)), Counter::new("cycles", cycles)]
        };
        let gap = Err("not supported".to_owned());
        let sums = Counter::sum("sender.", &[process(2, Ok(5)), process(3, gap.clone()), process(4, Ok(1))]);
        assert_eq!(sums[0], Counter::new("sender.context-switches", Ok(9)));
        assert_eq!(sums[1], Counter::new("sender.cycles", gap));
    }
}
