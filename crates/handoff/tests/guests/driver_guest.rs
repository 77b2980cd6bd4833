//! The program on the kernel's Binder driver: one guest serves all of these.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use handoff_guest::{Acceleration, Guest, GuestCommand, GuestOutput};
use handoff_testkit::{require, require_guest};
use serde_json::Value;

fn boot() -> Guest {
    // Always translated: trying KVM takes a while where it does not work, and is not what is tested.
    // In turn, as traced guests may hang otherwise.
    let builder = Guest::builder().acceleration(Acceleration::TcgInTurn);
    builder.program(env!("CARGO_BIN_EXE_handoff"), "/bin/handoff").boot().expect("it boots")
}

fn guest() -> MutexGuard<'static, Guest> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| Mutex::new(boot()));
    let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
    // It may have got stuck under the test before.
    if guest.run(&GuestCommand::new("true")).is_err() {
        *guest = boot();
    }
    guest
}

fn handoff(guest: &mut Guest, arguments: &str) -> GuestOutput {
    let command = GuestCommand::new("handoff").args(arguments.split(' ')).timeout(Duration::from_secs(300));
    guest.run(&command).unwrap_or_else(|error| panic!("handoff {arguments}: {error}"))
}

fn json(guest: &mut Guest, arguments: &str) -> (Value, i32) {
    let output = handoff(guest, &format!("--format json {arguments}"));
    let read = serde_json::from_slice(&output.stdout);
    let value = read.unwrap_or_else(|error| panic!("{arguments}: {error}: {}", output.stderr_text()));
    (value, output.status)
}

/// One test, as each test is a process of its own, and the guest is booted once.
#[test]
fn the_program_works_on_the_driver() {
    require!(require_guest());
    let checks: [(&str, fn()); 6] = [
        ("a transaction passes fifteen points", a_transaction_passes_fifteen_points),
        (
            "the driver lends the nice value and the runtime the rest",
            the_driver_lends_the_nice_value_and_the_runtime_the_rest,
        ),
        ("workloads run on every context", workloads_run_on_every_context),
        (
            "a person can freeze a process and ask what the driver can do",
            a_person_can_freeze_a_process_and_ask_what_the_driver_can_do,
        ),
        ("the suite notices every fault of a driver", the_suite_notices_every_fault_of_a_driver),
        ("one table has both engines", one_table_has_both_engines),
    ];
    for (name, check) in checks {
        eprintln!("{name}");
        check();
    }
}

fn a_transaction_passes_fifteen_points() {
    let mut guest = guest();
    let output = handoff(&mut guest, "phases -n 3 --report /tmp/phases.html");
    let text = output.stdout_text();
    assert!(output.success(), "{}", output.stderr_text());
    let rows: Vec<Vec<&str>> = text.lines().take(4).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [15; 4], "{text}");
    assert_eq!((rows[0][0].trim(), rows[0][14].trim()), ("C_SEND", "C_EXIT"));
    assert!(text.contains("looking makes a call take"), "{text}");
    let page = String::from_utf8(guest.read("/tmp/phases.html").expect("written")).expect("text");
    assert!(page.contains("<svg") && page.contains("S_REPLY"), "no chart");

    let (report, _) = json(&mut guest, "phases -n 5 --payload 4000");
    let transactions = report["transactions"].as_array().expect("transactions");
    // A thread that was moved, or an interrupt between two events, may cost one; not most.
    assert!(transactions.len() > 50, "{} of 100: {}", transactions.len(), report["left_out"]);
    for row in transactions {
        let points: Vec<u64> = row.as_array().expect("a row").iter().filter_map(Value::as_u64).collect();
        assert!(points.len() == 15 && points[0] == 0 && points.is_sorted(), "{points:?}");
    }
    let left = guest.read("/sys/kernel/tracing/tracing_on").expect("tracefs");
    assert_eq!(left, b"1\n", "as it was");
    let instances = guest.run(&GuestCommand::shell("ls /sys/kernel/tracing/instances")).expect("run");
    assert_eq!(instances.stdout_text(), "", "nothing is left behind");
}

/// The latency test with these options: its report, and its warnings and notes.
fn latency(guest: &mut Guest, options: &str) -> (Value, i32, String) {
    let output = handoff(guest, &format!("--format json latency --engine binder -i 10 {options}"));
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{options}: {error}: {}", output.stderr_text()));
    (report, output.status, output.stderr_text())
}

fn the_driver_lends_the_nice_value_and_the_runtime_the_rest() {
    let mut guest = guest();
    for context in ["binder", "hwbinder", "vndbinder"] {
        let (report, status, said) = latency(&mut guest, &format!("--context {context}"));
        assert_eq!((report["inheritance"].as_str(), status), (Some("FAIL"), 1), "{context}: {report:#}");
        assert_eq!(report["cfg"]["context"], context);
        assert!(said.contains("policy SCHED_OTHER where its fifo caller had SCHED_FIFO"), "{said}");
        assert!(said.contains("mainline kernels") && said.contains("--inherit user"), "{said}");

        let (report, status, said) = latency(&mut guest, &format!("--context {context} --inherit user"));
        assert_eq!((report["inheritance"].as_str(), status), (Some("PASS"), 0), "{context}: {said}");
        assert_eq!(report["P0"]["I"], 20);
    }
}

fn workloads_run_on_every_context() {
    let mut guest = guest();
    for context in ["hwbinder", "vndbinder"] {
        let output = handoff(&mut guest, &format!("add-ints --engine binder --context {context} -n 20"));
        assert!(output.success(), "{}", output.stderr_text());
    }
    let throughput = "throughput --engine binder,shm --benchmark-min-time 0.01 --benchmark-filter /(8|4096)$";
    let output = handoff(&mut guest, &format!("{throughput} --context hwbinder"));
    let (text, errors) = (output.stdout_text(), output.stderr_text());
    assert!(output.success(), "{errors}");
    for name in ["BM_sendVec_binderize/8", "BM_sendVec_binderize/4096", "BM_sendVec_shm/4096"] {
        assert!(text.contains(name), "{text}");
    }
}

fn a_person_can_freeze_a_process_and_ask_what_the_driver_can_do() {
    let mut guest = guest();
    let (found, status) = json(&mut guest, "binder features --context hwbinder");
    assert_eq!((status, found["device"].as_str()), (0, Some("/dev/hwbinder")), "{found}");
    assert_eq!(found["features"]["freeze"], true, "{found}");
    assert_eq!(found["driver"], "C", "{found}");

    let (found, status) = json(&mut guest, "binder conformance --case call. --case reply. --case request.");
    assert_eq!((status, found["counts"]["passes"].as_u64() > Some(60)), (0, true), "{found}");
    assert_eq!(
        (&found["counts"]["fails"], &found["counts"]["differs"]),
        (&Value::Null, &Value::Null),
        "{found}"
    );

    let script = "handoff measure add-ints --engine binder -n 1000000 -d 0.0001 >/tmp/out 2>&1 & caller=$!; \
    try=0; while [ $try -lt 100 ]; do try=$((try + 1)); sleep 1; read -r server rest </proc/$caller/task/$caller/children; \
        [ -n \"$server\" ] && grep -q binder /proc/$server/maps && break; done; \
    sleep 1; handoff binder freeze $server --timeout-ms 5000; \
    wait $caller; echo \"the caller ended with $?\"; cat /tmp/out";
    let output = guest.run(&GuestCommand::shell(script).timeout(Duration::from_secs(300))).expect("it runs");
    let text = output.stdout_text();
    assert!(text.contains("is frozen: "), "{text}{}", output.stderr_text());
    assert!(
        text.contains("the caller ended with 2") && text.contains("serves this object is frozen"),
        "{text}"
    );

    let nobody = handoff(&mut guest, "binder thaw 1");
    assert_eq!(nobody.status, 2, "{}", nobody.stdout_text());
    assert!(nobody.stderr_text().contains("does it use this driver?"), "{}", nobody.stderr_text());
    // Debian's kernels have no binderfs; one that has makes the device.
    let mounted = handoff(&mut guest, "binder mount /tmp/binderfs mine");
    let (said, why) = (mounted.stdout_text(), mounted.stderr_text());
    assert!(said.contains("mine") || why.contains("binderfs"), "{said}{why}");
}

/// The cases that notice the faults, of more than 400: with all of them the emulated machine takes minutes.
const FINDERS: &str = "call.flags call.order call.sender call.target command.several death.cleared death.cookie death.manager \
    fd.closes-on-exec fd.of-reply.refused freeze.call freeze.info.async freeze.nobody gather.arrives handle.thousands \
    handle.weak looper.spawn.one looper.thread-exit.calling mmap.second mmap.writable nice.waiting oneway.completed \
    oneway.sender-pid poll.nothing refs.buffer-holds refs.first request.manager.none request.manager.second.flags \
    request.version spam.told";

fn the_suite_notices_every_fault_of_a_driver() {
    let mut guest = guest();
    let suite = ["--format", "json", "binder", "conformance", "--seed-faults"];
    let finders = FINDERS.split_whitespace().flat_map(|name| ["--case", name]);
    let command = GuestCommand::new("handoff").args(suite).args(finders).timeout(Duration::from_secs(1200));
    let output = guest.run(&command).expect("it runs");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let faults = found["faults"].as_array().expect("faults");
    let missed: Vec<&Value> = faults.iter().filter(|fault| fault["found_by"].is_null()).collect();
    assert!(faults.len() >= 37 && missed.is_empty(), "of {} faults are missed: {missed:?}", faults.len());
    assert_eq!(output.status, 0, "{}", output.stderr_text());
}

fn one_table_has_both_engines() {
    let mut guest = guest();
    let (result, status) = json(&mut guest, "run --quick --engine binder,shm --output /tmp/results");
    assert_eq!(status, 0);
    let names = |group: &Value| -> Vec<String> {
        let subjects = group["subjects"].as_array().into_iter().flatten();
        subjects.filter_map(|subject| Some(subject["name"].as_str()?.to_owned())).collect()
    };
    for group in result["groups"].as_array().expect("groups") {
        let names = names(group);
        for engine in ["binder", "shm"] {
            assert!(names.contains(&format!("call, {engine} engine")), "{names:?}");
        }
        assert!(!names.contains(&"direct call, no hand-off".to_owned()), "{names:?}");
    }
    let verdict = |test: &Value| {
        let flag = |name: &str| test[name].as_bool().expect("a flag");
        (test["engine"].as_str().expect("a name").to_owned(), flag("inherit_user"), flag("inheritance"))
    };
    let verdicts: Vec<_> = result["latencies"].as_array().expect("tests").iter().map(verdict).collect();
    let engine = |name: &str, user, passes| (name.to_owned(), user, passes);
    assert_eq!(
        verdicts,
        [engine("binder", false, false), engine("binder", true, true), engine("shm", false, true)]
    );
    let page =
        String::from_utf8(guest.read("/tmp/results/handoff-run.html").expect("a report")).expect("text");
    assert!(page.contains("mainline kernels lends a caller"), "the report does not say why");
}
