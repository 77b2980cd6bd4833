//! `handoff guest run` as a person types it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use handoff_testkit::{require, require_guest};

/// Always translated: trying KVM takes a while where it does not work, and is not what is tested.
fn guest_run() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
    command.args(["guest", "run", "--accel", "tcg", "--smp", "2", "--memory", "512"]).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_of_handoff_runs_there() {
    require!(require_guest());
    let folder = tempfile::tempdir().expect("a folder");
    let given = folder.path().join("given");
    std::fs::write(&given, "from the host").expect("written");
    let script = "cat /root/given >/tmp/back; echo seen >&2; /bin/handoff cores | head -1; exit 9";
    let output = guest_run()
        .arg("--handoff")
        .arg(env!("CARGO_BIN_EXE_handoff"))
        .arg("--put")
        .arg(&given)
        .arg("--get")
        .arg(format!("/tmp/back:{}", folder.path().join("back").display()))
        .args(["--", "exec", "--cpus", "0", "--", "sh", "-c", script])
        .output()
        .expect("run");
    let complaints = text(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{complaints}");
    assert!(text(&output.stdout).starts_with("2 CPUs online"), "{output:?}");
    assert!(complaints.contains("seen\n"), "{complaints}");
    let back = std::fs::read_to_string(folder.path().join("back")).expect("brought back");
    assert_eq!(back, "from the host");
}

#[test]
fn an_interrupt_ends_the_guest_and_leaves_nothing() {
    require!(require_guest());
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = guest_run();
    command.args(["--raw", "--", "sh", "-c", "echo begun; sleep 1234"]);
    let mut child = command
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut first = [0; 6];
    std::io::Read::read_exact(&mut stdout, &mut first).expect("the command began");
    assert_eq!(&first, b"begun\n");
    // Once a guest is up, nothing on the disk would be left behind even if we were killed.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    let pid = rustix::process::Pid::from_child(&child);
    let qemu = children(child.id());
    assert_eq!(qemu.len(), 1, "one QEMU");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("interrupted");
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(130));
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::path::Path::new("/proc").join(&qemu[0]).exists() {
        assert!(Instant::now() < deadline, "QEMU is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The ids of a process's children, whichever of its threads made them.
fn children(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    tasks
        .flatten()
        .flat_map(|task| {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}
