//! A second process, and the service to run in it.
// Each test file uses a part; a module of a test cannot be reached from elsewhere.
#![allow(dead_code, unreachable_pub)]

mod service;

use std::io::{BufRead, BufReader, Read};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use handoff_ipc::binder::{BinderEngine, find_device};
use handoff_ipc::engine::Engine;
use handoff_ipc::rpc::{RpcEngine, RpcServer};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Context, Error, ExceptionCode, Service};

pub use self::service::*;

pub fn is_specific(error: &Error, code: i32) -> bool {
    matches!(error, Error::Status(status)
        if status.exception() == ExceptionCode::ServiceSpecific && status.service_specific_code() == code)
}

/// A folder with a socket in it.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("manager.sock")
    }
}

/// True if the tests are to run on the kernel's driver: `HANDOFF_TEST_ENGINE=binder`, in the guest.
pub fn on_driver() -> bool {
    std::env::var("HANDOFF_TEST_ENGINE").is_ok_and(|engine| engine == "binder")
}

/// True if the tests are to run over Binder RPC: `HANDOFF_TEST_ENGINE=rpc`.
pub fn on_rpc() -> bool {
    std::env::var("HANDOFF_TEST_ENGINE").is_ok_and(|engine| engine == "rpc")
}

/// An engine of the kind that is tested; on the driver, of the context that `HANDOFF_TEST_DOMAIN` names.
pub fn engine(socket: &Path) -> Arc<dyn Engine> {
    if on_driver() {
        let context =
            std::env::var("HANDOFF_TEST_DOMAIN").map_or(Context::Framework, |word| word.parse().unwrap());
        Arc::new(BinderEngine::open_for(find_device(context).unwrap(), context).unwrap())
    } else if on_rpc() {
        Arc::new(RpcEngine::new(socket))
    } else {
        Arc::new(ShmEngine::new(socket).unwrap())
    }
}

/// Serves `service` as the root object at `socket`, in this process.
pub fn serve(socket: &Path, service: impl Service) -> Arc<dyn Engine> {
    let engine = engine(socket);
    engine.become_context_manager(Binder::new(service)).unwrap();
    engine
}

/// Serves [`Everything`] over Binder RPC at `socket`, to four calls of a client at one time.
pub fn serve_rpc(socket: PathBuf) -> RpcServer {
    RpcServer::builder(socket).max_threads(4).serve(Binder::new(Everything::default())).unwrap()
}

const ROLE: &str = "HANDOFF_TEST_ROLE";

/// This process's role, if it was started by [`Peer::start`]: the socket and the role's name. The
/// caller is a test function that returns at once when there is none.
pub fn role() -> Option<(String, PathBuf)> {
    let value = std::env::var(ROLE).ok()?;
    let (role, socket) = value.split_once('@')?;
    Some((role.to_owned(), socket.into()))
}

/// Arguments that have this test program run the `role_main` of the caller's file alone. The file is a
/// module of the program, or the whole of it if it lies in `tests` itself.
#[track_caller]
pub fn role_arguments() -> [String; 5] {
    let file = Path::new(Location::caller().file());
    let inner = file.parent().is_some_and(|folder| folder.ends_with("it"));
    let module = file.file_stem().filter(|_| inner).map(|stem| format!("{}::", stem.to_string_lossy()));
    let role_main = format!("{}role_main", module.unwrap_or_default());
    ["--ignored", "--exact", &role_main, "--nocapture", "--test-threads=1"].map(str::to_owned)
}

/// A second process: this test program again, running the `role_main` of the file that starts it.
pub struct Peer {
    pub child: Child,
}

impl Peer {
    #[allow(clippy::zombie_processes)] // waited for in `drop`, or the test failed
    #[track_caller]
    pub fn start(role: &str, socket: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(role_arguments())
            .env(ROLE, format!("{role}@{}", socket.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The harness prints its own lines first.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if line.ends_with("ready") {
                std::thread::spawn(move || lines.for_each(drop));
                return Peer { child };
            }
        }
        panic!("the peer did not start");
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Has a process of its own play a role to its end, and succeed: what it counts of itself, such as its
/// descriptors, no other test of this program changes.
#[track_caller]
pub fn alone(role: &str, socket: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(role_arguments())
        .env(ROLE, format!("{role}@{}", socket.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {}: {said}", output.status);
}

/// Says that the role is played, and plays it until the parent ends.
pub fn ready_and_wait() {
    println!("ready");
    let mut rest = String::new();
    drop(std::io::stdin().read_to_string(&mut rest));
    std::process::exit(0);
}

/// xorshift64*, so that a run can be repeated by its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// CPU time that a process has used.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // A tick is a hundredth of a second in all that the kernel says (USER_HZ).
    Duration::from_millis(ticks * 10)
}

pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|l| l.contains("handoff-")).count()
}

/// Waits for something that other threads bring about.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What threads run at that were given nothing: a test may be run under `nice`.
pub fn own_priority() -> handoff_placement::Priority {
    handoff_placement::Priority::current().unwrap()
}

/// The priority that a call is served at.
pub fn served_at(root: &Binder) -> String {
    root.transaction(PRIORITY).call(|_| Ok(()), |r| r.read()).unwrap()
}

/// What a call is served at when a fresh thread of that priority makes it.
pub fn served_for(root: &Binder, caller: handoff_placement::Priority) -> String {
    let root = root.clone();
    std::thread::spawn(move || {
        caller.apply(handoff_placement::Tid::current()).unwrap();
        served_at(&root)
    })
    .join()
    .unwrap()
}

/// A server in a process of its own, and this process's connection to it.
pub struct World {
    pub place: Place,
    pub server: Peer,
    pub engine: Arc<dyn Engine>,
    /// What the server has for those who come.
    pub root: Binder,
}

impl World {
    #[track_caller]
    pub fn of(role: &str) -> Self {
        let place = Place::new();
        let server = Peer::start(role, &place.socket());
        let engine = engine(&place.socket());
        let root = engine.context_object().unwrap();
        World { place, server, engine, root }
    }
}
