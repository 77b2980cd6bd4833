//! The static program on a machine with slow and fast cores, and with CPUs that go away: an arm64
//! guest, booted once for all of these.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use handoff_guest::{Acceleration, Arch, Guest, GuestCommand, GuestOutput};
use handoff_testkit::{require, require_guest_of, require_static_handoff};
use serde_json::Value;

/// What a phone has: four small, three middle and one big core.
const CAPACITIES: [u32; 8] = [446, 446, 446, 446, 871, 871, 871, 1024];

fn boot(program: &Path) -> Guest {
    let guest = Guest::builder()
        .arch(Arch::Arm64)
        .acceleration(Acceleration::Tcg)
        .cpu_capacities(CAPACITIES)
        .program(program, "/bin/handoff");
    guest.boot().expect("a guest boots")
}

fn guest() -> Result<MutexGuard<'static, Guest>, String> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    require_guest_of("aarch64")?;
    let program = require_static_handoff("arm64")?;
    let guest = GUEST.get_or_init(|| Mutex::new(boot(&program)));
    let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
    // It may have got stuck under the test before.
    if guest.run(&GuestCommand::new("true")).is_err() {
        *guest = boot(&program);
    }
    Ok(guest)
}

/// Runs a program, with a limit that is far off even where eight cores are emulated by one that others use.
fn run(guest: &mut Guest, program: &str, arguments: &[&str]) -> GuestOutput {
    let command = GuestCommand::new(program).args(arguments).timeout(Duration::from_secs(900));
    guest.run(&command).unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}"))
}

/// What a program prints that must succeed.
fn said(guest: &mut Guest, program: &str, arguments: &[&str]) -> String {
    let output = run(guest, program, arguments);
    let text = output.stdout_text();
    assert!(output.success(), "{program} {arguments:?}: {text}{}", output.stderr_text());
    text
}

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
// The task sleeps before it ends: the switch at its very end may come after its parent stopped the trace.
const TRACED: &str = r#"
cd /sys/kernel/tracing
echo 0 > tracing_on; echo > trace; echo 1 > events/sched/sched_switch/enable; echo 1 > tracing_on
handoff exec --cpus big -- sh -c 'echo -n onbig > /proc/self/comm; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.1; i=0'
echo 0 > tracing_on; echo 0 > events/sched/sched_switch/enable
grep _comm=onbig trace; echo 1 > tracing_on
"#;

/// One test, as each test is a process of its own, and the guest is booted once.
#[test]
fn a_phone_s_cores_are_used_as_they_are() {
    drop(require!(guest()));
    the_driver_serves_calls_on_cores_of_three_classes();
    tasks_stay_in_the_classes_that_they_are_given();
}

fn the_driver_serves_calls_on_cores_of_three_classes() {
    let mut guest = guest().expect("there is one");
    let text = said(&mut guest, "handoff", &["doctor"]);
    let classes = "core classes  little 0-3 (446), mid 4-6 (871), big 7 (1024), by cpu_capacity";
    assert!(text.contains(classes), "{text}");

    let sums =
        said(&mut guest, "handoff", &["add-ints", "--engine", "binder", "-n", "20", "-s", "7", "-c", "0"]);
    assert!(sums.contains("serverCPU:  7"), "{sums}");

    // The driver lends the nice value only: the test of the driver itself says so.
    let latency =
        run(&mut guest, "handoff", &["latency", "--engine", "binder", "-i", "3", "--format", "json"]);
    let report: Value = serde_json::from_slice(&latency.stdout).expect("JSON");
    assert_eq!((report["inheritance"].as_str(), latency.status), (Some("FAIL"), 1), "{report:#}");
    assert_eq!(report["P0"]["I"], 6);
}

fn tasks_stay_in_the_classes_that_they_are_given() {
    let mut guest = guest().expect("there is one");
    let map = said(&mut guest, "handoff", &["cores"]);
    assert!(map.starts_with("8 CPUs online (0-7), 4 little + 3 mid + 1 big (by cpu_capacity)"), "{map}");
    assert_eq!(said(&mut guest, "handoff", &["cores", "little,mid"]).trim(), "0-6");
    let cores: Value =
        serde_json::from_str(&said(&mut guest, "handoff", &["cores", "--format", "json"])).expect("JSON");
    assert_eq!(cores["machine"]["classes"].as_array().expect("classes").len(), 3, "{cores:#}");

    let switches = said(&mut guest, "sh", &["-c", TRACED]);
    let there = |line: &str| line.contains(" [007] ");
    assert!(switches.lines().count() > 0 && switches.lines().all(there), "only CPU 7 ran it:\n{switches}");

    let study = ["affinity-study", "--rounds", "2", "--iterations", "400000", "--format", "json"];
    let study: Value = serde_json::from_str(&said(&mut guest, "handoff", &study)).expect("JSON");
    assert_eq!(study["plan"]["emulated"], Value::Null, "the cores are slow by themselves");
    assert_eq!(
        (study["plan"]["slow"].as_u64(), study["plan"]["fast"].as_array().map(Vec::len)),
        (Some(0), Some(2))
    );
    let seen = |row: usize| study["rows"][row]["seen_on"].clone();
    assert_eq!(study["rows"].as_array().map(Vec::len), Some(3), "{study:#}");
    assert_eq!(seen(1), "0", "the whole process on the slow core: {study:#}");
    assert_eq!(seen(2), "4,7", "each task on a fast core of its own: {study:#}");

    let steps = said(&mut guest, "sh", &["-c", OFFLINE]);
    assert!(steps.contains("seen: each loss once"), "{steps}");
    assert!(steps.trim().ends_with("seen: what it had"), "{steps}");
}
