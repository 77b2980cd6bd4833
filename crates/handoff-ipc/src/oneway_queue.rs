//! Oneway calls that wait for one object, which serves one at a time.
//!
//! Those of one user are served in the order in which they came; users take turns. So who sends thousands of calls that
//! take long delays its own.

use std::collections::VecDeque;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct OnewayQueue {
    busy: bool,
    // Whoever is first has the next turn. One that is empty is alone: its memory is there for the next call.
    users: VecDeque<(u32, VecDeque<Job>)>,
}

impl OnewayQueue {
    /// True if no thread was at the queue.
    pub(crate) fn push(&mut self, user: u32, job: Job) -> bool {
        match self.users.iter_mut().find(|(known, jobs)| *known == user || jobs.is_empty()) {
            Some((known, jobs)) => {
                *known = user;
                jobs.push_back(job);
            }
            None => self.users.push_back((user, VecDeque::from([job]))),
        }
        !std::mem::replace(&mut self.busy, true)
    }

    /// How many of a user's wait.
    pub(crate) fn waiting(&self, user: u32) -> usize {
        self.users.iter().find(|(known, _)| *known == user).map_or(0, |(_, jobs)| jobs.len())
    }

    /// The next call. Without one the thread at the queue goes.
    pub(crate) fn pop(&mut self) -> Option<Job> {
        let next = self.users.front_mut().and_then(|(_, jobs)| jobs.pop_front());
        self.busy = next.is_some();
        if self.users.len() > 1 {
            let first = self.users.pop_front();
            self.users.extend(first.filter(|(_, jobs)| !jobs.is_empty()));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn push(queue: &mut OnewayQueue, send: &Sender<i32>, user: u32, number: i32) -> bool {
        let send = send.clone();
        queue.push(user, Box::new(move || send.send(number).unwrap()))
    }

    #[test]
    fn users_take_turns_and_the_calls_of_each_keep_their_order() {
        let (send, served) = channel();
        let mut queue = OnewayQueue::default();
        assert!(push(&mut queue, &send, 1, 10), "a thread is wanted");
        (11..1000).for_each(|number| assert!(!push(&mut queue, &send, 1, number)));
        for (user, number) in [(2, 2000), (2, 2001), (3, 3000)] {
            push(&mut queue, &send, user, number);
        }
        assert_eq!((queue.waiting(1), queue.waiting(2), queue.waiting(4)), (990, 2, 0));
        std::iter::from_fn(|| queue.pop()).for_each(|job| job());
        let served: Vec<i32> = served.try_iter().collect();
        assert_eq!(served[..6], [10, 2000, 3000, 11, 2001, 12]);
        assert!(served[6..].iter().copied().eq(13..1000));
        assert!(push(&mut queue, &send, 5, 1), "the thread has gone");
        assert_eq!((queue.waiting(5), queue.users.len()), (1, 1), "in the memory that was there");
    }
}
