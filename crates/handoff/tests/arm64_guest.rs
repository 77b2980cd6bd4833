//! The arm64 guest: core classes, the Binder driver, and calls, with the static program in one boot.

use std::time::Duration;

use handoff_kernel::guest::{Acceleration, Arch, Guest, GuestCommand};
use handoff_testkit::{require, require_static_handoff, require_tool};

/// What a phone has: four small, three middle and one big core.
const CAPACITIES: [u32; 8] = [446, 446, 446, 446, 871, 871, 871, 1024];

#[test]
fn an_arm64_guest_has_core_classes_and_the_driver() {
    require!(require_tool(Arch::Arm64.qemu()));
    let program = require!(require_static_handoff("arm64"));
    let mut guest = Guest::builder()
        .arch(Arch::Arm64)
        .acceleration(Acceleration::Tcg)
        .cpu_capacities(CAPACITIES)
        .program(program, "/bin/handoff")
        .boot()
        .expect("a guest boots");
    let mut handoff = |arguments: &[&str]| {
        let command = GuestCommand::new("handoff").args(arguments).timeout(Duration::from_secs(200));
        guest.run(&command).expect("it ends")
    };

    let doctor = handoff(&["doctor"]);
    let text = doctor.stdout_text();
    assert!(doctor.success(), "{}", doctor.stderr_text());
    let classes = "core classes  little 0-3 (446), mid 4-6 (871), big 7 (1024), by cpu_capacity";
    assert!(text.contains(classes), "{text}");

    let cores = handoff(&["cores", "--format", "json"]);
    let cores: serde_json::Value = serde_json::from_slice(&cores.stdout).expect("JSON");
    assert_eq!(cores["machine"]["classes"].as_array().expect("classes").len(), 3, "{cores:#}");

    let sums = handoff(&["add-ints", "--engine", "binder", "-n", "20", "-s", "7", "-c", "0"]);
    assert!(sums.success(), "{}", sums.stderr_text());
    assert!(sums.stdout_text().contains("serverCPU:  7"), "{}", sums.stdout_text());

    // The driver lends the nice value only: the test of the driver itself says so.
    let latency = handoff(&["latency", "--engine", "binder", "-i", "3", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&latency.stdout).expect("JSON");
    assert_eq!((report["inheritance"].as_str(), latency.status), (Some("FAIL"), 1), "{report:#}");
    assert_eq!(report["P0"]["I"], 6);
}
