//! Socket activation: the service manager serves at a socket that somebody else made (sd_listen_fds(3)).

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use handoff_ipc::parcel::Parcel;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ParcelService, Runtime};
use handoff_testkit::{require, require_tool};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_handoff");

/// A child that does not outlive its test.
struct Running(Child);

impl Running {
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn listener(path: &Path, kind: SocketType) -> OwnedFd {
    let listener = socket(AddressFamily::UNIX, kind, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 16).unwrap();
    listener
}

/// The service manager, started as systemd does: with `passed` as descriptor 3, and what `shell` does before.
fn manager(passed: OwnedFd, shell: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec 3<&0 </dev/null; {shell} exec \"$0\" servicemanager \"$@\""), PROGRAM])
        .args(arguments)
        .env_remove("HANDOFF_SOCKET")
        .stdin(Stdio::from(passed));
    command
}

const ONE: &str = "export LISTEN_FDS=1 LISTEN_PID=$$;";

fn service(name: &'static str) -> Binder {
    Binder::new(ParcelService::new(name, move |_, _| {
        let mut reply = Parcel::new();
        reply.write(|to| to.write(&name.to_owned()))?;
        Ok(Some(reply))
    }))
}

fn call(runtime: &Runtime, name: &str) -> handoff_ipc::Result<String> {
    runtime.services().get(name)?.transaction(1).call(|_| Ok(()), |reply| reply.read())
}

#[test]
fn a_client_that_came_first_is_served_and_the_socket_outlives_two_managers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.sock");
    let listener = listener(&path, SocketType::SEQPACKET);
    let start = || Running(manager(listener.try_clone().unwrap(), ONE, &[]).spawn().unwrap());

    // The client's greeting waits in the socket until there is a manager.
    let connecting = std::thread::spawn({
        let path = path.clone();
        move || Runtime::builder().socket(path).connect().unwrap()
    });
    while !is_waited_for(&listener) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let first = start();
    let server = connecting.join().unwrap();
    server.services().add("echo", service("echo"), ServiceOptions::default()).unwrap();
    let client = Runtime::builder().socket(&path).connect().unwrap();
    assert_eq!(call(&client, "echo").unwrap(), "echo");

    // The next one learns the names from those who registered them.
    first.stop();
    assert!(path.exists(), "the socket belongs to who made it");
    let _second = start();
    let end = Instant::now() + Duration::from_secs(60);
    while call(&client, "echo").is_err() {
        assert!(Instant::now() < end, "the name never came back");
        std::thread::sleep(Duration::from_millis(20));
    }
    let newcomer = Runtime::builder().socket(&path).connect().unwrap();
    assert_eq!(call(&newcomer, "echo").unwrap(), "echo");
}

fn is_waited_for(listener: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&now)).unwrap() > 0
}

fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

#[test]
fn what_cannot_be_served_at_is_refused_with_what_to_write_instead() {
    let folder = tempfile::tempdir().unwrap();
    let packets = |name: &str| listener(&folder.path().join(name), SocketType::SEQPACKET);
    let refused = |passed: OwnedFd, shell: &str, arguments: &[&str]| {
        refused(&manager(passed, shell, arguments).output().unwrap())
    };

    let stream = listener(&folder.path().join("stream"), SocketType::STREAM);
    let said = refused(stream, ONE, &[]);
    assert!(
        said.contains("is no Unix socket of packets") && said.contains("ListenSequentialPacket="),
        "{said}"
    );

    let file = std::fs::File::create(folder.path().join("file")).unwrap();
    assert!(refused(file.into(), ONE, &[]).contains("is no socket that listens"));
    // Connected, and so not to be taken for one that listens.
    assert!(refused(UnixStream::pair().unwrap().0.into(), ONE, &[]).contains("is no socket that listens"));

    let two = "exec 4<&3; export LISTEN_FDS=2 LISTEN_PID=$$;";
    assert!(refused(packets("two"), two, &[]).contains("2 sockets were passed on"));
    let closed = "exec 3<&-; export LISTEN_FDS=1 LISTEN_PID=$$;";
    refused(packets("closed"), closed, &[]);
    for nonsense in ["LISTEN_FDS=-1", "LISTEN_FDS=4294967295", "LISTEN_FDS=x"] {
        refused(packets(nonsense), &format!("export {nonsense} LISTEN_PID=$$;"), &[]);
    }
    for arguments in [["--socket", "/nowhere"], ["--access", "owner"]] {
        let said = refused(packets(arguments[0]), ONE, &arguments);
        assert!(said.contains("SocketMode="), "{said}");
    }

    let abstract_name = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let name = format!("handoff-test-{}", std::process::id());
    bind(&abstract_name, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&abstract_name, 1).unwrap();
    assert!(refused(abstract_name, ONE, &[]).contains("has no path"));
}

#[test]
fn what_was_meant_for_another_process_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let passed = folder.path().join("passed");
    let own = folder.path().join("own.sock");
    let command = "export LISTEN_FDS=1 LISTEN_PID=1;";
    let mut command =
        manager(listener(&passed, SocketType::SEQPACKET), command, &["--socket", own.to_str().unwrap()]);
    let running = Running(command.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while !own.exists() {
        assert!(Instant::now() < end, "it does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.stop();
    assert!(!own.exists() && passed.exists());
}

#[test]
fn systemd_starts_the_manager_when_the_first_client_comes() {
    let activate = require!(require_tool("systemd-socket-activate"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.sock");
    let mut command = Command::new(activate);
    command.arg("--seqpacket").arg("--listen").arg(&path).args([PROGRAM, "servicemanager"]);
    let _running = Running(command.env_remove("HANDOFF_SOCKET").stderr(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < end, "systemd-socket-activate does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let runtime = Runtime::builder().socket(&path).connect().unwrap();
    runtime.services().add("echo", service("echo"), ServiceOptions::default()).unwrap();
    let client = Runtime::builder().socket(&path).connect().unwrap();
    assert_eq!(call(&client, "echo").unwrap(), "echo");
}
