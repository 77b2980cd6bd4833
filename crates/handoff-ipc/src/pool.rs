//! The threads that serve: they come on demand, up to a limit, and take over their callers' urgency.
//!
//! A thread that waits at one caller's slot stays there as long as the pool has others to give; it
//! is recalled when it is the last that could take up other work.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use handoff_placement::{CpuSet, Priority, Tid, affinity, set_affinity};

use crate::locked::lock;
use crate::stats;

/// Threads that serve at one time, unless the application says otherwise.
const DEFAULT_MAX: usize = 16;
/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(10);

/// How long whoever raises a thread leaves it the CPU to end a change of its own.
const LEND: Duration = Duration::from_micros(50);

/// Work for one thread.
pub(crate) type Task = Box<dyn FnOnce(&Arc<Worker>) + Send>;

/// A place where a thread waits that could do other work.
///
/// The thread says that it waits, and then looks whether work is pending; whoever has work counts it,
/// and then asks here. One of the two sees the other.
pub(crate) trait Recall: Send + Sync {
    /// Whether the thread has nothing to do there.
    fn may_recall(&self) -> bool;

    /// Asks the thread to come back. False if it went to work meanwhile.
    fn recall(&self) -> bool;
}

/// A thread of the pool.
pub(crate) struct Worker {
    tid: Tid,
    priority: Mutex<Priority>,
    // The same, packed, for whoever only wants to compare.
    packed: AtomicU32,
    task: Mutex<Option<Task>>,
    bell: Condvar,
}

impl Worker {
    fn new() -> Self {
        let priority = Priority::current().unwrap_or(Priority::other(0));
        Worker {
            tid: Tid::current(),
            priority: Mutex::new(priority),
            packed: AtomicU32::new(priority.pack()),
            task: Mutex::default(),
            bell: Condvar::new(),
        }
    }

    /// What it runs at, packed.
    #[inline]
    pub(crate) fn packed(&self) -> u32 {
        self.packed.load(Ordering::Relaxed)
    }

    /// Runs at `wanted` from now on, where this process may. While work waits for a thread, it is
    /// not lowered: whoever waits raised it, and is still behind it.
    pub(crate) fn become_priority(&self, wanted: Priority) {
        // Looked at inside of the lock that a raise takes, after the work was counted: either this
        // sees the work, or the raise comes after.
        self.change(|now| (!now.more_urgent_than(wanted) || !has_pending()).then_some(wanted));
    }

    /// Is raised to `wanted`, if that is more urgent; by another thread.
    pub(crate) fn raise(&self, wanted: Priority) -> bool {
        let mut lent = false;
        let mut now = loop {
            match self.priority.try_lock() {
                Ok(now) => break now,
                Err(TryLockError::Poisoned(now)) => break now.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // It was stopped inside of its own change, perhaps by what the caller waits
                    // behind. Waiting for the lock would be an inversion of its own: lend, and again
                    // should its change undo that.
                    lent |= wanted.apply(self.tid).is_ok();
                    std::thread::sleep(LEND);
                }
            }
        };
        let before = *now;
        let raises = wanted.more_urgent_than(before);
        // What was lent stands over what the thread gave itself meanwhile.
        if raises || lent { self.apply(&mut now, wanted.max(before)) && raises } else { false }
    }

    /// Changes its own priority. Looks at what is set inside of the lock that a raise takes.
    fn change(&self, next: impl FnOnce(Priority) -> Option<Priority>) -> bool {
        let mut now = lock(&self.priority);
        match next(*now).filter(|wanted| *wanted != *now) {
            Some(wanted) => self.apply(&mut now, wanted),
            None => false,
        }
    }

    fn apply(&self, now: &mut Priority, wanted: Priority) -> bool {
        match wanted.apply(self.tid) {
            Ok(()) => {
                *now = wanted;
                self.packed.store(wanted.pack(), Ordering::Relaxed);
                stats::PRIORITY_CHANGES.add();
                true
            }
            Err(error) => {
                stats::inherit_denied(&error);
                false
            }
        }
    }
}

/// Threads beyond the limit for those that wait for somebody outside.
const MOST_AWAY: usize = 256;

#[derive(Default)]
struct State {
    max: usize,
    // Threads that wait for somebody outside of this process: see `stand_in`.
    away: usize,
    threads: usize,
    idle: Vec<Arc<Worker>>,
    busy: Vec<Arc<Worker>>,
    attached: Vec<(Arc<Worker>, Arc<dyn Recall>)>,
    pending: Vec<(Option<Priority>, Task)>,
}

impl State {
    fn limit(&self) -> usize {
        self.max + self.away.min(MOST_AWAY)
    }
}

struct Pool {
    state: Mutex<State>,
    pending: AtomicUsize,
    base: Priority,
    cpus: Option<CpuSet>,
}

/// One for the process: threads are shared by all engines and objects.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    // What the process was started with, not what some thread of it was given.
    let leader = Tid::new(std::process::id().cast_signed());
    Pool {
        state: Mutex::new(State { max: DEFAULT_MAX, ..State::default() }),
        pending: AtomicUsize::new(0),
        base: leader.and_then(|tid| Priority::of(tid).ok()).unwrap_or(Priority::other(0)),
        cpus: leader.and_then(|tid| affinity(tid).ok()),
    }
});

/// The priority of threads that serve nobody.
pub(crate) fn base() -> Priority {
    POOL.base
}

/// Limits the threads. Those that are too many end after their work.
pub(crate) fn set_max(threads: usize) {
    lock(&POOL.state).max = threads.max(1);
}

/// Threads of the pool, now.
pub(crate) fn threads() -> usize {
    lock(&POOL.state).threads
}

/// True if work waits for a thread: whoever could come back should.
#[inline]
pub(crate) fn has_pending() -> bool {
    POOL.pending.load(Ordering::Relaxed) != 0
}

/// Runs `job` on a thread of the pool.
pub(crate) fn run(job: Box<dyn FnOnce() + Send>) {
    submit(None, Box::new(move |_| job()));
}

/// Runs a task on a thread of the pool, at `priority` from the start where one is given.
///
/// If all are at work, the task waits, and each of them is raised to its priority: whichever is
/// ready first will take it up.
pub(crate) fn submit(priority: Option<Priority>, task: Task) {
    let mut state = lock(&POOL.state);
    if let Some(worker) = state.idle.pop() {
        state.busy.push(Arc::clone(&worker));
        drop(state);
        if let Some(priority) = priority {
            // It is idle, so at the least urgent; and it may still be on its way to sleep.
            worker.raise(priority);
        }
        *lock(&worker.task) = Some(task);
        worker.bell.notify_one();
        return;
    }
    if state.threads < state.limit() {
        state.threads += 1;
        drop(state);
        spawn(priority, task);
        return;
    }
    state.pending.push((priority, task));
    // Before any place is asked whether its thread may come: see `Recall`.
    POOL.pending.fetch_add(1, Ordering::SeqCst);
    // Raised first: it may have to get the CPU from something else to come back at all.
    let recall = |(worker, place): &(Arc<Worker>, Arc<dyn Recall>)| {
        place.may_recall() && {
            if priority.is_some_and(|priority| worker.raise(priority)) {
                stats::RAISED.add();
            }
            place.recall()
        }
    };
    if state.attached.iter().any(recall) {
        return;
    }
    if let Some(priority) = priority {
        for worker in &state.busy {
            if worker.raise(priority) {
                stats::RAISED.add();
            }
        }
    }
}

/// Lets the pool have a thread more until the guard goes: the calling thread waits for a peer that
/// may not answer, and nobody else's calls are to wait for that.
pub(crate) fn stand_in() -> StandIn {
    let mut state = lock(&POOL.state);
    state.away += 1;
    if state.threads < state.limit()
        && let Some((priority, task)) = take_most_urgent(&mut state.pending)
    {
        POOL.pending.fetch_sub(1, Ordering::Relaxed);
        state.threads += 1;
        drop(state);
        spawn(priority, task);
    }
    StandIn(())
}

/// See [`stand_in`].
pub(crate) struct StandIn(());

impl Drop for StandIn {
    fn drop(&mut self) {
        lock(&POOL.state).away -= 1;
    }
}

fn spawn(priority: Option<Priority>, task: Task) {
    let body = move || {
        let worker = Arc::new(Worker::new());
        if let Some(cpus) = &POOL.cpus {
            // The thread that asked for this one may have been pinned, by itself or by us.
            // A refusal leaves it where its parent was: slower, not wrong.
            let _ = set_affinity(worker.tid, cpus);
        }
        lock(&POOL.state).busy.push(Arc::clone(&worker));
        worker.become_priority(priority.unwrap_or(POOL.base));
        task(&worker);
        work(&worker);
    };
    if let Err(error) = std::thread::Builder::new().name("handoff".into()).spawn(body) {
        lock(&POOL.state).threads -= 1;
        stats::say_once(&stats::NO_THREAD, || {
            format!("cannot start a thread to serve a call, which is lost: {error}")
        });
    }
}

fn work(worker: &Arc<Worker>) {
    while let Some(task) = next(worker) {
        task(worker);
    }
}

/// The most urgent task that waits; after a while without any, `None`.
fn next(worker: &Arc<Worker>) -> Option<Task> {
    let mut state = lock(&POOL.state);
    let is_this = |other: &Arc<Worker>| Arc::ptr_eq(other, worker);
    if let Some((priority, task)) = take_most_urgent(&mut state.pending) {
        POOL.pending.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        worker.become_priority(priority.unwrap_or(POOL.base));
        return Some(task);
    }
    state.busy.retain(|other| !is_this(other));
    if state.threads > state.limit() {
        state.threads -= 1;
        return None;
    }
    // Before anybody can find it idle, and raise it for its next task.
    worker.become_priority(POOL.base);
    state.idle.push(Arc::clone(worker));
    drop(state);
    let mut slot = lock(&worker.task);
    loop {
        if let Some(task) = slot.take() {
            return Some(task);
        }
        let (again, timeout) = worker.bell.wait_timeout(slot, LINGER).unwrap_or_else(PoisonError::into_inner);
        slot = again;
        if timeout.timed_out() && slot.is_none() {
            drop(slot);
            let mut state = lock(&POOL.state);
            if let Some(at) = state.idle.iter().position(is_this) {
                state.idle.swap_remove(at);
                state.threads -= 1;
                return None;
            }
            // Taken from the idle ones a moment ago: its task is on the way.
            drop(state);
            slot = lock(&worker.task);
        }
    }
}

fn take_most_urgent(pending: &mut Vec<(Option<Priority>, Task)>) -> Option<(Option<Priority>, Task)> {
    let base = POOL.base;
    let mut best: Option<(usize, Priority)> = None;
    for (at, (priority, _)) in pending.iter().enumerate() {
        let priority = priority.unwrap_or(base);
        // The first of equals: whoever waits longest.
        if best.is_none_or(|(_, most)| priority.more_urgent_than(most)) {
            best = Some((at, priority));
        }
    }
    best.map(|(at, _)| pending.remove(at))
}

/// Makes known that `worker` waits at `place`, from where it can be recalled, until the guard goes.
pub(crate) fn attach(worker: &Arc<Worker>, place: Arc<dyn Recall>) -> Attached {
    let place_ref = Arc::clone(&place);
    let mut state = lock(&POOL.state);
    state.busy.retain(|other| !Arc::ptr_eq(other, worker));
    state.attached.push((Arc::clone(worker), place));
    // At work until it says otherwise; the raise of busy threads must reach it.
    state.busy.push(Arc::clone(worker));
    Attached { place: place_ref }
}

/// See [`attach`].
pub(crate) struct Attached {
    place: Arc<dyn Recall>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        lock(&POOL.state).attached.retain(|(_, place)| !Arc::ptr_eq(place, &self.place));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_and_the_most_urgent_goes_first() {
        let (send, receive) = mpsc::channel();
        for n in 0..100 {
            let send = send.clone();
            run(Box::new(move || send.send(n).unwrap()));
        }
        let mut seen: Vec<i32> = receive.iter().take(100).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());

        let nothing = || Box::new(|_: &Arc<Worker>| ()) as Task;
        let mut pending = vec![
            (None, nothing()),
            (Some(Priority::fifo(3)), nothing()),
            (Some(Priority::fifo(9)), nothing()),
            (Some(Priority::fifo(9)), nothing()),
        ];
        let order: Vec<_> = std::iter::from_fn(|| take_most_urgent(&mut pending)).map(|(p, _)| p).collect();
        let fifo = |n| Some(Priority::fifo(n));
        assert_eq!(order, [fifo(9), fifo(9), fifo(3), None]);
    }

    #[test]
    fn who_waits_for_a_peer_keeps_nobody_from_work() {
        let (send, receive) = mpsc::channel();
        // More than the pool may have, all away until the others have run.
        let gate = Arc::new(std::sync::RwLock::new(()));
        let closed = gate.write().unwrap();
        for _ in 0..2 * DEFAULT_MAX {
            let gate = Arc::clone(&gate);
            run(Box::new(move || {
                let _away = stand_in();
                drop(gate.read());
            }));
        }
        for n in 0..2 * DEFAULT_MAX {
            let send = send.clone();
            run(Box::new(move || send.send(n).unwrap()));
        }
        for _ in 0..2 * DEFAULT_MAX {
            receive.recv_timeout(std::time::Duration::from_secs(60)).expect("served meanwhile");
        }
        drop(closed);
    }
}
