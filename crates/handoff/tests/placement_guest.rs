//! Placement on a machine with slow and fast cores, and with CPUs that go away: an arm64 guest.

use std::time::Duration;

use handoff_kernel::guest::{Acceleration, Arch, Guest, GuestCommand};
use handoff_testkit::{require, require_static_handoff, require_tool};

/// What a phone has: four small, three middle and one big core.
const CAPACITIES: [u32; 8] = [446, 446, 446, 446, 871, 871, 871, 1024];

/// Watches a process, then a policy, while the big core goes and comes back. Each step waits for what it
/// wants to see, a minute at most, and fails by name.
const OFFLINE: &str = r#"
until_seen() { # NAME COMMAND...
    name=$1; shift; left=600
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || { echo "FAILED: $name"; cat /tmp/watch /tmp/policy 2>/dev/null; exit 1; }
        sleep 0.1
    done
    echo "seen: $name"
}
allowed() { [ "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/$P/status)" = "$1" ]; }
big() { echo $1 > /sys/devices/system/cpu/cpu7/online; }

sleep 1000 & P=$!
handoff pin $P --cpus big --watch --every 50 > /tmp/watch 2>&1 & W=$!
until_seen "the pin" allowed 7
until_seen "the watch" grep -q watching /tmp/watch
big 0
until_seen "the loss with its cause" grep -q "lost: thread $P .*{7} went offline" /tmp/watch
until_seen "that nothing can be done" grep -q "cannot be applied again for now" /tmp/watch
big 1
until_seen "the repair" grep -q -e "applied again: {7}" -e "in force again: {7}" /tmp/watch
until_seen "the pin again" allowed 7
kill -INT $W; wait $W
until_seen "the former mask" allowed 0-7
[ $(grep -c lost: /tmp/watch) -le 2 ] && echo "seen: each loss once"

cp /bin/busybox /tmp/sleep; /tmp/sleep 1000 & P=$!
printf '[profile.fast]\ncpus = "big"\n[[rule]]\nmatch = { exe = "/tmp/sleep" }\nprofile = "fast"\n' > /tmp/fast.toml
handoff policy run /tmp/fast.toml > /tmp/policy 2>&1 & D=$!
until_seen "the placement" allowed 7
big 0
until_seen "what cannot be had" grep -q "left as it was .*.big. leaves no CPU" /tmp/policy
big 1
until_seen "the placement anew" allowed 7
kill -INT $D; wait $D
until_seen "what it had" allowed 0-7
"#;

/// Runs a loop under a name of its own on the big core, and prints where the scheduler put it.
const TRACED: &str = r#"
cd /sys/kernel/tracing
echo 0 > tracing_on; echo > trace; echo 1 > events/sched/sched_switch/enable; echo 1 > tracing_on
handoff exec --cpus big -- sh -c 'echo -n onbig > /proc/self/comm; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'
echo 0 > tracing_on; echo 0 > events/sched/sched_switch/enable
grep _comm=onbig trace
"#;

#[test]
fn classes_pins_and_hot_plug_are_real_in_a_guest_of_eight_cores() {
    require!(require_tool(Arch::Arm64.qemu()));
    let program = require!(require_static_handoff("arm64"));
    let mut guest = Guest::builder()
        .arch(Arch::Arm64)
        .acceleration(Acceleration::Tcg)
        .cpu_capacities(CAPACITIES)
        .program(program, "/bin/handoff")
        .boot()
        .expect("a guest boots");
    let mut run = |program: &str, arguments: &[&str]| {
        let command = GuestCommand::new(program).args(arguments).timeout(Duration::from_secs(300));
        let output = guest.run(&command).expect("it ends");
        let (said, complaints) = (output.stdout_text().to_string(), output.stderr_text().to_string());
        assert!(output.success(), "{program} {arguments:?}: {said}{complaints}");
        said
    };

    let map = run("handoff", &["cores"]);
    assert!(map.starts_with("8 CPUs online (0-7), 4 little + 3 mid + 1 big (by cpu_capacity)"), "{map}");
    assert_eq!(run("handoff", &["cores", "little,mid"]).trim(), "0-6");

    let switches = run("sh", &["-c", TRACED]);
    let there = |line: &str| line.contains(" [007] ");
    assert!(switches.lines().count() > 0 && switches.lines().all(there), "only CPU 7 ran it:\n{switches}");

    let study = ["affinity-study", "--rounds", "2", "--iterations", "400000", "--format", "json"];
    let study: serde_json::Value = serde_json::from_str(&run("handoff", &study)).expect("JSON");
    assert_eq!(study["plan"]["emulated"], serde_json::Value::Null, "the cores are slow by themselves");
    assert_eq!(
        (study["plan"]["slow"].as_u64(), study["plan"]["fast"].as_array().map(Vec::len)),
        (Some(0), Some(2))
    );
    let seen = |row: usize| study["rows"][row]["seen_on"].clone();
    assert_eq!(study["rows"].as_array().map(Vec::len), Some(3), "{study:#}");
    assert_eq!(seen(1), "0", "the whole process on the slow core: {study:#}");
    assert_eq!(seen(2), "4,7", "each task on a fast core of its own: {study:#}");

    let steps = run("sh", &["-c", OFFLINE]);
    assert!(steps.contains("seen: each loss once"), "{steps}");
    assert!(steps.trim().ends_with("seen: what it had"), "{steps}");
}
