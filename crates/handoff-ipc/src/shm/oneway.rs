//! Oneway calls: a ring of records each way on a link, and the queues behind it.
//!
//! The caller copies its request into the ring and goes on; it makes a system call only if nobody
//! at the other end looks. One thread there takes records out and appends each to its object's
//! queue, where they are served one at a time and in order. A full ring is the sender's error.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use handoff_placement::Priority;

use super::link::Link;
use super::objects::{self, Arrived};
use super::region::Region;
use super::remote::RemoteNode;
use super::slot::{Entry, MAX_OBJECTS};
use super::sync::{self, AtomicU32};
use super::wire::Message;
use crate::engine::{EngineKind, OutCall, WriteFn};
use crate::local::LocalNode;
use crate::object::Call;
use crate::parcel::{Reader, SharedBytes, Writer};
use crate::{Error, Result, dispatch, pool, stats};

/// Bytes of the ring's data. Half of it is the largest oneway call.
const DATA: usize = 2 << 20;
/// The words at its start have a page of their own.
const HEAD: usize = 4096;
/// Descriptors of oneway calls are kept under this in place of a slot's number.
const INBOX: u32 = u32::MAX;
/// How long a thread waits at a ring before it goes back to the pool.
const LINGER: Duration = Duration::from_secs(2);

/// Offsets of the words: how far the receiver has read, how far the sender has written (both count
/// bytes without end, modulo 2^32), and who looks.
const TAKEN: usize = 0;
const WRITTEN: usize = 64;
const BELL: usize = 128;

/// In the bell word. Nobody looks: ring.
const UNATTENDED: u32 = 0;
/// A thread looks.
const ATTENDED: u32 = 1;
/// A thread sleeps on the word.
const ASLEEP: u32 = 2;
/// Nobody looks, but somebody rang.
const RUNG: u32 = 3;

/// What stands in front of each record's payload.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    /// Bytes of payload.
    len: u32,
    code: u32,
    node: u64,
    priority: u32,
    /// Entries behind the payload.
    objects: u32,
    /// Bytes from this record to the next; a record with `SKIP` as its code only fills up the end.
    size: u32,
    spare: u32,
}

const SKIP: u32 = u32::MAX;
const RECORD: usize = size_of::<Record>();
const _: () = assert!(RECORD == 32 && DATA.is_power_of_two());

fn aligned(len: usize) -> usize {
    (len + 31) & !31
}

/// Both ends' view of the ring.
struct Ring {
    region: Region,
}

impl Ring {
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offsets are constants inside the first page; atomics may be shared.
        unsafe { &*self.region.start().add(offset).cast::<AtomicU32>() }
    }

    /// Address of a position. `at` counts without end.
    fn at(&self, at: u32) -> *mut u8 {
        // SAFETY: the remainder lies inside the data.
        unsafe { self.region.start().add(HEAD + at as usize % DATA) }
    }

    /// Bytes from a position to the end of the memory.
    fn until_end(at: u32) -> usize {
        DATA - at as usize % DATA
    }
}

/// The sending end; whoever holds the link's lock on it writes.
pub(crate) struct Sender {
    ring: Ring,
    written: u32,
}

/// Sends one oneway call.
pub(crate) fn send(remote: &RemoteNode, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
    let link = &remote.link;
    let mut sender = link.oneway_out.lock().unwrap_or_else(PoisonError::into_inner);
    if link.is_dead() {
        return Err(Error::Dead);
    }
    let sender = match &mut *sender {
        Some(sender) => sender,
        none => {
            let (region, file) = Region::create("handoff-oneway", HEAD + DATA)?;
            link.send(Message::Ring, vec![file])?;
            none.insert(Sender { ring: Ring { region }, written: 0 })
        }
    };
    sender.send(link, remote.node, call, write)
}

impl Sender {
    fn free(&self) -> usize {
        let used = self.written.wrapping_sub(self.ring.word(TAKEN).load(Ordering::Acquire)) as usize;
        // A receiver that claims to have read what was never written gets nothing more.
        DATA.saturating_sub(used)
    }

    fn send(&mut self, link: &Arc<Link>, node: u64, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
        let mut room = Ring::until_end(self.written);
        if room < DATA / 2 {
            // The payload must lie in one piece: go on at the start once that is free.
            if self.free() < room + DATA / 2 {
                // Perhaps it fits into what is left before the end.
                if self.free() < room || room <= 2 * RECORD {
                    return Err(Error::OnewayFull(DATA - self.free()));
                }
            } else {
                self.put(Record {
                    len: 0,
                    code: SKIP,
                    node: 0,
                    priority: 0,
                    objects: 0,
                    size: room as u32,
                    spare: 0,
                });
                self.written = self.written.wrapping_add(room as u32);
                room = DATA;
            }
        }
        let table = MAX_OBJECTS * size_of::<Entry>();
        let space = self.free().min(room).saturating_sub(RECORD + 32);
        if space == 0 {
            return Err(Error::OnewayFull(DATA - self.free()));
        }
        let start = self.ring.at(self.written).wrapping_add(RECORD);
        // SAFETY: `space` bytes from here are free: the receiver has read them, and this thread
        // holds the lock of the sending end.
        let mut writer = unsafe { Writer::over(start, space) };
        write(&mut writer).map_err(|error| match error {
            Error::TooLarge { size, .. } if size <= DATA / 2 - table => Error::OnewayFull(DATA - self.free()),
            Error::TooLarge { size, .. } => Error::TooLarge { size, limit: DATA / 2 - table },
            other => other,
        })?;
        let len = writer.len();
        let objects = writer.finish();
        let count = objects.len();
        if RECORD + aligned(len) + count * size_of::<Entry>() + 32 > space {
            return Err(Error::OnewayFull(DATA - self.free()));
        }
        if count > 0 {
            let (entries, fds) = objects::encode(link, objects)?;
            // SAFETY: it was just checked that the entries fit behind the payload.
            unsafe {
                start.add(aligned(len)).cast::<Entry>().copy_from_nonoverlapping(entries.as_ptr(), count);
            }
            link.send_fds(INBOX, false, fds)?;
        }
        let size = aligned(RECORD + aligned(len) + count * size_of::<Entry>()) as u32;
        let priority = Priority::current().map_or(0, Priority::pack);
        let (len, objects) = (len as u32, count as u32);
        self.put(Record { len, code: call.code, node, priority, objects, size, spare: 0 });
        self.written = self.written.wrapping_add(size);
        self.publish(link)
    }

    fn put(&self, record: Record) {
        // SAFETY: positions are multiples of 32, so a record never crosses the end of the memory;
        // the place is free (see `send`).
        unsafe { self.ring.at(self.written).cast::<Record>().write(record) };
    }

    fn publish(&self, link: &Link) -> Result<()> {
        self.ring.word(WRITTEN).store(self.written, Ordering::Release);
        let bell = self.ring.word(BELL);
        // Full barrier in both branches: the receiver sets the bell and then looks at WRITTEN.
        sync::fence(Ordering::SeqCst);
        match bell.load(Ordering::Acquire) {
            ATTENDED | RUNG => {}
            ASLEEP => {
                if bell.compare_exchange(ASLEEP, ATTENDED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    sync::wake(bell);
                }
            }
            _ => {
                if bell.swap(RUNG, Ordering::AcqRel) != RUNG {
                    link.send(Message::Post, Vec::new())?;
                }
            }
        }
        Ok(())
    }
}

/// The receiving end.
pub(crate) struct Receiver {
    ring: Ring,
    // One thread at a time takes records out.
    drained: std::sync::Mutex<u32>,
    dead: AtomicBool,
}

/// One call taken out of the ring.
struct Taken {
    record: Record,
    payload: Vec<u8>,
    entries: Vec<Entry>,
    fds: VecDeque<std::os::fd::OwnedFd>,
}

impl Receiver {
    pub(crate) fn accept(region: BorrowedFd<'_>) -> Result<Self> {
        let region = Region::accept(region, HEAD + DATA)?;
        Ok(Receiver { ring: Ring { region }, drained: Default::default(), dead: AtomicBool::new(false) })
    }

    pub(crate) fn bury(&self) {
        self.dead.store(true, Ordering::Release);
        self.ring.word(BELL).store(UNATTENDED, Ordering::Release);
        sync::wake(self.ring.word(BELL));
    }

    /// The sender rang. On the poller's thread.
    pub(crate) fn rung(self: &Arc<Self>, link: &Arc<Link>) {
        let (receiver, link) = (Arc::clone(self), Arc::clone(link));
        pool::run(Box::new(move || receiver.attend(&link)));
    }

    /// Takes out what there is, waits a while for more, serves.
    fn attend(self: &Arc<Self>, link: &Arc<Link>) {
        // Who rang while another thread is here was heard by that thread.
        let Ok(mut taken) = self.drained.try_lock() else { return };
        let bell = self.ring.word(BELL);
        loop {
            bell.store(ATTENDED, Ordering::SeqCst);
            sync::fence(Ordering::SeqCst);
            let (to_run, drained) = self.drain(link, &mut taken);
            if drained.is_err() {
                // Whoever writes nonsense into its own ring has broken the protocol. What it sent
                // before is served: other senders' calls wait in the same queues.
                drop(taken);
                link.hang_up();
                run_queues(to_run);
                return;
            }
            if !to_run.is_empty() {
                // Handlers may take long: the ring must not wait for them.
                bell.store(UNATTENDED, Ordering::SeqCst);
                sync::fence(Ordering::SeqCst);
                let more = self.ring.word(WRITTEN).load(Ordering::Acquire) != *taken;
                drop(taken);
                if more && bell.swap(RUNG, Ordering::AcqRel) != RUNG {
                    self.rung(link);
                }
                run_queues(to_run);
                match self.drained.try_lock() {
                    Ok(again) => taken = again,
                    Err(_) => return,
                }
                continue;
            }
            if bell.compare_exchange(ATTENDED, ASLEEP, Ordering::SeqCst, Ordering::Acquire).is_err() {
                // The bell says what this side never wrote: the sender rang, look again.
                if self.dead.load(Ordering::Acquire) {
                    return;
                }
                continue;
            }
            let empty = self.ring.word(WRITTEN).load(Ordering::SeqCst) == *taken;
            let idle = empty && !self.dead.load(Ordering::Acquire) && !pool::has_pending();
            if idle {
                sync::wait(bell, ASLEEP, Some(LINGER));
            }
            let woken = bell.load(Ordering::Acquire) != ASLEEP || !empty;
            if self.dead.load(Ordering::Acquire) || !woken {
                bell.store(UNATTENDED, Ordering::SeqCst);
                sync::fence(Ordering::SeqCst);
                if self.dead.load(Ordering::Acquire)
                    || self.ring.word(WRITTEN).load(Ordering::Acquire) == *taken
                {
                    return;
                }
            }
        }
    }

    /// Moves every record into its object's queue. Gives the objects whose queue needs a thread,
    /// which must be run whatever the outcome: their queues count on it.
    fn drain(self: &Arc<Self>, link: &Arc<Link>, at: &mut u32) -> (Vec<Arc<LocalNode>>, Result<()>) {
        let mut to_run = Vec::new();
        while self.ring.word(WRITTEN).load(Ordering::Acquire) != *at {
            let taken = match self.take(link, *at) {
                Ok(taken) => taken,
                Err(error) => return (to_run, Err(error)),
            };
            let size = taken.as_ref().map_or_else(|size| *size, |taken| taken.record.size);
            *at = at.wrapping_add(size);
            self.ring.word(TAKEN).store(*at, Ordering::Release);
            let Ok(taken) = taken else { continue };
            // An object that was given back meanwhile: its calls have nobody to go to.
            let Some(node) = link.exported(taken.record.node) else { continue };
            let (link, target) = (Arc::clone(link), Arc::clone(&node));
            // A queue at its limit loses the call; the bound is the receiver's protection.
            if let Ok(true) = node.queue_oneway(Box::new(move || taken.serve(&link, &target))) {
                to_run.push(node);
            }
        }
        (to_run, Ok(()))
    }

    /// Copies one record out. `Ok(Err(size))`: it only fills up the end.
    fn take(&self, link: &Arc<Link>, at: u32) -> Result<Result<Taken, u32>> {
        let broken = |what: &str| Error::Protocol(format!("a oneway record {what}"));
        let written = self.ring.word(WRITTEN).load(Ordering::Acquire);
        let (there, until_end) = (written.wrapping_sub(at) as usize, Ring::until_end(at));
        if !(RECORD..=DATA).contains(&there) || !at.is_multiple_of(32) {
            return Err(broken("that is out of the ring"));
        }
        // SAFETY: a record does not cross the end (both are multiples of 32); any bits are one.
        let record: Record = unsafe { self.ring.at(at).cast::<Record>().read_volatile() };
        let size = record.size as usize;
        if !size.is_multiple_of(32) || size < RECORD || size > there.min(until_end) {
            return Err(broken("of an impossible size"));
        }
        if record.code == SKIP {
            return Ok(Err(record.size));
        }
        let (len, count) = (record.len as usize, record.objects as usize);
        if count > MAX_OBJECTS || len > size || RECORD + aligned(len) + count * size_of::<Entry>() > size {
            return Err(broken("that does not hold what it says"));
        }
        let start = self.ring.at(at).wrapping_add(RECORD);
        let mut entries = vec![Entry::default(); count];
        // SAFETY: payload and entries lie inside the record, and that inside the ring.
        let payload = unsafe {
            start.add(aligned(len)).cast::<Entry>().copy_to_nonoverlapping(entries.as_mut_ptr(), count);
            SharedBytes::new(start, len).to_vec()
        };
        let fds = link.take_fds(INBOX, false, objects::fds_of(&entries))?;
        Ok(Ok(Taken { record, payload, entries, fds }))
    }
}

impl Taken {
    fn serve(self, link: &Arc<Link>, node: &LocalNode) {
        stats::SERVED_ONEWAY.add();
        let call = Call {
            identity: link.peer(),
            engine: EngineKind::Shm,
            priority: Priority::unpack(self.record.priority),
            oneway: true,
            deadline: None,
            lifetime: std::marker::PhantomData,
        };
        let (mut nowhere, mut arrived) = (Vec::new(), Arrived::new(link, self.entries, self.fds));
        let mut reply = Writer::growing(&mut nowhere);
        let mut data = Reader::with_objects(SharedBytes::from_slice(&self.payload), &mut arrived);
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**node.service(), &call, self.record.code, &mut data, &mut reply));
    }
}

/// Serves the queues: the first on this thread, which is warm, the others on further ones.
fn run_queues(mut nodes: Vec<Arc<LocalNode>>) {
    let Some(first) = nodes.pop() else { return };
    for node in nodes {
        pool::run(Box::new(move || node.run_oneway()));
    }
    first.run_oneway();
}
