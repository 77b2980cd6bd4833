//! The other side of the interoperability test: a server and a client that use rsbinder as its
//! documentation advises. `serve NAME` offers the interface; `check NAME` calls one and says what it found. With
//! `rpc-serve VERSION PATH` and `rpc-check VERSION PATH` it does so over Binder RPC. `time-serve PATH` and `time-call PATH`
//! are its side of `benches/ndk.rs`, where the lines that they speak are described.

use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rsbinder::rpc::{FileDescriptorTransportMode, RpcServer, RpcSession, RpcClientConfig};
use rsbinder::{
    DeathRecipient, ExceptionCode, FromIBinder, Interface, ParcelFileDescriptor, ProcessState, Status, Strong, WIBinder,
    hub,
};

include!(concat!(env!("OUT_DIR"), "/interop.rs"));
use interop::IInterop::{BnInterop, IInterop};
use interop::Point::Point;
use handoff::benches::IEcho::{BnEcho, IEcho};

type Outcome<T> = rsbinder::BinderResult<T>;

#[derive(Default)]
struct Service {
    notes: Mutex<Vec<String>>,
}

impl Interface for Service {}

fn trouble(error: std::io::Error) -> Status {
    Status::new_service_specific_error(error.raw_os_error().unwrap_or(-1), Some(error.to_string()))
}

#[allow(non_snake_case)]
impl IInterop for Service {
    fn echo(&self, text: &str) -> Outcome<String> {
        Ok(text.to_owned())
    }

    fn reverse(&self, numbers: &[i32]) -> Outcome<Vec<i32>> {
        Ok(numbers.iter().rev().copied().collect())
    }

    fn flip(&self, data: &[u8]) -> Outcome<Vec<u8>> {
        Ok(data.iter().map(|byte| !byte).collect())
    }

    fn r#move(&self, point: Option<&Point>, by: i32) -> Outcome<Option<Point>> {
        Ok(point.map(|point| Point { x: point.x + by, y: point.y + i64::from(by), label: point.label.clone() }))
    }

    fn callBack(&self, other: &Strong<dyn IInterop>, depth: i32) -> Outcome<i32> {
        if depth == 0 {
            return Ok(0);
        }
        Ok(1 + other.callBack(&BnInterop::new_binder(Service::default()), depth - 1)?)
    }

    fn readFile(&self, file: &ParcelFileDescriptor) -> Outcome<String> {
        let fd: &OwnedFd = file.as_ref();
        let mut file = std::fs::File::from(fd.try_clone().map_err(trouble)?);
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(trouble)?;
        Ok(text)
    }

    fn makeFile(&self, text: &str) -> Outcome<ParcelFileDescriptor> {
        file_with(text).map_err(trouble).map(ParcelFileDescriptor::new)
    }

    fn fail(&self, code: i32, message: &str) -> Outcome<()> {
        Err(match code {
            0 => Status::from((ExceptionCode::IllegalArgument, message)),
            code => Status::new_service_specific_error(code, Some(message.to_owned())),
        })
    }

    fn upper(&self, words: Option<&[Option<String>]>) -> Outcome<Option<Vec<Option<String>>>> {
        Ok(words.map(|words| words.iter().map(|word| word.as_ref().map(|word| word.to_uppercase())).collect()))
    }

    fn another(&self) -> Outcome<Strong<dyn IInterop>> {
        Ok(BnInterop::new_binder(Service::default()))
    }

    fn note(&self, text: &str) -> Outcome<()> {
        self.notes.lock().unwrap().push(text.to_owned());
        Ok(())
    }

    fn notes(&self) -> Outcome<Vec<String>> {
        Ok(std::mem::take(&mut *self.notes.lock().unwrap()))
    }

    fn die(&self) -> Outcome<()> {
        std::process::abort()
    }
}

fn file_with(text: &str) -> std::io::Result<std::fs::File> {
    let path = std::env::temp_dir().join(format!("interop-{}", std::process::id()));
    let mut file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(path)?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

struct Mourner(Mutex<mpsc::Sender<()>>);

impl DeathRecipient for Mourner {
    fn binder_died(&self, _: &WIBinder) {
        let _ = self.0.lock().unwrap().send(());
    }
}

/// Calls everything; panics at the first difference. `passes`: whether descriptors travel. `hears`: whether deaths are
/// told, which rsbinder's clients of RPC are not.
fn check(peer: &Strong<dyn IInterop>, passes: bool, hears: bool) {
    for text in ["", "plain", "Grüße, 世界 \u{1f600}", &"long ".repeat(3000)] {
        assert_eq!(peer.echo(text).unwrap(), text);
    }
    assert_eq!(peer.reverse(&[1, -2, 3]).unwrap(), [3, -2, 1]);
    assert_eq!(peer.reverse(&[]).unwrap(), [0; 0]);
    let data: Vec<u8> = (0..65_536u32).map(|n| n as u8).collect();
    assert_eq!(peer.flip(&data).unwrap(), data.iter().map(|byte| !byte).collect::<Vec<_>>());
    for label in [None, Some("here".to_owned())] {
        let moved = peer.r#move(Some(&Point { x: 1, y: 1 << 40, label: label.clone() }), 4).unwrap().unwrap();
        assert_eq!((moved.x, moved.y, moved.label), (5, (1 << 40) + 4, label));
    }
    assert!(peer.r#move(None, 4).unwrap().is_none());
    let me = BnInterop::new_binder(Service::default());
    for depth in [0, 1, 6] {
        assert_eq!(peer.callBack(&me, depth).unwrap(), depth);
    }
    if passes {
        let file = ParcelFileDescriptor::new(file_with("from rsbinder").unwrap());
        assert_eq!(peer.readFile(&file).unwrap(), "from rsbinder");
        let made = peer.makeFile("made for rsbinder").unwrap();
        assert_eq!(Service::default().readFile(&made).unwrap(), "made for rsbinder");
    }
    let failed = peer.fail(42, "as asked").unwrap_err();
    assert_eq!((failed.exception_code(), failed.service_specific_error()), (ExceptionCode::ServiceSpecific, 42));
    let failed = peer.fail(0, "as asked").unwrap_err();
    assert_eq!(failed.exception_code(), ExceptionCode::IllegalArgument);
    assert_eq!(peer.upper(None).unwrap(), None);
    let words = [Some("one".to_owned()), None, Some("zwei".to_owned())];
    assert_eq!(peer.upper(Some(&words)).unwrap().unwrap(), [Some("ONE".to_owned()), None, Some("ZWEI".to_owned())]);
    let other = peer.another().unwrap();
    assert_eq!(other.echo("to another object").unwrap(), "to another object");
    for n in 0..20 {
        peer.note(&n.to_string()).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..1000 {
        seen.extend(peer.notes().unwrap());
        if seen.len() == 20 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(seen, (0..20).map(|n| n.to_string()).collect::<Vec<_>>(), "oneway calls, in order");
    let (tell, told) = mpsc::channel();
    let mourner = Arc::new(Mourner(Mutex::new(tell)));
    if hears {
        peer.link_to_death_arc(&mourner).expect("a recipient is taken");
    }
    peer.die().unwrap();
    if hears {
        told.recv_timeout(Duration::from_secs(20)).expect("its death is told");
    }
    // The call that ends it is oneway: the next ones may come before.
    let gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        peer.echo("too late").is_err()
    });
    assert!(gone, "calls to a process that has ended fail");
}

/// Serves over Binder RPC until the program is ended.
fn rpc_serve(version: u32, path: &str) {
    let server = RpcServer::setup_unix_server(path).expect("it listens");
    server.set_android13plus(version);
    server.set_supported_fd_modes(&[FileDescriptorTransportMode::None, FileDescriptorTransportMode::Unix]);
    server.set_max_threads(4);
    server.set_root(BnInterop::new_binder(Service::default()).as_binder()).expect("a root object");
    println!("ready");
    server.run().expect("calls are served");
}

fn rpc_check(version: u32, path: &str) {
    let mut config = RpcClientConfig::unix(path.as_ref(), version);
    // Version 0 has no place for them.
    if version > 0 {
        config = config.fd_mode(FileDescriptorTransportMode::Unix);
    }
    let session = RpcSession::setup_client_android13plus_with_config(config).expect("a session");
    assert_eq!(session.wire_protocol_version(), Some(version));
    let root = session.get_root().expect("a root object");
    let peer = <dyn IInterop as FromIBinder>::try_from(root).expect("of the interface");
    check(&peer, version > 0, false);
}

struct Echo;

impl Interface for Echo {}

impl IEcho for Echo {
    fn echo(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

fn time_serve(path: &str) {
    let server = RpcServer::setup_unix_server(path).expect("it listens");
    server.set_android13plus(2);
    server.set_root(BnEcho::new_binder(Echo).as_binder()).expect("a root object");
    println!("ready");
    server.run().expect("calls are served");
}

fn time_call(path: &str) {
    let config = RpcClientConfig::unix(path.as_ref(), 2);
    let session = RpcSession::setup_client_android13plus_with_config(config).expect("a session");
    let root = session.get_root().expect("a root object");
    let echo = <dyn IEcho as FromIBinder>::try_from(root).expect("of the interface");
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let numbers: Vec<u32> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [payload, samples, calls, 0] = numbers[..] else { panic!("{line:?} is not three numbers and a 0") };
        let (bytes, mut back) = (vec![7; payload as usize], Vec::new());
        let times = (0..samples).map(|_| {
            let begin = Instant::now();
            for _ in 0..calls {
                back = echo.echo(&bytes).expect("a reply");
            }
            (begin.elapsed().as_nanos() as f64 / f64::from(calls)).to_string()
        });
        let times: Vec<String> = times.collect();
        assert_eq!(back, bytes);
        println!("{}", times.join(" "));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rpc-serve", version, path] => rpc_serve(version.parse().expect("a version"), path),
        ["rpc-check", version, path] => {
            rpc_check(version.parse().expect("a version"), path);
            println!("all as expected");
        }
        ["time-serve", path] => time_serve(path),
        ["time-call", path] => time_call(path),
        ["serve", name] => {
            on_driver();
            hub::add_service(name, &BnInterop::new_binder(Service::default())).expect("the service is added");
            println!("ready");
            ProcessState::join_thread_pool().expect("calls are served");
        }
        ["check", name] => {
            on_driver();
            check(&hub::check_interface(name).expect("the service is found"), true, true);
            println!("all as expected");
        }
        _ => panic!("serve NAME, check NAME, rpc-serve VERSION PATH, rpc-check VERSION PATH, time-serve PATH or time-call PATH"),
    }
}

fn on_driver() {
    ProcessState::init_default().expect("the driver is opened");
    ProcessState::start_thread_pool();
}
