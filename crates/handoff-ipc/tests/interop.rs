//! Our side of the interoperability test with rsbinder, on the kernel's driver and over Binder RPC: a manager, services
//! and clients of the interface in `handoff/tests/rsbinder/aidl`. Run in a guest by `handoff/tests/guests/binder_guest.rs`;
//! what needs no driver runs anywhere, with `HANDOFF_THEIRS` naming the other side's program.

#[path = "it/common/mod.rs"]
mod common;

use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use common::file_with;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::parcel::{Nullable, Parcelable, Reader, Writer};
use handoff_ipc::rpc::{RpcServer, RpcSession};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Code, Error, ExceptionCode, Proxy, Result, Runtime, Service, Status, Transaction};

/// The program of the other side: where the guest has it, unless told otherwise.
fn theirs() -> Command {
    Command::new(std::env::var_os("HANDOFF_THEIRS").unwrap_or_else(|| "/bin/theirs".into()))
}

/// The interface's transactions, in the order of its file.
mod code {
    pub(super) const ECHO: u32 = 1;
    pub(super) const REVERSE: u32 = 2;
    pub(super) const FLIP: u32 = 3;
    pub(super) const MOVE: u32 = 4;
    pub(super) const CALL_BACK: u32 = 5;
    pub(super) const READ_FILE: u32 = 6;
    pub(super) const MAKE_FILE: u32 = 7;
    pub(super) const FAIL: u32 = 8;
    pub(super) const UPPER: u32 = 9;
    pub(super) const ANOTHER: u32 = 10;
    pub(super) const NOTE: u32 = 11;
    pub(super) const NOTES: u32 = 12;
    pub(super) const DIE: u32 = 13;
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    x: i32,
    y: i64,
    label: Option<String>,
}

impl Parcelable for Point {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_sized(|to| {
            to.write(&self.x)?;
            to.write(&self.y)?;
            to.write(&self.label)
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_sized(|from| Ok(Point { x: from.read()?, y: from.read()?, label: from.read()? }))
    }
}

impl Nullable for Point {}

#[derive(Default)]
struct Interop {
    notes: Mutex<Vec<String>>,
}

fn read_all(fd: OwnedFd) -> String {
    let mut file = std::fs::File::from(fd);
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

impl Service for Interop {
    fn descriptor(&self) -> &str {
        Peer::DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, reply, .. } = transaction;
        match code {
            code::ECHO => reply.write(&data.read::<String>()?),
            code::REVERSE => {
                let mut numbers: Vec<i32> = data.read()?;
                numbers.reverse();
                reply.write(&numbers)
            }
            code::FLIP => {
                let mut bytes = data.read_bytes()?.to_vec();
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
                reply.write_bytes(&bytes)
            }
            code::MOVE => {
                let (point, by): (Option<Point>, i32) = (data.read()?, data.read()?);
                reply.write(&point.map(|p| Point { x: p.x + by, y: p.y + i64::from(by), ..p }))
            }
            code::CALL_BACK => {
                let (other, depth): (Binder, i32) = (data.read()?, data.read()?);
                let turns = if depth == 0 { 0 } else { 1 + Peer(other).call_back(&ours(), depth - 1)? };
                reply.write(&turns)
            }
            code::READ_FILE => reply.write(&read_all(data.read()?)),
            code::MAKE_FILE => reply.write(&OwnedFd::from(file_with(&data.read::<String>()?))),
            code::FAIL => {
                let (code, message): (i32, String) = (data.read()?, data.read()?);
                Err(Error::Status(match code {
                    0 => Status::new(ExceptionCode::IllegalArgument, message),
                    code => Status::service_specific(code, message),
                }))
            }
            code::UPPER => {
                let words: Option<Vec<Option<String>>> = data.read()?;
                let upper = |word: Option<String>| word.map(|word| word.to_uppercase());
                reply.write(&words.map(|words| words.into_iter().map(upper).collect::<Vec<_>>()))
            }
            code::ANOTHER => reply.write(&ours()),
            code::NOTE => {
                self.notes.lock().unwrap().push(data.read()?);
                Ok(())
            }
            code::NOTES => reply.write(&std::mem::take(&mut *self.notes.lock().unwrap())),
            code::DIE => std::process::abort(),
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

fn ours() -> Binder {
    Binder::new(Interop::default())
}

struct Peer(Binder);

impl Proxy for Peer {
    const DESCRIPTOR: &'static str = "interop.IInterop";

    fn wrap(binder: Binder) -> Self {
        Peer(binder)
    }
}

impl Peer {
    fn call_back(&self, other: &Binder, depth: i32) -> Result<i32> {
        let write = |w: &mut Writer<'_>| {
            w.write(other)?;
            w.write(&depth)
        };
        self.0.transaction(code::CALL_BACK).call(write, |r| r.read())
    }

    fn one<A: Parcelable, R: Parcelable>(&self, code: Code, argument: &A) -> Result<R> {
        self.0.transaction(code).call(|w| w.write(argument), |r| r.read())
    }
}

fn connect() -> Runtime {
    Runtime::builder().engine(EngineKind::Binder).connect().unwrap()
}

/// Everything that `theirs check` does, the other way round. `passes`: whether descriptors travel.
fn check(peer: &Peer, passes: bool) {
    for text in ["", "plain", "Grüße, 世界 \u{1f600}", &"long ".repeat(3000)] {
        assert_eq!(peer.one::<_, String>(code::ECHO, &text.to_owned()).unwrap(), text);
    }
    assert_eq!(peer.one::<_, Vec<i32>>(code::REVERSE, &vec![1, -2, 3]).unwrap(), [3, -2, 1]);
    assert_eq!(peer.one::<_, Vec<i32>>(code::REVERSE, &Vec::<i32>::new()).unwrap(), [0; 0]);
    let data: Vec<u8> = (0..65_536u32).map(|n| n as u8).collect();
    let flipped: Vec<u8> = data.iter().map(|byte| !byte).collect();
    assert_eq!(peer.one::<_, Vec<u8>>(code::FLIP, &data).unwrap(), flipped);
    for label in [None, Some("here".to_owned())] {
        let point = Point { x: 1, y: 1 << 40, label };
        let write = |w: &mut Writer<'_>| {
            w.write(&Some(point.clone()))?;
            w.write(&4)
        };
        let moved: Option<Point> = peer.0.transaction(code::MOVE).call(write, |r| r.read()).unwrap();
        assert_eq!(moved, Some(Point { x: 5, y: (1 << 40) + 4, ..point.clone() }));
    }
    let write = |w: &mut Writer<'_>| {
        w.write(&None::<Point>)?;
        w.write(&4)
    };
    assert_eq!(peer.0.transaction(code::MOVE).call(write, |r| r.read::<Option<Point>>()).unwrap(), None);
    let me = ours();
    for depth in [0, 1, 6] {
        assert_eq!(peer.call_back(&me, depth).unwrap(), depth);
    }
    if passes {
        let file = OwnedFd::from(file_with("from handoff"));
        assert_eq!(peer.one::<_, String>(code::READ_FILE, &file).unwrap(), "from handoff");
        let made: OwnedFd = peer.one(code::MAKE_FILE, &"made for handoff".to_owned()).unwrap();
        assert_eq!(read_all(made), "made for handoff");
    }
    for (code, exception) in [(42, ExceptionCode::ServiceSpecific), (0, ExceptionCode::IllegalArgument)] {
        let write = |w: &mut Writer<'_>| {
            w.write(&code)?;
            w.write(&"as asked".to_owned())
        };
        match peer.0.transaction(code::FAIL).call(write, |_| Ok(())) {
            Err(Error::Status(status)) => {
                assert_eq!((status.exception(), status.service_specific_code()), (exception, code));
                assert_eq!(status.message(), Some("as asked"));
            }
            other => panic!("{other:?}"),
        }
    }
    type Words = Option<Vec<Option<String>>>;
    let upper = |words: Words| peer.one::<_, Words>(code::UPPER, &words).unwrap();
    assert_eq!(upper(None), None);
    let words = |one: &str, two: &str| Some(vec![Some(one.to_owned()), None, Some(two.to_owned())]);
    assert_eq!(upper(words("one", "zwei")), words("ONE", "ZWEI"));
    let another: Binder = peer.0.transaction(code::ANOTHER).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(Peer(another).one::<_, String>(code::ECHO, &"there".to_owned()).unwrap(), "there");
    for n in 0..20 {
        peer.0.transaction(code::NOTE).oneway(|w| w.write(&n.to_string())).unwrap();
    }
    let mut seen = Vec::new();
    common::eventually("oneway calls are served", || {
        seen.extend(peer.0.transaction(code::NOTES).call(|_| Ok(()), |r| r.read::<Vec<String>>()).unwrap());
        seen.len() == 20
    });
    assert_eq!(seen, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    let unknown = peer.0.transaction(77).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(matches!(unknown, Error::UnknownTransaction { .. }), "{unknown}");
    let (tell, told) = mpsc::channel();
    let registered = peer.0.link_to_death(move || tell.send(()).unwrap()).unwrap();
    peer.0.transaction(code::DIE).oneway(|_| Ok(())).unwrap();
    told.recv_timeout(Duration::from_secs(20)).expect("its death is told");
    assert!(matches!(peer.one::<_, String>(code::ECHO, &"late".to_owned()), Err(Error::Dead)));
    drop(registered);
}

/// The processes of our side: `handoff` as the manager, and as a service.
#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = common::role() else { return };
    match role.as_str() {
        "manager" => {
            let runtime = Runtime::builder().engine(EngineKind::Binder).connect_or_private().unwrap();
            std::mem::forget(runtime);
        }
        "service" => {
            let runtime = connect();
            runtime.services().add("ours", ours(), ServiceOptions::default()).unwrap();
            std::mem::forget(runtime);
        }
        "rpc-service" => std::mem::forget(RpcServer::builder(socket).max_threads(4).serve(ours()).unwrap()),
        other => panic!("no such role: {other}"),
    }
    common::ready_and_wait();
}

/// Both directions under the manager that runs.
fn both_directions() {
    let runtime = connect();
    let mut serving = theirs().args(["serve", "theirs"]).spawn().unwrap();
    let found = runtime.services().wait_for("theirs", Duration::from_secs(30)).unwrap();
    assert!(runtime.services().list().unwrap().iter().any(|info| info.name == "theirs"));
    check(&Peer::from_binder(found).unwrap(), true);
    serving.wait().unwrap();

    let _service = common::Peer::start("service", "/".as_ref());
    let checked = theirs().args(["check", "ours"]).status().unwrap();
    assert!(checked.success(), "{checked}");
}

#[test]
fn foreign_programs_and_ours_call_each_other_under_our_manager() {
    let _manager = common::Peer::start("manager", "/".as_ref());
    both_directions();
}

#[test]
fn foreign_clients_call_us_over_rpc() {
    for version in 0..=2 {
        let place = common::Place::new();
        let _service = common::Peer::start("rpc-service", &place.socket());
        let mut check = theirs();
        let checked = check.args(["rpc-check", &version.to_string()]).arg(place.socket()).status().unwrap();
        assert!(checked.success(), "version {version}: {checked}");
    }
}

#[test]
fn we_call_foreign_services_over_rpc() {
    for version in 0..=2 {
        let place = common::Place::new();
        let mut serve = theirs();
        let mut serving =
            serve.args(["rpc-serve", &version.to_string()]).arg(place.socket()).spawn().unwrap();
        common::eventually("it listens", || place.socket().exists());
        let session =
            RpcSession::builder(place.socket()).descriptors(version > 0).max_version(2).connect().unwrap();
        assert_eq!(session.version(), version);
        check(&Peer::from_binder(session.root().unwrap()).unwrap(), version > 0);
        serving.wait().unwrap();
    }
}
