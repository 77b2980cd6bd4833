//! Real recordings of real tasks.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use handoff_testkit::{require, require_root};
use handoff_trace::capture::{diagnosis_events, scheduling_events};
use handoff_trace::{Capture, Config, EventKind, Keep, Tid, Trace, TraceFs};

fn tid() -> Tid {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Two threads hand a byte to and fro over pipes; gives their numbers.
fn ping_pong(rounds: usize) -> (Tid, Tid) {
    let (there_r, there_w) = rustix::pipe::pipe().expect("a pipe");
    let (back_r, back_w) = rustix::pipe::pipe().expect("a pipe");
    let turn = |read: &OwnedFd| assert_eq!(rustix::io::read(read, &mut [0; 1]), Ok(1));
    let give = |write: &OwnedFd| assert_eq!(rustix::io::write(write, &[0; 1]), Ok(1));
    assert!(there_r.as_raw_fd() >= 0);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for _ in 0..rounds {
                turn(&there_r);
                give(&back_w);
            }
            tid()
        });
        for _ in 0..rounds {
            give(&there_w);
            turn(&back_r);
        }
        (tid(), other.join().expect("no panic"))
    })
}

/// The switches of each CPU that bring or end one of these tasks.
fn switches(trace: &Trace, of: [Tid; 2]) -> BTreeMap<u16, Vec<(Tid, Tid)>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in trace.events() {
        if let EventKind::Switch { prev, next, .. } = event.what
            && (of.contains(&prev) || of.contains(&next))
        {
            found.entry(event.cpu).or_default().push((prev, next));
        }
    }
    found
}

#[test]
fn a_stream_holds_every_switch_of_the_tasks_asked_for() {
    require!(require_root());
    let tracefs = TraceFs::find().expect("tracefs");
    // A kernel may keep switches to itself, such as those from its hypervisor's agent: what it tells of everything at the
    // same time is what it can tell of the tasks.
    let everything = Config { buffer_kib: 8192, ..Config::default() };
    let everything = Capture::start(&tracefs, &everything).expect("starts");
    let config = Config { tasks: vec![tid()], buffer_kib: 2048, ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    capture.mark("the beginning").expect("written");
    let (one, other) = ping_pong(500);
    let raw = capture.finish().expect("stops");
    let everything = everything.finish().expect("stops").decode().expect("the kernel's pages are sound");
    let trace = raw.decode().expect("the kernel's pages are sound");
    assert_eq!((trace.lost(), trace.unknown()), (0, 0), "{:?}", trace.coverage());
    assert_eq!(everything.lost(), 0, "{:?}", everything.coverage());

    let times: Vec<_> = trace.events().iter().map(|event| event.time).collect();
    assert!(times.is_sorted());
    let wakes = trace
        .events()
        .iter()
        .filter(
            |event| matches!(event.what, EventKind::Waking(wakee) if event.tid == other && wakee.tid == one),
        )
        .count();
    // A reader that comes before the other sleeps is not woken; the one who joins is woken once more.
    assert!(wakes > 0 && wakes <= 501, "{wakes}");
    let (all, ours) = (switches(&everything, [one, other]), switches(&trace, [one, other]));
    // Each waits for the other in every round.
    assert!(ours.values().map(Vec::len).sum::<usize>() > 500, "{ours:?}");
    for (cpu, ours) in &ours {
        // It began later and ended earlier.
        assert!(
            all[cpu].windows(ours.len()).any(|part| part == ours),
            "CPU {cpu}: {ours:?} of {:?}",
            all[cpu]
        );
    }
    let mark = trace.events().iter().find_map(|event| match event.what {
        EventKind::Marker(index) => trace.text(index),
        _ => None,
    });
    assert_eq!(mark, Some("the beginning"));
    assert_eq!(trace.process(one), Some(std::process::id() as Tid));
    // A switch between two tasks of other processes is none of our business.
    let foreign = |tid| trace.process(tid).is_some_and(|process| process != std::process::id() as Tid);
    for event in trace.events() {
        if let EventKind::Switch { prev, next, .. } = event.what {
            assert!(!(foreign(prev) && foreign(next)), "{event:?}");
        }
    }
}

#[test]
fn a_small_stream_counts_what_it_loses() {
    require!(require_root());
    let tracefs = TraceFs::find().expect("tracefs");
    let config = Config { keep: Keep::Stream { limit: 64 << 10 }, buffer_kib: 64, ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    ping_pong(20_000);
    let raw = capture.finish().expect("stops");
    assert!(raw.bytes() <= 64 << 10, "{}", raw.bytes());
    let trace = raw.decode().expect("sound");
    assert!(trace.lost() > 0);
    assert!(!trace.events().is_empty());
}

#[test]
fn a_flight_recorder_keeps_the_newest_and_goes_on() {
    require!(require_root());
    let tracefs = TraceFs::find().expect("tracefs");
    let config = Config {
        keep: Keep::Flight,
        buffer_kib: 64,
        tasks: vec![tid()],
        events: diagnosis_events(),
        ..Config::default()
    };
    let mut capture = Capture::start(&tracefs, &config).expect("starts");
    ping_pong(20_000);
    capture.mark("missed").expect("written");
    let trace = capture.snapshot().expect("read").decode().expect("sound");
    assert_eq!(trace.lost(), 0);
    assert!(trace.coverage().iter().any(|cpu| cpu.overwritten > 0), "{:?}", trace.coverage());
    let (start, end) = trace.span().expect("not empty");
    assert!(trace.incomplete(trace.covered_from() - 1, end));
    assert!(!trace.incomplete(trace.covered_from(), end), "{start}");
    let last_mark = trace.events().iter().rev().find(|event| matches!(event.what, EventKind::Marker(_)));
    assert!(last_mark.is_some(), "the newest is kept");

    capture.resume().expect("goes on");
    capture.mark("again").expect("written");
    ping_pong(1);
    let trace = capture.finish().expect("stops").decode().expect("sound");
    assert!(trace.events().iter().all(|event| event.time >= end), "the old part is gone");
    assert!(trace.events().iter().any(|event| matches!(event.what, EventKind::Marker(_))));
}

#[test]
fn an_event_that_is_not_there_is_named() {
    require!(require_root());
    let tracefs = TraceFs::find().expect("tracefs");
    let mut config = Config { buffer_kib: 64, ..Config::default() };
    config.events.push(handoff_trace::EventRequest::required("sched", "no_such_event"));
    let error = Capture::start(&tracefs, &config).expect_err("no such event");
    assert!(error.to_string().contains("sched:no_such_event"), "{error}");
    config.events = scheduling_events();
    config.events.push(handoff_trace::EventRequest::optional("sched", "no_such_event"));
    Capture::start(&tracefs, &config).expect("an optional event may be missing").finish().expect("stops");
}

#[test]
fn trace_cmd_reads_our_file_and_we_read_its() {
    require!(require_root());
    let trace_cmd = require!(handoff_testkit::require_tool("trace-cmd"));
    let tracefs = TraceFs::find().expect("tracefs");
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { tasks: vec![tid()], buffer_kib: 2048, ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    ping_pong(50);
    let raw = capture.finish().expect("stops");
    let ours = folder.path().join("ours.dat");
    handoff_trace::dat::save(&raw, &ours).expect("written");
    // With all digits of the time.
    let report = std::process::Command::new(trace_cmd).args(["report", "-t", "-i"]).arg(&ours).output();
    let report = report.expect("runs");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(report.status.success(), "{text}{}", String::from_utf8_lossy(&report.stderr));
    let trace = raw.decode().expect("sound");
    let count = |name: &str| text.lines().filter(|line| line.contains(&format!(" {name}:"))).count();
    let is_switch = |what: &EventKind| matches!(what, EventKind::Switch { .. });
    let is_waking = |what: &EventKind| matches!(what, EventKind::Waking(_));
    let own = |is: &dyn Fn(&EventKind) -> bool| trace.events().iter().filter(|event| is(&event.what)).count();
    assert_eq!(count("sched_switch"), own(&is_switch));
    assert_eq!(count("sched_waking"), own(&is_waking));
    let again = handoff_trace::file::load(&ours).expect("reads");
    assert_eq!(again.events(), trace.events());
    assert_eq!(again.clock(), "mono");

    // The text that it printed is a trace, too, and the same; only the context is not in it, and it has the
    // letters of old kernels: X and Z changed places, and newer states have none.
    let read = handoff_trace::file::from_bytes(&report.stdout, &ours).expect("a trace as text");
    let by_cpu = |trace: &handoff_trace::Trace| {
        let mut events = trace.events().to_vec();
        for event in &mut events {
            event.context = Default::default();
            if let EventKind::Switch { prev_state, .. } = &mut event.what {
                prev_state.0 = if prev_state.dead() { 0x10 } else { prev_state.0 & 0x0f };
            }
        }
        events.sort_by_key(|event| (event.cpu, event.time));
        events
    };
    assert_eq!((read.unknown(), read.lost()), (0, 0));
    assert_eq!(read.events().len(), trace.events().len());
    for (theirs, own) in by_cpu(&read).iter().zip(&by_cpu(&trace)) {
        assert_eq!(theirs, own);
    }
    assert_eq!(read.last_name(tid()), trace.last_name(tid()));
}

#[test]
fn a_recording_that_is_given_up_leaves_nothing() {
    require!(require_root());
    let tracefs = TraceFs::find().expect("tracefs");
    let own = format!("-{}-", std::process::id());
    let count = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("listed").flatten();
        let name = |entry: &std::fs::DirEntry| {
            std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default()
        };
        threads.filter(|entry| name(entry).trim() == "trace-reader").count()
    };
    let config = Config { buffer_kib: 64, ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    // A thread gives itself its name, a moment after it was started.
    let named = (0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        count() >= 1
    });
    assert!(named, "a thread reads the buffer");
    let path = capture.path().to_owned();
    assert!(path.exists() && path.to_string_lossy().contains(&own));
    drop(capture);
    assert!(!path.exists(), "its buffer is gone, so no thread holds its files");
}
