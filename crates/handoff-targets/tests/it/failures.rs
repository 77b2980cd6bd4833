//! What goes wrong with real machines, made to happen: a full disk, a connection and a link that are lost in the
//! middle of a run, a reboot, a clock that is far off, and a machine that lies. Each is a clear error, what came
//! before it is kept, and the session goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use handoff_targets::{Address, Command, Session, Stream, TargetError, Ways};
use handoff_testkit::net::Net;
use handoff_testkit::sshd::{Place, Sshd};
use handoff_testkit::{require, require_file, require_root, require_tool};

fn open(sshd: &Sshd) -> handoff_targets::Result<Session> {
    let address: Address = "ssh://device".parse().expect("an address");
    Session::open_by(&address, Ways { ssh_config: Some(sshd.config()), ..Ways::default() })
}

/// Runs a script of `sh` there; what it printed, and how that ended.
fn run(session: &mut Session, script: &str) -> (String, handoff_targets::Result<i32>) {
    let mut out = Vec::new();
    let command = Command::new("sh").args(["-c", script]);
    let done = session.run(&command, &mut |stream, bytes| {
        if stream == Stream::Stdout {
            out.extend_from_slice(bytes);
        }
    });
    (String::from_utf8_lossy(&out).into_owned(), done.map(|done| done.status))
}

/// Runs a script, and ends the daemon's side of its connection as soon as what it printed has come; what came,
/// and how that ended.
fn run_and_cut(session: &mut Session, script: &str) -> (String, TargetError) {
    // The shell that we are begun by is the daemon's child.
    let script = format!("{script}; echo cut $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 300");
    let (mut out, mut is_cut) = (String::new(), false);
    let command = Command::new("sh").args(["-c", &script]);
    let done = session.run(&command, &mut |_, bytes| {
        out.push_str(&String::from_utf8_lossy(bytes));
        let line = out.split_once("cut ").and_then(|(_, rest)| rest.strip_suffix('\n'));
        if let (Some(pid), false) = (line, is_cut) {
            is_cut = Program::new("kill").args(["-9", pid]).status().is_ok_and(|status| status.success());
        }
    });
    let before = out.split("cut ").next().unwrap_or_default().to_owned();
    (before, done.expect_err("the connection was cut"))
}

/// A mount namespace in which a script has run.
fn in_mounts(script: &str) -> [String; 6] {
    let script = format!("{script} && exec \"$@\"");
    ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned)
}

/// The home that sshd gives to root.
fn home() -> std::path::PathBuf {
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let home = users.lines().find_map(|line| line.strip_prefix("root:")?.split(':').nth(4));
    home.expect("root is one").into()
}

fn start(wrapper: &[String], settings: &str, sshd: &Path, folder: &Path) -> Sshd {
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    Sshd::start_in(Place { wrapper: &wrapper, settings, ..Place::default() }, sshd, folder)
}

/// A folder of programs of ours that the machine finds first.
fn program(folder: &Path, name: &str, script: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("made");
    fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("set");
    format!("SetEnv PATH={}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", bin.display())
}

#[test]
fn a_full_disk_is_said_leaves_nothing_behind_and_can_be_mended() {
    require!(require_root());
    require!(require_tool("ssh"));
    require!(require_tool("unshare"));
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let there = home().join(".cache/handoff").display().to_string();
    let small = in_mounts(&format!("mkdir -p {there} && mount -t tmpfs -o size=256k,mode=700 none {there}"));
    let sshd = start(&small, "", &sshd, folder.path());
    let mut session = open(&sshd).expect("opened");
    assert!(session.facts().free_kib.is_some_and(|free| free <= 256), "{:?}", session.facts());

    let large = sshd.at("program");
    let bytes: Vec<u8> =
        b"#!/bin/sh\nexit 7\n".iter().copied().chain((0..1_u32 << 20).map(|n| (n % 251) as u8)).collect();
    fs::write(&large, bytes).expect("written");
    let error = session.push(&large).expect_err("it is full");
    assert!(matches!(error, TargetError::Step { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("cannot take a program") && error.contains("No space left on device"), "{error}");
    let (left, _) = run(&mut session, &format!("ls {there}; df -Pk {there} | tail -n 1"));
    assert_eq!(left.lines().count(), 1, "nothing is left there: {left}");

    let (_, mended) = run(&mut session, &format!("mount -o remount,size=8m {there}"));
    assert_eq!(mended.expect("it runs"), 0);
    let there = session.push(&large).expect("there is room");
    let done = session.run(&Command::new(there), &mut |_, _| {}).expect("it runs");
    assert_eq!(done.status, 7);
}

#[test]
fn a_connection_that_is_cut_loses_neither_what_came_before_nor_the_session() {
    require!(require_tool("ssh"));
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&sshd, folder.path());
    let mut session = open(&sshd).expect("opened");
    for round in 0..3 {
        let (out, error) = run_and_cut(&mut session, &format!("echo round {round}"));
        assert!(matches!(error, TargetError::Lost { .. }), "{error}");
        assert_eq!(out, format!("round {round}\n"), "what came is kept");
        let (out, done) = run(&mut session, "echo again");
        assert_eq!((out.as_str(), done.expect("it is connected again")), ("again\n", 0));
    }
    // A lock is kept by a connection of its own, and outlives the cut; the lock of a holder that died does not.
    let lock = session.lock().expect("free");
    run_and_cut(&mut session, "true");
    let error = open(&sshd).expect("opened").lock().expect_err("taken");
    assert!(matches!(error, TargetError::Locked { .. }), "{error}");
    drop(lock);
    drop(open(&sshd).expect("opened").lock().expect("free again"));
}

#[test]
fn a_link_that_goes_down_is_noticed_and_the_session_goes_on_when_it_is_up() {
    require!(require_root());
    require!(require_tool("ssh"));
    require!(require_tool("ip"));
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let net = Net::new();
    let place = Place { wrapper: &net.wrapper(), address: net.there(), settings: "" };
    let sshd = Sshd::start_in(place, &sshd, folder.path());
    let mut session = open(&sshd).expect("opened");
    let mut out = Vec::new();
    let command = Command::new("sh").args(["-c", "echo round 1; sleep 300"]);
    let lost = session.run(&command, &mut |_, bytes| {
        out.extend_from_slice(bytes);
        // Nothing says goodbye: packets just no longer arrive.
        net.down();
    });
    let error = lost.expect_err("nothing answers any more");
    assert!(error.is_link(), "{error}");
    assert_eq!(out, b"round 1\n");
    net.up();
    let (out, done) = run(&mut session, "echo round 2");
    assert_eq!((out.as_str(), done.expect("it is connected again")), ("round 2\n", 0));
}

/// After which a machine gives a lock up: several times as long as a holder on a busy machine may be silent.
const SILENCE: Duration = Duration::from_secs(10);

#[test]
fn the_lock_of_a_holder_that_is_cut_off_is_given_up_and_that_of_one_that_is_heard_is_kept() {
    require!(require_root());
    for tool in ["ssh", "ip", "unshare", "flock", "timeout"] {
        require!(require_tool(tool));
    }
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let net = Net::new();
    // A folder for locks that no other test has.
    let mounts = in_mounts("mkdir -p /tmp/handoff && mount -t tmpfs none /tmp/handoff");
    let wrapper: Vec<&str> = net.wrapper().into_iter().chain(mounts.iter().map(String::as_str)).collect();
    let place = Place { wrapper: &wrapper, address: net.there(), settings: "" };
    let sshd = Sshd::start_in(place, &sshd, folder.path());
    let address: Address = "ssh://device".parse().expect("an address");
    let ways = Ways { ssh_config: Some(sshd.config()), lock_silence: Some(SILENCE) };
    let open = || Session::open_by(&address, ways.clone()).expect("opened");
    let _holder = open().lock().expect("free");
    std::thread::sleep(SILENCE + SILENCE / 2);
    let error = open().lock().expect_err("its holder is heard");
    assert!(matches!(error, TargetError::Locked { .. }), "{error}");
    // Nothing says goodbye: a machine that waits for it would keep the lock for hours.
    net.down();
    std::thread::sleep(2 * SILENCE);
    net.up();
    // A busy machine gives it up later.
    let given_up = (0..60).any(|_| {
        std::thread::sleep(Duration::from_secs(1));
        open().lock().is_ok()
    });
    assert!(given_up, "the machine keeps the lock of a holder that it does not hear");
}

#[test]
fn a_machine_that_was_booted_anew_is_told_from_a_lost_link() {
    require!(require_root());
    require!(require_tool("ssh"));
    require!(require_tool("unshare"));
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let boot = folder.path().join("boot");
    fs::write(&boot, "first\n").expect("written");
    let mounts = in_mounts(&format!("mount --bind {} /proc/sys/kernel/random/boot_id", boot.display()));
    let sshd = start(&mounts, "", &sshd, folder.path());
    let mut session = open(&sshd).expect("opened");
    assert_eq!(session.facts().boot_id.as_deref(), Some("first"));
    let script = format!("echo before; echo second >{}", boot.display());
    let (out, error) = run_and_cut(&mut session, &script);
    assert!(matches!(error, TargetError::Rebooted { .. }), "{error}");
    assert_eq!((out.as_str(), session.facts().boot_id.as_deref()), ("before\n", Some("second")));
    assert_eq!(run(&mut session, "true").1.expect("it is there again"), 0);
}

#[test]
fn a_guest_that_reboots_is_there_again() {
    require!(require_root());
    require!(require_tool("apt-get"));
    require!(require_tool(&format!("qemu-system-{}", std::env::consts::ARCH)));
    let mut session = Session::open(&Address::Guest).expect("booted");
    let first = session.facts().boot_id.clone();
    // What is printed passes a pipe there, which a machine that reboots at once would take with it.
    let (out, done) = run(&mut session, "echo before; sleep 5; reboot -f; sleep 60");
    let error = done.expect_err("it rebooted");
    assert!(matches!(error, TargetError::Rebooted { .. }), "{error}");
    assert_eq!(out, "before\n");
    assert_eq!(run(&mut session, "true").1.expect("it is there again"), 0);
    assert!(first.is_some() && session.facts().boot_id != first);
}

#[test]
fn a_clock_that_is_far_off_is_said_and_does_not_touch_times() {
    require!(require_tool("ssh"));
    let sshd = require!(require_file("/usr/sbin/sshd"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = program(folder.path(), "date", "exec /bin/date --date='+3 days' \"$@\"");
    let sshd = start(&[], &path, &sshd, folder.path());
    let mut session = open(&sshd).expect("opened");
    let ahead = session.facts().clock_ahead_s;
    assert!((ahead - 3 * 86_400).abs() < 300, "{ahead} s");
    let done = session.run(&Command::new("sleep").args(["0.2"]), &mut |_, _| {}).expect("it runs");
    assert!(done.elapsed >= Duration::from_millis(200) && done.elapsed < Duration::from_secs(60));
}

#[test]
fn a_machine_that_lies_about_itself_is_not_believed() {
    require!(require_tool("ssh"));
    let daemon = require!(require_file("/usr/sbin/sshd"));
    for (name, script, says) in [
        ("uname", "head -c 3000000 /dev/urandom", "its "),
        ("date", "echo soon", "its time is no number"),
        ("date", "exit 1", "does not say its time"),
        ("id", "printf '\\033[2J0'", "its user is"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = program(folder.path(), name, script);
        let sshd = start(&[], &path, &daemon, folder.path());
        let error = open(&sshd).err().unwrap_or_else(|| panic!("{name} was believed"));
        assert!(matches!(error, TargetError::Garbage { .. }), "{name}: {error}");
        let error = error.to_string();
        let known = error.contains(says) || error.contains("does not say");
        assert!(known && error.len() < 1000 && !error.contains('\u{1b}'), "{name}: {error}");
    }
    // A program that prints without end is ended at its deadline, and what it printed is not kept by us.
    let folder = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&daemon, folder.path());
    let mut session = open(&sshd).expect("opened");
    let mut count = 0_u64;
    // Where others have the CPUs, it may take seconds to begin.
    for seconds in [1, 10, 100] {
        let endless = Command::new("yes").deadline(Duration::from_secs(seconds));
        let error = session.run(&endless, &mut |_, bytes| count += bytes.len() as u64).expect_err("no end");
        assert!(matches!(error, TargetError::Deadline { .. }), "{error}");
        if count > 0 {
            break;
        }
    }
    assert!(count > 0, "it prints");
    assert_eq!(run(&mut session, "true").1.expect("it goes on"), 0);
}
