//! How often a tracepoint or a function of the kernel was hit, on all CPUs, by anybody.
//!
//! Counted by perf events that record nothing: no buffer can overflow, nothing is written to tracefs, and
//! the kernel takes them back with this process, whatever it dies of.

use std::ffi::CString;

use handoff_trace::TraceFs;

use crate::sys::perf;

/// Why nothing can be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot count {what}: {reason}")]
pub struct ActivationError {
    pub what: String,
    pub reason: String,
}

#[derive(Debug)]
pub struct ActivationCount(Vec<perf::EventCount>);

impl ActivationCount {
    /// Counts a tracepoint, such as `sched:sched_migrate_task`.
    pub fn of_tracepoint(name: &str) -> Result<Self, ActivationError> {
        let cannot = |reason: String| ActivationError { what: format!("the tracepoint {name}"), reason };
        let (system, event) = name
            .split_once(':')
            .filter(|(system, event)| is_name(system) && is_name(event))
            .ok_or_else(|| cannot("its name is GROUP:EVENT, such as sched:sched_switch".to_owned()))?;
        let tracefs = TraceFs::find().map_err(|error| cannot(error.to_string()))?;
        let folder = tracefs.root().join("events").join(system).join(event);
        let id = std::fs::read_to_string(folder.join("id"))
            .map_err(|error| cannot(format!("the kernel does not tell its number: {error}")))?;
        let id = id.trim().parse().map_err(|_| cannot(format!("{id:?} is no number of an event")))?;
        Self::everywhere(|cpu| perf::tracepoint(id, cpu)).map_err(cannot)
    }

    /// Counts calls of a kernel function, such as `select_task_rq_fair`.
    pub fn of_function(name: &str) -> Result<Self, ActivationError> {
        let cannot = |reason: String| ActivationError { what: format!("calls of {name}"), reason };
        let text = std::fs::read_to_string("/sys/bus/event_source/devices/kprobe/type").map_err(|_| {
            cannot("this kernel has no kprobe events (CONFIG_KPROBE_EVENTS); those of a guest do".to_owned())
        })?;
        let kind = text.trim().parse().map_err(|_| cannot(format!("{text:?} is no type of events")))?;
        let function = CString::new(name)
            .ok()
            .filter(|_| is_name(name))
            .ok_or_else(|| cannot("that is no name of a function".to_owned()))?;
        Self::everywhere(|cpu| perf::function(kind, &function, cpu)).map_err(cannot)
    }

    fn everywhere(open: impl Fn(i32) -> std::io::Result<perf::EventCount>) -> Result<Self, String> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|text| text.trim().parse::<handoff_placement::CpuSet>().ok())
            .ok_or("the kernel does not tell which CPUs are online")?;
        let open = |cpu: u16| open(i32::from(cpu)).map_err(perf::why);
        online.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Activations so far, on all CPUs.
    pub fn read(&self) -> std::io::Result<u64> {
        self.0.iter().map(perf::EventCount::read).sum()
    }
}

/// Neither a path nor anything else that could lead elsewhere.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-')
        && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", "sched", "../..:x", "a:..", "sched:", "sched:a/b", "sched:no_such_event"] {
            let error = ActivationCount::of_tracepoint(name).expect_err(name);
            assert!(error.to_string().contains("cannot count the tracepoint"), "{error}");
        }
        for name in ["", "a b", "a/b", "x\0y", "no_such_function_of_any_kernel"] {
            assert!(ActivationCount::of_function(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_tracepoint_counts_what_happened_meanwhile() {
        require!(require_root());
        require!(TraceFs::find());
        let hits = ActivationCount::of_tracepoint("sched:sched_process_fork").expect("counts");
        let before = hits.read().expect("tells");
        for _ in 0..3 {
            std::process::Command::new("true").status().expect("starts");
        }
        let after = hits.read().expect("tells");
        assert!(after >= before + 3, "{before} to {after}");
    }
}
