//! Memory: transparent huge pages, swap, NUMA balancing.

use super::text::{chosen, field};
use super::{Finding, Level, Root};

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![huge_pages(root)];
    findings.extend(swap(root));
    findings.extend(numa(root));
    findings
}

/// The memory of the machine, in GiB.
pub(super) fn total(root: &Root) -> Option<String> {
    let kib = kib(&root.text("proc/meminfo").ok()?, "MemTotal")?;
    Some(format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)))
}

fn kib(meminfo: &str, key: &str) -> Option<u64> {
    field(meminfo, key)?.split_whitespace().next()?.parse().ok()
}

fn huge_pages(root: &Root) -> Finding {
    let (id, topic) = ("memory.thp", "transparent huge pages");
    let text = root.text("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    match chosen(&text) {
        Some("always") => Finding::new(id, Level::Note, topic, "always")
            .effect("large buffers may become huge pages in one run and not in the next: copies of 64 KiB and more vary")
            .remedy("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(mode) => Finding::fine(id, topic, mode),
        None => Finding::unknown(id, topic, "the kernel does not tell"),
    }
}

fn swap(root: &Root) -> Option<Finding> {
    let meminfo = root.text("proc/meminfo").ok()?;
    let used = kib(&meminfo, "SwapTotal")?.saturating_sub(kib(&meminfo, "SwapFree")?);
    let (available, total) = (kib(&meminfo, "MemAvailable")?, kib(&meminfo, "MemTotal")?);
    let (id, topic) = ("memory.swap", "free memory");
    let observed = format!("{} MiB available, {} MiB swapped out", available / 1024, used / 1024);
    if available.saturating_mul(20) >= total && used == 0 {
        return Some(Finding::fine(id, topic, observed));
    }
    let level = if available.saturating_mul(20) < total { Level::Warning } else { Level::Note };
    Some(
        Finding::new(id, level, topic, observed)
            .effect("a page that was swapped out costs a disk access on its first touch")
            .remedy("free memory, or sudo swapoff -a while measuring"),
    )
}

fn numa(root: &Root) -> Option<Finding> {
    let nodes = root.numbered::<u32>("sys/devices/system/node", "node").len();
    if nodes < 2 {
        return None;
    }
    let balancing = root.number::<u8>("proc/sys/kernel/numa_balancing").is_some_and(|mode| mode != 0);
    let observed = format!("{nodes} nodes, balancing {}", if balancing { "on" } else { "off" });
    Some(
        Finding::new(
            "memory.numa",
            if balancing { Level::Warning } else { Level::Note },
            "memory nodes",
            observed,
        )
        .effect("a pair on two nodes shares memory over the interconnect; balancing moves pages while one measures")
        .remedy("pin both sides to one node; sudo sysctl kernel.numa_balancing=0"),
    )
}
