//! Core classes: which cores are slow and which are fast, whatever the numbering.

use crate::affinity::affinity;
use crate::cpuset::{CpuId, CpuSet};
use crate::error::Result;
use crate::guard::AffinityGuard;
use crate::tid::Tid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Cores of about the same speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Class {
    /// `little`, `mid` (`mid1`, `mid2`, ... if there are several) or `big`; `all` where cores are alike.
    pub name: String,
    /// The CPUs, offline ones too where the source knows them.
    pub cpus: CpuSet,
    /// The highest figure of the source among them; see [`ClassSource`] for what it means.
    pub figure: u64,
}

/// What told the classes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassSource {
    /// `cpu_capacity`, of 1024.
    Capacity,
    /// `cpuinfo_max_freq`, in kHz.
    MaxFrequency,
    /// The core types of a hybrid processor: 1 efficient, 2 performance.
    Hybrid,
    /// The models of Arm cores (`MIDR_EL1`): 1 small, 2 middle, 3 large.
    Midr,
    /// A piece of work timed on each CPU, in rounds a millisecond.
    Measured,
    /// Nothing did: all cores are alike, as far as the machine tells.
    Uniform,
}

impl fmt::Display for ClassSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capacity => "cpu_capacity",
            Self::MaxFrequency => "cpuinfo_max_freq",
            Self::Hybrid => "hybrid core types",
            Self::Midr => "MIDR_EL1",
            Self::Measured => "measured",
            Self::Uniform => "nothing tells them apart",
        })
    }
}

/// A gap of this share between neighbours starts a new class. Turbo bins of equal cores differ by a
/// few percent, classes by a fifth and more.
const GAP: f64 = 0.10;

/// Sorts CPUs into classes by a figure that grows with speed.
pub(super) fn group(figures: &BTreeMap<CpuId, u64>) -> Vec<Class> {
    let mut sorted: Vec<(u64, CpuId)> = figures.iter().map(|(&cpu, &figure)| (figure, cpu)).collect();
    sorted.sort_unstable();
    let mut classes: Vec<Class> = Vec::new();
    for (figure, cpu) in sorted {
        match classes.last_mut() {
            Some(class) if figure as f64 <= class.figure as f64 * (1.0 + GAP) => {
                class.cpus.insert(cpu);
                class.figure = figure;
            }
            _ => classes.push(Class { name: String::new(), cpus: CpuSet::of(cpu), figure }),
        }
    }
    let count = classes.len();
    for (index, class) in classes.iter_mut().enumerate() {
        class.name = match index {
            _ if count == 1 => "all".to_owned(),
            0 => "little".to_owned(),
            _ if index + 1 == count => "big".to_owned(),
            _ if count == 3 => "mid".to_owned(),
            _ => format!("mid{index}"),
        };
    }
    classes
}

/// Rounds of a fixed piece of work a millisecond, on each CPU that this thread may use: the best of
/// five turns, since noise only slows.
pub(super) fn measure(online: &CpuSet, each: Duration) -> Result<BTreeMap<CpuId, u64>> {
    const TURNS: u32 = 5;
    let usable = online.intersection(&affinity(Tid::current())?);
    let mut best = BTreeMap::new();
    for _ in 0..TURNS {
        for cpu in usable.iter() {
            let _pinned = AffinityGuard::pin(&CpuSet::of(cpu))?;
            let figure = rounds_per_ms(each / TURNS);
            let slot = best.entry(cpu).or_insert(0);
            *slot = figure.max(*slot);
        }
    }
    Ok(best)
}

fn rounds_per_ms(time: Duration) -> u64 {
    let time = time.max(Duration::from_millis(1));
    let (start, mut rounds, mut state) = (Instant::now(), 0u64, 1u64);
    loop {
        for _ in 0..1000 {
            state = black_box(state).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
        rounds += 1000;
        let passed = start.elapsed();
        if passed >= time {
            return (rounds as f64 / (passed.as_secs_f64() * 1e3)) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(figures: &[u64]) -> Vec<(String, String)> {
        let figures = figures.iter().enumerate().map(|(cpu, &figure)| (cpu as CpuId, figure)).collect();
        group(&figures).into_iter().map(|class| (class.name, class.cpus.to_string())).collect()
    }

    fn named(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, cpus)| (name.to_string(), cpus.to_string())).collect()
    }

    #[test]
    fn classes_are_named_from_slow_to_fast() {
        assert_eq!(
            classes(&[446, 446, 446, 446, 871, 871, 871, 1024]),
            named(&[("little", "0-3"), ("mid", "4-6"), ("big", "7")])
        );
        assert_eq!(
            classes(&[1024, 300, 300, 1024]),
            named(&[("little", "1-2"), ("big", "0,3")]),
            "scattered numbers"
        );
        assert_eq!(
            classes(&[100, 200, 300, 400]),
            named(&[("little", "0"), ("mid1", "1"), ("mid2", "2"), ("big", "3")])
        );
    }

    #[test]
    fn turbo_bins_are_one_class() {
        assert_eq!(classes(&[5_500_000, 5_800_000, 5_500_000, 5_700_000]), named(&[("all", "0-3")]));
        assert_eq!(
            classes(&[5_500_000, 5_800_000, 4_300_000, 4_300_000]),
            named(&[("little", "2-3"), ("big", "0-1")])
        );
    }

    #[test]
    fn the_extremes_do_no_harm() {
        assert_eq!(classes(&[]), []);
        assert_eq!(classes(&[0, u64::MAX]), named(&[("little", "0"), ("big", "1")]));
    }

    #[test]
    fn measuring_covers_the_usable_cpus_and_restores_the_mask() {
        let before = affinity(Tid::current()).unwrap();
        let figures = measure(&before, Duration::from_millis(5)).unwrap();
        assert_eq!(figures.keys().copied().collect::<CpuSet>(), before);
        assert!(figures.values().all(|&figure| figure > 0));
        assert_eq!(affinity(Tid::current()).unwrap(), before);
    }
}
