//! `handoff sched` and `handoff trace` on real recordings.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use handoff_testkit::{require, require_root, require_tool};
use rustix::process::{Pid, Signal};
use serde_json::Value;

fn handoff(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_handoff")).args(args).output().expect("handoff runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&handoff(&[&["--format", "json"], args].concat()).stdout).expect("JSON")
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_recording_leaves_nothing_after_restore() {
    require!(require_root());
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["sched", "record", "-s", "60", "--buffer-kib", "64", "-o"])
        .arg(folder.path().join("never.dat"))
        .stderr(Stdio::null())
        .spawn()
        .expect("handoff runs");
    // While it records, its buffer is in use, and nothing may touch it.
    let mine = format!("-{}-", recorder.id());
    let tracefs = handoff_trace::TraceFs::find().expect("root may");
    let instances = tracefs.root().join("instances");
    let is_there = || {
        let entries = fs::read_dir(&instances).expect("listed").flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| name.contains(&mine))
    };
    wait_until("the recording did not start", is_there);
    json(&["trace", "restore"]);
    assert!(is_there(), "a buffer in use was removed");

    recorder.kill().expect("it lives");
    recorder.wait().expect("it ends");
    // A recording that another test starts meanwhile may remove it first.
    json(&["trace", "restore"]);
    assert!(!is_there(), "it is still there");
    assert!(!folder.path().join("never.dat").exists());
}

#[test]
fn a_recording_is_read_back_and_shows_the_waking() {
    require!(require_root());
    require!(require_tool("sh"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.dat");
    let file = file.to_str().expect("text");
    let pipeline = "for i in 1 2 3 4 5 6 7 8; do echo $i | cat > /dev/null; done";
    let summary = json(&["sched", "record", "-o", file, "--", "sh", "-c", pipeline]);
    assert!(summary["events"].as_u64().is_some_and(|events| events > 50), "{summary}");
    assert_eq!(summary["lost"], 0);
    let pid = summary["processes"][0].to_string();

    let [svg, dot] = ["w.svg", "w.dot"].map(|name| folder.path().join(name));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let graph = json(&[
        "sched",
        "graph",
        "-i",
        file,
        "-p",
        &pid,
        "--svg",
        &text(&svg),
        "--dot",
        &text(&dot),
        "--simulate",
        "prev,4.3",
    ]);
    // The shell is woken for the end of its children.
    let shell =
        graph["nodes"].as_array().expect("a list").iter().find(|node| node["tid"] == summary["processes"][0]);
    assert!(shell.is_some_and(|shell| shell["woken"].as_u64() > Some(0)), "{graph}");
    assert_eq!(graph["simulated"].as_array().map(Vec::len), Some(2));
    assert!(fs::read_to_string(svg).expect("written").starts_with("<svg"));
    assert!(fs::read_to_string(dot).expect("written").starts_with("digraph"));

    let [page, perfetto, whole] =
        ["slow.html", "trace.pftrace", "all.html"].map(|name| folder.path().join(name));
    let args = ["trace", "export", file, "--perfetto", &text(&perfetto), "--html", &text(&whole)];
    assert_eq!(json(&args)["events"], summary["events"]);
    assert!(fs::metadata(perfetto).expect("written").len() > 1000);
    assert!(fs::read_to_string(whole).expect("written").starts_with("<!doctype html>"));

    let slow = json(&["sched", "explain", "-i", file, "-p", &pid, "-n", "2", "--html", &text(&page)]);
    assert!(fs::read_to_string(page).expect("written").contains("Where the time went"));
    let slow = slow.as_array().expect("a list");
    assert!(!slow.is_empty() && slow.len() <= 2);
    for diagnosis in slow {
        let sum: u64 =
            diagnosis["causes"].as_array().expect("a list").iter().filter_map(|c| c["ns"].as_u64()).sum();
        let window = &diagnosis["window"];
        let length = window["end"].as_u64().zip(window["start"].as_u64()).map(|(end, start)| end - start);
        assert_eq!(Some(sum), length, "{diagnosis}");
    }
}

#[test]
fn ctrl_c_is_how_top_ends() {
    require!(require_root());
    let mut top = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["sched", "top", "--every", "0.2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("handoff runs");
    let mut look = String::new();
    let mut looks = BufReader::new(top.stdout.take().expect("a pipe"));
    looks.read_line(&mut look).expect("a look");
    rustix::process::kill_process(Pid::from_child(&top), Signal::INT).expect("signalled");
    std::io::copy(&mut looks, &mut std::io::sink()).expect("read to the end");
    assert_eq!(top.wait().expect("it ends").code(), Some(0), "{look}");
}

#[test]
fn top_looks_as_often_as_asked() {
    require!(require_root());
    let output = handoff(&["sched", "top", "-n", "2", "--every", "0.2"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("the last ").count(), 2, "{text}");
    assert!(!text.contains('\x1b'), "no terminal, no control characters");
}

#[test]
fn hackbench_shapes_are_told_apart() {
    require!(require_root());
    let hackbench = |writers: &str, readers: &str, loops: &str| {
        let own = env!("CARGO_BIN_EXE_handoff");
        let workload = ["--", own, "workload", "hackbench", "-g", "2", "-l", loops];
        json(&[&["sched", "graph"][..], &workload, &["--writers", writers, "--readers", readers]].concat())
    };
    // On a busy machine few receivers sleep when their message comes: then there is little waking to
    // see, and a longer run shows more.
    let shows = |writers: &str, readers: &str, done: &dyn Fn(&Value) -> bool| -> Value {
        let mut graphs = ["40", "80", "160", "160"].iter().map(|loops| hackbench(writers, readers, loops));
        let first = graphs.next().expect("one of four");
        if done(&first) { first } else { graphs.find(|graph| done(graph)).unwrap_or(first) }
    };
    let hubs = shows("5", "50", &|graph| graph["shape"] == "hubs");
    assert_eq!((&hubs["shape"], &hubs["lost"]), (&"hubs".into(), &0.into()), "{}", hubs["nodes"]);
    // A hub flips at many of its wake-ups, since the next message is for another receiver. Not at all
    // of them: between two wake-ups that it is seen to make, others find their receiver awake.
    let marked: Vec<_> =
        hubs["nodes"].as_array().expect("a list").iter().filter(|n| n["hub"] == true).collect();
    assert!(!marked.is_empty(), "{}", hubs["nodes"]);
    for node in marked {
        let ratio = node["flips"].as_f64().zip(node["wakes"].as_f64()).map(|(flips, wakes)| flips / wakes);
        assert!(ratio.is_some_and(|ratio| ratio > 0.25), "{node}");
    }
    let mesh = shows("20", "20", &|graph| graph["shape"] != "hubs");
    assert_ne!(mesh["shape"], "hubs", "{}", mesh["nodes"]);
}

#[test]
fn requests_are_split_into_phases() {
    require!(require_root());
    let own = env!("CARGO_BIN_EXE_handoff");
    let phases = |workload: &[&str]| {
        let pairs = json(&[&["sched", "phases", "--", own][..], workload].concat());
        pairs.as_array().expect("a list").clone()
    };
    // A socket, a pipe: two processes that wait for each other.
    for workload in [&["workload", "tcp-rr", "-n", "2000"][..], &["workload", "sched-pipe", "-l", "2000"]] {
        let pairs = phases(workload);
        let most = pairs.iter().max_by_key(|pair| pair["latency"]["count"].as_u64());
        let most = most.unwrap_or_else(|| panic!("{workload:?}: no requests"));
        // Of two that wait for each other each can be taken for the caller; and those whose callee was
        // awake already are not seen.
        assert!(most["latency"]["count"].as_u64().is_some_and(|count| count > 50), "{workload:?}: {most}");
        assert_eq!(most["carrier"], "wakes");
        let total = most["latency"]["sum"].as_u64();
        for side in ["by_caller", "by_callee"] {
            let parts = ["running_ns", "runnable_ns", "blocked_ns"];
            let sum: u64 = parts.iter().filter_map(|part| most[side][part].as_u64()).sum();
            assert!(Some(sum) <= total, "{side}: {most}");
        }
        assert!(most["by_caller"]["blocked_ns"].as_u64() > Some(0), "a caller sleeps: {most}");
    }
}

/// The number behind `name=` in a line of `perf script`.
fn number(line: &str, name: &str) -> Option<i64> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split(|c: char| c.is_whitespace()).next()?.trim().parse().ok()
}

#[test]
fn the_wake_graph_of_hackbench_counts_what_perf_counts() {
    require!(require_root());
    let perf = require!(require_tool("perf"));
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("perf.data"), folder.path().join("trace.dat"));
    let file = file.to_str().expect("text");
    let own = env!("CARGO_BIN_EXE_handoff");
    let hackbench = ["workload", "hackbench", "-g", "1", "-l", "20", "--writers", "5", "--readers", "50"];
    // perf starts before our recording and ends after it, so it sees all that we see.
    let output = Command::new(&perf)
        .args([
            "record",
            "-q",
            "-a",
            "-m",
            "8M",
            "-e",
            "sched:sched_switch",
            "-e",
            "sched:sched_waking",
            "-o",
        ])
        .arg(&data)
        .args(["--", own, "--format", "json", "sched", "record", "-o", file, "--", own])
        .args(hackbench)
        .output()
        .expect("perf runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8_lossy(&output.stdout);
    let json_start = told.rfind("\n{").map_or(0, |at| at + 1);
    let summary: Value = serde_json::from_str(&told[json_start..]).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!(summary["lost"], 0, "the buffers are large enough for this");
    let pid = summary["processes"][0].to_string();

    let report = Command::new(&perf)
        .args(["script", "-F", "event,trace", "--show-lost-events", "-i"])
        .arg(&data)
        .output();
    let report = report.expect("perf runs").stdout;
    let report = String::from_utf8_lossy(&report);
    assert!(!report.contains("PERF_RECORD_LOST"), "perf lost events, so its count is too low");
    let graph = json(&["sched", "graph", "-i", file, "-p", &pid]);
    let nodes = graph["nodes"].as_array().expect("a list");
    let root = summary["processes"][0].as_i64().expect("a number");
    let mut tasks = 0;
    for node in nodes.iter().filter(|node| node["tid"].as_i64().is_some_and(|tid| tid > root)) {
        let tid = node["tid"].as_i64().expect("a number");
        // Tasks that hackbench woke and did not start were there before, and live on.
        if node["name"] != "handoff" {
            continue;
        }
        tasks += 1;
        let count = |event: &str, field: &str| {
            let lines = report.lines().filter(|line| line.contains(&format!("{event}:")));
            lines.filter(|line| number(line, field) == Some(tid)).count() as u64
        };
        assert_eq!(node["switches"].as_u64(), Some(count("sched_switch", "next_pid")), "{node}");
        // The birth of a task is a wake-up of ours, and another event (sched_wakeup_new) of perf's.
        assert_eq!(node["woken"].as_u64(), Some(count("sched_waking", "pid") + 1), "{node}");
    }
    assert!(tasks >= 55, "5 and 50 tasks: {tasks}");
}
