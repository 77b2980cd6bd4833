//! What priorities this process may give, found out once.

use crate::priority::{Policy, Priority};
use crate::tid::Tid;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::sync::OnceLock;

/// May a thread of this process be raised to the priority, from whatever is less urgent?
///
/// A thread that is there already, or above, may stay or be lowered in any case: but without this
/// right it does not come back.
///
/// By `CAP_SYS_NICE`, `RLIMIT_RTPRIO` and `RLIMIT_NICE`, and for real time also by a trial in a
/// thread of its own, since a control group without a share of real time or a sandbox refuses what
/// the limits allow. The answer is found at the first question and kept: a process that drops its
/// privileges must ask before, or take the kernel's refusal later.
#[must_use]
pub fn can_raise_to(wanted: Priority) -> bool {
    static RIGHTS: OnceLock<Rights> = OnceLock::new();
    RIGHTS.get_or_init(Rights::probe).allow(wanted)
}

/// The most urgent that is allowed in each class.
struct Rights {
    /// 0 when no real-time policy is allowed.
    max_rt: u8,
    min_nice: i8,
    deadline: bool,
}

impl Rights {
    fn probe() -> Self {
        let privileged =
            capabilities(None).is_ok_and(|caps| caps.effective.contains(CapabilitySet::SYS_NICE));
        let limit =
            |resource| if privileged { u64::MAX } else { getrlimit(resource).current.unwrap_or(u64::MAX) };
        let max_rt = limit(Resource::Rtprio).min(99) as u8;
        // A limit of 40 is nice -20, one of 1 is nice 19, and 0 lets nobody be raised.
        let min_nice = 20 - limit(Resource::Nice).min(40) as i8;
        Self {
            max_rt: if max_rt > 0 && real_time_works() { max_rt } else { 0 },
            min_nice,
            deadline: privileged,
        }
    }

    fn allow(&self, wanted: Priority) -> bool {
        match wanted.policy {
            _ if !wanted.is_valid() => false,
            Policy::Fifo | Policy::RoundRobin => wanted.rt <= self.max_rt,
            Policy::Other | Policy::Batch | Policy::Ext => wanted.nice >= self.min_nice,
            Policy::Deadline => self.deadline,
            Policy::Idle => true,
        }
    }
}

/// Tries the lowest real-time priority on a thread that ends at once.
fn real_time_works() -> bool {
    let trial = std::thread::Builder::new().spawn(|| Priority::fifo(1).apply(Tid::current()).is_ok());
    trial.is_ok_and(|thread| thread.join().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept() {
        let rights = Rights { max_rt: 10, min_nice: -5, deadline: false };
        assert!(rights.allow(Priority::fifo(10)) && !rights.allow(Priority::round_robin(11)));
        assert!(rights.allow(Priority::other(-5)) && !rights.allow(Priority::other(-6)));
        assert!(rights.allow(Priority::idle()));
        assert!(!rights.allow(Priority { policy: Policy::Deadline, rt: 0, nice: 0 }));
        assert!(!rights.allow(Priority { policy: Policy::Idle, rt: 1, nice: 0 }));
    }

    #[test]
    fn the_answer_is_what_the_kernel_does() {
        for wanted in [Priority::fifo(1), Priority::fifo(99), Priority::other(-20), Priority::other(19)] {
            let raise = move || {
                Priority::idle().apply(Tid::current()).unwrap();
                wanted.apply(Tid::current()).is_ok()
            };
            let done = std::thread::spawn(raise).join().unwrap();
            assert_eq!(can_raise_to(wanted), done, "{wanted}");
        }
    }
}
