//! Oneway calls that wait for one object, which serves one at a time.
//!
//! Those of one user are served in the order in which they came; users take turns. So who sends thousands of calls that
//! take long delays its own.
//!
//! Each user's calls are served by a thread of that user's share of the pool. One whose share is used up has its own calls
//! wait for it, and nobody else's: whoever has calls here also has a thread here, or one that was sent for.

use std::collections::VecDeque;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct OnewayQueue {
    // A thread is at the queue.
    served: bool,
    // Users of whose threads one was sent for that has not come yet.
    sent_for: Vec<u32>,
    // Whoever is first has the next turn. One that is empty is alone: its memory is there for the next call.
    users: VecDeque<(u32, VecDeque<Job>)>,
}

/// What a thread at the queue does next.
pub(crate) enum NextStep {
    Serve(Job),
    /// It is the turn of that user.
    Of(u32),
    /// There is nothing to do for it: it is no longer at the queue.
    Go,
}

impl OnewayQueue {
    /// True if a thread of that user's has to be sent.
    pub(crate) fn push(&mut self, user: u32, job: Job) -> bool {
        match self.users.iter_mut().find(|(known, jobs)| *known == user || jobs.is_empty()) {
            Some((known, jobs)) => {
                *known = user;
                jobs.push_back(job);
            }
            None => self.users.push_back((user, VecDeque::from([job]))),
        }
        !self.served && self.note_sent(user)
    }

    /// How many of a user's wait.
    pub(crate) fn waiting(&self, user: u32) -> usize {
        self.users.iter().find(|(known, _)| *known == user).map_or(0, |(_, jobs)| jobs.len())
    }

    /// False if one of that user's was sent for before.
    pub(crate) fn note_sent(&mut self, user: u32) -> bool {
        let is_new = !self.sent_for.contains(&user);
        if is_new {
            self.sent_for.push(user);
        }
        is_new
    }

    /// A thread that was sent for has come. False if another is there: it serves what came meanwhile, too.
    pub(crate) fn arrive(&mut self, user: u32) -> bool {
        self.sent_for.retain(|sent| *sent != user);
        !std::mem::replace(&mut self.served, true)
    }

    /// For a thread that works for `user`. Those whose own thread is on its way are left to that.
    pub(crate) fn next(&mut self, user: u32) -> NextStep {
        for _ in 0..self.users.len() {
            let Some((first, jobs)) = self.users.front_mut() else { break };
            let first = *first;
            if !jobs.is_empty() && !self.sent_for.contains(&first) {
                if first != user {
                    return NextStep::Of(first);
                }
                let job = jobs.pop_front();
                self.pass();
                return job.map_or(NextStep::Go, NextStep::Serve);
            }
            self.pass();
        }
        self.served = false;
        NextStep::Go
    }

    /// The first has had its turn.
    fn pass(&mut self) {
        if self.users.len() > 1 {
            let first = self.users.pop_front();
            self.users.extend(first.filter(|(_, jobs)| !jobs.is_empty()));
        }
    }

    /// The thread leaves. Gives the users of whose threads one has to be sent.
    pub(crate) fn leave(&mut self) -> Vec<u32> {
        self.served = false;
        let waiting: Vec<u32> =
            self.users.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(user, _)| *user).collect();
        waiting.into_iter().filter(|user| self.note_sent(*user)).collect()
    }
}

#[cfg(test)]
#[path = "oneway_queue_tests.rs"]
mod tests;
