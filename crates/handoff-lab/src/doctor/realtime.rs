//! Real-time scheduling: throttling, group scheduling, and where it is forbidden.

use super::{Finding, Level, Root};

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![throttling(root)];
    findings.extend(group_scheduling(root));
    findings
}

/// See `sched(7)`, "Limiting the CPU usage of real-time and deadline processes".
fn throttling(root: &Root) -> Finding {
    let (id, topic) = ("realtime.throttling", "real-time throttling");
    let runtime: Option<i64> = root.number("proc/sys/kernel/sched_rt_runtime_us");
    let period: Option<i64> = root.number("proc/sys/kernel/sched_rt_period_us");
    match (runtime, period) {
        (Some(-1), _) => Finding::fine(id, topic, "off"),
        (Some(runtime), Some(period)) if period > 0 && runtime < period => Finding::new(
            id,
            Level::Note,
            topic,
            format!("{:.0}% of each {} ms", 100.0 * runtime as f64 / period as f64, period / 1000),
        )
        .effect(format!(
            "FIFO and RR threads that spin are stopped for up to {} ms a period; ones that block never notice",
            (period - runtime) / 1000
        ))
        .remedy("sudo sysctl kernel.sched_rt_runtime_us=-1 (a spinning FIFO thread can then lock a CPU up)"),
        (Some(_), Some(_)) => Finding::fine(id, topic, "the whole period may be used"),
        _ => Finding::unknown(id, topic, "the kernel does not tell"),
    }
}

/// With `RT_GROUP_SCHED` a control group without a real-time budget may run no FIFO or RR task.
fn group_scheduling(root: &Root) -> Option<Finding> {
    let (id, topic) = ("realtime.group", "real-time group scheduling");
    let group = root.text("proc/self/cgroup").ok()?;
    let path = group.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let controllers = parts.nth(1)?;
        controllers.split(',').any(|name| name == "cpu").then(|| parts.next())?
    });
    let base = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct", "dev/cpuctl"]
        .into_iter()
        .find(|base| root.path(format!("{base}/cpu.rt_runtime_us")).exists())?;
    let own = format!("{base}{}/cpu.rt_runtime_us", path.unwrap_or("/").trim_end_matches('/'));
    let budget: i64 = root.number(&own)?;
    if budget != 0 {
        return Some(Finding::fine(id, topic, format!("on, with a budget of {budget} us in our group")));
    }
    Some(
        Finding::new(id, Level::Warning, topic, format!("on, and /{own} is 0"))
            .effect(
                "sched_setscheduler to FIFO or RR fails with EPERM, even for root: no priority inheritance",
            )
            .remedy(format!("give the group a budget in /{own}, or move to the root group")),
    )
}
