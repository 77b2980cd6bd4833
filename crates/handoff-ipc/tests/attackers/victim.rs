//! What is attacked: a service that does a bit of everything.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use handoff_ipc::engine::Engine;
use handoff_ipc::queue::{MessageQueue, Synchronized};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Code, Result, Service, Transaction};

use crate::common::{ECHO, Everything};
use crate::process;

/// Gives a session whose end takes as many milliseconds as the request says.
pub const SESSION: Code = 101;

/// Gives as many bytes as the request says.
pub const FILL: Code = 102;

/// Counts arrays of the width that are not null.
pub const WIDE: Code = 104;

/// Calls the object in the request with as many bytes as it says, and a deadline of a few milliseconds.
pub const ASK: Code = 105;

/// Gives a queue, and reads and writes it for a while.
pub const QUEUE: Code = 106;

/// Keeps the object in the request, for ever.
pub const HOARD: Code = 107;

/// Descriptors that a victim may have: the usual soft limit.
pub const DESCRIPTORS: u64 = 1024;

/// `Everything`, and what attacks need of a service.
#[derive(Default)]
struct Victim(Everything, Mutex<Vec<Binder>>);

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

impl Service for Victim {
    fn descriptor(&self) -> &str {
        self.0.descriptor()
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            SESSION => {
                let end = Duration::from_millis(data.read::<i32>()?.unsigned_abs().into());
                reply.write(&Binder::new(Session(end)))
            }
            FILL => reply.write_bytes(&vec![7; data.read::<i32>()?.unsigned_abs() as usize]),
            ASK => {
                let back: Binder = data.read()?;
                let bytes = vec![7; data.read::<i32>()?.unsigned_abs() as usize];
                let soon = Duration::from_millis(3);
                drop(back.transaction(ECHO).deadline(soon).call(|w| w.write_bytes(&bytes), |_| Ok(())));
                Ok(())
            }
            QUEUE => {
                let queue = MessageQueue::<u64, Synchronized>::with_event_flag(64)?;
                reply.write(&queue.descriptor()?)?;
                std::thread::spawn(move || use_queue(&queue));
                Ok(())
            }
            HOARD => {
                self.1.lock().unwrap().push(data.read()?);
                Ok(())
            }
            WIDE => {
                let all: Vec<Option<[u64; 512]>> = data.read()?;
                reply.write_i32(all.iter().flatten().count() as i32)
            }
            _ => self.0.on_transact(transaction),
        }
    }
}

/// Whatever a peer makes of its positions: each call ends.
fn use_queue(queue: &MessageQueue<u64, Synchronized>) {
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

/// The role of a service that everybody may connect to.
pub fn server(socket: &Path, uid: u32) {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(uid);
    // Without a backtrace, for which a program reads all that it knows of itself.
    std::panic::set_hook(Box::new(|panic| eprintln!("the victim's handler panicked: {panic}")));
    let engine = ShmEngine::new(socket).unwrap();
    engine.become_context_manager(Binder::new(Victim::default())).unwrap();
    open_to_all(socket);
    process::tell("serving");
    process::report_until_end(|| engine.stats().messages.to_string());
}

/// Lets every user connect.
pub fn open_to_all(socket: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
}
