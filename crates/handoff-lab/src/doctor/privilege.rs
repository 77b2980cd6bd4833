//! Privileges without which a test is weaker or cannot run.

use super::text::field;
use super::{Finding, Level, Root};

/// Capabilities by number, see `capabilities(7)`: name, what it is needed for.
const NEEDED: &[(u32, &str, &str)] = &[
    (23, "CAP_SYS_NICE", "real-time callers, priority inheritance, scheduling of other processes"),
    (21, "CAP_SYS_ADMIN", "mounting tracefs and binderfs, cgroups, namespaces"),
    (12, "CAP_NET_ADMIN", "network namespaces and queueing disciplines of the TCP workloads"),
];

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![capabilities(root)];
    findings.extend(perf(root));
    findings.push(tracefs(root));
    findings
}

fn capabilities(root: &Root) -> Finding {
    let (id, topic) = ("privilege.capabilities", "privileges");
    let status = root.text("proc/self/status").unwrap_or_default();
    let Some(mask) = field(&status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()) else {
        return Finding::unknown(id, topic, "/proc/self/status cannot be read");
    };
    let realtime_limit = root.text("proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
        Some(line.split_whitespace().next()? != "0")
    });
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(|(bit, ..)| mask >> bit & 1 == 0)
        .filter(|(bit, ..)| *bit != 23 || realtime_limit != Some(true))
        .map(|(_, name, use_)| format!("{name} ({use_})"))
        .collect();
    if missing.is_empty() {
        return Finding::fine(id, topic, "all that the tests need");
    }
    Finding::new(id, Level::Warning, topic, format!("missing: {}", missing.join("; ")))
        .effect("what needs them is skipped or refused; calls are served at the server's own priority")
        .remedy("run with sudo, or raise RLIMIT_RTPRIO in /etc/security/limits.d for real-time callers")
}

/// See `perf_event_open(2)`.
fn perf(root: &Root) -> Option<Finding> {
    let level: i32 = root.number("proc/sys/kernel/perf_event_paranoid")?;
    let (id, topic) = ("privilege.perf", "performance counters");
    if level <= 2 {
        return Some(Finding::fine(id, topic, format!("perf_event_paranoid is {level}")));
    }
    Some(
        Finding::new(id, Level::Note, topic, format!("perf_event_paranoid is {level}"))
            .effect("without root no counter of cycles, instructions or migrations can be read")
            .remedy("sudo sysctl kernel.perf_event_paranoid=2"),
    )
}

fn tracefs(root: &Root) -> Finding {
    let (id, topic) = ("privilege.tracefs", "tracefs");
    let found = ["sys/kernel/tracing", "sys/kernel/debug/tracing"]
        .into_iter()
        .find(|base| root.text(format!("{base}/tracing_on")).is_ok());
    match found {
        Some(base) => Finding::fine(id, topic, format!("readable at /{base}")),
        None => Finding::new(id, Level::Note, topic, "not mounted or not readable")
            .effect("no wake-up path, transaction phases or proofs by tracepoint can be shown")
            .remedy("sudo mount -t tracefs tracefs /sys/kernel/tracing, and run as root"),
    }
}
