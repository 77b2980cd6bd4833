//! The machine and the moment of a benchmark, as Google Benchmark describes them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use handoff_ipc::binder::Implementation;
use handoff_placement::CpuSet;
use humantime::format_rfc3339_seconds;
use serde::{Deserialize, Serialize};

/// `context` of the JSON; its `Display` is what stands above the console table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// When, in UTC.
    pub date: String,
    pub host_name: String,
    pub executable: String,
    pub num_cpus: usize,
    /// Their highest frequency, in MHz; 0 if the machine does not say.
    pub mhz_per_cpu: u64,
    /// Whether a CPU changes its frequency by itself.
    pub cpu_scaling_enabled: bool,
    /// Caches of the first CPU.
    pub caches: Vec<Cache>,
    /// Load over 1, 5 and 15 minutes.
    pub load_avg: Vec<f64>,
    /// `debug` if assertions are on, which slows everything down.
    pub library_build_type: String,
    /// Which Binder driver the kernel has, if any: `C`, `Android` or `Rust`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binder_driver: Option<String>,
}

/// A cache of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    #[serde(rename = "type")]
    pub kind: String,
    pub level: u32,
    /// Bytes.
    pub size: u64,
    pub num_sharing: usize,
}

impl Context {
    /// This machine, now. What cannot be read is empty or zero.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg");
        Context {
            // The library writes the zone as a number.
            date: format_rfc3339_seconds(SystemTime::now()).to_string().replace('Z', "+00:00"),
            host_name: read("/proc/sys/kernel/hostname").trim().to_owned(),
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            num_cpus: cpu_count(&read("/sys/devices/system/cpu/online")),
            mhz_per_cpu: mhz(
                &read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
                &read("/proc/cpuinfo"),
            ),
            cpu_scaling_enabled: scaling(Path::new("/sys/devices/system/cpu")),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            load_avg: load.split(' ').take(3).filter_map(|value| value.parse().ok()).collect(),
            library_build_type: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            binder_driver: match Implementation::running() {
                Implementation::Unknown => None,
                driver => Some(driver.name().to_owned()),
            },
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.date)?;
        writeln!(f, "Running {}", self.executable)?;
        let plural = if self.num_cpus == 1 { "" } else { "s" };
        write!(f, "Run on ({} X {} MHz CPU{plural})", self.num_cpus, self.mhz_per_cpu)?;
        if !self.caches.is_empty() {
            write!(f, "\nCPU Caches:")?;
        }
        for cache in &self.caches {
            let Cache { kind, level, size, num_sharing } = cache;
            write!(f, "\n  L{level} {kind} {} KiB", size / 1024)?;
            if *num_sharing > 0 {
                write!(f, " (x{})", (self.num_cpus / num_sharing).max(1))?;
            }
        }
        let load: Vec<String> = self.load_avg.iter().map(|value| format!("{value:.2}")).collect();
        write!(f, "\nLoad Average: {}", load.join(", "))?;
        if self.cpu_scaling_enabled {
            write!(
                f,
                "\n***WARNING*** CPU scaling is enabled, the benchmark real time measurements may be noisy and \
                 will incur extra overhead."
            )?;
        }
        if self.library_build_type == "debug" {
            write!(f, "\n***WARNING*** Library was built as DEBUG. Timings may be affected.")?;
        }
        Ok(())
    }
}

/// CPUs in a list such as `0-3,8`; none in what is no list.
fn cpu_count(list: &str) -> usize {
    list.parse().map_or(0, |cpus: CpuSet| cpus.len())
}

fn mhz(max_khz: &str, cpuinfo: &str) -> u64 {
    let described = || {
        let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"))?;
        Some(line.split_once(':')?.1.trim().parse::<f64>().ok()?.round() as u64)
    };
    max_khz.trim().parse::<u64>().ok().map(|khz| khz / 1000).or_else(described).unwrap_or(0)
}

/// Whether any CPU has a governor other than `performance`.
fn scaling(cpus: &Path) -> bool {
    let Ok(entries) = fs::read_dir(cpus) else { return false };
    entries.flatten().any(|entry| {
        fs::read_to_string(entry.path().join("cpufreq/scaling_governor"))
            .is_ok_and(|governor| governor.trim() != "performance")
    })
}

fn caches(folder: &Path) -> Vec<Cache> {
    let cache = |index: usize| {
        let read = |name: &str| fs::read_to_string(folder.join(format!("index{index}")).join(name)).ok();
        Some(Cache {
            kind: read("type")?.trim().to_owned(),
            level: read("level")?.trim().parse().ok()?,
            size: cache_size(read("size")?.trim())?,
            num_sharing: cpu_count(&read("shared_cpu_list")?),
        })
    };
    (0..16).map_while(cache).collect()
}

/// `32K`, `1M` or bytes.
fn cache_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1024),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1024 * 1024)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_files_are_read() {
        assert_eq!(cpu_count("0-3,8\n"), 5);
        assert_eq!(cpu_count("garbage-,-,5-2"), 0);
        assert_eq!(
            (cache_size("32K"), cache_size("1M"), cache_size("12"), cache_size("xK")),
            (Some(32_768), Some(1 << 20), Some(12), None)
        );
        assert_eq!(mhz("2400000\n", ""), 2400);
        assert_eq!(mhz("", "cpu MHz\t\t: 2999.998\n"), 3000);
        assert_eq!(mhz("", ""), 0);
        let here = Context::here();
        assert!(here.num_cpus >= 1);
        assert!(here.date.len() == 25 && here.date.ends_with("+00:00"), "{}", here.date);
    }
}
