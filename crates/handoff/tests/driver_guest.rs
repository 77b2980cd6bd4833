//! The program on the kernel's Binder driver: one guest serves all of these.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use handoff_kernel::guest::{Acceleration, Arch, Guest, GuestCommand, GuestOutput};
use handoff_testkit::{require, require_tool};
use serde_json::Value;

fn needs() -> Result<(), String> {
    let arch = Arch::host().ok_or("needs an architecture that guests can have")?;
    require_tool("apt-get")?;
    require_tool("dpkg-deb")?;
    require_tool(arch.qemu()).map(drop)
}

fn guest() -> MutexGuard<'static, Guest> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| {
        // Always translated: trying KVM takes a while where it does not work, and is not what is tested.
        let builder = Guest::builder().acceleration(Acceleration::Tcg);
        Mutex::new(builder.program(env!("CARGO_BIN_EXE_handoff"), "/bin/handoff").boot().expect("it boots"))
    });
    guest.lock().unwrap_or_else(PoisonError::into_inner)
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

#[test]
fn a_transaction_passes_fifteen_points() {
    require!(needs());
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
    assert!(transactions.len() >= 80, "{} of 100: {}", transactions.len(), report["left_out"]);
    for row in transactions {
        let points: Vec<u64> = row.as_array().expect("a row").iter().filter_map(Value::as_u64).collect();
        assert!(points.len() == 15 && points[0] == 0 && points.is_sorted(), "{points:?}");
    }
    let left = guest.read("/sys/kernel/tracing/tracing_on").expect("tracefs");
    assert_eq!(left, b"1\n", "as it was");
    let instances = guest.run(&GuestCommand::shell("ls /sys/kernel/tracing/instances")).expect("run");
    assert_eq!(instances.stdout_text(), "", "nothing is left behind");
}
