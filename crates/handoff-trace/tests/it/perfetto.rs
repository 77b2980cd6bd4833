//! A real recording, written as a Perfetto file and read back with Perfetto's own definitions: every
//! event of ours must be in it, with its values, and nothing may be unknown there.
//!
//! The definitions are those of the Python package that Perfetto publishes: as a crate they take minutes
//! to compile.

use std::path::{Path, PathBuf};
use std::process::Command;

use handoff_testkit::{require, require_root, require_tool};
use handoff_trace::capture::diagnosis_events;
use handoff_trace::perfetto::{Options, from_bytes, to_bytes};
use handoff_trace::{Capture, Config, Context, Event, EventKind, Slice, Timeline, Trace, TraceFs};
use serde_json::{Value, json};

const PACKAGES: [&str; 2] = ["perfetto==0.59.1", "protobuf==7.36.2"];

/// The folder in which Python finds the definitions; they are fetched once.
fn definitions() -> Result<PathBuf, String> {
    require_tool("python3")?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(PACKAGES.join("-"));
    if !folder.exists() {
        let fresh = folder.with_extension(std::process::id().to_string());
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "--target",
        ]);
        let output = pip.arg(&fresh).args(PACKAGES).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            drop(std::fs::remove_dir_all(&fresh));
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.lines().last().unwrap_or_default();
            return Err(format!("needs Perfetto's definitions from PyPI (python3 -m pip): {why}"));
        }
        // Another run may have been first; one of the two is as good as the other.
        if std::fs::rename(&fresh, &folder).is_err() {
            drop(std::fs::remove_dir_all(&fresh));
        }
    }
    Ok(folder)
}

fn recorded() -> Trace {
    let tracefs = TraceFs::find().expect("tracefs");
    let config = Config { events: diagnosis_events(), ..Config::default() };
    let capture = Capture::start(&tracefs, &config).expect("starts");
    for _ in 0..20 {
        let status = Command::new("sh").args(["-c", "echo x | cat > /dev/null"]).status();
        assert!(status.expect("a shell").success());
    }
    capture.mark("a mark").expect("written");
    let mut trace = capture.finish().expect("stops").decode().expect("sound");
    let (start, end) = trace.span().expect("not empty");
    let slice = |name: &str, tid, start, end| Slice { name: name.to_owned(), tid, start, end };
    trace.add_slices([
        slice("call", 7, start, end),
        slice("inner", 7, start + 1, end - 1),
        slice("other", 8, start, end),
    ]);
    trace
}

/// Calls and a oneway call of Binder, as its driver's events have them.
fn binder() -> Trace {
    let event = |time, tid, what| Event { time, tid, cpu: 0, context: Context(0), what };
    let sends = |time, tid, debug_id, reply, oneway| {
        event(time, tid, EventKind::BinderTransaction { debug_id, reply, oneway })
    };
    let takes = |time, tid, debug_id| event(time, tid, EventKind::BinderReceived { debug_id });
    let events = vec![
        sends(10, 1, 7, false, false),
        takes(20, 2, 7),
        // Two calls a third while it serves, and tells a fourth.
        sends(30, 2, 9, false, false),
        takes(40, 3, 9),
        sends(45, 2, 10, false, true),
        sends(50, 3, 11, true, false),
        takes(60, 2, 11),
        takes(65, 4, 10),
        sends(70, 2, 12, true, false),
        takes(80, 1, 12),
    ];
    Trace::from_events(events, (1..5).map(|tid| (tid, format!("task-{tid}"))), 1)
}

/// What Perfetto's definitions read in a file of these bytes.
fn read_by_perfetto(definitions: &Path, bytes: &[u8]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.pftrace");
    std::fs::write(&file, bytes).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto_read.py");
    let output = Command::new("python3").arg(script).arg(&file).env("PYTHONPATH", definitions).output();
    let output = output.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn transactions_are_slices_with_arrows() {
    let definitions = require!(definitions());
    let trace = binder();
    let bytes = to_bytes(&trace, &Timeline::of(&trace), Options { arrows: false, waiting: false });
    let read = read_by_perfetto(&definitions, &bytes);
    assert_eq!((&read["unknown"], &read["without_track"]), (&json!(0), &json!(0)));
    let expected = json!([
        ["task-1 binder", 10, 80, "calls task-2 2"],
        ["task-2 binder", 20, 70, "serves task-1 1"],
        ["task-2 binder", 30, 60, "calls task-3 3"],
        ["task-3 binder", 40, 50, "serves task-2 2"],
    ]);
    assert_eq!(read["slices"], expected);
    // Two calls and the oneway call, each an arrow with both ends.
    assert_eq!((&read["flows"], &read["flows_without_end"]), (&json!(3), &json!(0)));
}

#[test]
fn what_perfetto_writes_is_read() {
    let definitions = require!(definitions());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("theirs.pftrace");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto_write.py");
    let output = Command::new("python3").arg(script).arg(&file).env("PYTHONPATH", definitions).output();
    let output = output.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = handoff_trace::file::load(&file).expect("it is known by what is in it");

    let count = |is: Is| trace.events().iter().filter(|event| is(&event.what)).count();
    // Who left at the first switch is not known.
    assert_eq!(count(|what| matches!(what, EventKind::Switch { .. })), 999);
    assert_eq!(
        count(|what| matches!(what, EventKind::Waking(wakee) if wakee.tid == 71 && wakee.prio == 97)),
        500
    );
    let switch = trace.events().iter().find_map(|event| match event.what {
        EventKind::Switch { prev, next, prev_prio, next_prio, .. } => {
            Some((event.time, event.cpu, prev, next, prev_prio, next_prio))
        }
        _ => None,
    });
    assert_eq!(switch, Some((1_000_001_000, 3, 0, 71, 120, 97)));
    let inherits =
        |what: &EventKind| matches!(what, EventKind::PriorityInherited { tid: 71, old: 120, new: -1 });
    assert_eq!(count(inherits), 1);
    assert_eq!(
        count(|what| matches!(what, EventKind::BinderTransaction { debug_id: 5, oneway: false, .. })),
        1
    );
    assert_eq!((trace.lost(), trace.unknown(), trace.coverage().len()), (1, 0, 4));
    assert!(trace.incomplete(1_000_050_000, 1_000_150_000), "something was lost before the transaction");
    assert_eq!((trace.name(71, 2_000_000_000), trace.process(71)), ("worker".to_owned(), Some(70)));
    assert_eq!(trace.last_name(70), "client");
    let slices: Vec<_> =
        trace.slices().iter().map(|slice| (slice.name.as_str(), slice.end - slice.start)).collect();
    assert_eq!(slices, [("outer", 30), ("inner", 10)]);
}

/// Tells one kind of event from the others.
type Is = fn(&EventKind) -> bool;

#[test]
fn perfetto_reads_what_we_write() {
    require!(require_root());
    let definitions = require!(definitions());
    let trace = recorded();
    let timeline = Timeline::of(&trace);
    let bytes = to_bytes(&trace, &timeline, Options::default());
    let read = read_by_perfetto(&definitions, &bytes);

    assert_eq!(read["unknown"], 0, "fields that Perfetto does not know");
    assert_eq!((&read["without_track"], &read["out_of_order"]), (&json!(0), &json!(0)));
    let count = |is: Is| trace.events().iter().filter(|event| is(&event.what)).count();
    let kinds: [(&str, Is); 7] = [
        ("sched_switch", |what| matches!(what, EventKind::Switch { .. })),
        ("sched_waking", |what| matches!(what, EventKind::Waking(_))),
        ("sched_wakeup", |what| matches!(what, EventKind::Wakeup(_))),
        ("cpu_idle", |what| matches!(what, EventKind::Idle { .. })),
        ("softirq_entry", |what| matches!(what, EventKind::SoftIrqEntry { .. })),
        ("irq_handler_entry", |what| matches!(what, EventKind::IrqEntry { .. })),
        ("print", |what| matches!(what, EventKind::Marker(_))),
    ];
    for (name, is) in kinds {
        assert_eq!(read["kinds"][name].as_u64().unwrap_or(0), count(is) as u64, "{name}");
    }
    assert!(read["kinds"]["sched_switch"].as_u64() > Some(40));

    // Each switch carries its values, and each CPU's turns follow one another.
    let mut switches = read["switches"].as_array().expect("a list").iter();
    for cpu in 0..trace.coverage().len() {
        for event in trace.events().iter().filter(|event| usize::from(event.cpu) == cpu) {
            let EventKind::Switch { prev, next, prev_prio, next_prio, prev_state } = event.what else {
                continue;
            };
            let theirs = switches.next().expect("as many as ours").as_array().expect("a list");
            let ours = json!([cpu, event.time, prev, next, prev_prio, next_prio, prev_state.0]);
            assert_eq!(theirs[..7], ours.as_array().expect("a list")[..]);
            assert!(next == 0 || theirs[7] == trace.name(next, event.time));
        }
    }

    assert_eq!(read["begins"], json!(["call", "inner", "other"]));
    assert_eq!(read["ends"], 3);
    assert!(read["counters"].as_u64() > Some(0));
    // And what we read of it again is what we had.
    let again = from_bytes(&bytes, Path::new("ours")).expect("our own");
    let kept = |trace: &Trace| -> Vec<Event> {
        let keeps = |event: &&Event| !matches!(event.what, EventKind::Exec { .. } | EventKind::Exit { .. });
        trace.events().iter().filter(keeps).copied().collect()
    };
    let ours = kept(&trace);
    assert_eq!(again.events().len(), ours.len());
    // Events of one moment on two CPUs may change places.
    let by_cpu = |mut events: Vec<Event>| {
        events.sort_by_key(|event| (event.cpu, event.time));
        events
    };
    let same = |(one, other): (&Event, &Event)| match (one.what, other.what) {
        (EventKind::Marker(one), EventKind::Marker(other)) => trace.text(one) == again.text(other),
        _ => one == other,
    };
    let differs = by_cpu(kept(&again)).into_iter().zip(by_cpu(ours)).find(|(one, other)| !same((one, other)));
    assert_eq!(differs, None);
    assert_eq!((again.slices(), again.clock()), (trace.slices(), "mono"));

    let arrows =
        timeline.wakes.iter().filter(|w| w.ran.is_some() && !w.interrupt && !w.early && w.waker != 0);
    assert_eq!(read["flows"].as_u64(), Some(arrows.count() as u64));
    assert_eq!(read["flows_without_end"], 0, "every arrow has both ends");
}
