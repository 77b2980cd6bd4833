//! Oneway calls: a ring of records each way on a link, and the queues behind it.
//!
//! The caller copies its request into the ring and goes on; it makes a system call only if nobody
//! at the other end looks. One thread there takes records out and appends each to its object's
//! queue, where they are served one at a time and in order. A full ring is the sender's error.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use handoff_placement::Priority;
use handoff_placement::fast::current_cpu;

use super::bell::{self, Rang};
use super::link::Link;
use super::objects::{self, Arrived};
use super::patience::{Patience, SPIN};
use super::remote::RemoteNode;
use super::ring::{DATA, Found, RECORD, Record, Ring, size_of_record};
use super::slot::{Entry, MAX_OBJECTS};
use super::sync;
use super::wire::Message;
use crate::engine::{EngineKind, OutCall, WriteFn};
use crate::local::LocalNode;
use crate::object::Call;
use crate::parcel::{Reader, SharedBytes, Writer};
use crate::{Error, Result, dispatch, pool, stats};

/// Descriptors of oneway calls are kept under this in place of a slot's number.
const INBOX: u32 = u32::MAX;
/// References given back that may wait for calls before them: more are a peer's attempt to fill memory.
const MOST_GIVEN_BACK: usize = 1 << 16;
/// How long a thread waits at a ring before it goes back to the pool.
const LINGER: Duration = Duration::from_secs(2);

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
            let (ring, file) = Ring::create()?;
            link.send(Message::Ring, vec![file])?;
            none.insert(Sender { ring, written: 0 })
        }
    };
    sender.send(link, remote.node, call, write)
}

impl Sender {
    fn free(&self) -> usize {
        let used = self.written.wrapping_sub(self.ring.taken()) as usize;
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
                // SAFETY: free up to the end, as was just found; the sending end is locked.
                unsafe { self.ring.put(self.written, Record::filler(room as u32)) };
                self.written = self.written.wrapping_add(room as u32);
                room = DATA;
            }
        }
        let table = MAX_OBJECTS * size_of::<Entry>();
        let space = self.free().min(room).saturating_sub(RECORD + 32);
        if space == 0 {
            return Err(Error::OnewayFull(DATA - self.free()));
        }
        // SAFETY: a head and `space` bytes from here are free: the receiver has read them, and this
        // thread holds the lock of the sending end.
        let mut writer = unsafe { self.ring.payload_writer(self.written, space) };
        write(&mut writer).map_err(|error| match error {
            Error::TooLarge { size, .. } if size <= DATA / 2 - table => Error::OnewayFull(DATA - self.free()),
            Error::TooLarge { size, .. } => Error::TooLarge { size, limit: DATA / 2 - table },
            other => other,
        })?;
        let len = writer.len();
        let objects = writer.finish();
        let count = objects.len();
        let size = size_of_record(len, count);
        if size + 32 > space {
            return Err(Error::OnewayFull(DATA - self.free()));
        }
        if count > 0 {
            let (entries, fds) = objects::encode(link, objects)?;
            // SAFETY: it was just checked that the record fits into the free space.
            unsafe { self.ring.put_entries(self.written, len, &entries) };
            link.send_fds(INBOX, false, fds)?;
        }
        let priority = Priority::current().map_or(0, Priority::pack);
        let (len, objects, size) = (len as u32, count as u32, size as u32);
        let record =
            Record { len, code: call.code, node, priority, objects, size, cpu: current_cpu().into() };
        // SAFETY: as above.
        unsafe { self.ring.put(self.written, record) };
        self.written = self.written.wrapping_add(size);
        self.publish(link)
    }

    fn publish(&self, link: &Link) -> Result<()> {
        self.ring.set_written(self.written);
        match bell::ring(self.ring.bell()) {
            Rang::Heard => {}
            Rang::Wake => sync::wake(self.ring.bell()),
            Rang::Tell => link.send(Message::Post, Vec::new())?,
        }
        Ok(())
    }
}

/// What the one thread that takes records out remembers.
#[derive(Debug, Default)]
struct Drained {
    /// Bytes taken out so far.
    at: u32,
    /// Where the last record's sender ran.
    cpu: u32,
    patience: Patience,
}

/// The receiving end.
pub(crate) struct Receiver {
    ring: Ring,
    // One thread at a time takes records out.
    drained: Mutex<Drained>,
    // Up to here every call is in its object's queue, which holds the object.
    queued: AtomicU32,
    // References given back after calls that are not: where the ring ended, object, count.
    given_back: Mutex<Vec<(u32, u64, u32)>>,
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
        Ok(Receiver {
            ring: Ring::accept(region)?,
            drained: Mutex::default(),
            queued: AtomicU32::new(0),
            given_back: Mutex::default(),
            dead: AtomicBool::new(false),
        })
    }

    /// The peer gives references back. They came by the socket and may have overtaken calls in the
    /// ring, which were made before: those are taken out first.
    pub(crate) fn give_back(&self, link: &Link, node: u64, count: u32) -> Result<()> {
        let mut given_back = self.given_back.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self.ring.written();
        // Under the lock that `settle` takes after it has said how far it is: one of the two sees the other.
        if self.queued.load(Ordering::Acquire) == end {
            drop(given_back);
            link.unexport(node, count);
            return Ok(());
        }
        if given_back.len() >= MOST_GIVEN_BACK {
            return Err(Error::Protocol("references given back without an end".into()));
        }
        given_back.push((end, node, count));
        Ok(())
    }

    /// Every call up to `at` is queued: what was given back after them is let go.
    fn settle(&self, link: &Link, at: u32) {
        self.queued.store(at, Ordering::Release);
        let mut given_back = self.given_back.lock().unwrap_or_else(PoisonError::into_inner);
        let (due, later) = given_back.drain(..).partition(|(end, ..)| at.wrapping_sub(*end) as i32 >= 0);
        *given_back = later;
        drop(given_back);
        let due: Vec<(u32, u64, u32)> = due;
        due.into_iter().for_each(|(_, node, count)| link.unexport(node, count));
    }

    pub(crate) fn bury(&self) {
        self.dead.store(true, Ordering::Release);
        bell::leave(self.ring.bell());
        sync::wake(self.ring.bell());
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
        let bell = self.ring.bell();
        loop {
            bell::attend(bell);
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
                bell::leave(bell);
                let more = self.ring.written() != taken.at;
                drop(taken);
                if more && bell::call_back(bell) == Rang::Tell {
                    self.rung(link);
                }
                run_queues(to_run);
                match self.drained.try_lock() {
                    Ok(again) => taken = again,
                    Err(_) => return,
                }
                continue;
            }
            if self.look(&mut taken) {
                continue;
            }
            if !bell::may_sleep(bell) {
                // The bell says what this side never wrote: the sender rang, look again.
                if self.dead.load(Ordering::Acquire) {
                    return;
                }
                continue;
            }
            let empty = self.ring.written() == taken.at;
            let idle = empty && !self.dead.load(Ordering::Acquire) && !pool::has_pending();
            if idle {
                sync::wait(bell, bell::ASLEEP, Some(LINGER));
            }
            let woken = bell::was_woken(bell) || !empty;
            if self.dead.load(Ordering::Acquire) || !woken {
                bell::leave(bell);
                if self.dead.load(Ordering::Acquire) || self.ring.written() == taken.at {
                    return;
                }
            }
        }
    }

    /// Looks for the next record for a while, where that is worth it. True if one is there.
    fn look(&self, drained: &mut Drained) -> bool {
        if !drained.patience.looks(drained.cpu, current_cpu().into()) {
            return false;
        }
        let began = Instant::now();
        let mut found = false;
        while !found && began.elapsed() < SPIN && !self.dead.load(Ordering::Relaxed) && !pool::has_pending() {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            found = self.ring.written() != drained.at;
        }
        drained.patience.looked(found);
        found
    }

    /// Moves every record into its object's queue. Gives the objects whose queue needs a thread,
    /// which must be run whatever the outcome: their queues count on it.
    fn drain(self: &Arc<Self>, link: &Arc<Link>, drained: &mut Drained) -> (Vec<Arc<LocalNode>>, Result<()>) {
        let mut to_run = Vec::new();
        while self.ring.written() != drained.at {
            let taken = match self.take(link, drained.at) {
                Ok(taken) => taken,
                Err(error) => return (to_run, Err(error)),
            };
            let size = taken.as_ref().map_or_else(|size| *size, |taken| taken.record.size);
            drained.at = drained.at.wrapping_add(size);
            self.ring.set_taken(drained.at);
            let Ok(taken) = taken else { continue };
            drained.cpu = taken.record.cpu;
            // What the call refers to must be there when it is read, as the object itself is.
            let taken = Queued { held: objects::hold(link, &taken.entries), link: Arc::clone(link), taken };
            // An object that was given back meanwhile: its calls have nobody to go to.
            let Some(node) = link.exported(taken.taken.record.node) else { continue };
            let target = Arc::clone(&node);
            // A queue at its limit loses the call; the bound is the receiver's protection.
            if let Ok(true) = node.queue_oneway(Box::new(move || taken.serve(&target))) {
                to_run.push(node);
            }
        }
        self.settle(link, drained.at);
        (to_run, Ok(()))
    }

    /// Takes one record out, with its descriptors. `Ok(Err(size))`: it only fills up the end.
    fn take(&self, link: &Arc<Link>, at: u32) -> Result<Result<Taken, u32>> {
        match self.ring.read(at)? {
            Found::Filler(size) => Ok(Err(size)),
            Found::Call { record, payload, entries } => {
                let fds = link.take_fds(INBOX, false, objects::fds_of(&entries))?;
                Ok(Ok(Taken { record, payload, entries, fds }))
            }
        }
    }
}

/// A call that waits to be served, with the objects of this process that it refers to.
struct Queued {
    link: Arc<Link>,
    held: Vec<u64>,
    taken: Taken,
}

impl Queued {
    fn serve(mut self, node: &LocalNode) {
        let (entries, fds) = (std::mem::take(&mut self.taken.entries), std::mem::take(&mut self.taken.fds));
        let link = &self.link;
        stats::SERVED_ONEWAY.add();
        let call = Call {
            identity: link.peer(),
            engine: EngineKind::Shm,
            priority: self.taken.record.priority,
            oneway: true,
            deadline: None,
            told: None,
            lifetime: std::marker::PhantomData,
        };
        let (mut nowhere, mut arrived) = (Vec::new(), Arrived::new(link, entries, fds));
        let mut reply = Writer::growing(&mut nowhere);
        let mut data = Reader::with_objects(SharedBytes::from_slice(&self.taken.payload), &mut arrived);
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**node.service(), &call, self.taken.record.code, &mut data, &mut reply));
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.held.drain(..).for_each(|node| self.link.unexport(node, 1));
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
