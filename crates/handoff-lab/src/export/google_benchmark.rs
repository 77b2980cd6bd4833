//! Google Benchmark's JSON, which its `tools/compare.py` and many dashboards read.
//!
//! The fields and their order are those of version 1.8 of its JSON reporter.

pub use handoff_workloads::throughput::google::{Cache, Context};
use serde::{Deserialize, Serialize};

use crate::experiment::ArmId;
use crate::experiment::result::ExperimentResult;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    pub context: Context,
    pub benchmarks: Vec<Benchmark>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Such as `BM_sendVec_binder/4`.
    pub name: String,
    /// Which family, counted from 0.
    pub family_index: usize,
    /// Which instance of it, counted from 0.
    pub per_family_instance_index: usize,
    /// The name without what tells repetitions apart.
    pub run_name: String,
    pub run_type: String,
    /// How many repetitions there are.
    pub repetitions: usize,
    /// Which one this is, counted from 0.
    pub repetition_index: usize,
    pub threads: usize,
    /// Iterations that the times are the mean of.
    pub iterations: u64,
    /// Time of an iteration.
    pub real_time: f64,
    /// CPU time of an iteration.
    pub cpu_time: f64,
    /// `ns`, `us`, `ms` or `s`.
    pub time_unit: String,
    /// Counters, such as `bytes_per_second`.
    #[serde(flatten)]
    pub counters: std::collections::BTreeMap<String, f64>,
}

/// This machine, for results that other programs than this one brought about.
pub(crate) fn this_machine() -> Context {
    Context { executable: "handoff".to_owned(), ..Context::here() }
}

/// An experiment: each run of A and of B is a repetition, so that `compare.py` can compare them.
///
/// Only a metric that is a time goes into `real_time`; any other is a counter beside the run's wall time. The CPU time
/// is that of the whole run, so it stands only beside a time of the whole run. It is 0 elsewhere, which `compare.py`
/// shows as no change.
pub fn of_experiment(result: &ExperimentResult) -> File {
    let metric = &result.primary;
    let is_time = ["ns", "us", "ms", "s"].contains(&metric.unit.as_str());
    let is_of_run = !is_time || ["wall", "user", "sys", "cpu"].contains(&metric.name.as_str());
    let mut benchmarks = Vec::new();
    for (family, (arm, ids)) in
        [(&result.header.arms[0], &[ArmId::A, ArmId::Control][..]), (&result.header.arms[1], &[ArmId::B][..])]
            .into_iter()
            .enumerate()
    {
        let runs: Vec<_> = result
            .rounds
            .iter()
            .flat_map(|round| ids.iter().filter_map(|id| round.samples.get(id)))
            .collect();
        for (index, sample) in runs.iter().enumerate() {
            let value = |name: &str| sample.values.get(name).copied().unwrap_or(0.0);
            let (real_time, unit) =
                if is_time { (value(&metric.name), metric.unit.as_str()) } else { (value("wall"), "s") };
            // CPU time is measured in seconds; both times have one unit.
            let factor = match unit {
                "ns" => 1e9,
                "us" => 1e6,
                "ms" => 1e3,
                _ => 1.0,
            };
            let counters =
                if is_time { Vec::new() } else { vec![(metric.name.clone(), value(&metric.name))] };
            benchmarks.push(Benchmark {
                name: arm.clone(),
                family_index: family,
                per_family_instance_index: 0,
                run_name: arm.clone(),
                run_type: "iteration".to_owned(),
                repetitions: runs.len(),
                repetition_index: index,
                threads: 1,
                iterations: 1,
                real_time,
                cpu_time: if is_of_run { value("cpu") * factor } else { 0.0 },
                time_unit: unit.to_owned(),
                counters: counters.into_iter().collect(),
            });
        }
    }
    let context = Context { date: result.header.started.clone(), ..this_machine() };
    File { context, benchmarks }
}
