//! Users who do harm at the daemon's socket and stay connected, while an honest one of another user asks.

use crate::policy_daemon::{name, policy, program, with_daemon};
use handoff_placement::notice::Notice;
use handoff_placement::{Tid, notice};
use handoff_policy::{Event, Policy};
use handoff_testkit::{require, require_root};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, Uid, prlimit};
use std::fs;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ATTACKER: u32 = 61_001;
const HONEST: u32 = 61_002;

/// A thread of another user, as far as sockets can tell.
fn become_user(uid: u32) {
    let uid = Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

fn open_to_all() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Connects and begins a line.
fn half_a_line(folder: &Path) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(notice::socket(folder)).ok()?;
    stream.write_all(b"stat").ok()?;
    Some(stream)
}

/// An honest user asks twenty times while `attack` goes on, and is answered each time.
fn honest_beside(folder: &Path, attack: impl Fn(&AtomicBool) + Sync) {
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_user(ATTACKER);
            while !over.load(Ordering::Relaxed) {
                attack(&over);
                ready.store(true, Ordering::Relaxed);
            }
        });
        let honest = scope.spawn(|| {
            become_user(HONEST);
            while !ready.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            for round in 0..20 {
                notice::status(folder).map_err(|error| format!("in round {round}: {error}"))?;
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok::<_, String>(())
        });
        let outcome = honest.join();
        over.store(true, Ordering::Relaxed);
        outcome.unwrap().expect("the honest one is answered");
    });
}

#[test]
fn half_lines_on_all_connections() {
    require!(require_root());
    let folder = open_to_all();
    with_daemon(folder.path(), policy(folder.path()), || {
        // Those that are held, and what the daemon said before it closed others.
        let held = Mutex::new((Vec::new(), Vec::new()));
        honest_beside(folder.path(), |_| {
            let (held, heard) = &mut *held.lock().unwrap();
            held.retain(|stream| closing_words(stream).map(|words| heard.push(words)).is_none());
            for _ in held.len()..300 {
                held.extend(half_a_line(folder.path()));
            }
        });
        let (_, heard) = held.into_inner().unwrap();
        assert!(heard.iter().any(|words| words.contains("as many connections here as it may")), "{heard:?}");
    });
}

/// What was said on a connection that is closed.
fn closing_words(mut stream: &UnixStream) -> Option<String> {
    stream.set_nonblocking(true).unwrap();
    let mut words = [0; 256];
    match stream.read(&mut words) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        said => Some(String::from_utf8_lossy(&words[..said.unwrap_or(0)]).into_owned()),
    }
}

#[test]
fn descriptors_whose_close_blocks() {
    require!(require_root());
    let folder = open_to_all();
    with_daemon(folder.path(), policy(folder.path()), || {
        // What these have not read keeps the closes waiting.
        let readers = Mutex::new(Vec::new());
        honest_beside(folder.path(), |_| {
            let mut readers = readers.lock().unwrap();
            if !readers.is_empty() {
                return std::thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..4 {
                let stream = half_a_line(folder.path()).unwrap();
                let (lingering, reader) = lingers_at_its_close();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let fds = [lingering.as_fd()];
                assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
                sendmsg(&stream, &[IoSlice::new(b"us\n")], &mut control, SendFlags::empty()).unwrap();
                // Whoever closes it last waits, and that may be we.
                std::thread::spawn(move || drop(lingering));
                readers.push(reader);
            }
            // Until the daemon has closed them.
            std::thread::sleep(Duration::from_millis(200));
        });
    });
}

/// The daemon has a thread for each of a user's first connections, and closes those beyond.
#[test]
fn refused_connections_that_linger() {
    require!(require_root());
    let folder = open_to_all();
    with_daemon(folder.path(), policy(folder.path()), || {
        // What these have not read keeps the closes waiting; connections are held, so that they keep their threads.
        let held = Mutex::new((Vec::new(), Vec::new()));
        honest_beside(folder.path(), |_| {
            let (streams, readers) = &mut *held.lock().unwrap();
            if streams.len() > 200 {
                return std::thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..201 {
                let (lingering, reader) = lingers_at_its_close();
                let Ok(stream) = UnixStream::connect(notice::socket(folder.path())) else { continue };
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let fds = [lingering.as_fd()];
                assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
                // The daemon may have hung up already.
                let _ = sendmsg(&stream, &[IoSlice::new(b"stat")], &mut control, SendFlags::NOSIGNAL);
                std::thread::spawn(move || drop(lingering));
                streams.push(stream);
                readers.push(reader);
            }
        });
    });
}

/// A socket with more in it than its peer takes, and which waits at its close until that is gone.
fn lingers_at_its_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(30))).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65_536]).is_ok() {}
    // The time that a close waits is zero for a socket that never waits.
    stream.set_nonblocking(false).unwrap();
    (stream.into(), reader)
}

/// CPU time of a process, in ticks of a hundredth of a second.
fn ticks(pid: u32) -> u64 {
    handoff_placement::process::Status::of(Tid::new(pid as i32).unwrap()).unwrap().cpu_ticks
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn no_descriptors_are_left() {
    require!(require_root());
    let folder = open_to_all();
    let text = "[profile.p]\nnice = 5\n[[rule]]\nmatch = { comm = \"nobody's name\" }\nprofile = \"p\"\n";
    fs::write(folder.path().join("policy.toml"), text).unwrap();
    let daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "policy_daemon::daemon_main"])
        .env("HANDOFF_TEST_DAEMON", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let daemon = Killed(daemon);
    let start = Instant::now();
    while notice::status(folder.path()).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "it did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    // As many as it has open, so that each further one is refused by the kernel.
    let pid = Tid::new(daemon.0.id() as i32).unwrap();
    let few = Rlimit { current: Some(24), maximum: Some(24) };
    prlimit(rustix::process::Pid::from_raw(pid.as_raw()), Resource::Nofile, few).unwrap();
    let held = Mutex::new(Vec::new());
    let before = ticks(daemon.0.id());
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_user(ATTACKER);
            held.lock().unwrap().extend((0..40).map_while(|_| half_a_line(folder.path())));
        });
    });
    std::thread::sleep(Duration::from_secs(2));
    let (spent, passed) = (ticks(daemon.0.id()) - before, start.elapsed());
    assert!(u128::from(spent) * 10 < passed.as_millis() / 4, "it spins: {spent} ticks in {passed:?}");
    drop(held);
    notice::status(folder.path()).unwrap();
}

#[test]
fn a_flood_of_lines_leaves_room_in_the_log() {
    require!(require_root());
    let folder = open_to_all();
    let program = program(folder.path());
    let own = Command::new(program).arg("120").uid(ATTACKER).stdin(Stdio::null()).spawn().unwrap();
    let own = Killed(own);
    let pid = Tid::new(own.0.id() as i32).unwrap();
    let text = format!(
        "[profile.p]\nnice = 5\n[[rule]]\nmatch = {{ comm = \"{}\" }}\nwhen = {{ foreground = true }}\nprofile = \"p\"\n",
        name(folder.path())
    );
    let told = std::sync::atomic::AtomicU64::new(0);
    let events = with_daemon(folder.path(), Policy::parse(&text).unwrap(), || {
        honest_beside(folder.path(), |over| {
            for turn in 0..100 {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if notice::foreground(folder.path(), pid, turn % 2 == 0).is_ok() {
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    });
    let (mut lines, mut left_out) = (0, 0);
    for event in &events {
        match event {
            Event::Announced { pid: of, .. } | Event::Placed { pid: of, .. } if *of == pid.as_raw() => {
                lines += 1
            }
            Event::LeftOut { uid: ATTACKER, lines } => left_out += lines,
            _ => {}
        }
    }
    let told = told.into_inner();
    assert!(lines < 64 + 60 && left_out > 0, "{lines} lines, {left_out} left out, of {told}");
    // Each request is told, and each placed the process or gave back what it had.
    assert_eq!(lines + left_out, 2 * told, "all are counted");
}

#[test]
fn a_policy_of_another_user_is_not_listened_to() {
    require!(require_root());
    let folder = open_to_all();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    std::thread::scope(|scope| {
        let listens = scope.spawn(|| {
            become_user(ATTACKER);
            let listener = UnixListener::bind(notice::socket(folder.path())).unwrap();
            fs::set_permissions(notice::socket(folder.path()), fs::Permissions::from_mode(0o777)).unwrap();
            listener
        });
        let listener = listens.join().unwrap();
        scope.spawn(move || {
            for mut stream in listener.incoming().take(3).map(Result::unwrap) {
                let _ = stream.write_all(b"ok \x1b[2Jnothing is placed\n");
            }
        });
        let path = folder.path();
        let honest = scope.spawn(move || {
            become_user(HONEST);
            (notice::status(path), Notice::Foreground(true).tell_at(path))
        });
        let (status, told) = honest.join().unwrap();
        for refused in [status.map(drop), told, notice::status(path).map(drop)] {
            let error = refused.expect_err("root's and one's own are").to_string();
            assert!(error.contains(&format!("that of user {ATTACKER}")), "{error}");
        }
    });
}
