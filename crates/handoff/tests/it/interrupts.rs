//! Ctrl-C: commands that do not ask for it end with one line, leave nothing half done, and give 130.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Whether a mask of signals of a process, such as `SigCgt`, has this one.
fn has(mask: &str, signal: Signal, child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix(mask)?.strip_prefix(":\t")).expect("a mask");
    u64::from_str_radix(mask, 16).expect("a number") & (1 << (signal.as_raw() - 1)) != 0
}

fn start(command: &mut Command, folder: &Path) -> Child {
    let command = command.current_dir(folder).env("HANDOFF_RESULTS", folder).env("XDG_STATE_HOME", folder);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let end = Instant::now() + Duration::from_secs(60);
    while !has("SigCgt", Signal::TERM, &child) {
        assert!(child.try_wait().expect("ours").is_none(), "it ended by itself");
        assert!(Instant::now() < end, "no signal is caught");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

fn ended(child: Child, signal: Signal) -> Output {
    kill_process(Pid::from_child(&child), signal).expect("signalled");
    child.wait_with_output().expect("it ends")
}

#[test]
fn what_is_ended_says_what_is_kept() {
    for line in [
        "measure floors --rounds 10000",
        "measure hackbench --groups 10 --loops 1000000",
        "measure add-ints -n 1000000",
        "measure throughput --benchmark_out=out.json",
        "measure wake-fanout --rounds 500000",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let handoff = env!("CARGO_BIN_EXE_handoff");
        let child = start(Command::new(handoff).args(line.split(' ')), folder.path());
        thread::sleep(Duration::from_millis(300)); // Somewhere in the middle.
        let output = ended(child, Signal::INT);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{line}: {said}");
        let last = if output.stdout.is_empty() {
            "nothing was kept"
        } else {
            "what is printed above is all there is"
        };
        assert!(said.ends_with(&format!("stopped; {last}\n")), "{line}: {said}");
        assert!(!said.contains("failed"), "{line}: {said}");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0, "{line} left something");
    }
}

#[test]
fn nohup_holds_and_a_script_may_stop_what_it_has_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let handoff = env!("CARGO_BIN_EXE_handoff");
    // As `nohup`, and as a shell's `&`.
    let line = "trap '' HUP INT; exec \"$0\" measure hackbench --groups 10 --loops 1000000";
    let child = start(Command::new("sh").args(["-c", line, handoff]), folder.path());
    assert!(has("SigIgn", Signal::HUP, &child) && !has("SigCgt", Signal::HUP, &child));
    assert_eq!(ended(child, Signal::INT).status.code(), Some(130));
}
