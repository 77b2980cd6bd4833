//! What else runs: load average, pressure, an attached debugger.

use super::text::{cpu_list, field};
use super::{Finding, Level, Root};

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![load(root)];
    findings.extend(pressure(root));
    findings.extend(tracer(root));
    findings
}

fn online(root: &Root) -> usize {
    root.text("sys/devices/system/cpu/online")
        .ok()
        .and_then(|text| cpu_list(&text))
        .map_or(1, |cpus| cpus.len().max(1))
}

/// See `proc_loadavg(5)`.
fn load(root: &Root) -> Finding {
    let (id, topic) = ("load.average", "load");
    let text = root.text("proc/loadavg").unwrap_or_default();
    let Some(load) = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()) else {
        return Finding::unknown(id, topic, "/proc/loadavg cannot be read");
    };
    let cpus = online(root);
    let observed = format!("{load:.2} tasks on {cpus} CPUs in the last minute");
    let share = load / cpus as f64;
    let level = match share {
        share if share >= 0.7 => Level::Serious,
        share if share >= 0.25 => Level::Warning,
        _ => return Finding::fine(id, topic, observed),
    };
    Finding::new(id, level, topic, observed)
        .effect("other tasks take the CPU in the middle of a measurement: tails grow first, then medians")
        .remedy("stop what else runs (top shows it), wait a minute, and measure again")
}

/// Share of time in which some task waited for a CPU. See the kernel's `Documentation/accounting/psi.rst`.
fn pressure(root: &Root) -> Option<Finding> {
    let text = root.text("proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let share: f64 = some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    let (id, topic) = ("load.pressure", "CPU pressure");
    let observed = format!("some task waited for a CPU in {share:.1}% of the last 10 s");
    if share < 5.0 {
        return Some(Finding::fine(id, topic, observed));
    }
    Some(
        Finding::new(id, if share < 25.0 { Level::Warning } else { Level::Serious }, topic, observed)
            .effect("runnable tasks queue for a CPU: a wake-up waits for strangers to be done")
            .remedy("stop what else runs, or let the lab use a CPU cgroup of high weight"),
    )
}

fn tracer(root: &Root) -> Option<Finding> {
    let status = root.text("proc/self/status").ok()?;
    let pid: u32 = field(&status, "TracerPid")?.parse().ok()?;
    if pid == 0 {
        return None;
    }
    Some(
        Finding::new("load.debugger", Level::Serious, "debugger", format!("process {pid} traces this one"))
            .effect(
                "each signal, and with strace each system call, stops the program for tens of microseconds",
            )
            .remedy("run without the debugger or strace"),
    )
}
