//! Takes oneway calls out of a ring, and serves them.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use handoff_placement::fast::current_cpu;
use handoff_placement::{Policy, Priority};
use handoff_sync::bell;
use handoff_sync::futex::{self, WakeAction};
use handoff_sync::stay::{self, Attendance};
use handoff_sync::wait_strategy::{self, SPIN_LIMIT};

use super::backlog::Admission;
use super::ends::{DrainState, INBOX, Receiver};
use super::ring::{DATA, Record, RingItem, SECRET};
use crate::call::Call;
use crate::disposal::PeerFd;
use crate::engine_kind::EngineKind;
use crate::local::Buffer;
use crate::locked::lock;
use crate::object::{LocalNode, Transaction};
use crate::parcel::{Reader, SharedBytes, Writer};
use crate::pool::{self, Attachment, Recall, Worker};
use crate::shm::call::client;
use crate::shm::call::slot::Entry;
use crate::shm::link::Link;
use crate::shm::objects::{self, ReceivedObjects};
use crate::shm::place;
use crate::{Error, Result, dispatch, oneway_threads, stats};

/// References given back that may wait for calls before them: more are a peer's attempt to fill memory.
const MOST_GIVEN_BACK: usize = 1 << 16;

/// So many calls to one object in a row let a thread expect the next to go there, too.
const ALIKE: u32 = 8;

/// How long a thread waits at a ring before it goes back to the pool.
const LINGER: Duration = Duration::from_secs(2);

/// A thread's stay at a ring.
struct Stay(Arc<Receiver>);

impl Recall for Stay {
    fn may_recall(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst)
    }

    fn recall(&self) -> bool {
        let asked = self.0.waiting.swap(false, Ordering::SeqCst);
        if asked {
            bell::rouse(self.0.ring.bell());
            futex::wake(self.0.ring.bell());
        }
        asked
    }
}

/// The thread that takes calls out of a ring.
struct RingReader<'a> {
    receiver: &'a Arc<Receiver>,
    link: &'a Arc<Link>,
    worker: &'a Arc<Worker>,
    // While it has the ring.
    drained: Option<MutexGuard<'a, DrainState>>,
    // Once it had it.
    attached: Option<Attachment>,
    // Objects whose queue needs a thread.
    to_run: Vec<(u64, Arc<LocalNode>)>,
    broken: bool,
    stood_back: bool,
    // Whether this thread has but one CPU, once that was asked for.
    bound: Option<bool>,
}

impl Attendance for RingReader<'_> {
    fn enter(&mut self) -> bool {
        self.drained = self.receiver.drained.try_lock().ok();
        if self.drained.is_some() && self.attached.is_none() {
            self.attached = Some(pool::attach(self.worker, Arc::new(Stay(Arc::clone(self.receiver)))));
        }
        self.drained.is_some()
    }

    fn let_go(&mut self) {
        self.drained = None;
    }

    fn send_thread(&mut self) {
        self.receiver.rung(self.link);
    }

    fn expected(&self) -> Option<u64> {
        self.drained.as_ref().filter(|drained| drained.alike >= ALIKE).map(|drained| drained.node)
    }

    fn take_out(&mut self) -> Option<u64> {
        let drained = self.drained.as_mut()?;
        let (more, outcome) = self.receiver.drain(self.link, drained);
        self.broken = outcome.is_err() || drained.never_rests;
        self.to_run.extend(more);
        self.to_run.first().map(|first| first.0).filter(|_| outcome.is_ok())
    }

    fn is_broken(&self) -> bool {
        self.broken
    }

    fn give_up(&mut self) {
        // Whoever writes nonsense into its own ring has broken the protocol. What it sent
        // before is served: other senders' calls wait in the same queues.
        self.drained = None;
        self.link.hang_up();
        let user = self.link.peer().uid;
        self.to_run.drain(..).for_each(|(_, node)| oneway_threads::send(&node, user));
    }

    fn has_jobs(&self) -> bool {
        !self.to_run.is_empty()
    }

    fn serve(&mut self) {
        let mut to_run = self.to_run.drain(..);
        let (user, first) = (self.link.peer().uid, to_run.next());
        to_run.for_each(|(_, node)| oneway_threads::send(&node, user));
        if let Some((_, node)) = first {
            oneway_threads::serve_here(&node, user);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.receiver.dead.load(Ordering::Acquire)
    }

    fn spin(&mut self) -> bool {
        let Some(drained) = &mut self.drained else { return false };
        self.receiver.look(drained, &mut self.bound)
    }

    fn note_idle(&mut self) {
        if let Some(drained) = &mut self.drained {
            drained.note_idle();
        }
    }

    fn set_waiting(&mut self, waits: bool) {
        if waits {
            self.receiver.waiting.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        } else {
            self.receiver.waiting.store(false, Ordering::Relaxed);
        }
    }

    fn has_more(&mut self) -> bool {
        self.drained.as_mut().is_some_and(|drained| drained.has_more(&self.receiver.ring))
    }

    fn is_wanted(&mut self) -> bool {
        self.receiver.dead.load(Ordering::Acquire) || pool::has_pending()
    }

    fn sleep(&mut self) {
        let Some(drained) = &mut self.drained else { return };
        if !self.stood_back && drained.cpu == u32::from(current_cpu()) {
            self.stood_back = true;
            stand_back(self.worker);
        }
        let slept = Instant::now();
        futex::wait(self.receiver.ring.bell(), bell::ASLEEP, Some(LINGER));
        let here = current_cpu();
        let beside = drained.cpu == u32::from(here);
        if drained.cpu_move.woken(beside, slept.elapsed()) {
            place::leave(here);
        }
    }
}

/// One call taken out of the ring.
struct ReceivedCall {
    record: Record,
    payload: Vec<u8>,
    secret: bool,
    entries: Vec<Entry>,
    fds: VecDeque<PeerFd>,
}

impl Drop for ReceivedCall {
    fn drop(&mut self) {
        if self.secret {
            self.payload.fill(0);
            // Else nothing needs to be written: nobody reads it any longer.
            std::hint::black_box(&self.payload);
        }
    }
}

impl Receiver {
    /// The peer gives references back. They came by the socket and may have overtaken calls in the
    /// ring, which were made before: those are taken out first.
    pub(crate) fn give_back(self: &Arc<Self>, link: &Arc<Link>, node: u64, count: u32) -> Result<()> {
        let mut given_back = lock(&self.given_back);
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
        drop(given_back);
        // The calls before it may wait behind those that a thread serves; this must not.
        match bell::ring(self.ring.bell(), node, false) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(self.ring.bell()),
            WakeAction::Notify => self.rung(link),
        }
        Ok(())
    }

    /// Every call up to `at` is queued: what was given back after them is let go.
    fn settle(&self, link: &Link, at: u32) {
        self.queued.store(at, Ordering::Release);
        let mut given_back = lock(&self.given_back);
        let (due, later) = given_back.drain(..).partition(|(end, ..)| at.wrapping_sub(*end) as i32 >= 0);
        *given_back = later;
        drop(given_back);
        let due: Vec<(u32, u64, u32)> = due;
        due.into_iter().for_each(|(_, node, count)| link.unexport(node, count));
    }

    /// The peer is gone. A thread that is at the ring goes at the sight of `dead`.
    pub(crate) fn on_peer_death(&self) {
        self.dead.store(true, Ordering::Release);
        bell::leave(self.ring.bell());
        futex::wake(self.ring.bell());
    }

    /// Has what the peer had sent before its end served, before its references are gone.
    pub(crate) fn take_last(self: &Arc<Self>, link: &Arc<Link>) {
        let mut drained = lock(&self.drained);
        // Nonsense at its end has nobody left to be told of.
        let (to_run, _) = self.drain(link, &mut drained);
        drop(drained);
        to_run.into_iter().for_each(|(_, node)| oneway_threads::send(&node, link.peer().uid));
    }

    /// A thread is wanted. One that is on its way is enough: a peer may ring without end while all threads of its share
    /// are at work, and each that is sent for waits in memory.
    pub(crate) fn rung(self: &Arc<Self>, link: &Arc<Link>) {
        if self.coming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (user, receiver, link) = (link.peer().uid, Arc::clone(self), Arc::clone(link));
        pool::submit(user, None, Box::new(move |worker| receiver.attend(&link, worker)));
    }

    /// Takes out what there is, waits a while for more, serves.
    fn attend(self: &Arc<Self>, link: &Arc<Link>, worker: &Arc<Worker>) {
        // Before the first look. An exchange, so that it sees what every ring before it was for.
        self.coming.swap(false, Ordering::AcqRel);
        let mut here = RingReader {
            receiver: self,
            link,
            worker,
            drained: None,
            attached: None,
            to_run: Vec::new(),
            broken: false,
            stood_back: false,
            bound: None,
        };
        stay::attend(self.ring.bell(), &mut here);
    }

    /// Looks for the next record for a while, where that is worth it. True if one is there. `bound`: whether
    /// this thread has but one CPU, once that was asked for.
    fn look(&self, drained: &mut DrainState, bound: &mut Option<bool>) -> bool {
        let beside = drained.cpu == u32::from(current_cpu());
        // Where it has no other CPU than its sender's, it offers that one after each look.
        let yields = beside && *bound.get_or_insert_with(|| place::only_cpu().is_some());
        if !drained.adaptive_spin.looks(beside && !yields) {
            return false;
        }
        let look = || {
            let wanted = self.dead.load(Ordering::Relaxed) || pool::has_pending();
            let found = drained.has_more(&self.ring);
            (found || wanted).then_some(found)
        };
        let found = wait_strategy::spin(SPIN_LIMIT, yields, look).unwrap_or(false);
        drained.adaptive_spin.looked(found);
        if found {
            drained.cpu_move.paid();
        }
        found
    }

    /// Moves every record that is there into its object's queue. Gives the objects whose queue needs a
    /// thread, which must be run whatever the outcome: their queues count on it.
    fn drain(
        self: &Arc<Self>,
        link: &Arc<Link>,
        drained: &mut DrainState,
    ) -> (Vec<(u64, Arc<LocalNode>)>, Result<()>) {
        let (mut to_run, mut called, user) = (Vec::new(), None, link.peer().uid);
        // Not what comes meanwhile: it may not end.
        let end = match drained.end(&self.ring) {
            Ok(end) if end == drained.at => return (to_run, Ok(())),
            Ok(end) => end,
            Err(error) => return (to_run, Err(error)),
        };
        if !self.backlog.allows(end, DATA, drained.keeps) {
            let why = "oneway records in places that were not given back";
            return (to_run, Err(Error::Protocol(why.into())));
        }
        // Each turn goes on by a record's head at least, and `read` lets no record reach past `end`.
        while end != drained.at {
            let taken = match self.take(link, drained.at, end) {
                Ok(taken) => taken,
                Err(error) => {
                    drained.broken = true;
                    return (to_run, Err(error));
                }
            };
            let begin = drained.at;
            let size = taken.as_ref().map_or_else(|size| *size, |taken| taken.record.size);
            drained.at = begin.wrapping_add(size);
            if let Err(error) = self.backlog.has_room(link.peer(), size as usize) {
                drained.broken = true;
                return (to_run, Err(error));
            }
            let (next, keeps, told) = (drained.at, &mut drained.keeps, |at| self.ring.set_taken(at));
            let Ok(taken) = taken else {
                self.backlog.pass(next, keeps, told);
                continue;
            };
            let admitted = self.backlog.admit((begin, next), size as usize, keeps, told);
            drained.note(&taken.record);
            // What the call refers to must be there when it is read, as the object itself is.
            let held = objects::hold(link, &taken.entries);
            let (link, receiver) = (Arc::clone(link), Arc::clone(self));
            let queued = QueuedCall { link, receiver, admitted, held, taken };
            // An object that was given back meanwhile: its calls have nobody to go to.
            let id = queued.taken.record.node;
            queued.link.find_exported(&mut called, id);
            let Some((.., node)) = &called else { continue };
            let target = Arc::clone(node);
            if oneway_threads::queue_admitted(node, user, Box::new(move || queued.serve(&target))) {
                to_run.push((id, Arc::clone(node)));
            }
        }
        self.settle(link, drained.at);
        (to_run, Ok(()))
    }

    /// Takes one record out, with its descriptors. `Ok(Err(size))`: it only fills up the end.
    fn take(&self, link: &Arc<Link>, at: u32, end: u32) -> Result<Result<ReceivedCall, u32>> {
        match self.ring.read(at, end)? {
            RingItem::Filler(size) => Ok(Err(size)),
            RingItem::Call { mut record, payload, entries } => {
                let secret = record.cpu & SECRET != 0;
                record.cpu &= !SECRET;
                if secret {
                    self.ring.clear_payload(at, payload.len());
                }
                let fds = link.take_fds(INBOX, false, objects::fds_of(&entries), None)?;
                Ok(Ok(ReceivedCall { record, payload, secret, entries, fds }))
            }
        }
    }
}

/// A call that waits to be served, with the objects of this process that it refers to.
struct QueuedCall {
    link: Arc<Link>,
    receiver: Arc<Receiver>,
    admitted: Admission,
    held: Vec<u64>,
    taken: ReceivedCall,
}

impl QueuedCall {
    fn serve(mut self, node: &LocalNode) {
        let (entries, fds) = (std::mem::take(&mut self.taken.entries), std::mem::take(&mut self.taken.fds));
        let link = &self.link;
        stats::SERVED_ONEWAY.add();
        let call = Call {
            identity: link.peer(),
            code: self.taken.record.code,
            engine: EngineKind::Shm,
            priority: self.taken.record.priority,
            oneway: true,
            deadline: None,
            driver_details: None,
        };
        let (mut nowhere, mut arrived) = (Buffer::take(), None);
        let payload = SharedBytes::from_slice(&self.taken.payload);
        let data = if entries.is_empty() {
            Reader::new(payload)
        } else {
            Reader::with_objects(payload, arrived.insert(ReceivedObjects::new(link, entries, fds)))
        };
        let mut transaction = Transaction { call, data, reply: Writer::growing(&mut nowhere.0) };
        // Nobody waits for the outcome of a oneway call.
        drop(dispatch::serve(&**node.service(), &mut transaction));
    }
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        self.held.drain(..).for_each(|node| self.link.unexport(node, 1));
        let ring = &self.receiver.ring;
        self.receiver.backlog.over(self.admitted, |at| ring.set_taken(at));
    }
}

/// The last caller ran on this thread's CPU. Where the thread has no other, it shall not take it away
/// when it is woken: a oneway call is to let its caller go on. The pool gives the thread its own
/// priority again when it comes back.
#[cold]
fn stand_back(worker: &Worker) {
    let base = pool::base();
    if base.policy == Policy::Other && place::only_cpu().is_some() {
        worker.become_priority(Priority { policy: Policy::Batch, ..base });
        client::priority_changed();
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
