//! Ctrl-C: commands that do not ask for it end with one line, leave nothing half done, and give 130.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

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
        "measure hackbench --groups 10 --loops 1000000",
        "measure add-ints -n 1000000",
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
fn floors_that_were_measured_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    // As from a terminal: its peers hear the signal, too.
    let child =
        start(command.args(["measure", "floors", "--rounds", "10000"]).process_group(0), folder.path());
    thread::sleep(Duration::from_millis(300));
    kill_process_group(Pid::from_child(&child), Signal::INT).expect("signalled");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("stopping") && !said.contains("error:"), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("Round trip of 8 bytes"), "{printed}");
}

#[test]
fn sizes_that_were_measured_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["measure", "throughput", "--benchmark_min_time=0.01", "--benchmark_repetitions=10000"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    let mut child =
        start(command.args(arguments).arg("--benchmark_out=out.json").process_group(0), folder.path());
    let said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = said.lines().map(|line| line.expect("text"));
    let name = said.by_ref().find(|line| line.starts_with("BM_sendVec_shm/")).expect("the first repetition");
    // As from a terminal: its workers hear it, too.
    kill_process_group(Pid::from_child(&child), Signal::INT).expect("signalled");
    let rest: Vec<String> = said.collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("stopped early")), "{rest:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(&name), "{output:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0, "half a result is no file");
}

/// A terminal sends the signal to the workers of a command, too.
#[test]
fn a_command_and_its_workers_speak_with_one_voice() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    command.args(["measure", "affinity-study", "--iterations", "2000000"]).process_group(0);
    let child = start(&mut command, folder.path());
    thread::sleep(Duration::from_millis(300));
    kill_process_group(Pid::from_child(&child), Signal::INT).expect("signalled");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    let stops = said.lines().filter(|line| line.starts_with("stopp")).count();
    assert!(stops == 1 && !said.contains("error:"), "{said}");
}

/// The last words had nobody to go to, and the thread that hears signals ended over it.
#[test]
fn a_command_ends_although_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    let mut child = start(command.args(["measure", "add-ints", "-n", "1000000"]), folder.path());
    drop((child.stdout.take(), child.stderr.take()));
    kill_process(Pid::from_child(&child), Signal::INT).expect("signalled");
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().expect("ours") {
            Some(status) => break status,
            None if Instant::now() > end => {
                child.kill().expect("killed");
                child.wait().expect("it ends");
                panic!("the signal did not end it");
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(status.code(), Some(130));
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
