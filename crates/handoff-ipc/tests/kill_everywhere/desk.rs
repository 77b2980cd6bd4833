//! What survivors and victims offer each other.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use handoff_ipc::engine::{DeathRegistration, Engine as _};
use handoff_ipc::frames::{FrameOptions, FramePool};
use handoff_ipc::queue::{self, MessageQueue, Synchronized};
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Code, Error, Result, Service, Transaction};

use crate::common::{Everything, echo};

/// Takes an object whose end is to be told.
pub const REGISTER: Code = 100;
/// Gives the object that was taken last.
pub const GUEST: Code = 101;
/// Gives a new queue, whose other end stays here.
pub const QUEUE: Code = 102;
/// Gives the pool of frames.
pub const FRAMES: Code = 103;
/// Takes the socket of a desk, to fetch objects from.
pub const CONNECT: Code = 104;
/// Has the guest of that desk fetched and called; gives whether it answered.
pub const FETCH: Code = 105;

/// Numbers in a queue.
pub type Numbers = MessageQueue<u64, Synchronized>;

/// What a desk keeps between calls.
#[derive(Default)]
pub struct Kept {
    pub guest: Option<Binder>,
    pub numbers: Option<Numbers>,
    pub frames: Option<FramePool>,
    death: Option<DeathRegistration>,
    elsewhere: Option<(ShmEngine, Binder)>,
}

/// [`Everything`], and what is needed beyond calls.
#[derive(Clone, Default)]
pub struct Desk {
    everything: Arc<Everything>,
    pub kept: Arc<Mutex<Kept>>,
    /// Ends of guests that were told.
    pub notices: Arc<AtomicU32>,
}

impl Desk {
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
}

impl Service for Desk {
    fn descriptor(&self) -> &str {
        self.everything.descriptor()
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { call, data, reply } = transaction;
        match call.code() {
            REGISTER => self.register(data.read()?),
            GUEST => {
                let guest = self.kept.lock().unwrap().guest.clone();
                reply.write(&guest.ok_or(Error::Dead)?)
            }
            QUEUE => {
                let numbers = queue::Builder::new(16).event_flag().build()?;
                reply.write(&numbers.descriptor()?)?;
                self.kept.lock().unwrap().numbers = Some(numbers);
                Ok(())
            }
            FRAMES => reply.write(&self.frames().binder()),
            CONNECT => {
                let engine = ShmEngine::new(PathBuf::from(data.read::<String>()?))?;
                let desk = engine.context_object()?;
                self.kept.lock().unwrap().elsewhere = Some((engine, desk));
                Ok(())
            }
            FETCH => {
                let desk = self.kept.lock().unwrap().elsewhere.as_ref().map(|(_, desk)| desk.clone());
                let fetched = fetch(&desk.ok_or(Error::Dead)?);
                // An error as a text: as one of its own it would be the caller's.
                reply.write_string16(&fetched.err().map_or(String::new(), |error| error.to_string()))
            }
            _ => self.everything.on_transact(transaction),
        }
    }
}

/// Gets the guest of a desk, and calls it.
pub fn fetch(desk: &Binder) -> Result<()> {
    let guest: Binder = desk.transaction(GUEST).call(|_| Ok(()), |r| r.read())?;
    assert_eq!(echo(&guest, b"guest")?, b"guest");
    Ok(())
}
