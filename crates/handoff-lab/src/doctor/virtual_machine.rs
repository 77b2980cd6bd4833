//! Virtualisation, containers and what other guests take away.

use super::text::field;
use super::{Finding, Level, Root};

/// Above this share of CPU time since boot, steal is worth a warning.
const STEAL_WARNING: f64 = 0.005;

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let guest = hypervisor(root);
    let mut findings = vec![match &guest {
        Some(name) => Finding::new("virtual.machine", Level::Note, "virtualisation", name.clone())
            .effect(
                "a wake-up of an idle CPU leaves the guest and costs tens of microseconds instead of a few; \
                 CPUs may share a core with other guests",
            )
            .remedy("compare ratios measured in one run, not times of different machines"),
        None if root.path("proc/cpuinfo").exists() => {
            Finding::fine("virtual.machine", "virtualisation", "none that the processor admits")
        }
        None => Finding::unknown("virtual.machine", "virtualisation", "/proc/cpuinfo cannot be read"),
    }];
    findings.push(steal(root));
    findings.extend(quota(root));
    findings
}

fn hypervisor(root: &Root) -> Option<String> {
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let flagged =
        field(&info, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let product = root.text("sys/class/dmi/id/product_name").unwrap_or_default();
    let vendor = root.text("sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let tree = root.text("proc/device-tree/hypervisor/compatible").ok();
    let known =
        ["KVM", "QEMU", "VirtualBox", "VMware", "Virtual Machine", "Google Compute Engine", "Amazon EC2"]
            .iter()
            .find(|name| product.contains(**name) || vendor.contains(**name));
    let uml = info.contains("User Mode Linux");
    match (flagged, known, tree) {
        (_, Some(name), _) => Some(format!("a virtual machine ({name})")),
        (true, ..) => Some("a virtual machine".to_owned()),
        (.., Some(_)) => Some("a virtual machine (by its device tree)".to_owned()),
        _ if uml => Some("user-mode Linux".to_owned()),
        _ => None,
    }
}

/// Share of all CPU time since boot that the hypervisor gave to others. See `proc_stat(5)`.
fn steal(root: &Root) -> Finding {
    let (id, topic) = ("virtual.steal", "steal time");
    let text = root.text("proc/stat").unwrap_or_default();
    let Some(ticks) = super::system_sample::CpuTicks::parse(&text) else {
        return Finding::unknown(id, topic, "/proc/stat cannot be read");
    };
    let share = ticks.steal_share();
    let observed = format!("{:.2}% of CPU time since boot", share * 100.0);
    if share < STEAL_WARNING {
        return Finding::fine(id, topic, observed);
    }
    Finding::new(id, Level::Warning, topic, observed)
        .effect("the host ran something else on our CPU: stalls of milliseconds, at random, in every arm")
        .remedy("use a dedicated host or dedicated CPUs; the lab flags each round that lost time to steal")
}

/// A bandwidth limit of our own control group. See `cgroups(7)`.
fn quota(root: &Root) -> Option<Finding> {
    let group = root.text("proc/self/cgroup").ok()?;
    let path = group.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
    // Each group above limits as well, so the tightest counts.
    let mut tightest: Option<(f64, String)> = None;
    let mut current = std::path::PathBuf::from(path.trim_start_matches('/'));
    loop {
        let file = format!("sys/fs/cgroup/{}/cpu.max", current.display());
        if let Some(limit) = root.text(&file).ok().and_then(|text| cpu_max(&text))
            && tightest.as_ref().is_none_or(|(least, _)| limit < *least)
        {
            tightest = Some((limit, format!("/{file}")));
        }
        if !current.pop() {
            break;
        }
    }
    Some(match tightest {
        None => Finding::fine("virtual.quota", "CPU quota", "none"),
        Some((cpus, file)) => Finding::new(
            "virtual.quota",
            Level::Serious,
            "CPU quota",
            format!("{cpus:.2} CPUs, by {file}"),
        )
        .effect(
            "a quota is stop and go, not a slow CPU: a group that used it up waits for tens of milliseconds",
        )
        .remedy(
            "lift the limit (docker: --cpus, Kubernetes: limits.cpu), or measure outside of the container",
        ),
    })
}

/// CPUs that `cpu.max` allows; nothing for `max`.
fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next().map_or(Some(100_000.0), |word| word.parse().ok())?;
    (period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(cpu_max("max 100000"), None);
        assert_eq!(cpu_max("50000 100000"), Some(0.5));
        assert_eq!(cpu_max("200000"), Some(2.0));
        assert_eq!(cpu_max("1 0"), None);
        assert_eq!(cpu_max(""), None);
    }
}
