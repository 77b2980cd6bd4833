//! What a caller says of its own urgency, and what of that is believed.

use handoff_placement::process::ProcessKey;
use handoff_placement::{Priority, Tid};

use crate::pool;

/// The priority that a caller says it has, and by which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// [`Priority::pack`].
    pub(crate) priority: u32,
    pub(crate) tid: u32,
}

impl Claim {
    /// The claimed priority, if the thread is one of process `pid` and really has it: a peer that lies gets
    /// none. `started` tells that process from a later one with the same number, which an heir of its
    /// connection could speak for; `None` where the caller is known to live.
    pub(crate) fn verified(self, pid: u32, started: Option<u64>) -> Option<Priority> {
        let claimed = Priority::unpack(self.priority)?;
        if !claimed.more_urgent_than(pool::base()) {
            return Some(claimed);
        }
        let tid = Tid::new(self.tid as i32)?;
        let theirs = pid != 0 && is_thread_of(tid, pid);
        let real = if theirs { Priority::of(tid).ok()? } else { return None };
        // Last: if the process lives now, it was no other that was looked at.
        let is_same = started.is_none_or(|start| start_of(pid) == Some(start));
        (is_same && !claimed.more_urgent_than(real)).then_some(claimed)
    }
}

/// When a process started, in ticks since boot.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let pid = Tid::new(pid as i32)?;
    Some(ProcessKey::of(pid).ok()?.start)
}

/// True if `tid` is a thread of process `pid`.
fn is_thread_of(tid: Tid, pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_realtime};

    #[test]
    fn a_later_process_with_the_same_number_is_not_spoken_for() {
        require!(require_realtime());
        let own = std::process::id();
        let started = start_of(own).expect("it runs");
        // On a thread of its own, which ends with its priority.
        let checked = std::thread::spawn(move || {
            let tid = Tid::current();
            let urgent = Priority::fifo(1);
            urgent.apply(tid).expect("real time");
            let claim = Claim { priority: urgent.pack(), tid: tid.as_raw().unsigned_abs() };
            [Some(started), Some(started - 1), None].map(|started| claim.verified(own, started))
        });
        let urgent = Some(Priority::fifo(1));
        assert_eq!(checked.join().expect("no panic"), [urgent, None, urgent]);
    }

    #[test]
    fn a_lie_is_not_believed() {
        let own = std::process::id();
        let tid = Tid::current().as_raw().unsigned_abs();
        let claim = |priority: Priority| Claim { priority: priority.pack(), tid };
        let mine = Priority::current().expect("a priority");
        assert_eq!(claim(mine).verified(own, None), Some(mine));
        assert_eq!(claim(Priority::fifo(99)).verified(own, None), None, "this thread is not that urgent");
        assert_eq!(claim(Priority::fifo(99)).verified(1, None), None, "not a thread of that process");
        assert_eq!(claim(Priority::fifo(99)).verified(0, None), None);
        assert_eq!(Claim { priority: u32::MAX, tid }.verified(own, None), None, "no priority at all");
    }
}
