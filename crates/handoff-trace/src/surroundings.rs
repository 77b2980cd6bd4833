//! What the events do not say: names and processes of tasks, time stolen by the hypervisor, CPU
//! quotas that ran out. Looked at when a recording starts and when it ends.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::event::Tid;
use crate::trace::Surroundings;

/// The numbers at the start of a recording.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    steal: Vec<u64>,
    throttled: Vec<(PathBuf, u64)>,
    processes: HashMap<Tid, Tid>,
}

/// What a look at the end gives.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) names: HashMap<Tid, String>,
    pub(crate) processes: HashMap<Tid, Tid>,
    pub(crate) surroundings: Surroundings,
}

impl Watch {
    /// Notes how things are now; the control groups are those of `tasks`, and our own.
    pub(crate) fn start(tasks: &[Tid]) -> Self {
        let mut groups: Vec<PathBuf> = tasks
            .iter()
            .map(|tid| format!("/proc/{tid}/cgroup"))
            .chain(["/proc/self/cgroup".to_owned()])
            .filter_map(|file| fs::read_to_string(file).ok())
            .flat_map(|text| cpu_groups(&text))
            .collect();
        groups.sort();
        groups.dedup();
        Self {
            steal: steal(),
            throttled: groups
                .into_iter()
                .filter_map(|path| Some((throttled(&path)?, path)))
                .map(|(n, p)| (p, n))
                .collect(),
            processes: processes(),
        }
    }

    /// What changed since the start.
    pub(crate) fn look(&self) -> Seen {
        let mut seen = Seen { processes: self.processes.clone(), ..Seen::default() };
        seen.processes.extend(processes());
        for tid in seen.processes.keys() {
            if let Ok(name) = fs::read_to_string(format!("/proc/{tid}/comm")) {
                seen.names.insert(*tid, name.trim_end().to_owned());
            }
        }
        let before = self.steal.iter().copied().chain(std::iter::repeat(0));
        seen.surroundings = Surroundings {
            steal_ns: steal().iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect(),
            throttled: self
                .throttled
                .iter()
                .filter_map(|(path, then)| {
                    let times = throttled(path)?.saturating_sub(*then);
                    (times > 0).then(|| (path.clone(), times))
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

/// The folders of the `cpu` controller (version 1 and 2) that `/proc/PID/cgroup` names.
fn cpu_groups(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                let unified = Path::new("/sys/fs/cgroup/unified").join(path);
                return Some(if unified.exists() { unified } else { Path::new("/sys/fs/cgroup").join(path) });
            }
            let mine = controllers.split(',').any(|controller| controller == "cpu");
            mine.then(|| Path::new("/sys/fs/cgroup/cpu").join(path))
        })
        .collect()
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
    fn groups_of_both_versions_are_found() {
        let groups = cpu_groups("4:memory:/x\n1:cpu,cpuacct:/a/b\n0::/c\nnonsense\n");
        assert_eq!(groups[0], Path::new("/sys/fs/cgroup/cpu/a/b"));
        assert!(groups[1].ends_with("c"));
        assert_eq!(groups.len(), 2);
    }

    #[test]
    fn this_thread_is_among_the_tasks() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(processes().get(&own).copied(), Some(std::process::id() as Tid));
        let seen = Watch::start(&[own]).look();
        assert!(seen.names.contains_key(&own));
        assert!(!seen.surroundings.steal_ns.is_empty());
    }
}
