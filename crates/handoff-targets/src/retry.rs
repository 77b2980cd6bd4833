//! When a machine that was lost is asked again: one policy for a run of an arm and for a task of a campaign.

use std::time::Duration;

/// How often in a row, and after which wait, which doubles each time.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Tries in a row without progress, the first one included.
    pub most: u32,
    /// Before the second try.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    tries: u32,
}

impl Retry {
    /// So many tries in a row.
    #[must_use]
    pub fn new(most: u32, first_wait: Duration, longest_wait: Duration) -> Self {
        Retry { most, first_wait, longest_wait, tries: 0 }
    }

    /// A try was lost: how long to wait for the next, or none if there is no next.
    pub fn lost(&mut self) -> Option<Duration> {
        self.tries = self.tries.saturating_add(1);
        let doubled = 2_u32.checked_pow(self.tries - 1);
        let wait = doubled.map_or(self.longest_wait, |times| self.first_wait.saturating_mul(times));
        (self.tries < self.most).then(|| wait.min(self.longest_wait))
    }

    /// Something came of it: the tries are counted anew.
    pub fn progressed(&mut self) {
        self.tries = 0;
    }

    /// Tries in a row that were lost.
    pub fn tries(&self) -> u32 {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_nothing_is_left() {
        let second = Duration::from_secs(1);
        let mut retry = Retry::new(5, second, 3 * second);
        let waits: Vec<_> = (0..5).map(|_| retry.lost()).collect();
        assert_eq!(waits, [Some(second), Some(2 * second), Some(3 * second), Some(3 * second), None]);
        retry.progressed();
        assert_eq!((retry.tries(), retry.lost()), (0, Some(second)));
        let mut many = Retry::new(u32::MAX, second, 3 * second);
        assert!((0..100).all(|_| many.lost().is_some_and(|wait| wait <= 3 * second)));
    }
}
