//! A sample of the system: the few figures that change while one measures, cheap enough for every round.

use super::{Root, cpus};
use serde::{Deserialize, Serialize};

/// Time of all CPUs together in clock ticks, from the first line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CpuTicks {
    busy: u64,
    idle: u64,
    steal: u64,
}

impl CpuTicks {
    /// See `proc_stat(5)`: user nice system idle iowait irq softirq steal (guest time is in user).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.starts_with("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] else { return None };
        let sum = |parts: &[u64]| parts.iter().copied().fold(0, u64::saturating_add);
        Some(Self { busy: sum(&[user, nice, system, irq, softirq]), idle: sum(&[idle, iowait]), steal })
    }

    pub(crate) fn steal_share(self) -> f64 {
        let total = self.busy.saturating_add(self.idle).saturating_add(self.steal);
        if total == 0 { 0.0 } else { self.steal as f64 / total as f64 }
    }

    fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    fn busy_share(self) -> f64 {
        let total = self.busy.saturating_add(self.idle).saturating_add(self.steal);
        if total == 0 { 0.0 } else { self.busy as f64 / total as f64 }
    }
}

/// One reading. Take one before and one after a round and compare them with [`SystemSample::since`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemSample {
    ticks: Option<CpuTicks>,
    /// Load average of the last minute, in tasks.
    pub load1: Option<f64>,
    /// Mean of the CPUs' present frequencies, in MHz, where the kernel tells.
    pub mhz: Option<f64>,
    /// The hottest thermal zone, in degrees Celsius.
    pub celsius: Option<f64>,
    /// Events of thermal throttling since boot, over all CPUs (x86 only).
    pub throttled: Option<u64>,
}

impl SystemSample {
    /// Reads it. What the machine does not tell is `None`.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let cpus = cpus(root);
        let mean =
            |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let throttles: Vec<u64> = cpus
            .iter()
            .filter_map(|cpu| {
                root.number(format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"))
            })
            .collect();
        Self {
            ticks: root.text("proc/stat").ok().and_then(|text| CpuTicks::parse(&text)),
            load1: root
                .text("proc/loadavg")
                .ok()
                .and_then(|text| text.split_whitespace().next()?.parse().ok())
                .filter(|load: &f64| load.is_finite()),
            mhz: mean(
                cpus.iter()
                    .filter_map(|cpu| {
                        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
                        root.number::<f64>(&file)
                    })
                    .filter(|khz| khz.is_finite())
                    .map(|khz| khz / 1000.0)
                    .collect(),
            ),
            celsius: root
                .numbered::<u32>("sys/class/thermal", "thermal_zone")
                .iter()
                .filter_map(|zone| root.number::<i64>(format!("sys/class/thermal/thermal_zone{zone}/temp")))
                .max()
                .map(|milli| milli as f64 / 1000.0),
            throttled: (!throttles.is_empty()).then(|| throttles.iter().sum()),
        }
    }

    /// Whether the CPUs' time went on since `before`, so that [`SystemSample::since`] knows how they spent it. True where
    /// the machine does not tell.
    pub(crate) fn is_another_time_than(&self, before: &Self) -> bool {
        self.ticks.is_none() || self.ticks != before.ticks
    }

    /// What happened between `before` and this reading.
    pub fn since(&self, before: &Self) -> SystemChange {
        let ticks = self.ticks.zip(before.ticks).map(|(after, before)| after.since(before));
        SystemChange {
            busy: ticks.map_or(0.0, CpuTicks::busy_share),
            steal: ticks.map_or(0.0, CpuTicks::steal_share),
            mhz_ratio: self.mhz.zip(before.mhz).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b),
            celsius_change: self.celsius.zip(before.celsius).map(|(a, b)| a - b),
            throttled: self.throttled.zip(before.throttled).map_or(0, |(a, b)| a.saturating_sub(b)),
        }
    }
}

/// What changed on the machine during a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemChange {
    /// Share of all CPU time that was used, by anybody, 0 to 1.
    pub busy: f64,
    /// Share of all CPU time that the hypervisor gave to others, 0 to 1.
    pub steal: f64,
    /// Frequency after by frequency before.
    pub mhz_ratio: Option<f64>,
    /// Change of the hottest zone in kelvin.
    pub celsius_change: Option<f64>,
    /// New events of thermal throttling.
    pub throttled: u64,
}

impl SystemChange {
    /// What of it should be said beside the figure, in words; empty after a quiet round.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.steal > 0.01 {
            flags.push(format!("steal {:.1}%", self.steal * 100.0));
        }
        if let Some(ratio) = self.mhz_ratio.filter(|ratio| !(0.95..=1.05).contains(ratio)) {
            flags.push(format!("frequency changed by {:+.0}%", (ratio - 1.0) * 100.0));
        }
        if let Some(kelvin) = self.celsius_change.filter(|kelvin| kelvin.abs() >= 5.0) {
            flags.push(format!("temperature changed by {kelvin:+.0} K"));
        }
        if self.throttled > 0 {
            flags.push(format!("throttled {} times", self.throttled));
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(ticks: &str, khz: u32, milli: i64) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        for (path, text) in [
            ("proc/stat", format!("cpu  {ticks}\ncpu0 1 1 1 1\n")),
            ("proc/loadavg", "0.50 0.40 0.30 1/100 123\n".to_owned()),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", khz.to_string()),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3".to_owned()),
            ("sys/class/thermal/thermal_zone0/temp", milli.to_string()),
        ] {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        (folder, root)
    }

    #[test]
    fn a_round_with_steal_heat_and_a_slower_clock_is_flagged() {
        let (_a, before) = tree("100 0 0 900 0 0 0 0 0 0", 2_000_000, 50_000);
        let (_b, after) = tree("190 0 0 900 0 0 0 10 0 0", 1_000_000, 61_000);
        let (before, after) = (SystemSample::read(&before), SystemSample::read(&after));
        assert_eq!(before.load1, Some(0.5));
        let change = after.since(&before);
        assert!((change.busy - 0.9).abs() < 1e-9 && (change.steal - 0.1).abs() < 1e-9);
        let flags = change.flags().join("; ");
        assert_eq!(flags, "steal 10.0%; frequency changed by -50%; temperature changed by +11 K");
        assert!(before.since(&before).flags().is_empty());
        assert!(after.is_another_time_than(&before) && !after.is_another_time_than(&after));
    }

    #[test]
    fn a_short_or_damaged_line_is_no_reading() {
        assert_eq!(CpuTicks::parse("cpu  1 2 3"), None);
        assert_eq!(CpuTicks::parse("cpu  1 2 3 4 5 6 7 x"), None);
        let huge = format!("cpu  {0} {0} {0} {0} {0} {0} {0} {0}", u64::MAX);
        assert!(CpuTicks::parse(&huge).is_some_and(|ticks| ticks.steal_share().is_finite()));
    }
}
