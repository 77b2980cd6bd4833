//! A real recording, written as a Perfetto file and read back with Perfetto's own definitions: every
//! event of ours must be in it, with its values, and nothing may be unknown there.
//!
//! The definitions are those of the Python package that Perfetto publishes: as a crate they take minutes
//! to compile.

use std::path::PathBuf;
use std::process::Command;

use handoff_testkit::{require, require_root, require_tool};
use handoff_trace::capture::diagnosis_events;
use handoff_trace::perfetto::{Options, to_bytes};
use handoff_trace::{Capture, Config, Slice, Timeline, Trace, TraceFs, What};
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

/// Tells one kind of event from the others.
type Is = fn(&What) -> bool;

#[test]
fn perfetto_reads_what_we_write() {
    require!(require_root());
    let definitions = require!(definitions());
    let trace = recorded();
    let timeline = Timeline::of(&trace);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.pftrace");
    std::fs::write(&file, to_bytes(&trace, &timeline, Options::default())).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto_read.py");
    let output = Command::new("python3").arg(script).arg(&file).env("PYTHONPATH", definitions).output();
    let output = output.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    assert_eq!(read["unknown"], 0, "fields that Perfetto does not know");
    assert_eq!((&read["without_track"], &read["out_of_order"]), (&json!(0), &json!(0)));
    let count = |is: Is| trace.events().iter().filter(|event| is(&event.what)).count();
    let kinds: [(&str, Is); 7] = [
        ("sched_switch", |what| matches!(what, What::Switch { .. })),
        ("sched_waking", |what| matches!(what, What::Waking(_))),
        ("sched_wakeup", |what| matches!(what, What::Wakeup(_))),
        ("cpu_idle", |what| matches!(what, What::Idle { .. })),
        ("softirq_entry", |what| matches!(what, What::SoftIrqEntry { .. })),
        ("irq_handler_entry", |what| matches!(what, What::IrqEntry { .. })),
        ("print", |what| matches!(what, What::Marker(_))),
    ];
    for (name, is) in kinds {
        assert_eq!(read["kinds"][name].as_u64().unwrap_or(0), count(is) as u64, "{name}");
    }
    assert!(read["kinds"]["sched_switch"].as_u64() > Some(40));

    // Each switch carries its values, and each CPU's turns follow one another.
    let mut switches = read["switches"].as_array().expect("a list").iter();
    for cpu in 0..trace.coverage().len() {
        for event in trace.events().iter().filter(|event| usize::from(event.cpu) == cpu) {
            let What::Switch { prev, next, prev_prio, next_prio, prev_state } = event.what else { continue };
            let theirs = switches.next().expect("as many as ours").as_array().expect("a list");
            let ours = json!([cpu, event.time, prev, next, prev_prio, next_prio, prev_state.0]);
            assert_eq!(theirs[..7], ours.as_array().expect("a list")[..]);
            assert!(next == 0 || theirs[7] == trace.name(next, event.time));
        }
    }

    assert_eq!(read["begins"], json!(["call", "inner", "other"]));
    assert_eq!(read["ends"], 3);
    assert!(read["counters"].as_u64() > Some(0));
    let arrows =
        timeline.wakes.iter().filter(|w| w.ran.is_some() && !w.interrupt && !w.early && w.waker != 0);
    assert_eq!(read["flows"].as_u64(), Some(arrows.count() as u64));
    assert_eq!(read["flows_without_end"], 0, "every arrow has both ends");
}
