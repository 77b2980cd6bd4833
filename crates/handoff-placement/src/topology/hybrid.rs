//! Core types of hybrid x86 processors.
//!
//! The kernel names them by its performance counters (`/sys/devices/cpu_core`, `cpu_atom`). Where
//! it has none, CPUID leaf 0x1A tells, when asked on the CPU in question (Intel SDM, vol. 2A).

use crate::cpuset::{CpuId, CpuSet};
use crate::root::Root;
use std::collections::BTreeMap;

/// An efficient core is 1, a performance core 2.
pub(super) fn figures(root: &Root, online: &CpuSet) -> BTreeMap<CpuId, u64> {
    let listed = |path| root.cpus(path).unwrap_or_default();
    let (core, atom) = (listed("/sys/devices/cpu_core/cpus"), listed("/sys/devices/cpu_atom/cpus"));
    if !core.is_empty() && !atom.is_empty() {
        return atom.iter().map(|cpu| (cpu, 1)).chain(core.iter().map(|cpu| (cpu, 2))).collect();
    }
    if root.is_host() { ask_each(online) } else { BTreeMap::new() }
}

#[cfg(target_arch = "x86_64")]
fn ask_each(online: &CpuSet) -> BTreeMap<CpuId, u64> {
    use crate::guard::AffinityGuard;
    use raw_cpuid::native_cpuid::cpuid_count;

    const HYBRID: u32 = 1 << 15;
    const TYPES: u32 = 0x1a;
    if cpuid_count(0, 0).eax < TYPES || cpuid_count(7, 0).edx & HYBRID == 0 {
        return BTreeMap::new();
    }
    let mut types = BTreeMap::new();
    for cpu in online.iter() {
        let Ok(_pinned) = AffinityGuard::pin(&CpuSet::of(cpu)) else { continue };
        match cpuid_count(TYPES, 0).eax >> 24 {
            0x20 => types.insert(cpu, 1),
            0x40 => types.insert(cpu, 2),
            _ => None,
        };
    }
    types
}

#[cfg(not(target_arch = "x86_64"))]
fn ask_each(_online: &CpuSet) -> BTreeMap<CpuId, u64> {
    BTreeMap::new()
}
