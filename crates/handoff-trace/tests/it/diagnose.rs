//! Causes planted in real transactions: the diagnosis must find them.
//!
//! Everything runs at real-time priorities on one CPU, so that what else the machine does (other
//! tests, at nice 0) cannot be the cause.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use handoff_testkit::{require, require_file, require_realtime, require_root};
use handoff_trace::Tid;
use handoff_trace::diagnose::{Diagnosis, FlightRecorder, Kind, Window, explain};
use rustix::time::{ClockId, clock_gettime};

/// Two of these tests at once would be each other's cause.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

const CALLER: u32 = 10;
const CALLEE: u32 = 10;

fn tid() -> Tid {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU for all of them: the first that this process may use.
fn pin() {
    let all = rustix::thread::sched_getaffinity(None).expect("readable");
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("at least one");
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).expect("it is allowed");
}

/// Puts the thread on the CPU, at a FIFO priority, or nice 0 for 0.
fn become_task(priority: u32) {
    pin();
    let pid = tid().to_string();
    let policy = if priority == 0 { "--other" } else { "--fifo" };
    let done =
        std::process::Command::new("chrt").args([policy, "--pid", &priority.to_string(), &pid]).status();
    assert!(done.expect("chrt is part of util-linux").success());
}

/// Runs for so much CPU time of this thread.
fn spin(time: Duration) {
    let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("not negative");
    let end = own() + time;
    while own() < end {
        std::hint::spin_loop();
    }
}

/// A call and its reply, over channels.
struct Client {
    send: Sender<()>,
    reply: Receiver<()>,
    callee: Tid,
}

impl Client {
    fn call(&self) -> Window {
        let start = now();
        self.send.send(()).expect("the callee lives");
        self.reply.recv().expect("the callee lives");
        Window { caller: tid(), callee: Some(self.callee), start, end: now() }
    }
}

/// Runs `client` against a callee that does `serve` for each call, and explains the window it gives.
fn diagnose(serve: impl Fn() + Send, client: impl FnOnce(&Client) -> Window + Send) -> Diagnosis {
    let recorder = FlightRecorder::start(8 << 10).expect("root may");
    let (send, calls) = channel();
    let (replies, reply) = channel();
    let (say, hear) = channel();
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        scope.spawn(move || {
            become_task(CALLEE);
            say.send(tid()).expect("heard");
            for () in calls {
                serve();
                replies.send(()).expect("the caller waits");
            }
            // The recorder looks at the control groups of tasks that live.
            let _ = is_done.recv();
        });
        let caller = scope.spawn(move || {
            let callee = hear.recv().expect("said");
            become_task(CALLER);
            client(&Client { send, reply, callee })
        });
        let window = caller.join().expect("no panic");
        let trace = recorder.freeze().expect("stops").decode().expect("sound");
        drop(done);
        let diagnosis = explain(&trace, window).expect("it is in the trace");
        println!("{diagnosis}");
        diagnosis
    })
}

#[test]
fn a_hog_is_named() {
    require!(require_root());
    require!(require_realtime());
    let _alone = alone();
    let (say, hear) = channel();
    let (go, start) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            become_task(50);
            say.send(tid()).expect("heard");
            start.iter().for_each(|()| spin(Duration::from_millis(15)));
        });
        let hog = hear.recv().expect("said");
        // It has the higher priority, so it takes the callee's CPU while that serves.
        let diagnosis = diagnose(move || go.send(()).expect("the hog lives"), Client::call);
        let cause = diagnosis.main_cause().expect("there is one");
        assert_eq!((cause.kind, cause.culprit), (Kind::Preempted, Some(hog)), "{diagnosis}");
    });
}

#[test]
fn a_long_callee_is_named() {
    require!(require_root());
    require!(require_realtime());
    let _alone = alone();
    let diagnosis = diagnose(|| spin(Duration::from_millis(15)), Client::call);
    let cause = diagnosis.main_cause().expect("there is one");
    assert_eq!((cause.kind, Some(cause.tid)), (Kind::CalleeRan, diagnosis.window.callee), "{diagnosis}");
    assert!(cause.ns >= 10_000_000, "{diagnosis}");
}

#[test]
fn a_lock_holder_is_named() {
    require!(require_root());
    require!(require_realtime());
    let _alone = alone();
    let lock = Mutex::new(());
    let (say, hear) = channel();
    let (go, start) = channel::<()>();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            become_task(1);
            let guard = lock.lock().expect("free");
            say.send(tid()).expect("heard");
            start.recv().expect("told");
            spin(Duration::from_millis(15));
            drop(guard);
        });
        let holder = hear.recv().expect("said");
        // It begins its work under the lock when the callee is about to ask for that.
        let serve = move || {
            go.send(()).expect("the holder lives");
            drop(lock.lock().expect("not poisoned"));
        };
        let diagnosis = diagnose(serve, Client::call);
        let cause = diagnosis.main_cause().expect("there is one");
        assert_eq!((cause.kind, cause.culprit), (Kind::PriorityInversion, Some(holder)), "{diagnosis}");
    });
}

#[test]
fn a_callee_that_sleeps_by_itself_has_no_culprit() {
    require!(require_root());
    require!(require_realtime());
    let _alone = alone();
    let diagnosis = diagnose(|| thread::sleep(Duration::from_millis(15)), Client::call);
    let cause = diagnosis.main_cause().expect("there is one");
    assert_eq!((cause.kind, cause.culprit), (Kind::Slept, None), "{diagnosis}");
}

/// A control group that ends with the test.
struct Group(std::path::PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // A task that has just ended may stay in it for a moment.
        let removed = (0..6000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            std::fs::remove_dir(&self.0).is_ok()
        });
        assert!(removed || thread::panicking(), "{} stays", self.0.display());
    }
}

#[test]
fn a_quota_is_named() {
    require!(require_root());
    let root = require!(require_file("/sys/fs/cgroup/cpu/cpu.shares").map(|file| file.with_file_name("")));
    let _alone = alone();
    let group = Group(root.join(format!("handoff-trace-test-{}", std::process::id())));
    std::fs::create_dir(&group.0).expect("root may");
    std::fs::write(group.0.join("cpu.cfs_period_us"), "50000").expect("written");
    std::fs::write(group.0.join("cpu.cfs_quota_us"), "5000").expect("written");
    let serve = || {
        // A group without real-time budget takes no real-time task.
        become_task(0);
        std::fs::write(group.0.join("tasks"), tid().to_string()).expect("moved into the group");
        spin(Duration::from_millis(15));
        // Still a member when the recorder looks.
    };
    let diagnosis = diagnose(serve, Client::call);
    let cause = diagnosis.main_cause().expect("there is one");
    assert_eq!(cause.kind, Kind::Throttled, "{diagnosis}");
    assert!(cause.text.contains("handoff-trace-test"), "{diagnosis}");
}

#[test]
fn a_missed_deadline_is_kept() {
    require!(require_root());
    require!(require_realtime());
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = FlightRecorder::start(1 << 10).expect("root may");
    let stopper = recorder.stopper().expect("opened");
    let caller = thread::spawn(move || {
        become_task(CALLER);
        let start = now();
        thread::sleep(Duration::from_millis(5));
        let window = Window { caller: tid(), callee: None, start, end: now() };
        // The miss is noticed here, and everything after it is not to be recorded.
        stopper.stop().expect("stopped");
        window
    });
    let window = caller.join().expect("no panic");
    let slice = handoff_trace::Slice {
        name: "call".into(),
        tid: window.caller,
        start: window.start,
        end: window.end,
    };
    let kept = recorder.keep(window, vec![slice], folder.path(), "miss").expect("kept");
    assert_eq!(kept.diagnosis.main_cause().map(|cause| cause.kind), Some(Kind::Slept), "{}", kept.diagnosis);
    let read = handoff_trace::file::load(&kept.trace).expect("reads");
    let again = explain(&read, window).expect("it is in the file");
    assert_eq!(again.to_string(), kept.diagnosis.to_string());
    assert!(std::fs::read_to_string(&kept.html).expect("written").contains("\"call\""));
    assert!(std::fs::metadata(&kept.perfetto).expect("written").len() > 100);
}
