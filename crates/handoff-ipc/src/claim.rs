//! What a caller says of its own urgency, and what of that is believed.

use handoff_placement::{Priority, Tid};

use crate::pool;

/// The priority that a caller says it has, and by which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// [`Priority::pack`].
    pub(crate) priority: u32,
    /// The calling thread.
    pub(crate) tid: u32,
}

impl Claim {
    /// The claimed priority, if the thread is one of process `pid` and really has it: a peer that lies gets
    /// none.
    pub(crate) fn verified(self, pid: u32) -> Option<Priority> {
        let claimed = Priority::unpack(self.priority)?;
        if !claimed.more_urgent_than(pool::base()) {
            return Some(claimed);
        }
        let tid = Tid::new(self.tid.cast_signed())?;
        let theirs = pid != 0 && is_thread_of(tid, pid);
        let real = if theirs { Priority::of(tid).ok()? } else { return None };
        (!claimed.more_urgent_than(real)).then_some(claimed)
    }
}

/// True if `tid` is a thread of process `pid`.
fn is_thread_of(tid: Tid, pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_not_believed() {
        let own = std::process::id();
        let tid = Tid::current().as_raw().unsigned_abs();
        let claim = |priority: Priority| Claim { priority: priority.pack(), tid };
        let mine = Priority::current().expect("a priority");
        assert_eq!(claim(mine).verified(own), Some(mine));
        assert_eq!(claim(Priority::fifo(99)).verified(own), None, "this thread is not that urgent");
        assert_eq!(claim(Priority::fifo(99)).verified(1), None, "not a thread of that process");
        assert_eq!(claim(Priority::fifo(99)).verified(0), None);
        assert_eq!(Claim { priority: u32::MAX, tid }.verified(own), None, "no priority at all");
    }
}
