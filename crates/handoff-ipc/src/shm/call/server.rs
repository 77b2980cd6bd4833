//! The server's side of a synchronous call.

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use handoff_placement::Priority;
use handoff_sync::futex::{self, WakeAction};
use handoff_sync::wait::{self, RequestWait};
use handoff_sync::wait_strategy::{self, SPIN_LIMIT};
use handoff_sync::word::{self, Request};

use super::server_slot::ServerSlot;
use super::serving;
use super::slot::{Area, Entry, Header, LARGE_REPLY, Meta, NO_CPU, ParcelExtent, STAGE};
use crate::call::Call;
use crate::claim::Claim;
use crate::engine_kind::EngineKind;
use crate::locked::lock;
use crate::object::{Binder, LocalNode, Reference, Transaction};
use crate::parcel::{Object, Reader, SharedBytes};
use crate::pool::{self, Recall, Worker};
use crate::shm::link::{Called, Link};
use crate::shm::objects::{self, ReceivedObjects};
use crate::shm::phases::{Point, pass};
use crate::shm::place;
use crate::shm::wire::Message;
use crate::{Context, Error, Result, dispatch};

/// Requests up to this size are copied out, so that the reply can use the same cache lines.
const COPY: usize = 1024;
/// How long a thread sleeps at a slot, twice at the most, before it goes back to the pool: the first sleep, which is
/// that of most calls, needs no clock.
const LINGER: Duration = Duration::from_secs(1);
/// How long a thread stays with a caller that calls again at once, although other work waits for a thread. To leave costs
/// the caller a message, and the poller and a thread of this process a wake-up each, which is as much as dozens of calls.
const STAY: Duration = Duration::from_micros(300);
/// Claims of one priority after which the caller is looked at again.
const TRUST: u32 = 64;

impl ServerSlot {
    /// The caller rang: sends a thread, unless one is there. On the poller's thread.
    pub(crate) fn rung(self: &Arc<Self>, link: &Arc<Link>) {
        if !self.presence.ring() {
            return;
        }
        #[cfg(feature = "tokio")]
        if tasks::take_over(self, link) {
            return;
        }
        let priority = self.wanted_priority(link);
        let (user, slot, link) = (link.peer().uid, Arc::clone(self), Arc::clone(link));
        pool::submit(user, priority, Box::new(move |worker| attend(&slot, &link, worker)));
    }

    /// The caller is more urgent than the thread at the slot. On the poller's thread.
    pub(crate) fn raise(&self, link: &Arc<Link>) {
        let worker = self.worker.lock().ok().and_then(|worker| worker.upgrade());
        if let (Some(worker), Some(priority)) = (worker, self.wanted_priority(link)) {
            worker.raise(priority);
        }
    }

    /// What the request that stands in the slot is to be served at, if not at the usual.
    fn wanted_priority(&self, link: &Arc<Link>) -> Option<Priority> {
        let header = self.slot.read_request();
        let node = link.exported(header.node)?;
        let caller = if node.scheduling().inherit { verified(link, &header) } else { None };
        Some(node.effective(caller, pool::base()))
    }
}

/// The priority that a caller claims, if its thread really has it.
fn verified(link: &Link, header: &Header) -> Option<Priority> {
    Claim { priority: header.priority, tid: header.tid }.verified(link.peer().pid, link.peer_started())
}

/// What a thread remembers between two requests in one slot.
struct SlotHistory {
    called: Option<Called>,
    claim: u32,
    wanted: u32,
    trusted: u32,
    only_cpu: u32,
    // The priority that the caller was told last.
    told: Option<u32>,
    came: Instant,
}

/// How a round ended.
enum Next {
    /// A request is in the slot.
    Serve,
    /// The thread has left the slot.
    Left,
}

/// Serves the slot until nothing came for a while, or other work waits, or the caller is dead.
#[inline(never)]
fn attend(slot: &Arc<ServerSlot>, link: &Arc<Link>, worker: &Arc<Worker>) {
    let attached = pool::attach(worker, Arc::clone(slot) as Arc<dyn Recall>);
    if let Ok(mut here) = slot.worker.lock() {
        *here = Arc::downgrade(worker);
    }
    let mut known = SlotHistory::new(place::only_cpu().map_or(NO_CPU, u32::from));
    loop {
        let next = match word::poll_request(slot.slot.word()) {
            Request::Ready if !slot.is_dead() => slot.round(link, worker, &mut known),
            Request::Pending if !slot.is_dead() => slot.leave(),
            _ => {
                if !slot.is_dead() {
                    // No caller writes that.
                    link.hang_up();
                }
                break;
            }
        };
        if matches!(next, Next::Left) {
            break;
        }
    }
    drop(attached);
}

impl ServerSlot {
    /// Serves one request and waits for the next.
    #[inline]
    fn round(self: &Arc<Self>, link: &Arc<Link>, worker: &Arc<Worker>, known: &mut SlotHistory) -> Next {
        pass(Point::Seen);
        let header = self.slot.read_request();
        // Taken out for the call: a reference to it would hold all of `known`.
        let mut called = known.called.take();
        if !link.find_exported(&mut called, header.node) {
            known.trusted = 0;
        }
        if let Some((.., node)) = &called {
            #[cfg(feature = "tokio")]
            if node.asynchronous().is_some() {
                self.recalled.store(false, Ordering::Relaxed);
                tasks::begin(self, link, node, &header);
                return Next::Left;
            }
            known.take_priority(link, worker, &header, node);
            if header.meta.has(Meta::SPIN) && !header.meta.has(Meta::YIELD) {
                place::apart(header.meta.cpu());
            }
            self.answer(link, &header, Ok(node));
        } else {
            self.answer(link, &header, Err(Error::UnknownObject(header.node)));
        }
        known.called = called;
        let meta = header.meta;
        if self.recalled.load(Ordering::Relaxed) || (pool::has_pending() && !known.stays(worker, meta)) {
            self.finish(link, false, false);
            return self.left();
        }
        known.tell(self, worker);
        if meta.has(Meta::BESIDE) {
            place::come(meta.cpu());
        }
        let looks = meta.has(Meta::SPIN);
        self.finish(link, true, !looks);
        if looks && self.spin(meta.has(Meta::YIELD)) {
            return Next::Serve;
        }
        self.sleep(link)
    }

    /// Hands the reply over.
    #[inline]
    fn finish(&self, link: &Link, attend: bool, sleeps: bool) {
        self.served.add();
        let owed = word::post_reply(self.slot.word(), attend, sleeps);
        pass(Point::Replied);
        match owed {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(self.slot.word()),
            WakeAction::Notify => self.tell(link),
        }
        pass(Point::WokenBack);
    }

    #[cold]
    fn tell(&self, link: &Link) {
        // A link that just broke needs no news: `on_peer_death` tells the caller.
        drop(link.send(Message::Done { slot: self.id }, Vec::new()));
    }

    fn spin(&self, yields: bool) -> bool {
        let came = || (word::poll_request(self.slot.word()) != Request::Pending).then_some(());
        // While other work waits, only for what a caller needs between two calls.
        let limit = if pool::has_pending() { Duration::ZERO } else { SPIN_LIMIT };
        wait_strategy::spin(limit, yields, came).is_some()
    }

    fn sleep(&self, link: &Link) -> Next {
        // Exchanged, not stored: whoever hands work to the pool either sees this thread wait, or
        // this thread sees the work.
        self.waiting.swap(true, Ordering::SeqCst);
        let (slept, end) = (Cell::new(false), OnceCell::new());
        let left = || {
            if !slept.replace(true) {
                return Some(LINGER);
            }
            let now = Instant::now();
            let left = end.get_or_init(|| now + LINGER).saturating_duration_since(now);
            (!left.is_zero()).then_some(left)
        };
        let wanted = || self.recalled.load(Ordering::SeqCst) || pool::has_pending() || self.is_dead();
        let next = match wait::for_request(self.slot.word(), wanted, left) {
            RequestWait::Found => Next::Serve,
            RequestWait::Wanted => {
                // It may be long until a thread is here again.
                self.free_large();
                self.leave()
            }
            RequestWait::Idle => {
                self.keep(Vec::new());
                self.free_large();
                self.leave()
            }
            RequestWait::Broken => {
                link.hang_up();
                // The slot is not served again: its presence stays.
                Next::Left
            }
        };
        self.waiting.store(false, Ordering::Relaxed);
        next
    }

    /// Gives the memory of large replies back, once the caller has read the last one. It is this process that
    /// the kernel charges for it, and a slot lives as long as the link.
    #[cold]
    fn free_large(&self) {
        if self.holds_large.load(Ordering::Relaxed) && self.slot.is_reply_read() {
            self.holds_large.store(false, Ordering::Relaxed);
            self.slot.free_payload(Area::B);
            self.replies[Area::B as usize].uncount();
        }
    }

    /// Leaves the slot, unless a request came first.
    fn leave(&self) -> Next {
        if word::detach(self.slot.word()) { self.left() } else { Next::Serve }
    }

    /// The word says that nobody looks. Whoever rang since was told to be content with this thread.
    fn left(&self) -> Next {
        self.recalled.store(false, Ordering::Relaxed);
        if self.presence.leave() { Next::Left } else { Next::Serve }
    }

    /// Runs the service and puts its reply into the slot.
    #[inline]
    #[allow(unsafe_code)]
    fn answer(&self, link: &Arc<Link>, header: &Header, node: Result<&Arc<LocalNode>>) {
        self.read_by_now();
        let (mut scratch, small) = (Scratch::new(), header.len as usize <= COPY);
        let area = if small { Area::A } else { Area::B };
        let mut stage = STAGE;
        // SAFETY: it is this side's turn, and `presence` lets one thread in. A small request is
        // copied out before anything is written; a large one lies in the other area.
        let reply = unsafe { self.slot.writer(area, &mut stage) };
        if node.is_err() && header.meta.has(Meta::OBJECTS) {
            // Nobody reads them, and the next request must not find them.
            self.discard_request(link);
        }
        let called = node.as_ref().ok().copied();
        let (mut arrived, mut frees) = (None, false);
        let data = Reader::new(SharedBytes::from_slice(&[]));
        let mut transaction = Transaction { call: self.call(link, header), data, reply };
        let deadline = transaction.call.deadline;
        let outcome = node.and_then(|node| {
            let data = self
                .slot
                .payload(Area::A, header.meta, header.len)
                .ok_or_else(|| Self::too_large(header.len))?;
            let data = if small {
                Reader::of_slice(scratch.copy(data))
            } else {
                frees = !self.count_request(link, header.len);
                Reader::new(data)
            };
            transaction.data = if header.meta.has(Meta::OBJECTS) {
                data.along_with(arrived.insert(self.arrived(link, deadline)?))
            } else {
                data
            };
            serving::inside(link, &self.slot, || dispatch::serve(&**node.service(), &mut transaction))
        });
        let reply = &mut transaction.reply;
        let written = self.slot.put_down(area, reply);
        let objects = reply.has_objects().then_some(|| reply.take_objects());
        if frees {
            self.slot.free_payload(Area::A);
        }
        self.put_reply(link, area, || called.and_then(|node| node.context()), written, objects, outcome);
        if header.meta.has(Meta::SECRET) {
            scratch.clear();
        }
    }

    /// Completes a reply, which the exchange of the word then hands over. `context` gives that of the service,
    /// `objects` what goes beside the reply.
    #[inline]
    fn put_reply(
        &self,
        link: &Arc<Link>,
        area: Area,
        context: impl FnOnce() -> Option<Context>,
        reply: ParcelExtent,
        objects: Option<impl FnOnce() -> Vec<(u32, Object)>>,
        outcome: Result<()>,
    ) {
        let ParcelExtent { len, payload_offset } = reply;
        let counted = self.count_reply(link, area, len);
        let outcome = outcome.and(counted).and_then(|()| {
            let Some(objects) = objects else { return Ok(0) };
            self.send_objects(link, area, context(), objects())
        });
        match outcome {
            Ok(flags) => {
                let in_b = if area == Area::B { Meta::AREA_B } else { 0 };
                if area == Area::B && len >= LARGE_REPLY {
                    self.slot.set_reply_read(false);
                    self.holds_large.store(true, Ordering::Relaxed);
                }
                self.slot.write_reply(0, len, Meta(flags | in_b | payload_offset));
            }
            Err(error) => self.slot.write_reply(error.to_status_t(), 0, Meta(0)),
        }
    }

    /// Enters the memory of a request that is read where it lies: what the caller has not filled, this process's access
    /// fills. False if it is beyond the caller's share, and is to be given back before the reply is handed over.
    #[inline]
    fn count_request(&self, link: &Link, len: u32) -> bool {
        self.requests.covers(len) || self.requests.count(link.peer(), len, || ()).is_ok()
    }

    /// Enters the memory of a reply, where it is the largest yet.
    #[inline]
    fn count_reply(&self, link: &Arc<Link>, area: Area, len: u32) -> Result<()> {
        if self.holds_reply(area, len) { Ok(()) } else { self.count_more(link, area, len) }
    }

    /// Whether a reply takes no memory beyond what was counted. Else some may have to be given back, which can wait.
    #[inline]
    fn holds_reply(&self, area: Area, len: u32) -> bool {
        self.replies[area as usize].covers(len)
    }

    #[cold]
    fn count_more(&self, link: &Arc<Link>, area: Area, len: u32) -> Result<()> {
        let memory = &self.replies[area as usize];
        let counted = memory.count(link.peer(), len, || link.free_replies());
        if counted.is_err() {
            // Nobody will read what was written.
            self.slot.free_payload(area);
        }
        counted
    }

    /// Gives the memory of large replies back, if no thread is at the slot.
    pub(crate) fn free_idle(self: &Arc<Self>, link: &Arc<Link>) {
        if self.holds_large.load(Ordering::Relaxed) && self.presence.enter() {
            self.free_large();
            if self.presence.quit() {
                self.rung(link);
            }
        }
    }

    /// Puts a reply's objects beside it; gives the flag that tells of them.
    #[cold]
    fn send_objects(
        &self,
        link: &Arc<Link>,
        area: Area,
        context: Option<Context>,
        objects: Vec<(u32, Object)>,
    ) -> Result<u32> {
        if let Some(context) = context {
            for (_, object) in &objects {
                if let Object::Binder(Binder(Reference::Local(node))) = object {
                    node.adopt(context);
                }
            }
        }
        let returned = objects::of_receiver(link, &objects);
        if !returned.is_empty() {
            self.keep(returned);
        }
        let (entries, fds) = objects::encode(link, objects)?;
        self.slot.write_entries(area, &entries);
        link.send_fds(self.id, true, fds)?;
        Ok(Meta::OBJECTS)
    }

    /// A new request is there: the caller has read the reply to the one before.
    #[inline]
    fn read_by_now(&self) {
        if self.has_returned.load(Ordering::Relaxed) {
            self.keep(Vec::new());
        }
    }

    /// Keeps objects of the caller until it has read the reply, in place of those of the reply before.
    #[cold]
    fn keep(&self, returned: Vec<Binder>) {
        self.has_returned.store(!returned.is_empty(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *lock(&self.returned), returned);
        // What is let go may send a message: not under the lock.
        drop(before);
    }

    #[cold]
    fn too_large(len: u32) -> Error {
        Error::TooLarge { size: len as usize, limit: super::slot::MAX_PAYLOAD }
    }

    #[cold]
    fn arrived<'a>(&self, link: &'a Arc<Link>, deadline: Option<Instant>) -> Result<ReceivedObjects<'a>> {
        let entries: Vec<Entry> = self
            .slot
            .read_entries(Area::A)
            .ok_or_else(|| Error::Protocol("more objects than a parcel may carry".into()))?;
        match link.take_fds(self.id, false, objects::fds_of(&entries), deadline) {
            Ok(fds) => Ok(ReceivedObjects::new(link, entries, fds)),
            Err(error) => {
                drop(ReceivedObjects::new(link, entries, VecDeque::new()));
                Err(error)
            }
        }
    }

    /// Gives back what a request brought that nobody will read.
    #[cold]
    fn discard_request(&self, link: &Arc<Link>) {
        if let Some(entries) = self.slot.read_entries(Area::A) {
            link.give_up_fds(self.id, false, objects::fds_of(&entries));
            drop(ReceivedObjects::new(link, entries, VecDeque::new()));
        }
    }

    #[inline]
    fn call(&self, link: &Link, header: &Header) -> Call {
        let deadline = header.meta.has(Meta::DEADLINE).then(|| {
            let left = self.slot.deadline().saturating_sub(place::monotonic_ns());
            Instant::now() + Duration::from_nanos(left)
        });
        Call {
            identity: link.peer(),
            code: header.code,
            engine: EngineKind::Shm,
            priority: header.priority,
            oneway: false,
            deadline,
            driver_details: None,
        }
    }
}

/// Serves a nested call on the thread that waits for the outer one. False if there was none.
pub(crate) fn serve_here(link: &Arc<Link>, slot: &Arc<ServerSlot>) -> bool {
    if !slot.presence.enter() {
        // It was rung as well, and a thread of the pool has it.
        return false;
    }
    let served = word::poll_request(slot.slot.word()) == Request::Ready;
    if served {
        let header = slot.slot.read_request();
        match serving::deeper() {
            Ok(_deeper) => {
                let node = link.exported(header.node);
                slot.answer(link, &header, node.as_ref().ok_or(Error::UnknownObject(header.node)));
            }
            Err(error) => slot.answer(link, &header, Err(error)),
        }
        slot.finish(link, false, false);
    }
    if slot.presence.quit() {
        slot.rung(link);
    }
    served
}

impl SlotHistory {
    fn new(only_cpu: u32) -> Self {
        SlotHistory {
            called: None,
            claim: 0,
            wanted: 0,
            trusted: 0,
            only_cpu,
            told: None,
            came: Instant::now(),
        }
    }

    /// Runs at what this call is to be served at. Nothing to do while one caller calls one object.
    #[inline]
    fn take_priority(&mut self, link: &Arc<Link>, worker: &Worker, header: &Header, node: &LocalNode) {
        if self.trusted == 0 || self.claim != header.priority {
            self.decide(link, header, node);
        }
        self.trusted -= 1;
        if worker.packed() != self.wanted {
            if let Some(wanted) = Priority::unpack(self.wanted) {
                worker.become_priority(wanted);
            }
        }
    }

    #[cold]
    fn decide(&mut self, link: &Arc<Link>, header: &Header, node: &LocalNode) {
        let caller = if node.scheduling().inherit { verified(link, header) } else { None };
        self.claim = header.priority;
        self.wanted = node.effective(caller, pool::base()).pack();
        self.trusted = TRUST;
    }

    /// Whether the thread stays although other work waits.
    #[cold]
    fn stays(&self, worker: &Worker, meta: Meta) -> bool {
        self.may_stay(worker.packed(), meta, self.came.elapsed())
    }

    /// Only with a caller that looks for its reply, and so may call again at once; not where something more urgent waits,
    /// which has raised the thread; and not for long.
    fn may_stay(&self, packed: u32, meta: Meta, stayed: Duration) -> bool {
        let looks = meta.has(Meta::SPIN) && !meta.has(Meta::YIELD);
        looks && packed == self.wanted && stayed < STAY
    }

    /// Tells the caller what the thread at the slot runs at, and where.
    #[inline]
    fn tell(&mut self, slot: &ServerSlot, worker: &Worker) {
        let priority = Some(worker.packed());
        if priority != self.told {
            self.told = priority;
            slot.slot.set_server_status(worker.packed(), self.only_cpu);
        }
    }
}

#[cfg(feature = "tokio")]
#[path = "tasks.rs"]
mod tasks;

/// Room for a private copy of a small request.
struct Scratch([std::mem::MaybeUninit<u8>; COPY]);

impl Scratch {
    #[inline]
    fn new() -> Self {
        Scratch([std::mem::MaybeUninit::uninit(); COPY])
    }

    /// After its copy was read.
    #[cold]
    fn clear(&mut self) {
        self.0.fill(std::mem::MaybeUninit::zeroed());
        // Else nothing needs to be written: nobody reads it any longer.
        std::hint::black_box(&self.0);
    }

    #[inline]
    #[allow(unsafe_code)]
    fn copy(&mut self, data: SharedBytes<'_>) -> &[u8] {
        debug_assert!(data.len() <= COPY);
        let len = data.len().min(COPY);
        let start = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: at most COPY bytes are written, and just those are readable afterwards.
        unsafe {
            start.copy_from_nonoverlapping(data.start(), len);
            std::slice::from_raw_parts(start, len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_a_while_with_a_caller_that_looks_for_its_reply_and_with_no_other() {
        let known = SlotHistory { wanted: 7, ..SlotHistory::new(NO_CPU) };
        let looks = Meta(Meta::SPIN);
        assert!(known.may_stay(7, looks, Duration::ZERO));
        assert!(known.may_stay(7, looks, STAY / 2));
        assert!(!known.may_stay(7, looks, STAY), "others wait");
        assert!(!known.may_stay(8, looks, Duration::ZERO), "raised for something more urgent");
        assert!(!known.may_stay(7, Meta(0), Duration::ZERO), "a caller that sleeps");
        let yields = Meta(Meta::SPIN | Meta::YIELD);
        assert!(!known.may_stay(7, yields, Duration::ZERO), "each look would be a turn of the scheduler's");
    }
}
