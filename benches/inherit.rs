//! What it costs to serve a FIFO caller at its own priority: the ways, side by side.
//!
//! A caller at FIFO and a callee without a priority of its own hand a word to each other on one CPU
//! with futexes. The floor is the callee that has the caller's priority already and keeps it: no
//! system call but the four of the hand-off. Beside it: the callee sets its priority around each
//! call; the caller sets the callee's; the kernel lends it, with a PI futex that the callee holds
//! while it serves. `docs/book/src/design/hand-off.md` says what was chosen and why.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use handoff_benches::{Pair, subject, timed};
use handoff_ipc::{Service, Transaction};
use handoff_lab::interleave::Subject;
use handoff_placement::fast::{current_cpu, pin_current};
use handoff_placement::{CpuId, Priority, Tid};
use rustix::thread::futex::{self, Flags};

const URGENT: u8 = 10;

const IDLE: u32 = 0;
const REQUEST: u32 = 1;
const REPLY: u32 = 2;
const END: u32 = 3;

/// Who sees to it that the callee runs at the caller's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raising {
    /// It has it from the first call on.
    Kept,
    /// The callee, before and after each call.
    Callee,
    /// The caller, before and after each call.
    Caller,
    /// The kernel: the callee holds a lock that the caller waits for.
    PiFutex,
}

fn main() -> ExitCode {
    handoff_benches::run(subjects)
}

fn subjects() -> Result<Vec<Subject<'static>>> {
    let floor = "priority kept from call to call";
    let mut subjects = vec![hand_off(floor, Raising::Kept)?];
    for (name, raising) in [
        ("PI futex", Raising::PiFutex),
        ("sched_setattr by the callee", Raising::Callee),
        ("sched_setattr by the caller", Raising::Caller),
    ] {
        let row = format!("a FIFO caller's hand-off: {name}");
        subjects.push(hand_off(name, raising)?.against(floor).called(&row));
    }
    let ordinary = "shm call of an ordinary caller";
    subjects.push(call(ordinary, None)?);
    let urgent = format!("fifo:{URGENT}").parse()?;
    subjects.push(
        call("shm call of a FIFO caller", Some(urgent))?
            .against(ordinary)
            .called("a whole call that lends its priority"),
    );
    Ok(subjects)
}

/// Answers with the number that it is given.
struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &str {
        "handoff.benches.IEcho"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let Transaction { data, reply, .. } = transaction;
        reply.write(&data.read::<i64>()?)
    }
}

/// Whole calls, between two engines of this process, from a thread at the given priority. What
/// serves them takes the priority over.
fn call(name: &str, priority: Option<Priority>) -> Result<Subject<'static>> {
    let echo = Pair::start(Echo)?;
    subject(name, move |samples, trips| {
        let caller = || -> Result<Vec<f64>> {
            if let Some(priority) = priority {
                priority.apply(Tid::current()).context("this bench needs the right to run at FIFO")?;
            }
            timed(samples, trips, || {
                let back: i64 = echo.proxy().transaction(1).call(|w| w.write(&7i64), |r| r.read())?;
                assert_eq!(back, 7);
                Ok(())
            })
        };
        Ok(on_a_thread(caller)?)
    })
}

/// Runs something that changes its thread's priority or mask.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn hand_off(name: &str, raising: Raising) -> Result<Subject<'static>> {
    let pair = Threads::start(raising)?;
    subject(name, move |samples, trips| Ok(pair.batch(samples, trips)?))
}

/// The words that the two threads share, each on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU32);

#[derive(Default)]
struct Shared {
    turn: Word,
    // Held by the callee in turns: one while it serves, the other from then on.
    locks: [Word; 2],
}

struct Threads {
    raising: Raising,
    shared: Arc<Shared>,
    callee: Tid,
    usual: Priority,
    urgent: Priority,
    cpu: CpuId,
    thread: Option<std::thread::JoinHandle<()>>,
    // How many were made: says which of the locks the callee holds.
    calls: AtomicU32,
}

fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        // Woken, changed or interrupted: look again.
        let _ = futex::wait(word, Flags::PRIVATE, value, None);
    }
}

fn hand_over(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

fn lock(word: &AtomicU32, me: u32) {
    if word.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire).is_err() {
        while futex::lock_pi(word, Flags::PRIVATE, None).is_err() {}
    }
}

fn unlock(word: &AtomicU32, me: u32) {
    if word.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Acquire).is_err() {
        futex::unlock_pi(word, Flags::PRIVATE).expect("held by this thread");
    }
}

fn me() -> u32 {
    Tid::current().as_raw().unsigned_abs()
}

impl Threads {
    fn start(raising: Raising) -> Result<Self> {
        let cpu = current_cpu();
        let usual = Priority::current()?;
        let urgent: Priority = format!("fifo:{URGENT}").parse()?;
        let shared = Arc::new(Shared::default());
        let (told, hears) = std::sync::mpsc::channel();
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("callee".into()).spawn(move || {
            let ready = pin_current(cpu).context("cannot bind the callee to a CPU");
            lock(&its.locks[0].0, me());
            let failed = ready.is_err();
            drop(told.send(ready.map(|()| Tid::current())));
            if !failed {
                serve(raising, &its, usual, urgent);
            }
        })?;
        let callee = hears.recv().context("the callee did not start")??;
        if raising == Raising::Kept {
            urgent.apply(callee).context("this bench needs the right to run at FIFO")?;
        }
        let calls = AtomicU32::new(0);
        Ok(Threads { raising, shared, callee, usual, urgent, cpu, thread: Some(thread), calls })
    }

    /// Nanoseconds a trip, on a thread of its own at FIFO.
    fn batch(&self, samples: u32, trips: u32) -> Result<Vec<f64>> {
        on_a_thread(|| {
            pin_current(self.cpu).context("cannot bind the caller to a CPU")?;
            self.urgent.apply(Tid::current()).context("this bench needs the right to run at FIFO")?;
            let me = me();
            timed(samples, trips, || {
                self.call(me);
                Ok(())
            })
        })
    }

    fn call(&self, me: u32) {
        let turn = &self.shared.turn.0;
        match self.raising {
            Raising::Kept | Raising::Callee => {
                hand_over(turn, REQUEST);
                wait_while(turn, REQUEST);
            }
            Raising::Caller => {
                self.urgent.apply(self.callee).expect("it lives, and was allowed before");
                hand_over(turn, REQUEST);
                wait_while(turn, REQUEST);
                self.usual.apply(self.callee).expect("likewise");
            }
            Raising::PiFutex => {
                let number = self.calls.fetch_add(1, Ordering::Relaxed);
                hand_over(turn, REQUEST);
                let reply = &self.shared.locks[number as usize % 2].0;
                lock(reply, me);
                unlock(reply, me);
            }
        }
    }
}

/// What the callee does until the end.
fn serve(raising: Raising, shared: &Shared, usual: Priority, urgent: Priority) {
    let (turn, me, myself) = (&shared.turn.0, me(), Tid::current());
    let mut number = 0;
    loop {
        match turn.load(Ordering::Acquire) {
            REQUEST => {}
            END => return,
            other => {
                wait_while(turn, other);
                continue;
            }
        }
        match raising {
            Raising::Kept | Raising::Caller => hand_over(turn, REPLY),
            Raising::Callee => {
                urgent.apply(myself).expect("the caller may, and so may this thread");
                // Lowered first: after the wake-up the caller has the CPU, and the next call comes.
                usual.apply(myself).expect("down is always allowed");
                hand_over(turn, REPLY);
            }
            Raising::PiFutex => {
                lock(&shared.locks[(number + 1) % 2].0, me);
                turn.store(IDLE, Ordering::Release);
                unlock(&shared.locks[number % 2].0, me);
                number += 1;
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        hand_over(&self.shared.turn.0, END);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
