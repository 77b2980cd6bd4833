//! Google Benchmark's JSON, which its `tools/compare.py` and many dashboards read.
//!
//! The fields and their order are those of version 1.8 of its JSON reporter.

use serde::{Deserialize, Serialize};

use crate::doctor::Root;
use crate::experiment::ArmId;
use crate::experiment::result::ExperimentResult;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// The machine.
    pub context: Context,
    /// The results.
    pub benchmarks: Vec<Benchmark>,
}

/// The machine and the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// When it ran, as RFC 3339 has it.
    pub date: String,
    /// Name of the machine.
    pub host_name: String,
    /// The program.
    pub executable: String,
    /// CPUs that are online.
    pub num_cpus: usize,
    /// The greatest frequency in MHz; 0 if nobody tells.
    pub mhz_per_cpu: u64,
    /// Whether a governor changes frequencies.
    pub cpu_scaling_enabled: bool,
    /// Caches of the first CPU.
    pub caches: Vec<Cache>,
    /// Load averages.
    pub load_avg: Vec<f64>,
    /// `release` or `debug`.
    pub library_build_type: String,
}

/// A cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 1 to 3.
    pub level: u32,
    /// In bytes.
    pub size: u64,
    /// CPUs that share it.
    pub num_sharing: usize,
}

/// One result.
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
    /// `iteration`, or `aggregate`.
    pub run_type: String,
    /// How many repetitions there are.
    pub repetitions: usize,
    /// Which one this is, counted from 0.
    pub repetition_index: usize,
    /// Threads.
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

impl Context {
    /// This machine.
    #[must_use]
    pub fn here(executable: &str) -> Self {
        let date = crate::clock::timestamp();
        Self { executable: executable.to_owned(), date, ..Self::of(&Root::new("/")) }
    }

    /// The machine whose files are under a root.
    #[must_use]
    pub fn of(root: &Root) -> Self {
        let cpu = "sys/devices/system/cpu";
        let khz = root.number::<u64>(&format!("{cpu}/cpu0/cpufreq/cpuinfo_max_freq"));
        let told = || {
            let info = root.read("proc/cpuinfo")?;
            let line = info.lines().find(|line| line.starts_with("cpu MHz"))?;
            line.split(':').nth(1)?.trim().parse::<f64>().ok()
        };
        let governor = root.read(&format!("{cpu}/cpu0/cpufreq/scaling_governor"));
        let online = root.cpus().len();
        Self {
            date: String::new(),
            host_name: root.read("proc/sys/kernel/hostname").unwrap_or_default(),
            executable: String::new(),
            num_cpus: online.max(1),
            mhz_per_cpu: khz.map(|khz| khz / 1000).or_else(|| told().map(|mhz| mhz as u64)).unwrap_or(0),
            cpu_scaling_enabled: governor.is_some_and(|governor| governor != "performance"),
            caches: caches(root),
            load_avg: root
                .read("proc/loadavg")
                .map(|text| text.split_whitespace().take(3).filter_map(|word| word.parse().ok()).collect())
                .unwrap_or_default(),
            library_build_type: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }
}

fn caches(root: &Root) -> Vec<Cache> {
    let folder = "sys/devices/system/cpu/cpu0/cache";
    root.names(folder)
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| {
            let read = |what: &str| root.read(&format!("{folder}/{name}/{what}"));
            let size = read("size")?;
            let (digits, factor) = match size.strip_suffix('K') {
                Some(digits) => (digits, 1024),
                None => size.strip_suffix('M').map_or((size.as_str(), 1), |digits| (digits, 1 << 20)),
            };
            let sharing = read("shared_cpu_list").unwrap_or_default();
            Some(Cache {
                kind: read("type")?,
                level: read("level")?.parse().ok()?,
                size: digits.parse::<u64>().ok()?.checked_mul(factor)?,
                num_sharing: crate::doctor::cpu_list_len(&sharing).unwrap_or(1),
            })
        })
        .collect()
}

/// An experiment: each run of A and of B is a repetition, so that `compare.py` can compare them.
///
/// Only a metric that is a time goes into `real_time`; any other is a counter beside the run's wall time.
#[must_use]
pub fn of_experiment(result: &ExperimentResult) -> File {
    let metric = &result.primary;
    let is_time = ["ns", "us", "ms", "s"].contains(&metric.unit.as_str());
    let mut benchmarks = Vec::new();
    for (family, (arm, ids)) in
        [(&result.header.arms[0], &[ArmId::A, ArmId::Again][..]), (&result.header.arms[1], &[ArmId::B][..])]
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
                cpu_time: value("cpu") * factor,
                time_unit: unit.to_owned(),
                counters: counters.into_iter().collect(),
            });
        }
    }
    let context = Context { date: result.header.started.clone(), ..Context::here("handoff") };
    File { context, benchmarks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described_as_google_benchmark_does() {
        let context = Context::here("handoff");
        assert!(context.num_cpus > 0 && context.load_avg.len() == 3, "{context:?}");
        let text = serde_json::to_string(&context).expect("serialises");
        let order =
            ["date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled", "caches"];
        let places: Vec<_> = order.iter().map(|key| text.find(&format!("\"{key}\":"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }

    #[test]
    fn caches_of_another_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let base = "sys/devices/system/cpu/cpu0/cache/index0";
        std::fs::create_dir_all(root.path(base)).expect("made");
        for (name, text) in [("type", "Data"), ("level", "1"), ("size", "48K"), ("shared_cpu_list", "0-1")] {
            std::fs::write(root.path(&format!("{base}/{name}")), text).expect("written");
        }
        let expected = Cache { kind: "Data".into(), level: 1, size: 48 << 10, num_sharing: 2 };
        assert_eq!(Context::of(&root).caches, [expected]);
    }
}
