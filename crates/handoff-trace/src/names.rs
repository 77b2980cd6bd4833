//! Which task was called what, and when: names change at exec and by `prctl`.

use std::collections::HashMap;

use crate::event::Tid;

/// The kernel's `TASK_COMM_LEN`.
const COMM: usize = 16;

/// The slots of the cache in front of the map; a power of two.
const SLOTS: usize = 1 << 10;

/// The most names kept for one task. A program that renames itself for each request would
/// otherwise fill the memory.
const MAX_NAMES: usize = 16;

/// The names of all tasks seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    all: HashMap<Tid, Vec<(u64, String)>>,
    /// The last bytes seen for a task, so that the usual case costs one comparison.
    cache: Vec<(Tid, [u8; COMM])>,
}

impl Names {
    /// Notes that `tid` was called `comm` at `time`. Calls may come CPU by CPU, each in order.
    #[inline]
    pub(crate) fn saw(&mut self, time: u64, tid: Tid, comm: &[u8]) {
        let mut bytes = [0; COMM];
        let length = comm.len().min(COMM);
        bytes[..length].copy_from_slice(&comm[..length]);
        let slot = tid as usize & (SLOTS - 1);
        if self.cache.get(slot) == Some(&(tid, bytes)) {
            return;
        }
        self.note(time, tid, bytes, slot);
    }

    #[cold]
    fn note(&mut self, time: u64, tid: Tid, bytes: [u8; COMM], slot: usize) {
        if self.cache.is_empty() {
            self.cache.resize(SLOTS, (-1, [0; COMM]));
        }
        self.cache[slot] = (tid, bytes);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(COMM);
        // The idle tasks of all CPUs share one number.
        let name = match tid {
            0 => "idle".to_owned(),
            _ => String::from_utf8_lossy(&bytes[..end]).into_owned(),
        };
        let known = self.all.entry(tid).or_default();
        let at = known.partition_point(|(since, _)| *since <= time);
        let before = at.checked_sub(1).map(|index| &known[index].1);
        if before == Some(&name) || known.len() >= MAX_NAMES {
            return;
        }
        match known.get_mut(at) {
            // Another CPU's stream saw the same name later.
            Some((since, later)) if *later == name => *since = time,
            _ => known.insert(at, (time, name)),
        }
    }

    /// Adds a name known from elsewhere, unless the trace itself gave one.
    pub(crate) fn add_if_missing(&mut self, tid: Tid, name: &str) {
        self.all.entry(tid).or_insert_with(|| vec![(0, name.to_owned())]);
    }

    /// What `tid` was called at `time`, or later if it had no name before.
    pub(crate) fn at(&self, tid: Tid, time: u64) -> Option<&str> {
        let known = self.all.get(&tid)?;
        let at = known.partition_point(|(since, _)| *since <= time).saturating_sub(1);
        known.get(at).map(|(_, name)| name.as_str())
    }

    /// What `tid` was called last.
    pub(crate) fn last(&self, tid: Tid) -> Option<&str> {
        self.all.get(&tid)?.last().map(|(_, name)| name.as_str())
    }

    /// All tasks with their last names, by number.
    pub(crate) fn tasks(&self) -> Vec<(Tid, &str)> {
        let mut tasks: Vec<_> =
            self.all.keys().filter_map(|tid| self.last(*tid).map(|name| (*tid, name))).collect();
        tasks.sort_unstable();
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_from_when_it_was_seen() {
        let mut names = Names::default();
        names.saw(10, 7, b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        names.saw(20, 7, b"hackbench\0junk");
        names.saw(30, 7, b"hackbench\0");
        assert_eq!(names.at(7, 5), Some("sh"));
        assert_eq!(names.at(7, 19), Some("sh"));
        assert_eq!(names.at(7, 20), Some("hackbench"));
        assert_eq!(names.last(7), Some("hackbench"));
        assert_eq!(names.at(8, 20), None);
    }

    #[test]
    fn streams_of_several_cpus_may_come_one_after_the_other() {
        let mut names = Names::default();
        names.saw(30, 7, b"new");
        names.saw(10, 7, b"old");
        names.saw(25, 7, b"new");
        assert_eq!(names.at(7, 26), Some("new"));
        assert_eq!(names.at(7, 12), Some("old"));
    }

    #[test]
    fn a_task_that_always_renames_itself_does_not_fill_the_memory() {
        let mut names = Names::default();
        for round in 0..1000u64 {
            names.saw(round, 7, format!("worker{round}").as_bytes());
        }
        assert_eq!(names.all[&7].len(), MAX_NAMES);
    }

    #[test]
    fn tasks_that_share_a_slot_are_told_apart() {
        let mut names = Names::default();
        let other = 7 + SLOTS as Tid;
        for round in 0..3 {
            names.saw(round, 7, b"a");
            names.saw(round, other, b"b");
        }
        assert_eq!((names.last(7), names.last(other)), (Some("a"), Some("b")));
    }
}
