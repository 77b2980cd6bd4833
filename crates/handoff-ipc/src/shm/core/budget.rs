//! How much of the poller one user's links may have, so that a flood delays its sender and nobody else.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What is counted is forgotten after this.
const WINDOW: Duration = Duration::from_millis(100);
/// Messages of one user's links in a window, before those that send most are paused. Honest peers send a
/// message when a thread of theirs first calls, and two for a call that no thread waits for.
const MESSAGES: u64 = 20_000;

/// What links sent in the present window.
#[derive(Debug)]
pub(super) struct Budget {
    since: Instant,
    users: HashMap<u32, User>,
}

#[derive(Debug, Default)]
struct User {
    all: u64,
    by_link: HashMap<u64, u64>,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Budget { since: now, users: HashMap::new() }
    }

    /// Counts what a link of that user's sent. Gives how long the link is to be paused, if it sent more
    /// than its part of what its user may.
    pub(super) fn spend(&mut self, user: u32, link: u64, messages: u64, now: Instant) -> Option<Duration> {
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            self.users.clear();
        }
        let user = self.users.entry(user).or_default();
        user.all += messages;
        let its = user.by_link.entry(link).or_default();
        *its += messages;
        let its = *its;
        let part = MESSAGES / user.by_link.len() as u64;
        let left = (self.since + WINDOW).saturating_duration_since(now);
        (user.all > MESSAGES && its > part).then_some(left)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_floods_is_paused_until_the_window_is_over_and_nobody_else_is() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let soon = start + WINDOW / 4;
        assert_eq!(budget.spend(1, 10, MESSAGES, soon), None);
        assert_eq!(budget.spend(1, 11, 64, soon), None, "a quiet link of the same user");
        assert_eq!(budget.spend(2, 20, 64, soon), None, "another user");
        assert_eq!(budget.spend(1, 10, 1, soon), Some(WINDOW - WINDOW / 4));
        assert_eq!(budget.spend(1, 11, 64, soon), None, "it sent little");
        assert_eq!(budget.spend(1, 10, 64, start + WINDOW), None, "another window");
    }

    #[test]
    fn many_links_of_one_user_have_one_users_budget() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let paused = (0..100).filter(|link| budget.spend(1, *link, MESSAGES / 10 + 1, now).is_some()).count();
        assert!(paused > 80, "all but the first few: {paused}");
    }
}
