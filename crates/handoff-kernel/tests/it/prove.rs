//! Proves what the distribution's kernel does under a load, in a guest.

use std::path::Path;

use handoff_guest::{Acceleration, Guest, GuestCommand};
use handoff_kernel::prove::{Finding, Probe, Proof, prove};
use handoff_testkit::{require, require_guest};

fn probes(texts: &[&str]) -> Vec<Probe> {
    texts.iter().map(|text| text.parse().expect(text)).collect()
}

fn finding<'a>(proof: &'a Proof, what: &str) -> &'a Finding {
    let found = proof.findings.iter().find(|finding| finding.probe.what.to_string() == what);
    found.unwrap_or_else(|| panic!("no finding for {what}: {proof}"))
}

#[test]
fn calls_effects_and_what_is_not_there_are_told_apart() {
    require!(require_guest());
    let mut guest =
        Guest::builder().memory_mib(512).acceleration(Acceleration::Tcg).boot().expect("a guest boots");
    let load = GuestCommand::shell(
        "for i in 1 2 3 4 5 6 7 8 9 10; do cat /no/such/file /proc/version; done >/dev/null 2>&1; \
         echo '{\"counters\":[{\"name\":\"done\",\"value\":10}]}'",
    );
    let asked = probes(&[
        // Each cat opens both files; one of them is not there (-2).
        "function:do_sys_openat2, >= 20",
        "returns:do_sys_openat2:s64 == -2, >= 10",
        "returns:do_sys_openat2:s64 == -99, zero",
        "tracepoint:sched:sched_process_fork, >= 10",
        "tracepoint:sched:sched_process_fork if child_pid < 0, zero",
        "tracepoint:sched:no_such_event, increases",
        "counter:pgfault, >= 10",
        "counter:NoSuchCounter, increases",
        "function:no_such_function, zero",
        "function:no_such_function, increases",
        "branches:kernel/fork.c:copy_process, increases",
        "probe:do_sys_openat2, >= 20",
    ]);
    let proof = prove(&mut guest, &load, &asked, None).expect("it runs");
    assert_eq!((proof.status, proof.incidents.len()), (0, 0), "{proof}");
    for finding in &proof.findings[..5] {
        assert!(finding.holds && finding.count.is_some(), "{finding}");
    }
    let (calls, misses) = (proof.findings[0].count, proof.findings[1].count);
    assert!(calls > misses, "{proof}");
    for unknown in
        ["tracepoint:sched:no_such_event", "counter:NoSuchCounter", "branches:kernel/fork.c:copy_process"]
    {
        let finding = finding(&proof, unknown);
        assert!(finding.count.is_none() && !finding.holds && finding.note.is_some(), "{finding}");
    }
    let [zero, some] = &proof.findings[8..10] else { panic!("two") };
    assert!(zero.holds && !some.holds && zero.note.as_ref().is_some_and(|note| note.contains("--visible")));
    assert!(proof.findings[6].holds && proof.findings[11].holds, "{proof}");
    assert!(!proof.holds(), "some do not hold");

    // The same guest again: nothing of the first proof is left in the way, and counts begin anew.
    let again = prove(&mut guest, &GuestCommand::new("true"), &probes(&["result:done"]), None).expect("runs");
    assert!(!again.holds() && again.findings[0].note.is_some());
    let again = prove(&mut guest, &load, &probes(&["result:done, >= 10", "function:do_sys_openat2"]), None);
    let again = again.expect("it runs");
    assert!(again.holds(), "{again}");
    assert!(again.findings[1].count < calls.map(|calls| calls * 1.9), "counted from 0: {again}");
    let failed = prove(&mut guest, &GuestCommand::shell("exit 3"), &probes(&["counter:pgfault"]), None);
    let failed = failed.expect("it runs");
    assert!(failed.status == 3 && !failed.holds(), "{failed}");
    let missing = Path::new("/no/such/build");
    assert!(prove(&mut guest, &load, &probes(&["branches:a.c:f"]), Some(missing)).is_err());
}
