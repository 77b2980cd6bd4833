//! Reads the topology from `/sys/devices/system`.
//!
//! Formats: `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/testing/sysfs-devices-system-cpu` in Linux. Offline CPUs keep `cpu_capacity`
//! but lose `topology/` and `cache/`.

use super::classes::{self, Class, ClassSource};
use super::{Cpu, Group, Topology, hybrid, midr};
use crate::cpuset::{CpuId, CpuSet};
use crate::error::{Error, Result};
use crate::root::Root;
use std::collections::BTreeMap;

const SYSTEM: &str = "/sys/devices/system";
pub(super) const ONLINE: &str = "/sys/devices/system/cpu/online";

pub(super) fn topology(root: &Root) -> Result<Topology> {
    let unreadable = |source| Error::Topology { path: root.path(ONLINE), source };
    let online: CpuSet =
        root.text(ONLINE).map_err(unreadable)?.parse().map_err(|e| unreadable(std::io::Error::other(e)))?;
    let listed = |name: &str| root.cpus(format!("{SYSTEM}/cpu/{name}")).unwrap_or_default();
    let folders: CpuSet = root.numbered::<CpuId>(&format!("{SYSTEM}/cpu"), "cpu").into_iter().collect();
    let present = online.union(&listed("present")).union(&folders);
    let possible = present.union(&listed("possible"));
    let cpus: Vec<Cpu> = present.iter().map(|id| cpu(root, id, online.contains(id))).collect();
    let (classes, class_source) = classify(root, &cpus, &present, &online);
    Ok(Topology {
        clusters: groups(&cpus, |cpu| cluster(root, cpu)),
        llcs: llcs(root, &cpus),
        nodes: nodes(root),
        packages: groups(&cpus, |cpu| {
            topology_list(root, cpu.id, &["package_cpus_list", "core_siblings_list"])
        }),
        isolated: listed("isolated"),
        cpus,
        possible,
        present,
        online,
        classes,
        class_source,
    })
}

fn folder(id: CpuId) -> String {
    format!("{SYSTEM}/cpu/cpu{id}")
}

fn cpu(root: &Root, id: CpuId, online: bool) -> Cpu {
    let folder = folder(id);
    let midr = root.text(format!("{folder}/regs/identification/midr_el1")).ok();
    let midr = midr.and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    Cpu {
        id,
        online,
        capacity: root.number(format!("{folder}/cpu_capacity")),
        max_khz: root.number(format!("{folder}/cpufreq/cpuinfo_max_freq")),
        midr,
        core_name: midr.and_then(midr::design).map(|(name, _)| name),
        package: root.number(format!("{folder}/topology/physical_package_id")),
        core: root.number(format!("{folder}/topology/core_id")),
        siblings: topology_list(root, id, &["core_cpus_list", "thread_siblings_list"])
            .unwrap_or_else(|| CpuSet::of(id)),
    }
}

/// The first of the files that is there; newer kernels renamed them and kept the old names.
fn topology_list(root: &Root, id: CpuId, names: &[&str]) -> Option<CpuSet> {
    let lists = names.iter().filter_map(|name| root.cpus(format!("{}/topology/{name}", folder(id))));
    lists.into_iter().find(|list: &CpuSet| list.contains(id))
}

/// A cluster is worth a line only where it lies between the core and the package.
fn cluster(root: &Root, cpu: &Cpu) -> Option<CpuSet> {
    let has_id =
        root.number::<i64>(format!("{}/topology/cluster_id", folder(cpu.id))).is_some_and(|id| id >= 0);
    let cluster = topology_list(root, cpu.id, &["cluster_cpus_list"])?;
    (has_id && cluster != cpu.siblings).then_some(cluster)
}

/// The distinct sets, numbered in the order of their first CPU.
fn groups(cpus: &[Cpu], set_of: impl Fn(&Cpu) -> Option<CpuSet>) -> Vec<Group> {
    let mut distinct: Vec<CpuSet> = Vec::new();
    for set in cpus.iter().filter(|cpu| cpu.online).filter_map(set_of) {
        if !distinct.contains(&set) {
            distinct.push(set);
        }
    }
    distinct.into_iter().zip(0..).map(|(cpus, id)| Group { id, cpus, bytes: None }).collect()
}

/// The last-level caches.
fn llcs(root: &Root, cpus: &[Cpu]) -> Vec<Group> {
    let mut found = groups(cpus, |cpu| Some(last_level(root, cpu.id)?.0));
    for group in &mut found {
        group.bytes = group.cpus.first().and_then(|first| last_level(root, first)?.1);
    }
    found
}

/// Who shares a CPU's data or unified cache of the highest level, and its size in bytes.
fn last_level(root: &Root, id: CpuId) -> Option<(CpuSet, Option<u64>)> {
    let caches = format!("{}/cache", folder(id));
    let indices: Vec<u32> = root.numbered(&caches, "index");
    let of = |index: u32, name: &str| root.text(format!("{caches}/index{index}/{name}")).ok();
    let level = |index: &u32| of(*index, "level")?.parse::<u32>().ok();
    let holds_data = |index: &u32| of(*index, "type").is_none_or(|kind| kind != "Instruction");
    let last = indices.into_iter().filter(holds_data).max_by_key(level)?;
    let shared: CpuSet = of(last, "shared_cpu_list")?.parse().ok()?;
    let bytes = of(last, "size").and_then(|size| bytes(&size));
    shared.contains(id).then_some((shared, bytes))
}

/// `32768K` or `2M` as bytes.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn nodes(root: &Root) -> Vec<Group> {
    let folder = format!("{SYSTEM}/node");
    let numbers: Vec<u32> = root.numbered(&folder, "node");
    let cpus = |id: u32| root.cpus(format!("{folder}/node{id}/cpulist")).filter(|cpus| !cpus.is_empty());
    numbers.into_iter().filter_map(|id| Some(Group { id, cpus: cpus(id)?, bytes: None })).collect()
}

/// The first source that tells at least two kinds of core apart.
fn classify(root: &Root, cpus: &[Cpu], present: &CpuSet, online: &CpuSet) -> (Vec<Class>, ClassSource) {
    let by = |figure: &dyn Fn(&Cpu) -> Option<u64>| -> BTreeMap<CpuId, u64> {
        cpus.iter().filter_map(|cpu| Some((cpu.id, figure(cpu)?))).collect()
    };
    for source in [ClassSource::Capacity, ClassSource::MaxFrequency, ClassSource::Hybrid, ClassSource::Midr] {
        let figures = match source {
            ClassSource::Capacity => by(&|cpu| cpu.capacity.map(u64::from)),
            ClassSource::MaxFrequency => by(&|cpu| cpu.max_khz),
            ClassSource::Hybrid => hybrid::figures(root, online),
            _ => by(&|cpu| cpu.midr.and_then(midr::design).map(|(_, tier)| tier)),
        };
        // A source that leaves out a CPU that runs would leave it without a class.
        let covers = online.iter().all(|cpu| figures.contains_key(&cpu));
        let found = classes::group(&figures);
        if covers && found.len() > 1 {
            return (found, source);
        }
    }
    let figure = cpus.iter().filter_map(|cpu| cpu.capacity).max().unwrap_or(0).into();
    (vec![Class { name: "all".to_owned(), cpus: present.clone(), figure }], ClassSource::Uniform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_read() {
        assert_eq!(bytes("32768K"), Some(32 << 20));
        assert_eq!(bytes("2M"), Some(2 << 20));
        for bad in ["", "K", "-1K", "12Q", "99999999999999999999", "18446744073709551615G"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_machine_is_read_whole() {
        let machine = Topology::read().unwrap();
        assert!(!machine.online.is_empty() && machine.online.is_subset(&machine.possible));
        for id in machine.online.iter() {
            assert!(machine.cpu(id).is_some_and(|cpu| cpu.online && cpu.siblings.contains(id)));
            assert!(machine.class_of(id).is_some() && machine.llc_of(id).contains(id));
        }
        let again = Topology::read().unwrap().refresh(&Root::host()).unwrap();
        assert!(!again, "nothing was plugged meanwhile");
    }
}
