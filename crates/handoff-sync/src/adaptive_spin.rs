//! Whether a receiver of oneway calls looks for the next one before it sleeps, and where. A sender that finds it
//! looking makes no system call, and on a virtual machine waking another CPU costs many times what the
//! rest of a oneway call does.

use std::time::Duration;

use crate::wait_strategy::SPIN_LIMIT;

/// Looking is worth its CPU time while calls come soon after each other.
#[derive(Debug, Default)]
pub struct AdaptiveSpin {
    fruitless: u32,
    rests: u32,
}

impl AdaptiveSpin {
    /// Fruitless looks after which the receiver mostly sleeps at once.
    const MOST: u32 = 4;
    /// Then it looks again this seldom.
    const EVERY: u32 = 32;

    /// True if it is to look now. Not where its sender wants the CPU that it would take for that.
    #[inline]
    pub fn looks(&mut self, in_the_way: bool) -> bool {
        if in_the_way {
            return false;
        }
        if self.fruitless < Self::MOST {
            return true;
        }
        self.rests = (self.rests + 1) % Self::EVERY;
        self.rests == 0
    }

    /// What came of looking.
    #[inline]
    pub fn looked(&mut self, found: bool) {
        self.fruitless = if found { 0 } else { (self.fruitless + 1).min(Self::MOST) };
    }
}

/// Whether a receiver that is woken beside its sender goes to another CPU, where it can look.
///
/// The scheduler may never part the two: it wakes a thread where it ran last, or on a CPU that shares a cache
/// with that one, however idle others are. Each call then costs its sender a wake-up, and a switch to the
/// receiver that takes its CPU away. For calls that come now and then that is the cheapest way; while they come
/// sooner after each other than a look lasts, another CPU is.
#[derive(Debug)]
pub struct CpuMove {
    // Short sleeps in a row that ended beside the sender.
    run: u32,
    // Such sleeps before the next move.
    rest: u32,
    // Calls that a look found since the last move.
    found: u32,
}

impl Default for CpuMove {
    fn default() -> Self {
        CpuMove { run: 0, rest: Self::FIRST_REST, found: Self::WORTH }
    }
}

impl CpuMove {
    /// A move costs about ten wake-ups on one CPU.
    const FIRST_REST: u32 = 8;
    const LONGEST_REST: u32 = 1 << 16;
    /// A move paid if looks found so many calls after it: each saved its sender a wake-up.
    const WORTH: u32 = 32;

    /// It was woken, perhaps on its sender's CPU. True if it is to go to another one.
    #[inline]
    pub fn woken(&mut self, beside: bool, slept: Duration) -> bool {
        self.run = if beside && slept < SPIN_LIMIT { self.run + 1 } else { 0 };
        if self.run < self.rest {
            return false;
        }
        // Back beside it before that paid: the scheduler wants it here, others need the CPUs.
        let longer = (self.rest * 2).min(Self::LONGEST_REST);
        self.rest = if self.found >= Self::WORTH { Self::FIRST_REST } else { longer };
        (self.run, self.found) = (0, 0);
        true
    }

    /// A look found a call.
    #[inline]
    pub fn paid(&mut self) {
        self.found = self.found.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AdaptiveSpin, CpuMove};

    const SOON: Duration = Duration::from_micros(3);

    #[test]
    fn a_receiver_beside_a_busy_sender_moves_and_seldom_again_if_that_does_not_pay() {
        let mut cpu_move = CpuMove::default();
        let moves = (0..1_000_000).filter(|_| cpu_move.woken(true, SOON)).count();
        assert!((10..40).contains(&moves), "{moves}: each rest is twice the last, up to a limit");
        for _ in 0..CpuMove::WORTH {
            cpu_move.paid();
        }
        assert!((0..CpuMove::LONGEST_REST).any(|_| cpu_move.woken(true, SOON)));
        let again = (1..).find(|_| cpu_move.woken(true, SOON)).unwrap();
        assert_eq!(again, CpuMove::FIRST_REST, "the last move paid: soon again");
    }

    #[test]
    fn calls_from_elsewhere_and_calls_now_and_then_move_nobody() {
        let mut cpu_move = CpuMove::default();
        let far = Duration::from_millis(1);
        for n in 0..100_000 {
            assert!(!cpu_move.woken(false, SOON));
            assert!(!cpu_move.woken(true, if n % 10 == 0 { far } else { SOON }));
        }
    }

    #[test]
    fn it_stops_looking_when_nothing_comes_and_tries_again_now_and_then() {
        let mut spin = AdaptiveSpin::default();
        for _ in 0..AdaptiveSpin::MOST {
            assert!(spin.looks(false));
            spin.looked(false);
        }
        let mut looks = 0;
        for _ in 0..10 * AdaptiveSpin::EVERY {
            if spin.looks(false) {
                looks += 1;
                spin.looked(false);
            }
        }
        assert_eq!(looks, 10, "seldom");
        while !spin.looks(false) {}
        spin.looked(true);
        assert!(spin.looks(false) && spin.looks(false), "a call came: always again");
    }

    #[test]
    fn in_its_senders_way_it_never_looks() {
        assert!(!AdaptiveSpin::default().looks(true));
    }
}
