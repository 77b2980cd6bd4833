//! What is left of a workload that was killed: nothing.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use handoff_testkit::{require, require_realtime, require_root, require_tool};

/// Starts `handoff` with a mark in its environment, which everything that it starts inherits.
fn start(mark: &str, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(args)
        .env("HANDOFF_TEST_MARK", mark)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("handoff starts")
}

/// Processes that carry the mark and have not ended.
fn marked(mark: &str) -> BTreeSet<u32> {
    let wanted = format!("HANDOFF_TEST_MARK={mark}").into_bytes();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
    };
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(carries).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a command, waits until it has `processes`, kills it, and waits until none is left.
fn kill_in_the_middle(name: &str, args: &[&str], processes: usize) {
    let mark = format!("{name}-{}", std::process::id());
    let mut child = start(&mark, args);
    eventually(&format!("{processes} processes of {name}"), || {
        assert!(child.try_wait().expect("wait").is_none(), "{name} ended by itself");
        marked(&mark).len() >= processes
    });
    child.kill().expect("it runs");
    child.wait().expect("it was started here");
    eventually(&format!("the end of all processes of {name}"), || marked(&mark).is_empty());
}

#[test]
fn a_killed_hackbench_leaves_no_process() {
    kill_in_the_middle("hackbench", &["workload", "hackbench", "-g", "1", "-l", "10000000"], 41);
}

#[test]
fn a_killed_floor_leaves_no_process() {
    kill_in_the_middle("floor", &["floors", "--floor", "pipe", "--rounds", "10000", "--samples", "65536"], 3);
}

#[test]
fn a_killed_stream_leaves_no_process_and_no_device() {
    require!(require_root());
    require!(require_tool("tc"));
    let devices = || fs::read_dir("/sys/class/net").expect("sysfs").count();
    let before = devices();
    kill_in_the_middle("stream", &["workload", "tcp-stream", "--path", "namespaces", "-f", "2"], 5);
    assert_eq!(devices(), before);
}

#[test]
fn a_killed_call_leaves_no_process() {
    kill_in_the_middle("calls", &["throughput", "--benchmark-min-time=60"], 3);
}

#[test]
fn a_killed_inversion_leaves_no_process() {
    require!(require_realtime());
    kill_in_the_middle("inversion", &["latency", "--inversion", "-i", "100000"], 6);
}
