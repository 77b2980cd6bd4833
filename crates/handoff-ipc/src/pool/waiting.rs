//! Tasks that wait for a thread: the most urgent first, of equals the one that came first.
//!
//! Each user has a queue of its own. So what thousands of tasks cost that wait for the share of their user is nobody
//! else's: whoever looks for work looks at one task of each user.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use handoff_placement::Priority;

use super::Work;

struct QueuedWork {
    priority: Priority,
    number: Reverse<u64>,
    work: Work,
}

impl Ord for QueuedWork {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, its) = (self.priority, other.priority);
        let urgency = mine.more_urgent_than(its).cmp(&its.more_urgent_than(mine));
        urgency.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for QueuedWork {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for QueuedWork {}

impl PartialEq for QueuedWork {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

/// The work of all users that waits for a thread, the most urgent of each user first.
#[derive(Default)]
pub(super) struct Queues {
    // None is empty.
    of_users: HashMap<u32, BinaryHeap<QueuedWork>>,
    came: u64,
}

impl Queues {
    /// `base` is the priority of work that asks for none.
    pub(super) fn add(&mut self, work: Work, base: Priority) {
        self.came += 1;
        let (priority, number) = (work.priority.unwrap_or(base), Reverse(self.came));
        self.of_users.entry(work.user).or_default().push(QueuedWork { priority, number, work });
    }

    /// The most urgent of those users who may have a thread.
    pub(super) fn take(&mut self, may_begin: impl Fn(u32) -> bool) -> Option<Work> {
        let may_begin = self.of_users.iter().filter(|(user, _)| may_begin(**user));
        let (_, user) = may_begin.filter_map(|(user, queue)| Some((queue.peek()?, *user))).max()?;
        let queue = self.of_users.get_mut(&user)?;
        let work = queue.pop()?.work;
        if queue.is_empty() {
            self.of_users.remove(&user);
        }
        Some(work)
    }

    pub(super) fn users(&self) -> impl Iterator<Item = u32> {
        self.of_users.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.of_users.values().map(BinaryHeap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn add(queues: &mut Queues, user: u32, priority: Option<Priority>) {
        queues.add(Work { user, priority, task: Box::new(|_| ()) }, Priority::other(0));
    }

    #[test]
    fn the_most_urgent_goes_first_and_of_equals_the_first() {
        let mut queues = Queues::default();
        let fifo = |n| Some(Priority::fifo(n));
        for (user, priority) in
            [(1, None), (3, fifo(3)), (1, fifo(9)), (2, fifo(99)), (3, fifo(9)), (1, fifo(9)), (3, None)]
        {
            add(&mut queues, user, priority);
        }
        let order: Vec<_> = std::iter::from_fn(|| queues.take(|user| user != 2))
            .map(|work| (work.user, work.priority))
            .collect();
        assert_eq!(order, [(1, fifo(9)), (3, fifo(9)), (1, fifo(9)), (3, fifo(3)), (1, None), (3, None)]);
        assert_eq!((queues.len(), queues.users().collect::<Vec<_>>()), (1, vec![2]));
    }

    #[test]
    fn what_waits_for_the_share_of_its_user_is_not_looked_at() {
        let mut queues = Queues::default();
        (0..10_000).for_each(|_| add(&mut queues, 1, None));
        add(&mut queues, 2, None);
        let asked = Cell::new(0);
        let may_begin = |user| {
            asked.set(asked.get() + 1);
            user == 2
        };
        assert_eq!(queues.take(may_begin).map(|work| work.user), Some(2));
        assert_eq!(asked.get(), 2, "once for each user");
    }
}
