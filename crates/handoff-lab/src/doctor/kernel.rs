//! The kernel's build: debug options, tick, preemption, mitigations, behaviour that differs by version.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

use super::text::some_of;
use super::{Finding, Level, Root};

/// Options that make locks, allocations or scheduling several times slower: option, what it does.
const SLOW: &[(&str, &str)] = &[
    ("PROVE_LOCKING", "every lock checks the order of all locks held"),
    ("DEBUG_LOCK_ALLOC", "every lock is tracked"),
    ("LOCK_STAT", "every lock is timed"),
    ("DEBUG_SPINLOCK", "every spinlock checks its owner"),
    ("DEBUG_MUTEXES", "every mutex checks its owner"),
    ("DEBUG_RT_MUTEXES", "priority inheritance checks its chains"),
    ("DEBUG_WW_MUTEX_SLOWPATH", "wait-wound locks fail on purpose"),
    ("DEBUG_RWSEMS", "every reader-writer semaphore checks its owner"),
    ("DEBUG_PREEMPT", "each use of a per-CPU variable checks preemption"),
    ("DEBUG_ATOMIC_SLEEP", "each sleeping function checks its context"),
    ("PREEMPT_TRACER", "each preemption-off section is timed"),
    ("IRQSOFF_TRACER", "each interrupts-off section is timed"),
    ("KASAN", "every memory access is checked"),
    ("KCSAN", "memory accesses are stalled to find races"),
    ("KMSAN", "every memory access is tracked"),
    ("UBSAN_TRAP", "arithmetic is checked"),
    ("KCOV", "every branch is recorded"),
    ("GCOV_PROFILE_ALL", "every branch is counted"),
    ("DEBUG_PAGEALLOC_ENABLE_DEFAULT", "freed pages are unmapped"),
    ("SLUB_DEBUG_ON", "every allocation is checked"),
    ("DEBUG_KMEMLEAK", "every allocation is tracked"),
    ("DEBUG_OBJECTS", "every object's life is tracked"),
    ("DEBUG_VM", "memory management checks itself"),
    ("PROVE_RCU", "each read of an RCU pointer is checked"),
];

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut findings = vec![debug_options(root), mitigations(root)];
    findings.extend(tracing_active(root));
    findings.extend(pins_across_cpusets(root));
    findings.extend(autogroup(root));
    findings.extend(replaced_scheduler(root));
    findings
}

/// A file that is compressed with gzip; no more of it than any configuration has.
fn gzip(file: &Path) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(file).ok()?).take(8 << 20).read_to_string(&mut text).ok()?;
    Some(text)
}

fn config(root: &Root) -> Option<String> {
    gzip(&root.path("proc/config.gz")).or_else(|| {
        let release = root.text("proc/sys/kernel/osrelease").ok()?;
        // The release is one path component; anything else comes from a damaged tree.
        let safe = !release.contains('/') && !release.starts_with('.');
        [format!("boot/config-{release}"), format!("lib/modules/{release}/config")]
            .iter()
            .filter(|_| safe)
            .find_map(|path| root.text(path).ok())
    })
}

fn is_set(config: &str, option: &str) -> bool {
    config.lines().any(|line| {
        line.strip_prefix("CONFIG_")
            .and_then(|rest| rest.strip_prefix(option))
            .is_some_and(|rest| rest == "=y")
    })
}

fn debug_options(root: &Root) -> Finding {
    let (id, topic) = ("kernel.debug", "kernel debug options");
    let Some(config) = config(root) else {
        return Finding::unknown(
            id,
            topic,
            "the kernel's configuration is in neither /proc/config.gz nor /boot",
        );
    };
    let mut slow: Vec<String> = SLOW
        .iter()
        .filter(|(option, _)| is_set(&config, option))
        .map(|(option, why)| format!("CONFIG_{option} ({why})"))
        .collect();
    if is_set(&config, "FUNCTION_TRACER") && !is_set(&config, "DYNAMIC_FTRACE") {
        slow.push(
            "CONFIG_FUNCTION_TRACER without CONFIG_DYNAMIC_FTRACE (every function calls the tracer)".into(),
        );
    }
    if slow.is_empty() {
        return Finding::fine(id, topic, "none of those that slow the kernel down");
    }
    Finding::new(id, Level::Serious, topic, some_of(&slow, 4))
        .effect("system calls, locks and wake-ups take several times longer, and not all by the same factor")
        .remedy("measure on a kernel built without them; a distribution's default kernel has none")
}

/// The preemption model as the kernel's version string tells it.
pub(super) fn preemption(root: &Root) -> Option<String> {
    if let Ok(text) = root.text("sys/kernel/debug/sched/preempt") {
        let word = text.split_whitespace().find(|word| word.starts_with('('))?;
        return Some(word.trim_matches(['(', ')']).to_owned());
    }
    let version = root.text("proc/sys/kernel/version").ok()?;
    let model = ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT"]
        .into_iter()
        .find(|model| version.split_whitespace().any(|word| word == *model))
        .unwrap_or("none or voluntary");
    Some(model.to_owned())
}

/// The scheduler that BPF programs replaced the kernel's with, while one is loaded.
pub(super) fn sched_ext(root: &Root) -> Option<String> {
    let state = root.text("sys/kernel/sched_ext/state").ok()?;
    let name = || root.text("sys/kernel/sched_ext/root/ops").unwrap_or_else(|_| state.clone());
    (state.trim() != "disabled").then(name)
}

fn replaced_scheduler(root: &Root) -> Option<Finding> {
    let name = sched_ext(root)?;
    // 0 where only threads of SCHED_EXT are left to it.
    let all = root.number::<u8>("sys/kernel/sched_ext/switch_all") != Some(0);
    let whose = if all { "every ordinary thread" } else { "threads of SCHED_EXT" };
    Some(
        Finding::new(
            "kernel.sched_ext",
            Level::Warning,
            "sched_ext",
            format!("the BPF scheduler {name} has {whose}"),
        )
        .effect(
            "it decides which CPU a woken thread gets and when: slices, nice and wake-affine of the kernel's \
                 own scheduler say nothing of such a figure",
        )
        .remedy("stop the program that loaded it, or name the scheduler beside the figure"),
    )
}

/// The periodic tick, from the configuration.
pub(super) fn tick(root: &Root) -> Option<String> {
    let config = config(root)?;
    let hz = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    Some(format!("{hz} Hz"))
}

fn mitigations(root: &Root) -> Finding {
    let (id, topic) = ("kernel.mitigations", "mitigations of CPU vulnerabilities");
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let names = super::names(root, folder);
    if names.is_empty() {
        return Finding::unknown(id, topic, "the kernel does not list them");
    }
    let active: Vec<String> = names
        .iter()
        .filter(|name| root.text(format!("{folder}/{name}")).is_ok_and(|text| text.contains("Mitigation")))
        .cloned()
        .collect();
    if active.is_empty() {
        return Finding::new(id, Level::Note, topic, "none is active")
            .effect("system calls and context switches are cheaper than on most production machines");
    }
    Finding::new(id, Level::Note, topic, format!("active against {}", some_of(&active, 6)))
        .effect(
            "each system call and context switch costs some 10 to 500 ns more than without; blocking \
                 calls pay four times",
        )
        .remedy("part of the machine: say so beside the figure; mitigations=off only where it is safe")
}

fn tracing_active(root: &Root) -> Option<Finding> {
    let base = ["sys/kernel/tracing", "sys/kernel/debug/tracing"]
        .into_iter()
        .find(|base| root.path(format!("{base}/tracing_on")).exists())?;
    let tracer = root.text(format!("{base}/current_tracer")).ok()?;
    let events = root.text(format!("{base}/set_event")).unwrap_or_default();
    let count = events.lines().count();
    if tracer == "nop" && count == 0 {
        return Some(Finding::fine("kernel.tracing", "kernel tracing", "off"));
    }
    let on = root.number::<u8>(&format!("{base}/tracing_on")) == Some(1);
    let level = if on { Level::Warning } else { Level::Note };
    Some(
        Finding::new(
            "kernel.tracing",
            level,
            "kernel tracing",
            format!("tracer {tracer}, {count} events set, recording {}", if on { "on" } else { "off" }),
        )
        .effect("each event costs 0.1 to 1 us where it happens: wake-ups and switches are slower")
        .remedy(format!("echo nop | sudo tee /{base}/current_tracer; echo | sudo tee /{base}/set_event")),
    )
}

/// Major and minor number of a release such as `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Since Linux 6.2 (commit 8f9ea86fdf99) the mask a task asked for survives changes of its cpuset.
fn pins_across_cpusets(root: &Root) -> Option<Finding> {
    let (major, minor) = version(&root.text("proc/sys/kernel/osrelease").ok()?)?;
    let (id, topic) = ("kernel.pins", "CPU pins and cpusets");
    if (major, minor) >= (6, 2) {
        return Some(Finding::fine(id, topic, "a pin survives a move between cpusets"));
    }
    Some(
        Finding::new(id, Level::Note, topic, "a move between cpusets erases a pin on this kernel")
            .effect(
                "on Android a pinned thread loses its CPU at each change between foreground and background",
            )
            .remedy("apply the pin again after such a move; handoff notices and says so"),
    )
}

fn autogroup(root: &Root) -> Option<Finding> {
    let on = root.number::<u8>("proc/sys/kernel/sched_autogroup_enabled")? == 1;
    let (id, topic) = ("kernel.autogroup", "scheduler autogroups");
    if !on {
        return Some(Finding::fine(id, topic, "off"));
    }
    Some(
        Finding::new(id, Level::Note, topic, "on")
            .effect("`nice` only counts within one terminal session: it does not shield a run from other sessions")
            .remedy("let the lab run workloads in a CPU cgroup of high weight (cgroup = true)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_matched_whole() {
        let config =
            "CONFIG_DEBUG_SPINLOCK_SLEEP=y\n# CONFIG_KASAN is not set\nCONFIG_KCSAN=m\nCONFIG_KCOV=y\n";
        assert!(!is_set(config, "DEBUG_SPINLOCK"));
        assert!(!is_set(config, "KASAN"));
        assert!(!is_set(config, "KCSAN"));
        assert!(is_set(config, "KCOV"));
    }

    #[test]
    fn releases() {
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version("5.15"), Some((5, 15)));
        assert_eq!(version("six"), None);
        assert_eq!(version(""), None);
    }
}
