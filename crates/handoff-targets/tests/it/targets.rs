//! The same behaviour on this machine and over a real sshd on loopback, with keys, configuration and port
//! of its own.

use std::fs;
use std::time::Duration;

use handoff_targets::{Address, Command, Limits, Session, Stream, TargetError, Ways};
use handoff_testkit::sshd::{Sshd, key};
use handoff_testkit::{require, require_file, require_tool};

fn output(session: &mut Session, command: &Command) -> (i32, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let done = session.run(command, &mut |stream, bytes| match stream {
        Stream::Stdout => out.extend_from_slice(bytes),
        Stream::Stderr => err.extend_from_slice(bytes),
    });
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (done.expect("it runs").status, text(out), text(err))
}

/// What holds on every target.
fn behaves(address: &Address, open: &dyn Fn(&Address) -> handoff_targets::Result<Session>) {
    let mut session = open(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    assert_eq!(session.address(), *address);
    assert_eq!(session.facts().arch, std::env::consts::ARCH);
    assert!(session.facts().boot_id.is_some() && session.facts().clock_ahead_s.abs() < 60);

    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    // Its text is another each time, so it is not there from a run before.
    let script = format!(
        "#!/bin/sh\n# {}\nprintf '%s|' \"$@\" \"$A\" \"$PWD\"; echo no >&2; exit 3\n",
        folder.path().display()
    );
    fs::write(&program, script).expect("written");
    let there = session.push(&program).expect("pushed");
    assert_eq!(session.push(&program).expect("it is there"), there);
    let command = Command::new(&there).args(["a b", "it's", "$x"]).env("A", "1").current_dir("/");
    assert_eq!(output(&mut session, &command), (3, "a b|it's|$x|1|/|".to_owned(), "no\n".to_owned()));
    fs::remove_file(&there).expect("the test's own");

    let limits = Limits { files: Some(17), ..Limits::default() };
    let (status, out, _) = output(&mut session, &Command::new("sh").args(["-c", "ulimit -n"]).limits(limits));
    assert_eq!((status, out.trim()), (0, "17"));
    assert_eq!(output(&mut session, &Command::new("sh").args(["-c", "exit 255"])).0 & 0xfe, 254);

    let late = Command::new("sleep").args(["30"]).deadline(Duration::from_millis(300));
    let error = session.run(&late, &mut |_, _| {}).expect_err("too long");
    assert!(matches!(error, TargetError::Deadline { .. }), "{error}");

    let back = folder.path().join("back");
    session.fetch(program.to_str().expect("text"), &back).expect("fetched");
    assert_eq!(fs::read(&back).expect("here"), fs::read(&program).expect("there"));
    let error = session.fetch("/no/such/file", &back).expect_err("not there").to_string();
    assert!(error.contains("cannot give a file") && error.contains("/no/such/file"), "{error}");

    let lock = session.lock().expect("it is free");
    let error = open(address).expect("opened").lock().expect_err("taken").to_string();
    assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
    drop(lock);
    drop(session.lock().expect("free again"));
}

#[test]
fn this_machine_and_one_behind_ssh_behave_alike() {
    let sshd = require!(require_file("/usr/sbin/sshd"));
    require!(require_tool("ssh"));
    require!(require_tool("flock"));
    let keys = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&sshd, keys.path());
    // SAFETY-free: the variable is read by ssh targets of this test alone.
    let device: Address = "ssh://device".parse().expect("an address");
    let ways = Ways { ssh_config: Some(sshd.config()), ..Ways::default() };
    let open = |address: &Address| Session::open_by(address, ways.clone());
    behaves(&Address::Local, &open);
    behaves(&device, &open);

    // A program of another machine is not sent.
    let mut session = open(&device).expect("opened");
    let other = sshd.at("other");
    let mut elf = fs::read(std::env::current_exe().expect("this")).expect("read");
    elf[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(&other, elf).expect("written");
    let error = session.push(&other).expect_err("for riscv64").to_string();
    assert!(error.contains("is for riscv64") && error.contains(std::env::consts::ARCH), "{error}");

    drop(session);

    // Another host key than the one that is known.
    key(&sshd.at("stranger"));
    sshd.know(&fs::read_to_string(sshd.at("stranger.pub")).expect("made"));
    let error = open(&device).err().expect("refused");
    assert!(matches!(error, TargetError::HostKey { .. }), "{error}");
    sshd.know(&fs::read_to_string(sshd.at("host.pub")).expect("made"));

    // A user whom it does not know.
    fs::write(sshd.at("authorized"), "").expect("written");
    let error = open(&device).err().expect("refused");
    assert!(matches!(error, TargetError::Refused { .. }), "{error}");
    fs::copy(sshd.at("user.pub"), sshd.at("authorized")).expect("copied");
}
