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
    // That of the fault: it computes for 300 ms of a tenth of each second. The host may keep the guest from its CPUs for as
    // long as the deadline, too, which is a shorter miss of other causes.
    let longest = misses.iter().max_by_key(|miss| miss["took_ns"].as_u64()).expect("a miss");
    let causes = longest["diagnosis"]["causes"].as_array().expect("a miss has causes");
    let throttled: Vec<_> = causes.iter().filter(|cause| cause["kind"] == "throttled").collect();
    let ns = |causes: &[&Value]| causes.iter().filter_map(|cause| cause["ns"].as_u64()).sum::<u64>();
    let all: Vec<_> = causes.iter().collect();
    assert!(ns(&throttled) * 2 > ns(&all), "{causes:#?}");
    let said = throttled[0]["text"].as_str().expect("text");
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
