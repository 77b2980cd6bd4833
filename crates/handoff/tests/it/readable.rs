//! The pages that commands write, in a real browser, on a desk and on a phone. `HANDOFF_SHOTS` names a folder for
//! pictures of them.
//!
//! The reports of `handoff run` and `handoff lab` are looked at by handoff-lab's tests, the page of a port by handoff-kernel's:
//! CONTRIBUTING.md has the command for pictures of all.

use std::path::Path;
use std::process::Command;

use handoff_testkit::browser::Window;
use handoff_testkit::{require, require_tool};

use crate::browser;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd");

/// Runs a command that writes the page `name`, and looks at it.
fn readable(chromium: &Path, name: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(arguments)
        .args(["--html", "page.html"])
        .current_dir(folder.path())
        .env("HANDOFF_CONFIG", "")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let html = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    browser::look(chromium, name, &html);
}

#[test]
fn transports_are_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    let short = ["--engine", "shm", "--rounds", "2", "--samples", "20", "--stream", "50"];
    readable(&chromium, "transports", &[&["measure", "transports"][..], &short].concat());
}

#[test]
fn phases_are_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    readable(&chromium, "phases", &["measure", "phases", "--engine", "shm", "-n", "3"]);
}

#[test]
fn recordings_are_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    let trace = format!("{CASES}/sched.in/atrace.txt");
    readable(&chromium, "timeline", &["sched", "export", &trace]);
    readable(&chromium, "slow", &["sched", "explain", "-n", "1", "-i", &trace]);
}

#[test]
fn times_on_the_axis_of_a_recording_do_not_overlap() {
    let chromium = require!(require_tool("chromium"));
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("axis.html");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["sched", "export", &format!("{CASES}/sched.in/atrace.txt"), "--html"])
        .arg(&page)
        .env("HANDOFF_CONFIG", "")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let html = std::fs::read_to_string(page).expect("a page");
    for width in [1280, 390] {
        let window = Window { chromium: &chromium, folder: folder.path(), name: "axis", width, dark: false };
        let script = "return ticks().map(at => [x(at), ctx.measureText(tickText(at)).width])";
        let seen = handoff_testkit::browser::ask(&window, &html, script);
        let ticks: Vec<(f64, f64)> = serde_json::from_slice(&seen).expect("JSON");
        assert!(ticks.len() > 1, "an axis of {width} needs two times: {ticks:?}");
        for pair in ticks.windows(2) {
            assert!(pair[0].0 + pair[0].1 < pair[1].0, "at {width}: {ticks:?}");
        }
    }
}

#[test]
fn patches_are_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    let [patch, tree] = ["cork.patch", "tree"].map(|name| format!("{CASES}/kernel-port.in/{name}"));
    readable(&chromium, "analyse", &["kernel", "analyse", &patch, "--tree", &tree]);
}

#[test]
fn a_history_is_readable_on_every_screen() {
    let chromium = require!(require_tool("chromium"));
    let results = tempfile::tempdir().expect("a folder");
    let results = results.path().to_str().expect("text");
    for _ in 0..3 {
        let run = Command::new(env!("CARGO_BIN_EXE_handoff"))
            .args(["lab", "ab", "true", "true", "--rounds", "6", "--output", results])
            .env("HANDOFF_CONFIG", "")
            .output()
            .expect("it runs");
        assert!(run.status.success(), "{run:?}");
    }
    // A run that is removed is gone from the page, too.
    let remove = |run: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command
            .args(["lab", "rm", run, "--output", results])
            .env("HANDOFF_CONFIG", "")
            .output()
            .expect("it runs")
    };
    assert!(remove("1").status.success());
    assert_eq!(remove("1").status.code(), Some(2));
    readable(&chromium, "history", &["lab", "history", "--metric", "wall", "--output", results]);
}
