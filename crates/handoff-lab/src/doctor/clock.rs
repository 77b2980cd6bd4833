//! The clock source: what reading the time costs.

use super::{Finding, Level, Root};

/// The file that names it.
pub(super) const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let (id, topic) = ("clock.source", "clock source");
    let Ok(source) = root.text(CURRENT) else {
        return vec![Finding::unknown(id, topic, "the kernel does not tell its clock source")];
    };
    let available =
        root.text("sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    vec![match source.as_str() {
        // Read in user space through the vDSO.
        "tsc" | "kvm-clock" | "arch_sys_counter" | "riscv_clocksource" | "hyperv_clocksource_tsc_page"
        | "tod" | "timebase" => Finding::fine(id, topic, format!("{source}, read without a system call")),
        _ => Finding::new(id, Level::Serious, topic, format!("{source} (available: {available})"))
            .effect("reading the time is a system call and a slow device access, 1 us or more; it is in every latency")
            .remedy("echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource, \
                     if tsc is available; otherwise find in the kernel log why it was given up"),
    }]
}
