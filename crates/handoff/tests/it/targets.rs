//! `--target` as a person types it: the same table, wherever it is measured.

use std::process::{Command, Output, Stdio};

use handoff_testkit::sshd::Sshd;
use handoff_testkit::{require, require_file, require_guest, require_realtime, require_root, require_tool};
use serde_json::Value;

fn handoff() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The layout of a table of `handoff measure latency`: its keys, in order.
fn layout(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table: Value = serde_json::from_slice(&output.stdout).expect("the table of latency is JSON");
    let pair = table["P0"].as_object().unwrap_or_else(|| panic!("{table}"));
    assert_eq!((&table["cfg"]["iterations"], &pair["I"]), (&40.into(), &80.into()));
    assert_eq!(table["inheritance"], "PASS");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    [keys(&table), keys(&table["P0"]), keys(&table["P0"]["fifo_ms"])].concat()
}

const LATENCY: [&str; 3] = ["latency", "-i", "40"];

#[test]
fn ssh_prints_the_table_that_is_printed_here() {
    require!(require_root());
    require!(require_realtime());
    let sshd = require!(require_file("/usr/sbin/sshd"));
    require!(require_tool("ssh"));
    let keys = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&sshd, keys.path());
    let there = |args: &[&str]| {
        let mut command = handoff();
        command.args(args).args(["--target", "ssh://device"]).env("HANDOFF_SSH_CONFIG", sshd.config());
        command.output().expect("handoff runs")
    };
    let here = handoff().args(LATENCY).output().expect("handoff runs");
    assert_eq!(layout(&there(&LATENCY)), layout(&here));
    // What fails there fails here, in its own words.
    let wrong = there(&["latency", "-i", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("0 is not from 1 to 1048576"), "{}", text(&wrong.stderr));

    let check = |address: &str| {
        let mut command = handoff();
        command.args(["target", "check", address]).env("HANDOFF_SSH_CONFIG", sshd.config());
        command.output().expect("handoff runs")
    };
    let good = check("ssh://device");
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stdout));
    assert!(text(&good.stdout).contains("runs handoff "), "{}", text(&good.stdout));
    let gone = check("ssh://127.0.0.1:1");
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stdout).contains("cannot be measured on: cannot reach"), "{}", text(&gone.stdout));
}

#[test]
fn a_guest_prints_the_table_that_is_printed_here() {
    require!(require_root());
    require!(require_realtime());
    require!(require_guest());
    let here = handoff().args(LATENCY).output().expect("handoff runs");
    let there = handoff().args(LATENCY).args(["--target", "guest"]).output().expect("handoff runs");
    assert_eq!(layout(&there), layout(&here));
}
