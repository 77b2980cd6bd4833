//! Watches event flags for tasks: one thread sleeps on up to 127 words at once (`futex_waitv(2)`, Linux 5.16).
//!
//! A task says which word it saw with which value. The thread sleeps while all words hold theirs, and wakes
//! the tasks of those that do not. On older kernels it looks at the words every millisecond instead.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use handoff_sync::event_word::now;
use handoff_sync::futex;
use rustix::io::Errno;
use rustix::thread::ClockId;
use rustix::thread::futex::{Timespec, Wait, WaitFlags, WaitPtr, WaitvFlags, waitv};

use super::event_flag::EventFlag;
use crate::locked::lock;

/// Words that the kernel takes at once, less the watcher's own.
const MOST: usize = 127;
/// How long a thread without anything to watch stays.
const LINGER: Duration = Duration::from_secs(2);
/// How often it looks where the kernel cannot wait for several words.
const LOOK: Duration = Duration::from_millis(1);

/// A word that a task waits to change.
#[derive(Clone)]
struct Entry {
    id: u64,
    // Keeps the word mapped, also while a thread sleeps on it after the task has gone.
    flag: EventFlag,
    seen: u32,
    waker: Waker,
}

/// One thread and what it watches.
#[derive(Default)]
struct Watcher {
    entries: Mutex<Vec<Entry>>,
    // Changes when the entries do.
    bell: AtomicU32,
}

#[derive(Default)]
struct Watchers {
    running: Vec<Arc<Watcher>>,
    next: u64,
}

static WATCHERS: Mutex<Watchers> = Mutex::new(Watchers { running: Vec::new(), next: 0 });

/// Whether the kernel refused to wait for several words.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// A word that is watched until this goes.
pub(super) struct Watch {
    watcher: Arc<Watcher>,
    id: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut entries = lock(&self.watcher.entries);
        let at = entries.iter().position(|entry| entry.id == self.id);
        let gone = at.map(|at| entries.swap_remove(at));
        drop(entries);
        // The thread may go on to sleep on the word, which it holds: no need to wake it. A waker's drop is
        // code of the application's executor, so it is outside of the lock.
        drop(gone);
    }
}

/// Has `waker` woken once the flag's word is not `seen` any longer.
pub(super) fn watch(flag: &EventFlag, seen: u32, waker: &Waker) -> Watch {
    let mut watchers = lock(&WATCHERS);
    watchers.next += 1;
    let id = watchers.next;
    let entry = Entry { id, flag: flag.clone(), seen, waker: waker.clone() };
    for watcher in &watchers.running {
        let mut entries = lock(&watcher.entries);
        if entries.len() < MOST {
            entries.push(entry);
            drop(entries);
            watcher.ring();
            return Watch { watcher: Arc::clone(watcher), id };
        }
    }
    let watcher = Arc::new(Watcher { entries: Mutex::new(vec![entry.clone()]), bell: AtomicU32::new(0) });
    let body = Arc::clone(&watcher);
    match std::thread::Builder::new().name("handoff-events".into()).spawn(move || body.run()) {
        Ok(_) => watchers.running.push(Arc::clone(&watcher)),
        // Without a thread the task looks again and again: slow, and never stuck.
        Err(_) => entry.waker.wake(),
    }
    Watch { watcher, id }
}

impl Watcher {
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.bell);
    }

    fn run(self: Arc<Self>) {
        loop {
            let bell = self.bell.load(Ordering::SeqCst);
            let entries = lock(&self.entries).clone();
            if entries.is_empty() {
                futex::wait(&self.bell, bell, Some(LINGER));
                if self.bell.load(Ordering::SeqCst) == bell && self.retire() {
                    return;
                }
                continue;
            }
            self.sleep(bell, &entries);
            let changed = |entry: &Entry| entry.flag.word().load(Ordering::SeqCst) != entry.seen;
            let mut woken = Vec::new();
            let mut here = lock(&self.entries);
            here.retain(|entry| {
                let changed = changed(entry);
                if changed {
                    woken.push(entry.clone());
                }
                !changed
            });
            drop(here);
            woken.into_iter().for_each(|entry| entry.waker.wake());
        }
    }

    /// Leaves, unless a task came meanwhile.
    fn retire(self: &Arc<Self>) -> bool {
        // In the order of `watch`.
        let mut watchers = lock(&WATCHERS);
        let idle = lock(&self.entries).is_empty();
        if idle {
            watchers.running.retain(|other| !Arc::ptr_eq(other, self));
        }
        idle
    }

    /// Sleeps until a word may have changed, the bell's among them.
    fn sleep(&self, bell: u32, entries: &[Entry]) {
        if LOOKS.load(Ordering::Relaxed) {
            futex::wait(&self.bell, bell, Some(LOOK));
            return;
        }
        let words = entries.iter().map(|entry| (entry.flag.word(), entry.seen));
        let waits: Vec<Wait> = [(&self.bell, bell)]
            .into_iter()
            .chain(words)
            .map(|(word, seen)| {
                let mut wait = Wait::new();
                wait.val = seen.into();
                wait.uaddr = WaitPtr::new(word.as_ptr().cast());
                wait.flags = WaitFlags::SIZE_U32;
                wait
            })
            .collect();
        // Now and then without a reason: should a peer's memory misbehave, a task is late, not lost.
        let until = now() + Duration::from_secs(10);
        let until = Timespec {
            tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: until.subsec_nanos().into(),
        };
        let outcome = waitv(&waits, WaitvFlags::empty(), Some(&until), ClockId::Monotonic);
        // Every other outcome means to look.
        if matches!(outcome, Err(Errno::NOSYS | Errno::PERM | Errno::INVAL)) {
            LOOKS.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::time::Instant;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn wakes_once() {
        let flag = EventFlag::new().unwrap();
        let counter = Arc::new(Counter::default());
        let watch = watch(&flag, 0, &Waker::from(Arc::clone(&counter)));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(counter.0.load(Ordering::SeqCst), 0);
        flag.wake(1).unwrap();
        let began = Instant::now();
        while counter.0.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "never woken");
            std::thread::yield_now();
        }
        drop(watch);
        flag.wake(2).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_task_is_woken_once_by_the_kernel_or_by_looking() {
        wakes_once();
        // As on a kernel before 5.16; the same one thread goes on.
        let before = LOOKS.swap(true, Ordering::SeqCst);
        wakes_once();
        LOOKS.store(before, Ordering::SeqCst);
        wakes_once();
    }
}
