//! Threads of the pool at an object's queue of oneway calls.

use std::sync::Arc;

use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::object::{LocalNode, ONEWAY_LIMIT};
use crate::oneway_queue::{Job, NextStep};
use crate::pool::{self, Worker};
use crate::{Error, OnewayBacklog, Result};

/// Queues a oneway call of this process.
pub(crate) fn queue_own(node: &Arc<LocalNode>, job: Job) -> Result<()> {
    let user = CallingIdentity::own_cached().uid;
    let mut queue = lock(node.oneway_queue());
    let waiting = queue.waiting(user);
    if waiting >= ONEWAY_LIMIT {
        return Err(Error::OnewayFull(OnewayBacklog::Calls(waiting)));
    }
    let wants_thread = queue.push(user, job);
    drop(queue);
    if wants_thread {
        send(node, user);
    }
    Ok(())
}

/// The same for a call whose sender was told that it is on its way: it is never refused. Whoever took it in bounds how
/// many there are. True if the caller must have a thread of that user's serve the queue: [`send`], [`serve_here`].
pub(crate) fn queue_admitted(node: &LocalNode, user: u32, job: Job) -> bool {
    lock(node.oneway_queue()).push(user, job)
}

/// Sends a thread of that user's, after the queue asked for it.
pub(crate) fn send(node: &Arc<LocalNode>, user: u32) {
    let node = Arc::clone(node);
    pool::submit(user, None, Box::new(move |worker| serve(&node, user, Some(worker))));
}

/// Serves the queue on the calling thread, which was sent for, works for that user, and has something else to do for it.
pub(crate) fn serve_here(node: &Arc<LocalNode>, user: u32) {
    serve(node, user, None);
}

/// Serves what waits. `worker`: the calling thread, if it may come to work for others than `user`.
fn serve(node: &Arc<LocalNode>, mut user: u32, worker: Option<&Arc<Worker>>) {
    let queue = node.oneway_queue();
    if !lock(queue).arrive(user) {
        return;
    }
    loop {
        let turn = lock(queue).next(user);
        let other = match turn {
            NextStep::Go => return,
            NextStep::Serve(job) => {
                job();
                continue;
            }
            NextStep::Of(other) => other,
        };
        let Some(worker) = worker else {
            let wanted = lock(queue).leave();
            return wanted.into_iter().for_each(|user| send(node, user));
        };
        if pool::work_for(worker, other) {
            user = other;
        } else if lock(queue).note_sent(other) {
            // It has no thread to spare: its calls wait for one, and for nobody else's.
            send(node, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::RwLock;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::ParcelService;

    fn nothing() -> Arc<LocalNode> {
        LocalNode::new(Arc::new(ParcelService::new("test.INothing", |_, _| Ok(None))))
    }

    fn queue(node: &Arc<LocalNode>, user: u32, gate: &Arc<RwLock<()>>) {
        let gate = Arc::clone(gate);
        if queue_admitted(node, user, Box::new(move || drop(gate.read()))) {
            send(node, user);
        }
    }

    #[test]
    fn calls_that_do_not_end_keep_none_of_another_users_threads() {
        const HONEST: u32 = 70_011;
        const OTHER: u32 = 70_012;
        let (soon, never) = (Arc::new(RwLock::new(())), Arc::new(RwLock::new(())));
        let (at_first, to_the_end) = (soon.write().unwrap(), never.write().unwrap());
        for _ in 0..100 {
            let node = nothing();
            queue(&node, HONEST, &soon);
            queue(&node, OTHER, &never);
        }
        drop(at_first);
        let (send, served) = channel();
        for _ in 0..100 {
            let send = send.clone();
            pool::run_for(HONEST, Box::new(move || send.send(()).unwrap()));
        }
        (0..100).for_each(|_| served.recv_timeout(Duration::from_secs(60)).expect("a thread of its share"));
        drop(to_the_end);
    }

    #[test]
    fn a_thread_with_something_else_to_do_leaves_the_queue_to_those_who_wait() {
        let node = nothing();
        let (send, served) = channel();
        for user in [70_013, 70_014, 70_013, 70_014] {
            let send = send.clone();
            let job = Box::new(move || send.send((user, std::thread::current().id())).unwrap());
            queue_admitted(&node, user, job);
        }
        // Its thread was sent for, and is here; the other's was, too, and comes later.
        serve_here(&node, 70_013);
        let here = std::thread::current().id();
        assert!(served.try_iter().eq([(70_013, here); 2]));
        super::send(&node, 70_014);
        let two = (0..2).map(|_| served.recv_timeout(Duration::from_secs(60)).expect("served"));
        assert!(two.into_iter().all(|(user, thread)| user == 70_014 && thread != here));
    }
}
