//! The other side of the interoperability test: a server and a client that use rsbinder as its
//! documentation advises. `serve NAME` offers the interface; `check NAME` calls one and says what it found.

use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rsbinder::{
    DeathRecipient, ExceptionCode, Interface, ParcelFileDescriptor, ProcessState, Status, Strong, WIBinder, hub,
};

include!(concat!(env!("OUT_DIR"), "/interop.rs"));
use interop::IInterop::{BnInterop, IInterop};
use interop::Point::Point;

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

/// Calls everything; panics at the first difference.
fn check(name: &str) {
    let peer: Strong<dyn IInterop> = hub::check_interface(name).expect("the service is found");
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
    let file = ParcelFileDescriptor::new(file_with("from rsbinder").unwrap());
    assert_eq!(peer.readFile(&file).unwrap(), "from rsbinder");
    let made = peer.makeFile("made for rsbinder").unwrap();
    assert_eq!(Service::default().readFile(&made).unwrap(), "made for rsbinder");
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
    peer.link_to_death_arc(&mourner).expect("a recipient is taken");
    peer.die().unwrap();
    told.recv_timeout(Duration::from_secs(20)).expect("its death is told");
    assert!(peer.echo("too late").is_err());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (what, name) = match &arguments[1..] {
        [what, name] => (what.as_str(), name.as_str()),
        _ => panic!("serve NAME or check NAME"),
    };
    ProcessState::init_default().expect("the driver is opened");
    ProcessState::start_thread_pool();
    match what {
        "serve" => {
            hub::add_service(name, &BnInterop::new_binder(Service::default())).expect("the service is added");
            println!("ready");
            ProcessState::join_thread_pool().expect("calls are served");
        }
        "check" => {
            check(name);
            println!("all as expected");
        }
        other => panic!("no such thing: {other}"),
    }
}
