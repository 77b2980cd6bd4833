//! How many permits each user may hold of those that there are, and how fast he may go on (a rate limit).

use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A number of permits that users share.
#[derive(Debug)]
pub(super) struct Permits {
    most: usize,
    /// Those that only root and the daemon's own user may take.
    reserve: usize,
    rate: RateLimit,
    users: Mutex<BTreeMap<u32, User>>,
}

#[derive(Debug)]
struct User {
    held: usize,
    rate: RateLimit,
}

/// A permit that is held, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    of: Arc<Permits>,
    pub(super) uid: u32,
}

/// Root and the daemon's own user may do more than others.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

impl Permits {
    pub(super) fn new(most: usize, rate: RateLimit) -> Arc<Self> {
        Arc::new(Self { most, reserve: most / 8, rate, users: Mutex::default() })
    }

    /// A permit for a user. One may have half of what the other users leave, so that the next one finds some.
    pub(super) fn take(self: &Arc<Self>, uid: u32) -> Option<Permit> {
        let mut users = self.users();
        let now = Instant::now();
        users.retain(|_, user| user.held > 0 || !user.rate.is_idle(now));
        let by_others: usize =
            users.iter().filter(|(other, _)| **other != uid).map(|(_, user)| user.held).sum();
        let share = if is_trusted(uid) {
            self.most.saturating_sub(by_others)
        } else {
            (self.most - self.reserve).saturating_sub(by_others).div_ceil(2)
        };
        let user = users.entry(uid).or_insert(User { held: 0, rate: self.rate });
        (user.held < share).then(|| {
            user.held += 1;
            Permit { of: self.clone(), uid }
        })
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// How long its user has to wait before he goes on, all his permits together.
    pub(super) fn wait(&self) -> Duration {
        if is_trusted(self.uid) {
            return Duration::ZERO;
        }
        let mut users = self.of.users();
        users.get_mut(&self.uid).map_or(Duration::ZERO, |user| user.rate.book(Instant::now()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(user) = self.of.users().get_mut(&self.uid) {
            user.held -= 1;
        }
    }
}

/// So many at once, and then one every so often.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateLimit {
    at_once: u32,
    each: Duration,
    /// When all that was booked is paid for.
    paid: Option<Instant>,
}

impl RateLimit {
    pub(super) const fn new(at_once: u32, each: Duration) -> Self {
        Self { at_once, each, paid: None }
    }

    /// Books one; gives how long to wait for it.
    pub(super) fn book(&mut self, now: Instant) -> Duration {
        let paid = self.paid.map_or(now, |paid| paid.max(now)) + self.each;
        self.paid = Some(paid);
        (paid - now).saturating_sub(self.each * self.at_once)
    }

    /// Books one if it need not wait.
    pub(super) fn may(&mut self, now: Instant) -> bool {
        let mut next = *self;
        let may = next.book(now).is_zero();
        if may {
            *self = next;
        }
        may
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: RateLimit = RateLimit::new(2, Duration::from_secs(1));

    #[test]
    fn nobody_takes_what_the_next_user_needs() {
        let permits = Permits::new(64, RATE);
        // One that is neither root nor the test's own user.
        let first = geteuid().as_raw().wrapping_add(1000);
        let take_all = |uid| std::iter::from_fn(|| permits.take(uid)).collect::<Vec<_>>();
        let held: Vec<_> = (first..first + 5).map(take_all).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [28, 14, 7, 4, 2]);
        assert_eq!(take_all(0).len(), 9, "root finds the reserve, and what is left");
        drop(held);
        assert_eq!(take_all(first + 9).len(), 28);
    }

    #[test]
    fn who_goes_too_fast_waits_and_is_forgiven() {
        let (mut rate, start) = (RATE, Instant::now());
        let seconds = |n| Duration::from_secs(n);
        assert_eq!([0, 0, 1, 2], [0; 4].map(|_: u64| rate.book(start).as_secs()));
        assert!(!rate.may(start + seconds(2)));
        assert!(rate.may(start + seconds(3)) && !rate.is_idle(start + seconds(4)));
        assert!(rate.is_idle(start + seconds(5)));
    }
}
