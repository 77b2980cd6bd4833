//! `handoff measure latency -trace`: what led to a missed deadline is kept, and an injected cause is named.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use handoff_testkit::{require, require_realtime, require_root};
use serde_json::Value;

fn latency(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["latency", "-trace", "--trace-dir"])
        .arg(folder)
        .args(args)
        .output()
        .expect("handoff runs")
}

/// The causes of the misses, the weightiest of each: its kind, and its words.
fn main_causes(fault: &str) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    // What else the machine does may make other calls late, too: more than one miss is looked at. The hogs come
    // by the clock, every 75 ms; the others with every fifth call.
    let calls = if fault == "hog" { "40000" } else { "3000" };
    let args =
        ["-deadline_us", "10000", "--keep-going", "6", "-i", calls, "--fault", fault, "--format", "json"];
    let output = latency(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let misses = report["misses"].as_array().expect("there are misses");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    for miss in misses {
        for file in ["trace", "html", "perfetto"] {
            assert!(Path::new(&text(&miss[file])).starts_with(folder.path()));
            assert!(fs::metadata(text(&miss[file])).is_ok_and(|file| file.len() > 1000), "{miss}");
        }
    }
    let first = |miss: &Value| miss["diagnosis"]["causes"][0].clone();
    misses.iter().map(first).map(|cause| (text(&cause["kind"]), text(&cause["text"]))).collect()
}

fn assert_named(fault: &str, kinds: &[&str], words: &str) {
    let causes = main_causes(fault);
    let named = causes.iter().any(|(kind, text)| kinds.contains(&kind.as_str()) && text.contains(words));
    assert!(named, "{causes:#?}");
}

#[test]
fn a_planted_hog_is_named() {
    require!(require_root());
    require!(require_realtime());
    assert_named("hog", &["preempted", "busy_cpu"], "`hog` (task");
}

#[test]
fn a_planted_long_callee_is_named() {
    require!(require_root());
    require!(require_realtime());
    assert_named("callee", &["callee_ran"], "real-time 99) was running: the work itself");
}

#[test]
fn a_planted_holder_of_a_lock_is_named() {
    require!(require_root());
    require!(require_realtime());
    assert_named("lock", &["priority_inversion"], "slept until `lock-holder` (task");
}

#[test]
fn the_first_miss_ends_the_test_in_the_words_of_the_original() {
    require!(require_root());
    require!(require_realtime());
    let folder = tempfile::tempdir().expect("a folder");
    let output = latency(folder.path(), &["-deadline_us", "10000", "-i", "3000", "--fault", "callee"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).expect("text");
    let trace = folder.path().join("miss-1.dat");
    let beginning = format!("deadline triggered: halt & stop trace\nlog:{}\n", trace.display());
    assert!(text.starts_with(&beginning), "{text}");
    assert!(text.contains("Where the time went:") && !text.contains("\"cfg\""), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 3, "one miss, three files");

    // The recording is one that other commands read.
    let again = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["sched", "explain", "-n", "1", "-i"])
        .arg(&trace)
        .output()
        .expect("handoff runs");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn a_kill_at_any_time_leaves_nothing_after_restore() {
    require!(require_root());
    require!(require_realtime());
    let folder = tempfile::tempdir().expect("a folder");
    let tracefs = handoff_trace::TraceFs::find().expect("root may");
    let instances = tracefs.root().join("instances");
    for millis in [0, 3, 10, 30, 60, 100, 200, 400] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["latency", "-trace", "-i", "100000", "-deadline_us", "50", "--keep-going", "1000"])
            .args(["--trace-kib", "256", "--trace-dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("handoff runs");
        let mark = format!("-{}-", run.id());
        thread::sleep(Duration::from_millis(millis));
        run.kill().expect("it lives");
        run.wait().expect("it ends");
        let left = || {
            let entries = fs::read_dir(&instances).expect("listed").flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| name.contains(&mark))
        };
        // Its client notices the death in its own time, and holds the buffer until then.
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let restore = Command::new(env!("CARGO_BIN_EXE_handoff")).args(["trace", "restore"]).output();
            if restore.expect("handoff runs").status.success() && !left() {
                break;
            }
            assert!(Instant::now() < end, "killed after {millis} ms, its buffer stays");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
