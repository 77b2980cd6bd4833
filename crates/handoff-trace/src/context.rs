//! What the events do not say: names and processes of tasks, time stolen by the hypervisor, CPU
//! quotas that ran out. Looked at when a recording starts and when it ends.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::event::Tid;
use crate::trace::{ThrottledGroup, TraceContext};

/// The numbers at the start of a recording.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    steal: Vec<u64>,
    quotas: Vec<(PathBuf, u64)>,
    processes: HashMap<Tid, Tid>,
}

/// What a look at the end gives.
#[derive(Debug, Default)]
pub(crate) struct ContextSnapshot {
    pub(crate) names: HashMap<Tid, String>,
    pub(crate) processes: HashMap<Tid, Tid>,
    pub(crate) context: TraceContext,
}

impl Watch {
    /// Notes how things are now.
    pub(crate) fn start() -> Self {
        let mut groups = Vec::new();
        ROOTS.iter().for_each(|root| limited_groups(Path::new(root), &mut groups));
        let quotas = groups.into_iter().filter_map(|path| Some((throttled(&path)?, path)));
        Self {
            steal: steal(),
            quotas: quotas.map(|(times, path)| (path, times)).collect(),
            processes: processes(),
        }
    }

    /// What changed since the start.
    pub(crate) fn look(&self) -> ContextSnapshot {
        let mut seen = ContextSnapshot { processes: self.processes.clone(), ..ContextSnapshot::default() };
        seen.processes.extend(processes());
        for tid in seen.processes.keys() {
            if let Ok(name) = fs::read_to_string(format!("/proc/{tid}/comm")) {
                seen.names.insert(*tid, name.trim_end().to_owned());
            }
        }
        let before = self.steal.iter().copied().chain(std::iter::repeat(0));
        seen.context = TraceContext {
            steal_ns: steal().iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect(),
            throttled: self
                .quotas
                .iter()
                .filter_map(|(path, then)| {
                    let times = throttled(path)?.saturating_sub(*then);
                    (times > 0).then(|| ThrottledGroup { group: path.clone(), times, tasks: members(path) })
                })
                .collect(),
            rt_limit_us: rt_limit(),
        };
        seen
    }
}

/// Every task that is alive, with its process.
fn processes() -> HashMap<Tid, Tid> {
    let mut all = HashMap::new();
    let numbers = |path: &Path| -> Vec<Tid> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    for process in numbers(Path::new("/proc")) {
        for task in numbers(&PathBuf::from(format!("/proc/{process}/task"))) {
            all.insert(task, process);
        }
    }
    all
}

/// Stolen time of each CPU, in nanoseconds: the eighth number of `cpuN` in `/proc/stat`, see proc(5).
fn steal() -> Vec<u64> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_steal(&text).into_iter().map(|ticks| ticks * tick_ns).collect()
}

fn parse_steal(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("cpu").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
        .map(|rest| rest.split_ascii_whitespace().nth(8).and_then(|n| n.parse().ok()).unwrap_or(0))
        .collect()
}

/// Where the `cpu` controller is mounted: version 1, version 2 beside it, version 2 alone.
const ROOTS: [&str; 3] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// The most groups looked at; a machine with more of them under a quota is a cluster node.
const MAX_GROUPS: usize = 1000;

/// The groups below `folder` that have a CPU quota.
fn limited_groups(folder: &Path, found: &mut Vec<PathBuf>) {
    let limited = |file: &str, none: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|text| !text.trim_start().starts_with(none))
    };
    if limited("cpu.cfs_quota_us", "-1") || limited("cpu.max", "max") {
        found.push(folder.to_owned());
    }
    // Version 1 mounts its controllers below the last root; only `cpu` is of interest, and listed.
    let is_group = folder.join("cgroup.procs").exists();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(|_| is_group);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if found.len() >= MAX_GROUPS {
            return;
        }
        limited_groups(&entry.path(), found);
    }
}

/// The tasks of a group: `tasks` in version 1, `cgroup.threads` in version 2.
fn members(group: &Path) -> Vec<Tid> {
    let text = fs::read_to_string(group.join("tasks"))
        .or_else(|_| fs::read_to_string(group.join("cgroup.threads")))
        .unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// How many times the quota of a group ran out: `nr_throttled` of `cpu.stat`.
fn throttled(group: &Path) -> Option<u64> {
    let text = fs::read_to_string(group.join("cpu.stat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
}

/// How much of each period real-time tasks may run, in microseconds, if they are limited.
fn rt_limit() -> Option<(u64, u64)> {
    let number = |name: &str| -> Option<i64> {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
    };
    let runtime = u64::try_from(number("sched_rt_runtime_us")?).ok()?;
    Some((runtime, u64::try_from(number("sched_rt_period_us")?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number_of_each_cpu() {
        let text =
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 42 0 0\ncpu1 1 2 3 4 5 6 7 43 0 0\nintr 5\n";
        assert_eq!(parse_steal(text), [42, 43]);
        assert_eq!(parse_steal("cpu0 1"), [0]);
    }

    #[test]
    fn groups_with_a_quota_are_found_in_both_versions() {
        let root = tempfile::tempdir().expect("a folder");
        for (group, file, value) in [
            ("old", "cpu.cfs_quota_us", "5000"),
            ("old/free", "cpu.cfs_quota_us", "-1"),
            ("new", "cpu.max", "50000 100000"),
            ("new/free", "cpu.max", "max 100000"),
        ] {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join(file), value).expect("written");
            fs::write(folder.join("cgroup.procs"), "").expect("written");
        }
        fs::write(root.path().join("cgroup.procs"), "").expect("written");
        let mut found = Vec::new();
        limited_groups(root.path(), &mut found);
        found.sort();
        assert_eq!(found, [root.path().join("new"), root.path().join("old")]);
        fs::write(root.path().join("old/tasks"), "5\n6\n").expect("written");
        assert_eq!(members(&root.path().join("old")), [5, 6]);
    }

    #[test]
    fn this_thread_is_among_the_tasks() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(processes().get(&own).copied(), Some(std::process::id() as Tid));
        let seen = Watch::start().look();
        assert!(seen.names.contains_key(&own));
        assert!(!seen.context.steal_ns.is_empty());
    }
}
