//! The paths that a process is killed on: what the victim does, and what the survivor does with it.

use std::os::fd::OwnedFd;
use std::path::Path as FsPath;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_ipc::engine::Engine as _;
use handoff_ipc::frames::FrameConsumer;
use handoff_ipc::queue::{Descriptor, MessageQueue, QueueError, Synchronized};
use handoff_ipc::servicemanager::{Manager, ManagerServer, Policy, ServiceOptions, SocketAccess};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error, Result, Runtime, SharedMemory};

use crate::common::*;

/// What the victim does between "ready" and "done".
pub type Act = Box<dyn FnOnce()>;
/// What the survivor does meanwhile.
pub type Op = Box<dyn FnOnce() -> Result<()> + Send>;

/// One path, with the victim on one side of it.
pub struct Path {
    /// The victim's part, and what is done.
    pub name: &'static str,
    pub victim: fn(&FsPath) -> Act,
    pub survivor: fn(&Survivor) -> Op,
    /// Whether the survivor is told of the end.
    pub told: bool,
}

/// The process that lives on.
pub struct Survivor {
    pub folder: Place,
    pub desk: Everything,
    pub engine: ShmEngine,
    manager: ManagerServer,
    /// A second one, in a process of its own.
    third: Peer,
    third_engine: ShmEngine,
    pub third_desk: Binder,
}

const DESK: &str = "desk.sock";
const THIRD: &str = "third.sock";
const MANAGER: &str = "manager.sock";
const VICTIM: &str = "victim.sock";
const NAME: &str = "killed.service";
const GENEROUS: Duration = Duration::from_secs(60);

impl Survivor {
    pub fn start() -> Self {
        let folder = Place::new();
        let at = |name| folder.dir.path().join(name);
        let desk = Everything::default();
        let engine = ShmEngine::new(at(DESK)).unwrap();
        engine.become_context_manager(Binder::new(desk.clone())).unwrap();
        let manager = Manager::new(Policy::open()).serve(&at(MANAGER), SocketAccess::Owner).unwrap();
        let third = Peer::start("third", &at(THIRD));
        let third_engine = ShmEngine::new(at(THIRD)).unwrap();
        let third_desk = third_engine.context_object().unwrap();
        let socket = at(DESK).display().to_string();
        third_desk.transaction(CONNECT).call(|w| w.write_string16(&socket), |_| Ok(())).unwrap();
        // Its only thread opens its slot here, and so does another thread of this process, before what is held is counted.
        // There is no guest yet.
        let desk_there = third_desk.clone();
        let fetch = move || desk_there.transaction(FETCH).call(|_| Ok(()), |r| r.read::<String>()).unwrap();
        assert!(!std::thread::spawn(fetch).join().unwrap().is_empty());
        Survivor { folder, desk, engine, manager, third, third_engine, third_desk }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.dir.path().join(name)
    }

    /// Connects to a victim that serves, and is told of its end.
    fn meet(&self) -> (ShmEngine, Binder) {
        let engine = ShmEngine::new(self.path(VICTIM)).unwrap();
        let root = engine.context_object().unwrap();
        self.desk.register(root.clone()).unwrap();
        (engine, root)
    }

    /// Whether the victim's names are gone.
    pub fn names_are_gone(&self) -> bool {
        let manager = self.manager.manager().binder();
        let found: Result<Option<Binder>> =
            manager.transaction(1).call(|w| w.write_string16(NAME), |r| r.read());
        matches!(found, Ok(None))
    }

    /// Descriptors of the third process.
    pub fn third_descriptors(&self) -> i32 {
        let _running = (&self.third, &self.third_engine);
        self.third_desk.transaction(COUNT_FDS).call(|_| Ok(()), |r| r.read()).unwrap()
    }
}

/// A victim that is a client of the desk, which knows an object of it.
fn client(folder: &FsPath, prepare: impl FnOnce(&Binder) -> Act) -> Act {
    let engine = ShmEngine::new(folder.join(DESK)).unwrap();
    let desk = engine.context_object().unwrap();
    let me = Binder::new(Everything::default());
    desk.transaction(REGISTER).call(|w| w.write(&me), |_| Ok(())).unwrap();
    let act = prepare(&desk);
    std::mem::forget((engine, desk, me));
    act
}

/// A client that makes a call.
fn caller(folder: &FsPath, call: fn(&Binder) -> Result<()>) -> Act {
    client(folder, |desk| {
        let desk = desk.clone();
        Box::new(move || call(&desk).unwrap())
    })
}

/// A victim that serves, and has no part of its own.
fn server(folder: &FsPath) -> Act {
    let desk = Everything::default();
    serve_at(folder, &desk);
    Box::new(|| ())
}

fn serve_at(folder: &FsPath, desk: &Everything) {
    let engine = ShmEngine::new(folder.join(VICTIM)).unwrap();
    engine.become_context_manager(Binder::new(desk.clone())).unwrap();
    std::mem::forget(engine);
}

/// The survivor serves, and waits for nothing.
fn serves(_: &Survivor) -> Op {
    Box::new(|| Ok(()))
}

fn calls(survivor: &Survivor, call: fn(&Binder) -> Result<()>) -> Op {
    let (engine, root) = survivor.meet();
    Box::new(move || {
        let done = call(&root);
        drop((root, engine));
        done
    })
}

fn small(to: &Binder) -> Result<()> {
    echo(to, b"12345678").map(|answer| assert_eq!(answer, b"12345678"))
}

fn large(to: &Binder) -> Result<()> {
    echo(to, &[7; 3000]).map(|answer| assert_eq!(answer, [7; 3000]))
}

fn lent(to: &Binder) -> Result<()> {
    let memory = SharedMemory::new(4096)?;
    memory.write_at(0, &[1; 64])?;
    to.transaction(SUM_MEMORY).call(|w| w.write(&memory), |r| r.read::<u64>()).map(|sum| assert_eq!(sum, 64))
}

fn oneway(to: &Binder) -> Result<()> {
    to.transaction(RECORD).oneway(|w| w.write(&1))
}

fn object_sent(to: &Binder) -> Result<()> {
    call_back(to, &Binder::new(Everything::default()), 0).map(drop)
}

fn object_received(to: &Binder) -> Result<()> {
    // Given back at the end: the drop of the only proxy.
    to.transaction(SELF).call(|_| Ok(()), |r| r.read::<Binder>()).map(drop)
}

fn nested(to: &Binder) -> Result<()> {
    call_back(to, &Binder::new(Everything::default()), 2).map(|depth| assert_eq!(depth, 2))
}

fn descriptor_sent(to: &Binder) -> Result<()> {
    let fd = OwnedFd::from(file_with("text"));
    to.transaction(READ_FD)
        .call(|w| w.write(&fd), |r| r.read::<String>())
        .map(|text| assert_eq!(text, "text"))
}

fn descriptor_received(to: &Binder) -> Result<()> {
    to.transaction(MAKE_FD).call(
        |w| {
            w.write_string16("text")?;
            w.write_i32(1)
        },
        |r| r.read::<OwnedFd>().map(drop),
    )
}

/// A call that takes longer than its caller waits.
fn late(to: &Binder) -> Result<()> {
    match to.transaction(SLEEP_MS).deadline(Duration::from_millis(5)).call(|w| w.write(&30), |_| Ok(())) {
        Err(Error::DeadlineExpired(_)) => Ok(()),
        other => other,
    }
}

/// A client's end of a queue whose other end the desk has.
fn numbers(desk: &Binder) -> Numbers {
    let descriptor =
        desk.transaction(QUEUE).call(|_| Ok(()), |r| r.read::<Descriptor<u64, Synchronized>>()).unwrap();
    MessageQueue::attach(descriptor).unwrap()
}

fn writes_numbers(folder: &FsPath) -> Act {
    client(folder, |desk| {
        let numbers = numbers(desk);
        Box::new(move || {
            numbers.writer().unwrap().write_blocking(&[1, 2, 3], Some(GENEROUS)).unwrap();
            std::mem::forget(numbers);
        })
    })
}

fn reads_numbers(folder: &FsPath) -> Act {
    client(folder, |desk| {
        let numbers = numbers(desk);
        Box::new(move || {
            let mut read = [0; 3];
            numbers.reader().unwrap().read_blocking(&mut read, Some(GENEROUS)).unwrap();
            assert_eq!(read, [1, 2, 3]);
            std::mem::forget(numbers);
        })
    })
}

/// Reads whole messages or none; a queue tells nothing of its writer's end, the desk does.
fn reads_what_is_written(survivor: &Survivor) -> Op {
    let (numbers, notices) = (survivor.desk.kept.lock().unwrap().numbers.take(), survivor.desk.clone());
    Box::new(move || {
        let numbers = numbers.expect("the victim asked for it");
        let mut reader = numbers.reader()?;
        let mut read = [0; 3];
        loop {
            let dead = notices.notices.load(Ordering::SeqCst) > 0;
            match reader.read_blocking(&mut read, Some(Duration::from_millis(2))) {
                Err(QueueError::TimedOut | QueueError::Empty(_)) if dead => return Ok(()),
                Err(QueueError::TimedOut | QueueError::Empty(_)) => {}
                done => {
                    assert!(done.is_err() || read == [1, 2, 3], "{read:?}");
                    return Ok(done?);
                }
            }
        }
    })
}

fn writes_what_is_read(survivor: &Survivor) -> Op {
    let numbers = survivor.desk.kept.lock().unwrap().numbers.take();
    Box::new(move || {
        Ok(numbers.expect("the victim asked for it").writer()?.write_blocking(&[1, 2, 3], Some(GENEROUS))?)
    })
}

fn receives_frames(folder: &FsPath) -> Act {
    client(folder, |desk| {
        let pool: Binder = desk.transaction(FRAMES).call(|_| Ok(()), |r| r.read()).unwrap();
        let mut frames = FrameConsumer::subscribe(&pool).unwrap();
        Box::new(move || {
            let frame = frames.next(Some(GENEROUS)).unwrap();
            assert_eq!(frame.bytes().slice(0, 6).unwrap().to_vec(), b"pixels");
            drop(frame);
            std::mem::forget(frames);
        })
    })
}

fn publishes_a_frame(survivor: &Survivor) -> Op {
    let pool = survivor.desk.frames();
    Box::new(move || {
        let mut frame = pool.acquire(Some(GENEROUS))?;
        frame.write_at(0, b"pixels")?;
        frame.publish(6).map(drop)
    })
}

fn publishes_frames(folder: &FsPath) -> Act {
    let desk = Everything::default();
    serve_at(folder, &desk);
    let pool = desk.frames();
    Box::new(move || {
        let mut frame = pool.acquire(Some(GENEROUS)).unwrap();
        frame.write_at(0, b"pixels").unwrap();
        frame.publish(6).unwrap();
    })
}

fn receives_a_frame(survivor: &Survivor) -> Op {
    let (engine, root) = survivor.meet();
    let pool: Binder = root.transaction(FRAMES).call(|_| Ok(()), |r| r.read()).unwrap();
    let mut frames = FrameConsumer::subscribe(&pool).unwrap();
    Box::new(move || {
        let frame = frames.next(Some(GENEROUS)).map(|frame| {
            assert_eq!(frame.bytes().slice(0, 6).unwrap().to_vec(), b"pixels", "whole, or none");
        });
        drop((frames, pool, root, engine));
        frame
    })
}

/// The desk gives out an object of the third process.
fn introduces(survivor: &Survivor) -> Op {
    // In place of the victim's, whose end is told all the same.
    survivor.desk.kept.lock().unwrap().guest = Some(survivor.third_desk.clone());
    serves(survivor)
}

/// The third process gets the victim's object from the desk, and calls it.
fn has_it_fetched(survivor: &Survivor) -> Op {
    let third = survivor.third_desk.clone();
    Box::new(move || {
        let error: String = third.transaction(FETCH).call(|_| Ok(()), |r| r.read())?;
        if error.is_empty() { Ok(()) } else { Err(Error::Protocol(error)) }
    })
}

fn introduces_the_third(folder: &FsPath) -> Act {
    let engine = ShmEngine::new(folder.join(THIRD)).unwrap();
    let desk = Everything::default();
    desk.register(engine.context_object().unwrap()).unwrap();
    std::mem::forget(engine);
    serve_at(folder, &desk);
    Box::new(|| ())
}

fn add(runtime: &Runtime) -> Result<()> {
    runtime.services().add(NAME, Binder::new(Everything::default()), ServiceOptions::default())
}

fn look_up(runtime: &Runtime) -> Result<()> {
    runtime.services().check(NAME).map(drop)
}

fn customer(folder: &FsPath, ask: fn(&Runtime) -> Result<()>) -> Act {
    let runtime = Runtime::builder().socket(folder.join(MANAGER)).connect().unwrap();
    look_up(&runtime).unwrap();
    Box::new(move || {
        ask(&runtime).unwrap();
        std::mem::forget(runtime);
    })
}

fn manager(folder: &FsPath) -> Act {
    std::mem::forget(Manager::new(Policy::open()).serve(&folder.join(VICTIM), SocketAccess::Owner).unwrap());
    Box::new(|| ())
}

fn asks(survivor: &Survivor, ask: fn(&Runtime) -> Result<()>) -> Op {
    let runtime = Runtime::builder().socket(survivor.path(VICTIM)).connect().unwrap();
    look_up(&runtime).unwrap();
    survivor.desk.register(runtime.services().manager().unwrap()).unwrap();
    Box::new(move || ask(&runtime))
}

fn connects(socket: &FsPath) -> Result<()> {
    let engine = ShmEngine::new(socket)?;
    small(&engine.context_object()?)?;
    Ok(())
}

macro_rules! both_sides {
    ($($name:literal $call:ident),* $(,)?) => {
        &[$(
            Path {
                name: concat!("client-", $name),
                victim: |folder| caller(folder, $call),
                survivor: serves,
                told: true,
            },
            Path {
                name: concat!("service-", $name),
                victim: server,
                survivor: |survivor| calls(survivor, $call),
                told: true,
            },
        )*]
    };
}

/// Calls, with the victim as the caller and as the callee.
const CALLS: &[Path] = both_sides![
    "call" small,
    "large-call" large,
    "lent-memory" lent,
    "oneway" oneway,
    "object-sent" object_sent,
    "object-received-and-dropped" object_received,
    "nested-calls" nested,
    "descriptor-sent" descriptor_sent,
    "descriptor-received" descriptor_received,
    "deadline" late,
];

const OTHERS: &[Path] = &[
    Path { name: "writer-queue", victim: writes_numbers, survivor: reads_what_is_written, told: true },
    Path { name: "reader-queue", victim: reads_numbers, survivor: writes_what_is_read, told: true },
    Path { name: "consumer-frames", victim: receives_frames, survivor: publishes_a_frame, told: true },
    Path { name: "producer-frames", victim: publishes_frames, survivor: receives_a_frame, told: true },
    Path {
        name: "receiver-introduction",
        victim: |folder| caller(folder, fetch),
        survivor: introduces,
        told: true,
    },
    Path {
        name: "owner-introduction",
        victim: |folder| client(folder, |_| Box::new(|| ())),
        survivor: has_it_fetched,
        told: true,
    },
    Path {
        name: "introducer-introduction",
        victim: introduces_the_third,
        survivor: |survivor| calls(survivor, fetch),
        told: true,
    },
    Path {
        name: "client-registration",
        victim: |folder| customer(folder, add),
        survivor: serves,
        told: false,
    },
    Path {
        name: "client-look-up",
        victim: |folder| customer(folder, look_up),
        survivor: serves,
        told: false,
    },
    Path { name: "manager-registration", victim: manager, survivor: |s| asks(s, add), told: true },
    Path { name: "manager-look-up", victim: manager, survivor: |s| asks(s, look_up), told: true },
    Path {
        name: "client-connects",
        victim: |folder| {
            let socket = folder.join(DESK);
            Box::new(move || connects(&socket).unwrap())
        },
        survivor: serves,
        told: false,
    },
    Path {
        name: "service-is-connected-to",
        victim: server,
        survivor: |survivor| {
            let socket = survivor.path(VICTIM);
            Box::new(move || connects(&socket))
        },
        told: false,
    },
];

impl Path {
    pub fn all() -> impl Iterator<Item = &'static Path> {
        CALLS.iter().chain(OTHERS)
    }

    /// Whether a connection is made on the way, whose greeting has a time limit.
    pub fn has_a_greeting(&self) -> bool {
        self.name.contains("introduction") || self.name.contains("connect")
    }

    pub fn named(name: &str) -> Option<&'static Path> {
        Path::all().find(|path| path.name == name)
    }
}
