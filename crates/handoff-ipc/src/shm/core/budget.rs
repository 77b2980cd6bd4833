//! How much of the poller's time one user's links may have, so that a flood delays its sender and nobody else.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What is counted is forgotten after this.
const WINDOW: Duration = Duration::from_millis(100);
/// Time on a CPU for one user's links in a window, before those that take most are paused.
const TIME: Duration = Duration::from_millis(50);
/// What a message counts as at least. Honest peers send a message when a thread of theirs first calls, and two for a call
/// that no thread waits for. A peer can have each answer take long: the kernel wakes whoever watches its socket.
const EACH: Duration = Duration::from_nanos(2500);

/// What links took in the present window.
#[derive(Debug)]
pub(super) struct Budget {
    since: Instant,
    users: HashMap<u32, User>,
}

#[derive(Debug, Default)]
struct User {
    all: Duration,
    by_link: HashMap<u64, Duration>,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Budget { since: now, users: HashMap::new() }
    }

    /// How long nothing more is done for a user that has had its time. Asked before what a link costs but once, so that a
    /// pause afterwards would come too late: its beginning and its end.
    pub(super) fn left_if_spent(&self, user: u32, now: Instant) -> Option<Duration> {
        let left = (self.since + WINDOW).checked_duration_since(now)?;
        let is_spent = self.users.get(&user).is_some_and(|user| user.all > TIME);
        (is_spent && !left.is_zero()).then_some(left)
    }

    /// Counts the messages of a link of that user's, and the time that they took. Gives how long the link is to be paused,
    /// if it took more than its part of what its user may.
    pub(super) fn spend(
        &mut self,
        user: u32,
        link: u64,
        (messages, time): (u64, Duration),
        now: Instant,
    ) -> Option<Duration> {
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            self.users.clear();
        }
        let user = self.users.entry(user).or_default();
        let cost = time.max(EACH * messages as u32);
        user.all += cost;
        let its = user.by_link.entry(link).or_default();
        *its += cost;
        let its = *its;
        let part = TIME / user.by_link.len() as u32;
        let left = (self.since + WINDOW).saturating_duration_since(now);
        (user.all > TIME && its > part).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: (u64, Duration) = (20_000, Duration::ZERO);
    const FEW: (u64, Duration) = (64, Duration::ZERO);

    #[test]
    fn who_floods_is_paused_until_the_window_is_over_and_nobody_else_is() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let soon = start + WINDOW / 4;
        assert_eq!(budget.spend(1, 10, MANY, soon), None);
        assert_eq!(budget.spend(1, 11, FEW, soon), None, "a quiet link of the same user");
        assert_eq!(budget.spend(2, 20, FEW, soon), None, "another user");
        assert_eq!(budget.spend(1, 10, (1, Duration::ZERO), soon), Some(WINDOW - WINDOW / 4));
        assert_eq!(budget.spend(1, 11, FEW, soon), None, "it sent little");
        assert_eq!(budget.spend(1, 10, FEW, start + WINDOW), None, "another window");
    }

    #[test]
    fn few_messages_that_take_long_are_a_flood() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        assert_eq!(budget.spend(1, 10, (1, TIME), now), None);
        assert_eq!(budget.spend(1, 10, (1, TIME), now), Some(WINDOW));
        assert_eq!(budget.spend(2, 20, (1, TIME / 2), now), None, "another user");
    }

    #[test]
    fn links_that_begin_and_end_have_their_users_budget_too() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        for link in 0..3 {
            assert_eq!(budget.left_if_spent(1, now), None);
            budget.spend(1, link, (1, TIME / 2), now);
        }
        assert_eq!(budget.left_if_spent(1, now), Some(WINDOW));
        assert_eq!(budget.left_if_spent(2, now), None, "another user");
        assert_eq!(budget.left_if_spent(1, now + WINDOW), None, "another window");
    }

    #[test]
    fn many_links_of_one_user_have_one_users_budget() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let each = (2001, Duration::ZERO);
        let paused = (0..100).filter(|link| budget.spend(1, *link, each, now).is_some()).count();
        assert!(paused > 80, "all but the first few: {paused}");
    }
}
