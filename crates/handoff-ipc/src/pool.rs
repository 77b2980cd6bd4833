//! The threads that serve: they come on demand, up to a limit, and take over their callers' urgency.
//!
//! A thread that waits at one caller's slot stays there as long as the pool has others to give; it
//! is recalled when it is the last that could take up other work.

mod shares;
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use handoff_placement::{CpuSet, Priority, Tid, affinity, set_affinity};

use self::shares::Shares;
use self::waiting::Queues;
use crate::identity::CallingIdentity;
use crate::ledger::MOST_AWAY;
use crate::locked::lock;
use crate::stats;

/// Threads that serve one user at one time, unless the application says otherwise.
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

    /// Asks the thread to come back. False if it went to work meanwhile, or was asked before.
    fn recall(&self) -> bool;
}

/// A thread of the pool.
pub(crate) struct Worker {
    tid: Tid,
    priority: Mutex<Priority>,
    // The same, packed, for whoever only wants to compare.
    packed: AtomicU32,
    // For whom it works: set before its task is handed over.
    user: AtomicU32,
    task: Mutex<Option<Work>>,
    bell: Condvar,
}

impl Worker {
    fn new() -> Self {
        let priority = Priority::current().unwrap_or(Priority::other(0));
        Worker {
            tid: Tid::current(),
            priority: Mutex::new(priority),
            packed: AtomicU32::new(priority.pack()),
            user: AtomicU32::new(0),
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

/// A task, and on behalf of which user.
struct Work {
    user: u32,
    priority: Option<Priority>,
    task: Task,
}

#[derive(Default)]
struct State {
    max: usize,
    // Threads that wait for somebody outside of this process: see `stand_in`.
    away: usize,
    threads: usize,
    idle: Vec<Arc<Worker>>,
    busy: Vec<Arc<Worker>>,
    attached: Vec<(Arc<Worker>, Arc<dyn Recall>)>,
    pending: Queues,
    shares: Shares,
}

impl State {
    /// Threads for all users together. One alone may have `max`.
    fn all(&self) -> usize {
        // Who asks for one thread wants no two at a time, whoever calls.
        if self.max == 1 { 1 } else { 2 * self.max }
    }

    fn limit(&self) -> usize {
        self.all() + self.away.min(MOST_AWAY)
    }

    /// Whether a thread is idle, or one more may be started.
    fn has_room(&self) -> bool {
        !self.idle.is_empty() || self.threads < self.limit()
    }

    /// The most urgent task that waits, of those whose user may have a thread. Its thread is counted.
    fn take_pending(&mut self) -> Option<Work> {
        let (shares, all) = (&self.shares, self.all());
        let work = self.pending.take(|user| shares.may_begin(user, all))?;
        self.shares.begin(work.user);
        self.tell_pending();
        Some(work)
    }

    fn keep_pending(&mut self, work: Work) {
        self.pending.add(work, POOL.base);
        self.tell_pending();
    }

    /// For [`has_pending`]: after each change of what waits, or of who may have a thread.
    fn tell_pending(&self) {
        POOL.pending.store(self.shares.mask(self.pending.users(), self.all()), Ordering::SeqCst);
    }
}

struct Pool {
    state: Mutex<State>,
    // Which threads could take up what waits: see `Shares::mask`.
    pending: AtomicU64,
    base: Priority,
    cpus: Option<CpuSet>,
}

/// One for the process: threads are shared by all engines and objects.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    // What the process was started with, not what some thread of it was given.
    let leader = Tid::new(std::process::id() as i32);
    Pool {
        state: Mutex::new(State { max: DEFAULT_MAX, ..State::default() }),
        pending: AtomicU64::new(0),
        base: leader.and_then(|tid| Priority::of(tid).ok()).unwrap_or(Priority::other(0)),
        cpus: leader.and_then(|tid| affinity(tid).ok()),
    }
});

/// The priority of threads that serve nobody.
pub(crate) fn base() -> Priority {
    POOL.base
}

/// Limits the threads that serve one user; all users together have twice as many. Those that are too many
/// end after their work.
pub(crate) fn set_max(threads: usize) {
    let mut state = lock(&POOL.state);
    state.max = threads.max(1);
    state.tell_pending();
}

/// Threads of the pool, now.
pub(crate) fn threads() -> usize {
    lock(&POOL.state).threads
}

/// Tasks that a thread of the pool runs or that wait for one; a thread that waits at a slot for a request runs none.
pub(crate) fn at_work() -> usize {
    let state = lock(&POOL.state);
    let waiting = state.attached.iter().filter(|(_, place)| place.may_recall()).count();
    (state.busy.len() + state.pending.len()).saturating_sub(waiting)
}

/// True if work waits that the calling thread could take up: it should come back.
///
/// In one order with what the thread said before, that it waits: see [`Recall`].
#[inline]
pub(crate) fn has_pending() -> bool {
    shares::concerns_this_thread(POOL.pending.load(Ordering::SeqCst))
}

/// Runs `job` on a thread of the pool, on behalf of the user that the calling thread works for: of this
/// process's own if it is none of the pool's.
pub(crate) fn run(job: Box<dyn FnOnce() + Send>) {
    run_for(shares::user().unwrap_or_else(|| CallingIdentity::own().uid), job);
}

/// Runs `job` on a thread of the pool, on behalf of a user.
pub(crate) fn run_for(user: u32, job: Box<dyn FnOnce() + Send>) {
    submit(user, None, Box::new(move |_| job()));
}

/// Runs a task on a thread of the pool, at `priority` from the start where one is given.
///
/// If all are at work, or as many as the user may have, the task waits, and each of those that could take
/// it up is raised to its priority: whichever is ready first will do so.
pub(crate) fn submit(user: u32, priority: Option<Priority>, task: Task) {
    let mut state = lock(&POOL.state);
    let work = Work { user, priority, task };
    let may_begin = state.shares.may_begin(user, state.all());
    if may_begin && state.has_room() {
        state.shares.begin(user);
        state.tell_pending();
        return start(state, work);
    }
    // Before any place is asked whether its thread may come: see `Recall`.
    state.keep_pending(work);
    call_back(&state, user, priority, may_begin);
}

/// Asks a thread that waits at some place to come back for a task; without one, raises those at work.
/// `any`: whether it has to be one of that user's.
fn call_back(state: &State, user: u32, priority: Option<Priority>, any: bool) {
    let helps = |worker: &Arc<Worker>| any || worker.user.load(Ordering::Relaxed) == user;
    // Raised first: it may have to get the CPU from something else to come back at all.
    let recall = |(worker, place): &(Arc<Worker>, Arc<dyn Recall>)| {
        helps(worker) && place.may_recall() && {
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
        for worker in state.busy.iter().filter(|worker| helps(worker)) {
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
    // While it waits it is not one of those that its user has at work.
    let user = shares::user();
    if let Some(user) = user {
        state.shares.end(user);
        state.tell_pending();
    }
    begin_pending(state);
    StandIn { user }
}

/// Gives a task that its user's share counts already to an idle thread, or to a new one: there is room.
fn start(mut state: MutexGuard<'_, State>, work: Work) {
    let Some(worker) = state.idle.pop() else {
        state.threads += 1;
        drop(state);
        return spawn(work);
    };
    worker.user.store(work.user, Ordering::Relaxed);
    state.busy.push(Arc::clone(&worker));
    drop(state);
    if let Some(priority) = work.priority {
        // It is idle, so at the least urgent; and it may still be on its way to sleep.
        worker.raise(priority);
    }
    *lock(&worker.task) = Some(work);
    worker.bell.notify_one();
}

/// A user has a thread less at work: what waited for its share may have one.
fn begin_pending(mut state: MutexGuard<'_, State>) {
    if let Some(work) = state.has_room().then(|| state.take_pending()).flatten() {
        start(state, work);
    }
}

/// Has the calling thread, which has nothing else to do for whom it worked for, work for `user` from now on. False if
/// that one has as many threads as it may have.
pub(crate) fn work_for(worker: &Worker, user: u32) -> bool {
    let before = worker.user.load(Ordering::Relaxed);
    let mut state = lock(&POOL.state);
    state.shares.end(before);
    let may_begin = state.shares.may_begin(user, state.all());
    state.shares.begin(if may_begin { user } else { before });
    if may_begin {
        worker.user.store(user, Ordering::Relaxed);
        shares::work_for(Some(user));
        state.tell_pending();
        begin_pending(state);
    }
    may_begin
}

/// See [`stand_in`].
pub(crate) struct StandIn {
    user: Option<u32>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let mut state = lock(&POOL.state);
        state.away -= 1;
        if let Some(user) = self.user {
            state.shares.begin(user);
            state.tell_pending();
        }
    }
}

/// Starts a thread, which is counted already, with its first task.
fn spawn(work: Work) {
    let user = work.user;
    // Both have it: without a thread it is kept.
    let work = Arc::new(Mutex::new(Some(work)));
    let first = Arc::clone(&work);
    let body = move || {
        let worker = Arc::new(Worker::new());
        if let Some(cpus) = &POOL.cpus {
            // The thread that asked for this one may have been pinned, by itself or by us.
            // A refusal leaves it where its parent was: slower, not wrong.
            let _ = set_affinity(worker.tid, cpus);
        }
        worker.user.store(user, Ordering::Relaxed);
        lock(&POOL.state).busy.push(Arc::clone(&worker));
        let mut next_work = lock(&first).take();
        if let Some(work) = &next_work {
            worker.become_priority(work.priority.unwrap_or(POOL.base));
        }
        while let Some(work) = next_work {
            shares::work_for(Some(work.user));
            // A thread that is lost would be missed by all users.
            let _ = catch_unwind(AssertUnwindSafe(|| (work.task)(&worker)));
            shares::work_for(None);
            next_work = next(&worker);
        }
    };
    if let Err(error) = start_thread(body) {
        let mut state = lock(&POOL.state);
        state.threads -= 1;
        state.shares.end(user);
        if let Some(work) = lock(&work).take() {
            let priority = work.priority;
            state.keep_pending(work);
            call_back(&state, user, priority, true);
        }
        drop(state);
        stats::warn_once(&stats::NO_THREAD, || {
            format!("cannot start a thread to serve a call, which waits for another one: {error}")
        });
    }
}

fn start_thread(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(test)]
    if tests::NO_THREADS.get() {
        return Err(std::io::ErrorKind::OutOfMemory.into());
    }
    std::thread::Builder::new().name("handoff".into()).spawn(body).map(drop)
}

/// What to do next, after a task: the most urgent task that waits; after a while without any, `None`.
fn next(worker: &Arc<Worker>) -> Option<Work> {
    let mut state = lock(&POOL.state);
    let is_this = |other: &Arc<Worker>| Arc::ptr_eq(other, worker);
    state.shares.end(worker.user.load(Ordering::Relaxed));
    if let Some(work) = state.take_pending() {
        worker.user.store(work.user, Ordering::Relaxed);
        drop(state);
        worker.become_priority(work.priority.unwrap_or(POOL.base));
        return Some(work);
    }
    state.tell_pending();
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
        if let Some(work) = slot.take() {
            return Some(work);
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

/// Makes known that `worker` waits at `place`, from where it can be recalled, until the guard goes.
pub(crate) fn attach(worker: &Arc<Worker>, place: Arc<dyn Recall>) -> Attachment {
    let place_ref = Arc::clone(&place);
    let mut state = lock(&POOL.state);
    state.busy.retain(|other| !Arc::ptr_eq(other, worker));
    state.attached.push((Arc::clone(worker), place));
    // At work until it says otherwise; the raise of busy threads must reach it.
    state.busy.push(Arc::clone(worker));
    Attachment { place: place_ref }
}

/// See [`attach`].
pub(crate) struct Attachment {
    place: Arc<dyn Recall>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        lock(&POOL.state).attached.retain(|(_, place)| !Arc::ptr_eq(place, &self.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;

    thread_local! {
        /// Whether this thread can start no other.
        pub(super) static NO_THREADS: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn jobs_run() {
        let (send, receive) = mpsc::channel();
        for n in 0..100 {
            let send = send.clone();
            run(Box::new(move || send.send(n).unwrap()));
        }
        let mut seen: Vec<i32> = receive.iter().take(100).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
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

    #[test]
    fn a_user_that_keeps_all_its_threads_leaves_some_to_others() {
        let gate = Arc::new(std::sync::RwLock::new(()));
        let closed = gate.write().unwrap();
        for _ in 0..200 {
            let gate = Arc::clone(&gate);
            run_for(70_001, Box::new(move || drop(gate.read())));
        }
        for user in [70_002, 70_003] {
            let (send, receive) = mpsc::channel();
            run_for(user, Box::new(move || send.send(()).unwrap()));
            receive.recv_timeout(Duration::from_secs(60)).expect("served beside");
        }
        drop(closed);
    }

    #[test]
    fn a_task_that_panics_leaves_its_thread() {
        for _ in 0..4 * DEFAULT_MAX {
            run_for(70_004, Box::new(|| panic!("as asked")));
        }
        let (send, receive) = mpsc::channel();
        run_for(70_004, Box::new(move || send.send(()).unwrap()));
        receive.recv_timeout(Duration::from_secs(60)).expect("served afterwards");
    }

    #[test]
    fn a_task_without_a_thread_waits_for_one() {
        let (send, receive) = mpsc::channel();
        let submit = move || {
            NO_THREADS.set(true);
            for n in 0..50 {
                let send = send.clone();
                run_for(70_005, Box::new(move || send.send(n).unwrap()));
            }
            NO_THREADS.set(false);
        };
        submit();
        // Whoever has a thread takes them up.
        run_for(70_006, Box::new(|| ()));
        let mut seen: Vec<i32> = Vec::new();
        while seen.len() < 50 {
            seen.push(receive.recv_timeout(Duration::from_secs(60)).expect("kept"));
            run_for(70_006, Box::new(|| ()));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }
}
