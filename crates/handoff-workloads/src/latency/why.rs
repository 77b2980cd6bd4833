//! Why the slowest transaction was slow, as far as it can be told without a trace.
//!
//! `/proc/PID/task/TID/schedstat` counts how long a task has run and how long it has waited for a CPU.
//! Each is read before and after a transaction, outside of what is timed.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};

/// What a task has used up, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTime {
    pub running_ns: u64,
    /// Ready, while others had the CPU.
    pub waiting_ns: u64,
}

impl TaskTime {
    /// The two first numbers of the file, as `Documentation/scheduler/sched-stats.rst` has them.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
        Some(TaskTime { running_ns: numbers.next()??, waiting_ns: numbers.next()?? })
    }

    pub(super) fn since(self, before: TaskTime) -> Self {
        TaskTime {
            running_ns: self.running_ns.saturating_sub(before.running_ns),
            waiting_ns: self.waiting_ns.saturating_sub(before.waiting_ns),
        }
    }
}

/// The counters of one task; none where the kernel keeps them not.
#[derive(Debug)]
pub(super) struct Counters(Option<File>);

impl Counters {
    pub(super) fn own() -> Self {
        Counters(File::open("/proc/thread-self/schedstat").ok())
    }

    fn of(pid: i32, tid: i32) -> Self {
        Counters(File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok())
    }

    pub(super) fn read(&self) -> Option<TaskTime> {
        let mut text = [0; 64];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        TaskTime::parse(std::str::from_utf8(text.get(..length)?).ok()?)
    }
}

/// The slowest transaction, and what both sides used up in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worst {
    /// Which caller: `fifo` or `other`.
    pub caller: String,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// What the caller used up; none if the kernel does not say.
    pub by_caller: Option<TaskTime>,
    /// What the callee's thread used up, also while it waited for the next call; none for its first
    /// call, before which nobody knew it.
    pub by_callee: Option<TaskTime>,
}

/// A part that explains a transaction takes more of it than this.
const MOST: f64 = 0.5;

impl fmt::Display for Worst {
    /// One sentence, which says so if the reason is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        let Worst { caller, took_ns, by_caller, by_callee } = self;
        write!(f, "the worst call took {} ({caller} caller): ", ms(*took_ns))?;
        let (by_caller, by_callee) = match (by_caller, by_callee) {
            (Some(by_caller), Some(by_callee)) => (by_caller, by_callee),
            (Some(_), None) => {
                return f
                    .write_str("why is not known, since it was the first that its callee's thread served");
            }
            (None, _) => {
                return f.write_str(
                    "why is not known, since this kernel counts no waits (no schedstat); -trace tells",
                );
            }
        };
        let parts = [
            (by_callee.waiting_ns, "its callee waited for a CPU that others had; -trace names them"),
            (by_caller.waiting_ns, "its caller waited for a CPU that others had; -trace names them"),
            (by_callee.running_ns, "its callee was running, which is the work itself"),
            (by_caller.running_ns, "its caller was running itself"),
        ];
        let explains = |ns: u64| ns as f64 > MOST * *took_ns as f64;
        match parts.into_iter().filter(|(ns, _)| explains(*ns)).max_by_key(|(ns, _)| *ns) {
            Some((ns, why)) => write!(f, "for {} of it {why}", ms(ns.min(*took_ns))),
            None => {
                let known = parts.iter().map(|(ns, _)| ns).sum::<u64>();
                let rest = took_ns.saturating_sub(known);
                write!(
                    f,
                    "for {} of it neither side ran or waited for a CPU (a CPU that came out of idle, a lock, a \
                     sleep); -trace tells which",
                    ms(rest)
                )
            }
        }
    }
}

/// Follows the transactions of one client, and keeps the slowest.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Each thread that has served, with its counters at the end of its last call.
    callees: HashMap<i32, (Counters, Option<TaskTime>)>,
    /// The thread of the last call, and whether that call is the slowest.
    last: Option<(i32, bool)>,
    worst: Option<Worst>,
}

/// More threads than a server has; what it had before can be forgotten.
const MOST_CALLEES: usize = 64;

impl Ledger {
    /// Ends the accounts of the call before: its callee sleeps by now, so its counters are up to date.
    pub(super) fn settle(&mut self) {
        let Some((tid, slowest)) = self.last.take() else { return };
        let Some((counters, before)) = self.callees.get_mut(&tid) else { return };
        let now = counters.read();
        let spent = now.zip(*before).map(|(now, before)| now.since(before));
        *before = now;
        if let Some(worst) = self.worst.as_mut().filter(|_| slowest) {
            worst.by_callee = spent;
        }
    }

    /// Notes a call that was served by a thread.
    pub(super) fn note(
        &mut self,
        caller: &str,
        took_ns: u64,
        by_caller: Option<TaskTime>,
        (pid, tid): (i32, i32),
    ) {
        if self.callees.len() > MOST_CALLEES {
            self.callees.clear();
        }
        self.callees.entry(tid).or_insert_with(|| (Counters::of(pid, tid), None));
        let slowest = self.worst.as_ref().is_none_or(|worst| worst.took_ns < took_ns);
        if slowest {
            self.worst = Some(Worst { caller: caller.to_owned(), took_ns, by_caller, by_callee: None });
        }
        self.last = Some((tid, slowest));
    }

    pub(super) fn finish(mut self) -> Option<Worst> {
        self.settle();
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(caller: (u64, u64), callee: (u64, u64)) -> String {
        let spent = |(running_ns, waiting_ns)| Some(TaskTime { running_ns, waiting_ns });
        let (by_caller, by_callee) = (spent(caller), spent(callee));
        Worst { caller: "fifo".into(), took_ns: 10_000_000, by_caller, by_callee }.to_string()
    }

    #[test]
    fn the_sentence_tells_the_weightiest_part() {
        let beginning = "the worst call took 10.000 ms (fifo caller): for 9.000 ms of it ";
        for (said, expected) in [
            (worst((1, 2), (3, 9_000_000)), "its callee waited for a CPU"),
            (worst((1, 9_000_000), (2, 3)), "its caller waited for a CPU"),
            (worst((1, 2), (9_000_000, 3)), "its callee was running"),
            (worst((9_000_000, 1), (2, 3)), "its caller was running"),
            (worst((500_000, 0), (500_000, 0)), "neither side ran or waited"),
        ] {
            assert!(said.starts_with(&format!("{beginning}{expected}")), "{said}");
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let of = Worst {
            caller: "other".into(),
            took_ns: 5,
            by_caller: None,
            by_callee: Some(TaskTime::default()),
        };
        assert!(of.to_string().contains("why is not known"), "{of}");
        assert_eq!(TaskTime::parse("12 34 5\n"), Some(TaskTime { running_ns: 12, waiting_ns: 34 }));
        assert!(["", "1", "x 2 3"].iter().all(|text| TaskTime::parse(text).is_none()));
    }

    #[test]
    fn the_slowest_call_keeps_what_its_callee_used_up() {
        let own = (std::process::id().cast_signed(), rustix::thread::gettid().as_raw_nonzero().get());
        let mut ledger = Ledger::default();
        ledger.note("other", 5, None, own);
        ledger.settle();
        ledger.note("fifo", 9, None, own);
        std::thread::sleep(std::time::Duration::from_millis(1));
        ledger.settle();
        ledger.note("other", 7, None, own);
        let worst = ledger.finish().expect("calls were noted");
        assert_eq!((worst.caller.as_str(), worst.took_ns), ("fifo", 9));
        assert_eq!(worst.by_callee.is_some(), Counters::own().read().is_some());
    }
}
