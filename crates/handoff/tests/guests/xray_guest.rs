//! What needs a kernel of one's own: real-time throttling forced, and the Binder driver's events.

use std::process::{Command, Stdio};

use handoff_testkit::{require, require_guest};
use serde_json::Value;

/// Real-time tasks may run for a tenth of each second, and the callee wants to compute for 300 ms. Then
/// calls over the driver are recorded.
const SCRIPT: &str = r#"
old=$(cat /proc/sys/kernel/sched_rt_runtime_us)
echo 100000 > /proc/sys/kernel/sched_rt_runtime_us
handoff --format json measure latency -trace --fault callee:300 -deadline_us 150000 -i 40 --trace-dir /tmp >/tmp/throttle.json
echo "$old" > /proc/sys/kernel/sched_rt_runtime_us
handoff sched record -o /tmp/calls.dat -- handoff measure latency --engine binder -i 40
handoff --format json sched phases -i /tmp/calls.dat >/tmp/phases.json
ls /sys/kernel/tracing/instances /sys/kernel/debug/tracing/instances 2>/dev/null | grep handoff >/tmp/left
true
"#;

#[test]
fn throttling_is_named_and_binders_transactions_are_joined() {
    require!(require_guest());
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    command.args(["guest", "run", "--accel", "tcg", "--smp", "2", "--memory", "1024"]).stdin(Stdio::null());
    command.arg("--handoff").arg(env!("CARGO_BIN_EXE_handoff"));
    for file in ["throttle.json", "phases.json", "left"] {
        command.arg("--get").arg(format!("/tmp/{file}:{}", folder.path().join(file).display()));
    }
    let output = command.args(["--", "exec", "--", "sh", "-c", SCRIPT]).output().expect("run");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("brought back");
    let json = |name: &str| -> Value {
        serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{complaints}"))
    };

    let report = json("throttle.json");
    let misses = report["misses"].as_array().expect("a list");
    // The host may keep the guest from its CPUs for as long as the deadline: that is a miss too, of other causes.
    let mostly_throttled = misses.iter().find_map(|miss| {
        let causes = miss["diagnosis"]["causes"].as_array().expect("a miss has causes");
        let ns = |cause: &Value| cause["ns"].as_u64().unwrap_or(0);
        let throttled: Vec<_> = causes.iter().filter(|cause| cause["kind"] == "throttled").collect();
        let (of_throttling, of_all) =
            (throttled.iter().map(|cause| ns(cause)).sum::<u64>(), causes.iter().map(ns).sum::<u64>());
        (of_throttling * 2 > of_all).then(|| throttled[0].clone())
    });
    let mostly_throttled =
        mostly_throttled.unwrap_or_else(|| panic!("no miss is of throttling: {misses:#?}"));
    let said = mostly_throttled["text"].as_str().expect("text");
    assert!(said.contains("`sched_rt_runtime_us` 100000 of 1000000"), "{said}");

    let phases = json("phases.json");
    let binder: Vec<_> =
        phases.as_array().expect("a list").iter().filter(|pair| pair["carrier"] == "binder").collect();
    let count = |pair: &&Value| pair["latency"]["count"].as_u64().unwrap_or(0);
    // 40 urgent and 40 normal transactions, each with a reply, and a few to set up.
    assert!(binder.iter().map(count).sum::<u64>() >= 80, "{phases:#}");
    let urgent: Vec<_> = binder.into_iter().filter(|pair| pair["caller"] == "fifo-caller").collect();
    assert!(urgent.iter().map(count).sum::<u64>() >= 40, "{phases:#}");
    for pair in urgent {
        let of = &pair["by_caller"];
        let parts = ["running_ns", "runnable_ns", "blocked_ns"].iter().filter_map(|part| of[part].as_u64());
        assert_eq!(Some(parts.sum()), pair["latency"]["sum"].as_u64(), "the phases add up: {pair:#}");
    }
    assert_eq!(text("left"), "", "no trace buffer stays");
}
