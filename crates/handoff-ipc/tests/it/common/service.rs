//! A service that does a bit of everything: what the tests call, attack, and kill processes of.
// Each program uses a part; a module of a test cannot be reached from elsewhere.
#![allow(dead_code, unreachable_pub)]

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use handoff_ipc::engine::{DeathRegistration, Engine as _};
use handoff_ipc::frames::{FrameOptions, FramePool};
use handoff_ipc::parcel::SharedBytes;
use handoff_ipc::queue::{self, MessageQueue, Synchronized};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Code, Error, Result, Scheduling, Service, SharedMemory, Status, Transaction};

pub const ECHO: Code = 1;
pub const CALL_BACK: Code = 2;
pub const READ_FD: Code = 3;
pub const SLEEP_MS: Code = 4;
pub const RECORD: Code = 5;
pub const TAKE_RECORDS: Code = 6;
pub const WHO: Code = 7;
pub const FAIL: Code = 8;
pub const KEEP: Code = 9;
pub const GET_KEPT: Code = 10;
pub const PANIC: Code = 11;
pub const PRIORITY: Code = 12;
pub const MASK: Code = 13;
pub const MAKE_FD: Code = 14;
pub const DIE: Code = 15;
pub const SELF: Code = 16;
pub const DEADLINE: Code = 17;
pub const SUM: Code = 18;
pub const COUNT_FDS: Code = 19;
pub const SUM_MEMORY: Code = 20;
pub const HOLD: Code = 21;
pub const WHO_SERVES: Code = 22;

/// Takes an object whose end is to be told.
pub const REGISTER: Code = 100;
/// Gives a session whose end takes as many milliseconds as the request says.
pub const SESSION: Code = 101;
/// Gives as many bytes as the request says.
pub const FILL: Code = 102;
/// Counts arrays of the width that are not null.
pub const WIDE: Code = 104;
/// Calls the object in the request with as many bytes as it says, and a deadline of a few milliseconds.
pub const ASK: Code = 105;
/// Gives a queue, and reads and writes it for a while.
pub const USED_QUEUE: Code = 106;
/// Keeps the object in the request, for ever.
pub const HOARD: Code = 107;
/// Gives the object that was registered last.
pub const GUEST: Code = 108;
/// Gives a new queue, whose other end stays here.
pub const QUEUE: Code = 109;
/// Gives the pool of frames.
pub const FRAMES: Code = 110;
/// Takes the socket of another such service, to fetch objects from.
pub const CONNECT: Code = 111;
/// Has the guest of that service fetched and called; gives why that failed.
pub const FETCH: Code = 112;
/// Takes an array of objects; gives how many there are.
pub const COUNT_OBJECTS: Code = 113;
/// The first that has no meaning.
pub const UNKNOWN: Code = 114;

pub type Numbers = MessageQueue<u64, Synchronized>;

/// What it keeps between calls.
#[derive(Default)]
pub struct Kept {
    object: Option<Binder>,
    hoard: Vec<Binder>,
    records: Vec<i32>,
    pub guest: Option<Binder>,
    pub numbers: Option<Numbers>,
    pub frames: Option<FramePool>,
    death: Option<DeathRegistration>,
    elsewhere: Option<(ShmEngine, Binder)>,
}

#[derive(Clone, Default)]
pub struct Everything {
    scheduling: Scheduling,
    steady: bool,
    pub kept: Arc<Mutex<Kept>>,
    /// Ends of guests that were told.
    pub notices: Arc<AtomicU32>,
}

impl Everything {
    pub fn with(scheduling: Scheduling) -> Self {
        Everything { scheduling, ..Everything::default() }
    }

    /// Without what anybody has it do for as long as the caller says, or has it end with: a code that was scribbled over is a
    /// call like any other, and a number that was scribbled over may be a month.
    pub fn steady() -> Self {
        Everything { steady: true, ..Everything::default() }
    }

    /// Keeps an object, and counts its end.
    pub fn register(&self, guest: Binder) -> Result<()> {
        let notices = Arc::clone(&self.notices);
        let death = guest.link_to_death(move || {
            notices.fetch_add(1, Ordering::SeqCst);
        })?;
        let mut kept = self.kept.lock().unwrap();
        (kept.guest, kept.death) = (Some(guest), Some(death));
        Ok(())
    }

    /// Gives back what is kept of a guest.
    pub fn clear(&self) {
        let mut kept = self.kept.lock().unwrap();
        let gone = (kept.guest.take(), kept.death.take(), kept.numbers.take());
        drop(kept);
        drop(gone);
    }

    pub fn frames(&self) -> FramePool {
        let mut kept = self.kept.lock().unwrap();
        kept.frames.get_or_insert_with(|| FramePool::new(FrameOptions::new(4, 4096)).unwrap()).clone()
    }

    /// A new queue, in place of the one before.
    pub fn numbers(&self) -> Result<queue::Descriptor<u64, Synchronized>> {
        let numbers = queue::Builder::new(16).event_flag().build()?;
        let descriptor = numbers.descriptor()?;
        self.kept.lock().unwrap().numbers = Some(numbers);
        Ok(descriptor)
    }
}

impl Service for Everything {
    fn descriptor(&self) -> &str {
        "test.IEverything"
    }

    fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        if self.steady && [SLEEP_MS, HOLD, PANIC, DIE, SESSION, USED_QUEUE].contains(&transaction.code()) {
            return Err(transaction.unknown(self.descriptor()));
        }
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            ECHO => reply.write_shared(data.read_bytes()?),
            SUM => reply.write(&sum(data.read_bytes()?)),
            SUM_MEMORY => reply.write(&sum(data.read::<SharedMemory>()?.bytes())),
            // Calls the object back with one less until nothing is left; counts the thread's turns.
            CALL_BACK => {
                let (back, left): (Binder, i32) = (data.read()?, data.read()?);
                let depth = if left == 0 { 0 } else { 1 + call_back(&back, &everything(), left - 1)? };
                reply.write(&depth)
            }
            READ_FD => {
                let fd: OwnedFd = data.read()?;
                let mut file = File::from(fd);
                file.rewind().map_err(|e| Error::io("rewind", e))?;
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(|e| Error::io("read", e))?;
                reply.write(&text)
            }
            MAKE_FD => {
                let text: String = data.read()?;
                let count: i32 = data.read()?;
                for n in 0..count {
                    reply.write(&OwnedFd::from(file_with(&format!("{text}{n}"))))?;
                }
                Ok(())
            }
            COUNT_FDS => reply.write(&(std::fs::read_dir("/proc/self/fd").unwrap().count() as i32)),
            SLEEP_MS => {
                std::thread::sleep(Duration::from_millis(data.read::<i32>()? as u64));
                Ok(())
            }
            // Says that it has begun, and ends when the other end of the socket is closed.
            HOLD => {
                let mut held = UnixStream::from(data.read::<OwnedFd>()?);
                held.write_all(&[1]).map_err(|e| Error::io("write", e))?;
                held.read_to_end(&mut Vec::new()).map_err(|e| Error::io("read", e))?;
                Ok(())
            }
            RECORD => {
                self.kept.lock().unwrap().records.push(data.read()?);
                Ok(())
            }
            TAKE_RECORDS => reply.write(&std::mem::take(&mut self.kept.lock().unwrap().records)),
            WHO => {
                let who = call.identity();
                assert_eq!(handoff_ipc::calling_identity(), who);
                reply.write(&who.pid)?;
                reply.write(&who.uid)
            }
            FAIL => Err(Status::service_specific(42, "as asked").into()),
            KEEP => {
                let object = data.read()?;
                let before = std::mem::replace(&mut self.kept.lock().unwrap().object, object);
                drop(before);
                Ok(())
            }
            GET_KEPT => {
                let object = self.kept.lock().unwrap().object.clone();
                reply.write(&object)
            }
            PANIC => panic!("as asked"),
            PRIORITY => {
                let mine = handoff_placement::Priority::current().unwrap();
                reply.write(&mine.to_string())
            }
            MASK => {
                let mask = handoff_placement::affinity(handoff_placement::Tid::current()).unwrap();
                reply.write(&mask.to_string())
            }
            WHO_SERVES => reply.write(&std::process::id()),
            DIE => std::process::abort(),
            SELF => reply.write(&Binder::new(Everything::default())),
            DEADLINE => reply.write(
                &call
                    .deadline()
                    .map(|at| at.saturating_duration_since(Instant::now()).as_millis() as i64)
                    .unwrap_or(-1),
            ),
            SESSION => {
                let end = Duration::from_millis(data.read::<i32>()?.unsigned_abs().into());
                reply.write(&Binder::new(Session(end)))
            }
            FILL => reply.write_bytes(&vec![7; data.read::<i32>()?.unsigned_abs() as usize]),
            WIDE => {
                let all: Vec<Option<[u64; 512]>> = data.read()?;
                reply.write_i32(all.iter().flatten().count() as i32)
            }
            ASK => {
                let back: Binder = data.read()?;
                let bytes = vec![7; data.read::<i32>()?.unsigned_abs() as usize];
                let soon = Duration::from_millis(3);
                drop(back.transaction(ECHO).deadline(soon).call(|w| w.write_bytes(&bytes), |_| Ok(())));
                Ok(())
            }
            USED_QUEUE => {
                let queue = MessageQueue::with_event_flag(64)?;
                reply.write(&queue.descriptor()?)?;
                std::thread::spawn(move || use_queue(&queue));
                Ok(())
            }
            COUNT_OBJECTS => reply.write_i32(data.read::<Vec<Binder>>()?.len() as i32),
            HOARD => {
                let object = data.read()?;
                self.kept.lock().unwrap().hoard.push(object);
                Ok(())
            }
            REGISTER => self.register(data.read()?),
            GUEST => {
                let guest = self.kept.lock().unwrap().guest.clone();
                reply.write(&guest.ok_or(Error::Dead)?)
            }
            QUEUE => reply.write(&self.numbers()?),
            FRAMES => reply.write(&self.frames().binder()),
            CONNECT => {
                let engine = ShmEngine::new(PathBuf::from(data.read::<String>()?))?;
                let other = engine.context_object()?;
                self.kept.lock().unwrap().elsewhere = Some((engine, other));
                Ok(())
            }
            FETCH => {
                let other = self.kept.lock().unwrap().elsewhere.as_ref().map(|(_, other)| other.clone());
                let fetched = fetch(&other.ok_or(Error::Dead)?);
                // An error as a text: as one of its own it would be the caller's.
                reply.write_string16(&fetched.err().map_or(String::new(), |error| error.to_string()))
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

struct Session(Duration);

impl Service for Session {
    fn descriptor(&self) -> &str {
        "test.ISession"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        std::thread::sleep(self.0);
    }
}

/// Whatever a peer makes of its positions: each call ends.
fn use_queue(queue: &Numbers) {
    let end = Instant::now() + Duration::from_secs(3);
    let soon = Some(Duration::from_millis(5));
    while Instant::now() < end {
        if let (Ok(mut reader), Ok(mut writer)) = (queue.reader(), queue.writer()) {
            let mut items = [0; 8];
            let outcomes = [writer.write_blocking(&[1, 2, 3], soon), reader.read_blocking(&mut items, soon)];
            if outcomes.iter().any(std::result::Result::is_err) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

/// Gets the guest of such a service, and calls it.
pub fn fetch(from: &Binder) -> Result<()> {
    let guest: Binder = from.transaction(GUEST).call(|_| Ok(()), |r| r.read())?;
    assert_eq!(echo(&guest, b"guest")?, b"guest");
    Ok(())
}

/// No iterator: an attacker has two hundred times 2 MB summed, and in a debug build each step of one takes 25 ns.
fn sum(bytes: SharedBytes<'_>) -> u64 {
    let mut sum = 0;
    bytes.for_each_chunk::<4096>(|chunk| {
        let mut at = 0;
        while at < chunk.len() {
            sum += u64::from(chunk[at]);
            at += 1;
        }
    });
    sum
}

pub fn everything() -> Binder {
    Binder::new(Everything::default())
}

pub fn call_back(to: &Binder, me: &Binder, left: i32) -> Result<i32> {
    to.transaction(CALL_BACK).call(
        |w| {
            w.write(me)?;
            w.write(&left)
        },
        |r| r.read(),
    )
}

pub fn echo(to: &Binder, bytes: &[u8]) -> Result<Vec<u8>> {
    to.transaction(ECHO).call(|w| w.write_bytes(bytes), |r| Ok(r.read_bytes()?.to_vec()))
}

pub fn file_with(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}
