//! `wakee_flips`, recomputed as the kernel does, and what the wake-wide rule would decide of it.
//!
//! The kernel counts for each task how often it wakes another task than the time before, and lets
//! that count decay once a second. A waker with many flips is a hub: pulling all those it wakes to
//! its own CPU would crowd it, so such a wake-up goes "wide" instead of "affine".
//!
//! Source: `record_wakee()` and `wake_wide()` of `kernel/sched/fair.c`: first in Linux 3.12 (commit
//! 62470419e993), as they are now since 4.3 (commit 63b0e9edceec).
//!
//! Only fair tasks that had left their CPU are counted, as in the kernel. What a trace cannot know
//! is which wake-ups of tasks pinned to one CPU the kernel skips since 3.17; here they count.

use std::collections::HashMap;

use serde::Serialize;

use crate::event::{Cpu, Tid, is_fair};
use crate::model::timeline::Wake;

const SECOND: u64 = 1_000_000_000;

/// How a wake-up is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Linux 3.12 to 4.2: flips are forgotten each second; wide if the wakee has more flips than the
    /// factor and the waker more than factor times the wakee's.
    #[serde(rename = "3.12")]
    Linux312,
    /// Linux 4.3 and later: flips are halved each second; wide if the lesser of both has at least
    /// the factor, and the greater at least factor times the lesser.
    #[serde(rename = "4.3")]
    Linux43,
}

/// The count of one task.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    flips: u64,
    last: Option<Tid>,
    decayed: u64,
    total: u64,
}

/// The counts of all tasks under one rule.
#[derive(Debug, Clone)]
pub struct Flips {
    rule: Rule,
    factor: u64,
    counts: HashMap<Who, Count>,
}

/// A task; the idle tasks, which share the number 0, by their CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Who(Tid, Cpu);

impl Who {
    fn new(tid: Tid, cpu: Cpu) -> Self {
        if tid == 0 { Self(0, cpu) } else { Self(tid, 0) }
    }
}

impl Flips {
    /// Counts none yet. `factor` is the number of CPUs that share the last-level cache.
    pub fn new(rule: Rule, factor: usize) -> Self {
        Self { rule, factor: factor.max(1) as u64, counts: HashMap::new() }
    }

    /// Counts a wake-up, and says whether it would go wide; none if the kernel does not ask.
    pub fn wake(&mut self, wake: &Wake) -> Option<bool> {
        if wake.early || wake.new || !is_fair(wake.prio) {
            return None;
        }
        let waker = self.counts.entry(Who::new(wake.waker, wake.waker_cpu)).or_default();
        if wake.time > waker.decayed.saturating_add(SECOND) || waker.last.is_none() {
            waker.flips = if self.rule == Rule::Linux312 { 0 } else { waker.flips / 2 };
            waker.decayed = wake.time;
        }
        if waker.last != Some(wake.wakee) {
            waker.last = Some(wake.wakee);
            waker.flips += 1;
            waker.total += 1;
        }
        let waker = waker.flips;
        let wakee = self.counts.get(&Who::new(wake.wakee, 0)).map_or(0, |count| count.flips);
        Some(self.wide(waker, wakee))
    }

    fn wide(&self, waker: u64, wakee: u64) -> bool {
        match self.rule {
            Rule::Linux312 => wakee > self.factor && waker > self.factor * wakee,
            Rule::Linux43 => {
                let (lesser, greater) = (waker.min(wakee), waker.max(wakee));
                lesser >= self.factor && greater >= lesser * self.factor
            }
        }
    }

    /// The flips of a task as the kernel's counter has them now, decayed.
    pub fn now(&self, tid: Tid) -> u64 {
        self.counts.get(&Who::new(tid, 0)).map_or(0, |count| count.flips)
    }

    /// All flips of a task, as if none had decayed.
    pub fn total(&self, tid: Tid) -> u64 {
        self.counts.get(&Who::new(tid, 0)).map_or(0, |count| count.total)
    }
}

/// How many CPUs share the last-level cache of CPU 0 (the kernel's `sd_llc_size`), as
/// `/sys/devices/system/cpu` says; all CPUs that it lists if it says nothing of caches.
pub fn cache_domain(cpus: &std::path::Path) -> usize {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).ok();
    let caches = cpus.join("cpu0/cache");
    let shared = (0..8)
        .filter_map(|index| {
            let cache = caches.join(format!("index{index}"));
            let level: u32 = read(cache.join("level"))?.trim().parse().ok()?;
            Some((level, count_cpus(&read(cache.join("shared_cpu_list"))?)?))
        })
        .max_by_key(|(level, _)| *level)
        .map(|(_, count)| count);
    shared.or_else(|| count_cpus(&read(cpus.join("online"))?)).unwrap_or(1)
}

/// How many CPUs a list such as `0-3,8` has.
fn count_cpus(list: &str) -> Option<usize> {
    list.trim()
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NICE_0;

    fn wake(time: u64, waker: Tid, wakee: Tid) -> Wake {
        Wake {
            time,
            waker,
            waker_cpu: 0,
            interrupt: false,
            soft: false,
            wakee,
            prio: NICE_0,
            prev_cpu: 0,
            target_cpu: None,
            ran: None,
            early: false,
            new: false,
        }
    }

    #[test]
    fn a_flip_is_another_wakee_than_last_time() {
        let mut flips = Flips::new(Rule::Linux43, 2);
        for (time, wakee) in [(1, 2), (2, 2), (3, 3), (4, 2)] {
            flips.wake(&wake(time, 1, wakee));
        }
        assert_eq!((flips.now(1), flips.total(1), flips.now(2)), (3, 3, 0));
    }

    #[test]
    fn the_count_decays_as_each_kernel_does() {
        let mut old = Flips::new(Rule::Linux312, 2);
        let mut new = Flips::new(Rule::Linux43, 2);
        for flips in [&mut old, &mut new] {
            for step in 0..10 {
                flips.wake(&wake(1 + step, 1, 2 + (step % 2) as Tid));
            }
            flips.wake(&wake(2 * SECOND, 1, 2));
        }
        // The eleventh wake-up flips too, after the decay.
        assert_eq!((old.now(1), old.total(1)), (1, 11));
        assert_eq!((new.now(1), new.total(1)), (10 / 2 + 1, 11));
    }

    #[test]
    fn the_rules_decide_as_they_are_written() {
        let old = Flips::new(Rule::Linux312, 2);
        let new = Flips::new(Rule::Linux43, 2);
        let decide = |waker, wakee| (old.wide(waker, wakee), new.wide(waker, wakee));
        assert_eq!(decide(100, 0), (false, false), "a wakee that wakes nobody stays affine");
        assert_eq!(decide(100, 2), (false, true));
        assert_eq!(decide(100, 3), (true, true));
        assert_eq!(decide(6, 3), (false, true), "the old rule wants more than the product");
        assert_eq!(decide(7, 3), (true, true));
        assert_eq!(decide(3, 100), (false, true), "today either may be the hub");
        assert_eq!(decide(5, 5), (false, false));
    }

    #[test]
    fn the_cache_domain_is_that_of_the_last_level() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        assert_eq!(cache_domain(folder.path()), 1);
        write("online", "0-7\n");
        assert_eq!(cache_domain(folder.path()), 8);
        for (index, level, shared) in [(0, 1, "0"), (2, 2, "0-1"), (3, 3, "0-3,6\n")] {
            write(&format!("cpu0/cache/index{index}/level"), &level.to_string());
            write(&format!("cpu0/cache/index{index}/shared_cpu_list"), shared);
        }
        assert_eq!(cache_domain(folder.path()), 5);
        assert_eq!(count_cpus("3-1"), None);
        assert_eq!(count_cpus("x"), None);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_not_counted() {
        let mut flips = Flips::new(Rule::Linux43, 2);
        assert_eq!(flips.wake(&Wake { early: true, ..wake(1, 1, 2) }), None);
        assert_eq!(flips.wake(&Wake { prio: 50, ..wake(1, 1, 2) }), None);
        assert_eq!(flips.wake(&Wake { new: true, ..wake(1, 1, 2) }), None);
        assert_eq!(flips.total(1), 0);
    }

    #[test]
    fn idle_tasks_of_two_cpus_are_two() {
        let mut flips = Flips::new(Rule::Linux43, 2);
        flips.wake(&wake(1, 0, 2));
        flips.wake(&Wake { waker_cpu: 1, ..wake(2, 0, 3) });
        flips.wake(&wake(3, 0, 2));
        assert_eq!(flips.total(0), 1, "the one of CPU 0 woke one task only");
    }
}
