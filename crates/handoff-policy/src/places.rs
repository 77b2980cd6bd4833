//! How many places each user may take of those that there are, and how fast he may go on.

use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A number of places that users share.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    /// Those that only root and the daemon's own user may take.
    reserve: usize,
    pace: Pace,
    users: Mutex<BTreeMap<u32, User>>,
}

#[derive(Debug)]
struct User {
    held: usize,
    pace: Pace,
}

/// A place that is taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Places>,
    pub(super) uid: u32,
}

/// Root and the daemon's own user may do more than others.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

impl Places {
    pub(super) fn new(most: usize, pace: Pace) -> Arc<Self> {
        Arc::new(Self { most, reserve: most / 8, pace, users: Mutex::default() })
    }

    /// A place for a user. One may have half of what the other users leave, so that the next one finds some.
    pub(super) fn take(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut users = self.users();
        let now = Instant::now();
        users.retain(|_, user| user.held > 0 || !user.pace.is_idle(now));
        let by_others: usize =
            users.iter().filter(|(other, _)| **other != uid).map(|(_, user)| user.held).sum();
        let share = if is_trusted(uid) {
            self.most.saturating_sub(by_others)
        } else {
            (self.most - self.reserve).saturating_sub(by_others).div_ceil(2)
        };
        let user = users.entry(uid).or_insert(User { held: 0, pace: self.pace });
        (user.held < share).then(|| {
            user.held += 1;
            Place { of: self.clone(), uid }
        })
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// How long its user has to wait before he goes on, all his places together.
    pub(super) fn wait(&self) -> Duration {
        if is_trusted(self.uid) {
            return Duration::ZERO;
        }
        let mut users = self.of.users();
        users.get_mut(&self.uid).map_or(Duration::ZERO, |user| user.pace.book(Instant::now()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(user) = self.of.users().get_mut(&self.uid) {
            user.held -= 1;
        }
    }
}

/// So many at once, and then one every so often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    at_once: u32,
    each: Duration,
    /// When all that was booked is paid for.
    paid: Option<Instant>,
}

impl Pace {
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

    const PACE: Pace = Pace::new(2, Duration::from_secs(1));

    #[test]
    fn nobody_takes_what_the_next_user_needs() {
        let places = Places::new(64, PACE);
        // One that is neither root nor the test's own user.
        let first = geteuid().as_raw().wrapping_add(1000);
        let take_all = |uid| std::iter::from_fn(|| places.take(uid)).collect::<Vec<_>>();
        let held: Vec<_> = (first..first + 5).map(take_all).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [28, 14, 7, 4, 2]);
        assert_eq!(take_all(0).len(), 9, "root finds the reserve, and what is left");
        drop(held);
        assert_eq!(take_all(first + 9).len(), 28);
    }

    #[test]
    fn who_goes_too_fast_waits_and_is_forgiven() {
        let (mut pace, start) = (PACE, Instant::now());
        let seconds = |n| Duration::from_secs(n);
        assert_eq!([0, 0, 1, 2], [0; 4].map(|_: u64| pace.book(start).as_secs()));
        assert!(!pace.may(start + seconds(2)));
        assert!(pace.may(start + seconds(3)) && !pace.is_idle(start + seconds(4)));
        assert!(pace.is_idle(start + seconds(5)));
    }
}
