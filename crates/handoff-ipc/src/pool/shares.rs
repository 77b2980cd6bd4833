//! How the pool's threads are shared between users.
//!
//! One user may have half of what the others leave, so the next one finds a thread. What waits for the
//! share of its own user is of no concern to threads of others: those stay where they are.

use std::cell::Cell;
use std::collections::HashMap;

/// Threads that every user may have, whatever the others do.
const LEAST: usize = 2;
/// In a mask: work that any thread could take up.
const ANY: u64 = 1 << 63;

thread_local! {
    // For whom this thread works, and the bits of work that it could take up instead.
    static USER: Cell<Option<u32>> = const { Cell::new(None) };
    static WANTED: Cell<u64> = const { Cell::new(ANY) };
}

/// The bit of work that only a thread of that user's can take up. Two users may have one bit: a thread
/// then comes back in vain now and then.
fn bit(user: u32) -> u64 {
    1 << (user % 63)
}

/// The calling thread works for that user from now on; for nobody without one.
pub(super) fn work_for(user: Option<u32>) {
    USER.set(user);
    WANTED.set(ANY | user.map_or(0, bit));
}

/// For whom the calling thread works.
pub(super) fn user() -> Option<u32> {
    USER.get()
}

/// Whether the calling thread could take up some of the work in a mask.
#[inline]
pub(super) fn concerns_this_thread(mask: u64) -> bool {
    // Nothing waits, nearly always: then the thread-local is not looked up.
    mask != 0 && mask & WANTED.get() != 0
}

/// Threads at work, by user.
#[derive(Default)]
pub(super) struct Shares {
    at_work: HashMap<u32, usize>,
    all_at_work: usize,
}

impl Shares {
    pub(super) fn begin(&mut self, user: u32) {
        *self.at_work.entry(user).or_default() += 1;
        self.all_at_work += 1;
    }

    pub(super) fn end(&mut self, user: u32) {
        if let Some(count) = self.at_work.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.at_work.remove(&user);
            }
        }
        self.all_at_work -= 1;
    }

    /// Whether the user may have one more of `all` threads. One alone may have half of them.
    pub(super) fn may_begin(&self, user: u32, all: usize) -> bool {
        let its = self.at_work.get(&user).copied().unwrap_or(0);
        let others = self.all_at_work - its;
        its < (all.saturating_sub(others) / 2).max(LEAST.min(all))
    }

    /// What waits for users, as a mask of those threads that could take it up.
    pub(super) fn mask(&self, waiting: impl Iterator<Item = u32>, all: usize) -> u64 {
        let part = |user| if self.may_begin(user, all) { ANY } else { bit(user) };
        waiting.fold(0, |mask, user| mask | part(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(shares: &mut Shares, user: u32, all: usize) -> usize {
        std::iter::from_fn(|| shares.may_begin(user, all).then(|| shares.begin(user))).count()
    }

    #[test]
    fn one_user_leaves_threads_for_the_next() {
        let mut shares = Shares::default();
        assert_eq!([1, 2, 3, 4].map(|user| fill(&mut shares, user, 32)), [16, 8, 4, 2]);
        shares.end(1);
        assert_eq!(fill(&mut shares, 5, 32), 2, "the least, though there are not many left");
        let mut shares = Shares::default();
        assert_eq!(fill(&mut shares, 1, 1), 1, "one thread for all");
        assert!(shares.may_begin(1, 2) && fill(&mut Shares::default(), 1, 2) == 2);
    }

    #[test]
    fn work_that_waits_for_its_users_share_concerns_only_that_users_threads() {
        let mut shares = Shares::default();
        fill(&mut shares, 1, 8);
        let mask = shares.mask([1].into_iter(), 8);
        let concerns = |user| {
            work_for(user);
            concerns_this_thread(mask)
        };
        assert!(concerns(Some(1)) && !concerns(Some(2)) && !concerns(None));
        let mask = shares.mask([1, 2].into_iter(), 8);
        work_for(None);
        assert!(concerns_this_thread(mask), "this one waits for any thread");
        assert_eq!(shares.mask(std::iter::empty(), 8), 0);
    }
}
