//! The caller's side of a synchronous call.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handoff_placement::{Priority, Tid};
use handoff_sync::futex::{self, WakeAction};
use handoff_sync::wait::{self, ReplyWait};
use handoff_sync::wait_strategy::{self, Mode, WaitStrategy};
use handoff_sync::word::{self, Reply};

use super::caller_slot::CallerSlot;
use super::request::Request;
use super::slot::{Area, LARGE_REPLY, Meta, NO_CPU, Slot};
use super::{server, serving};
use crate::call::OutCall;
use crate::ledger::{self, Charge, Resource};
use crate::object::{ReadFn, WriteFn};
use crate::parcel::Reader;
use crate::shm::link::Link;
use crate::shm::objects::{self, ReceivedObjects};
use crate::shm::phases::{Point, pass};
use crate::shm::place;
use crate::shm::remote::RemoteNode;
use crate::shm::wire::Message;
use crate::{Error, Result, pool};

/// Longest sleep without another look at whether the peer still lives. The end of a peer wakes its
/// callers at once; only one that lives, hung up and scribbles on the word can make this matter.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Calls after which a thread looks at its own priority again.
const PRIORITY_AGE: u32 = 16;

/// What a thread remembers of itself, in one place: in a shared library, the linker finds what is a thread's own with a call
/// for each access.
struct Me {
    priority: Cell<u32>,
    tid: Cell<u32>,
    age: Cell<u32>,
    // Slots that this thread used before, the last one at the end. Nothing frees them but `Return`.
    cache: RefCell<ManuallyDrop<Vec<Arc<CallerSlot>>>>,
    // Whether `Return` has not run yet, and will.
    keeps: Cell<bool>,
}

thread_local! {
    // Nothing is done with it at the thread's end, so that what runs then can still call.
    static ME: Me = const {
        Me {
            priority: Cell::new(0),
            tid: Cell::new(0),
            age: Cell::new(0),
            cache: RefCell::new(ManuallyDrop::new(Vec::new())),
            keeps: Cell::new(false),
        }
    };
    static RETURN: Return = const { Return };
}

/// Gives a thread's slots back to their links when it ends, for the next thread of its urgency.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        let slots = ME.with(|me| {
            me.keeps.set(false);
            std::mem::take(&mut **me.cache.borrow_mut())
        });
        for slot in slots {
            slot.give_back();
        }
    }
}

/// Forgets what the calling thread's priority was: call it after changing the priority of a thread
/// that makes calls, so that the very next call carries the new one. Without it, a thread notices
/// within 16 calls.
pub(crate) fn priority_changed() {
    ME.with(|me| me.age.set(0));
}

/// The calling thread's priority, packed, and its id.
#[inline]
pub(crate) fn me() -> (u32, u32) {
    ME.with(Me::identity)
}

impl Me {
    #[inline]
    fn identity(&self) -> (u32, u32) {
        let age = self.age.get();
        if age == 0 {
            if self.tid.get() == 0 {
                self.tid.set(Tid::current().as_raw().unsigned_abs());
            }
            self.priority.set(Priority::current().map_or(0, Priority::pack));
            self.age.set(PRIORITY_AGE);
        } else {
            self.age.set(age - 1);
        }
        (self.priority.get(), self.tid.get())
    }
}

/// A slot for the class: one that was used in it before, or a new one.
fn free_or_new(link: &Arc<Link>, class: u64) -> Result<Arc<CallerSlot>> {
    let fits = |slot: &Arc<CallerSlot>| slot.class() == class && is_settled(link, slot);
    match link.caller_slots.take_free(fits) {
        Some(free) => Ok(free),
        None => open(link, class),
    }
}

/// A new slot, which the peer is told of.
pub(crate) fn open(link: &Link, class: u64) -> Result<Arc<CallerSlot>> {
    if ledger::is_full(link.peer(), Resource::Arguments) {
        let full = "arguments of calls that the peer has not answered, also after their deadlines, take all the memory of its share";
        return Err(Error::PermissionDenied(full.into()));
    }
    // A slot in which the peer leaves a call without an answer serves no other, and stays as long as the link.
    let charge = ledger::charge(link.peer(), Resource::Mappings, 1)?;
    let (slot, file) = Slot::create()?;
    slot.set_server_status(0, NO_CPU);
    let new = link.caller_slots.add(class, slot, charge)?;
    // After it stands in the list: either `on_peer_death` sees the slot, or the send sees that the link ended.
    if link.is_dead() {
        new.end();
        return Err(Error::Dead);
    }
    match link.send(Message::Slot { slot: new.id() }, vec![file]) {
        Ok(()) => Ok(new),
        Err(error) => {
            link.caller_slots.remove(&new);
            Err(error)
        }
    }
}

/// True if a slot can carry a call.
#[inline]
fn is_settled(link: &Arc<Link>, shared: &Arc<CallerSlot>) -> bool {
    shared.is_settled(|slot| discard_reply(link, shared.id(), slot))
}

/// A slot taken out of the thread's cache for one call.
struct CachedSlot<'a> {
    me: &'a Me,
    link: &'a Arc<Link>,
    slot: Option<Arc<CallerSlot>>,
}

impl<'a> CachedSlot<'a> {
    #[inline]
    fn take(me: &'a Me, link: &'a Arc<Link>, class: u64) -> Result<Self> {
        let fits = |slot: &Arc<CallerSlot>| slot.is_for(&link.caller_slots, class);
        let mut cache = me.cache.borrow_mut();
        let cached = match cache.last() {
            Some(last) if fits(last) => cache.pop(),
            _ => cache.iter().rposition(fits).map(|at| cache.swap_remove(at)),
        };
        drop(cache);
        let slot = match cached {
            Some(slot) => slot,
            None => Self::take_slowly(me, link, class)?,
        };
        Ok(CachedSlot { me, link, slot: Some(slot) })
    }

    #[cold]
    fn take_slowly(me: &Me, link: &Arc<Link>, class: u64) -> Result<Arc<CallerSlot>> {
        // Slots of links that died while this thread did not look.
        me.cache.borrow_mut().retain(|slot| !slot.is_dead());
        // Once it has run it cannot be had again.
        me.keeps.set(RETURN.try_with(|_| ()).is_ok());
        free_or_new(link, class)
    }
}

impl Drop for CachedSlot<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        // A slot whose call was given up serves no other one before the late reply has come.
        if is_settled(self.link, &slot) && self.me.keeps.get() {
            self.me.cache.borrow_mut().push(slot);
        } else {
            slot.give_back();
        }
    }
}

/// Marks slots for calls out of a handler, back to the process that waits for it: these are served
/// by the waiting thread, so no thread of the pool may look at them.
const NESTED: u64 = 1 << 32;

#[inline]
pub(crate) fn transact(
    remote: &RemoteNode,
    call: &OutCall,
    write: WriteFn<'_>,
    read: ReadFn<'_>,
) -> Result<()> {
    ME.with(|me| transact_as(me, remote, call, write, read))
}

#[inline]
#[allow(unsafe_code)]
fn transact_as(
    me: &Me,
    remote: &RemoteNode,
    call: &OutCall,
    write: WriteFn<'_>,
    read: ReadFn<'_>,
) -> Result<()> {
    let link = &remote.link;
    let (priority, tid) = me.identity();
    let outer = serving::innermost(link);
    let class = u64::from(priority) | if outer.is_some() { NESTED } else { 0 };
    let held = CachedSlot::take(me, link, class)?;
    // `take` gave one, and only `drop` takes it out.
    let Some(shared) = &held.slot else { return Err(Error::Dead) };
    let mut claimed = shared.claim().map_err(|error| shared.why_dead(error))?;
    let (slot, strategies) = claimed.parts();

    let request = Request {
        code: call.code,
        node: remote.node,
        caller: (priority, tid),
        deadline: call.deadline,
        secret: call.clear_buffers,
    };
    let began = (outer.is_none() && strategies.wants_time(call.code)).then(Instant::now);
    let (mut mode, mut class, mut sent) = (Mode::Block, 0, 0);
    let waits = |len| {
        sent = len;
        class = strategies.size_class(call.code, len);
        let strategy = strategies.of(class);
        if outer.is_none() {
            if strategy.at_trial() {
                look_around(slot, strategy);
            }
            mode = strategy.mode();
        }
        let beside = if mode == Mode::Beside { Meta::BESIDE } else { 0 };
        match mode {
            Mode::Block => 0,
            _ if !strategy.server_looks() => beside,
            Mode::Spin if !strategy.yields => Meta::SPIN,
            _ => Meta::SPIN | Meta::YIELD | beside,
        }
    };
    // SAFETY: the slot is claimed and no call is under way in it.
    unsafe { request.put(link, shared, slot, write, waits)? };
    let strategy = strategies.of(class);
    let deadline = call.deadline.map(|wait| (Instant::now() + wait, wait));
    let posted = word::post_request(slot.word(), mode == Mode::Block);
    pass(Point::Posted);
    // `on_peer_death` sets the flag first and then exchanges the word: one of the two is seen.
    if shared.is_dead() {
        return Err(shared.why_dead(Error::Dead));
    }
    let waiting = BlockedCall {
        link,
        shared,
        slot,
        priority,
        deadline,
        sent,
        yields: strategy.yields || mode == Mode::Beside || strategy.parts(),
        look_limit: strategy.look_limit(),
    };
    let mode = match (posted, &outer) {
        (_, Some(outer)) => waiting.ask_outer(outer)?,
        (WakeAction::Nothing, None) => mode,
        (WakeAction::Wake, None) => waiting.wake(mode),
        (WakeAction::Notify, None) => waiting.ring()?,
    };
    pass(Point::Woken);
    let slept = waiting.for_reply(mode).map_err(|error| {
        if call.clear_buffers {
            shared.clear_later(sent);
        }
        shared.why_dead(error)
    })?;
    pass(Point::Returned);
    strategy.found_asleep(posted != WakeAction::Nothing);
    shared.count(slept, mode == Mode::Beside);
    let reply = slot.read_reply();
    let taken = take_reply(link, shared, slot, reply, call.code, deadline, read);
    if call.clear_buffers {
        slot.clear_call(sent);
    }
    if outer.is_none() {
        let took = began.map(|began| began.elapsed().as_nanos() as u64);
        strategies.note(call.code, class, reply.1, took);
    }
    taken
}

/// Before a trial: which ways of waiting make sense, given where both sides may run.
#[cold]
fn look_around(slot: &Slot, strategy: &mut WaitStrategy) {
    let home = place::only_cpu();
    let server = slot.server_cpu();
    let same = home.is_some_and(|cpu| u32::from(cpu) == server);
    let apart = home.is_some_and(|cpu| server != NO_CPU && u32::from(cpu) != server);
    // On one CPU that both share they yield instead of looking, which is worth a trial too. A server that is bound
    // elsewhere cannot come beside.
    strategy.yields = same;
    strategy.allow(place::online_cpus() > 1 || same, !same && !apart);
}

/// Enters the arguments of a call that is given up. They stay in its slot until the callee has answered, who may be reading
/// them; a page of them does not count.
pub(crate) fn charge_arguments(link: &Link, len: u32) -> Option<Charge> {
    const FREE: u32 = 4096;
    (len > FREE).then(|| ledger::enter(link.peer(), Resource::Arguments, len.into()))
}

/// One call that is under way.
struct BlockedCall<'a> {
    link: &'a Arc<Link>,
    shared: &'a CallerSlot,
    slot: &'a Slot,
    priority: u32,
    deadline: Option<(Instant, Duration)>,
    // Bytes of arguments.
    sent: u32,
    yields: bool,
    look_limit: Duration,
}

impl BlockedCall<'_> {
    /// The server's thread sleeps at the slot.
    #[inline]
    fn wake(&self, mode: Mode) -> Mode {
        if self.slot.server_priority() != self.priority {
            self.raise();
        }
        futex::wake(self.slot.word());
        mode
    }

    /// The thread at the slot runs at another priority than this one: something more urgent must
    /// raise it, or it could wait behind a third thread for its turn to raise itself.
    #[cold]
    fn raise(&self) {
        let urgent = |bits| Priority::unpack(bits);
        let (Some(mine), Some(its)) = (urgent(self.priority), urgent(self.slot.server_priority())) else {
            return;
        };
        if mine.more_urgent_than(its) {
            // A link that just broke is noticed while waiting.
            drop(self.link.send(Message::Raise { slot: self.shared.id() }, Vec::new()));
        }
    }

    /// No thread looks at the slot.
    #[cold]
    fn ring(&self) -> Result<Mode> {
        self.link.send(Message::Call { slot: self.shared.id() }, Vec::new())?;
        // Two wake-ups away: looking does not pay.
        Ok(Mode::Block)
    }

    /// A nested call: the caller of this handler waits, and serves it.
    #[cold]
    fn ask_outer(&self, outer: &serving::Outer) -> Result<Mode> {
        outer.set_nested(self.shared.id());
        match word::nest(outer.word()) {
            Some(true) => futex::wake(outer.word()),
            Some(false) => {}
            // It went away: any thread will do.
            None => return self.ring(),
        }
        Ok(Mode::Block)
    }

    /// Waits. True if it slept.
    #[inline]
    fn for_reply(&self, mode: Mode) -> Result<bool> {
        let looks = match mode {
            Mode::Spin => true,
            // A thread that runs for a less urgent one never gets the CPU from one that only yields.
            Mode::Beside => self.slot.server_priority() == self.priority,
            Mode::Block => false,
        };
        if looks {
            if let Some(found) = self.spin() {
                return found.map(|()| false);
            }
        }
        self.sleep().map(|()| true)
    }

    #[inline]
    fn look(&self) -> Option<Result<()>> {
        match word::poll_reply(self.slot.word()) {
            Reply::Pending => None,
            Reply::Ready => Some(Ok(())),
            Reply::Nested if self.left().is_some() => self.serve_nested(false).err().map(Err),
            // For the loop that sleeps.
            Reply::Nested => None,
            Reply::Dead if self.shared.is_dead() => Some(Err(Error::Dead)),
            Reply::Dead | Reply::Broken => Some(Err(broken(self.link))),
        }
    }

    #[inline]
    fn spin(&self) -> Option<Result<()>> {
        let limit = self.deadline.map_or(self.look_limit, |(_, wait)| wait.min(self.look_limit));
        wait_strategy::spin(limit, self.yields, || self.look())
    }

    fn sleep(&self) -> Result<()> {
        let dead = || self.shared.is_dead();
        match wait::for_reply(self.slot.word(), dead, || self.left(), |late| self.serve_nested(late))? {
            ReplyWait::Ready => Ok(()),
            ReplyWait::Dead => Err(Error::Dead),
            ReplyWait::Broken => Err(broken(self.link)),
            ReplyWait::Expired => {
                self.shared.keep_arguments(charge_arguments(self.link, self.sent));
                self.shared.abandoned();
                Err(Error::DeadlineExpired(self.deadline.map_or(Duration::ZERO, |(_, wait)| wait)))
            }
        }
    }

    /// The longest time to sleep; `None` once the deadline has passed.
    #[inline]
    fn left(&self) -> Option<Duration> {
        let Some((end, _)) = self.deadline else { return Some(LONGEST_SLEEP) };
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left.min(LONGEST_SLEEP))
    }

    /// Has a nested call served by another thread.
    #[cold]
    fn leave_to_pool(&self, id: u32) {
        let link = Arc::clone(self.link);
        pool::run(Box::new(move || {
            match link.await_slot(id, None) {
                Ok(slot) => slot.rung(&link),
                // The request still stands in the call's slot, which nobody can use any longer.
                Err(_) => link.hang_up(),
            }
        }));
    }

    /// Takes a nested call up: false if there was none. One that came after the deadline is not for this thread,
    /// which would be late for as long as it takes.
    #[cold]
    fn serve_nested(&self, late: bool) -> Result<bool> {
        let id = self.slot.nested();
        if !word::accept_nested(self.slot.word()) {
            return Ok(false);
        }
        if late {
            self.leave_to_pool(id);
            return Ok(true);
        }
        match self.link.await_slot(id, self.deadline.map(|(end, _)| end)) {
            Ok(slot) => Ok(server::serve_here(self.link, &slot)),
            // The slot may still come; the caller waits no longer.
            Err(_) if self.left().is_none() => {
                self.leave_to_pool(id);
                Ok(true)
            }
            Err(error) => {
                // The request still stands in this call's slot, which nobody can use any longer.
                self.link.hang_up();
                Err(error)
            }
        }
    }
}

/// The peer wrote to a word what nobody writes there: ends the link.
#[cold]
pub(crate) fn broken(link: &Link) -> Error {
    link.hang_up();
    Error::Protocol("the word of a call says what it cannot say".into())
}

/// Takes a reply whose header was read: once, since the peer can change it.
#[inline]
pub(crate) fn take_reply(
    link: &Arc<Link>,
    shared: &CallerSlot,
    slot: &Slot,
    (status, len, meta): (i32, u32, Meta),
    code: u32,
    deadline: Option<(Instant, Duration)>,
    read: ReadFn<'_>,
) -> Result<()> {
    if status != 0 {
        return Err(Error::from_status_t(status, "the object", code));
    }
    let area = if meta.has(Meta::AREA_B) { Area::B } else { Area::A };
    let payload = slot
        .payload(area, meta, len)
        .ok_or_else(|| Error::Protocol(format!("a reply of {len} bytes, more than a slot holds")))?;
    let _large = (area == Area::B && len >= LARGE_REPLY).then_some(LargeReply(slot));
    if !meta.has(Meta::OBJECTS) {
        return read(&mut Reader::new(payload));
    }
    let entries = slot
        .read_entries(area)
        .ok_or_else(|| Error::Protocol("more objects than a parcel may carry".into()))?;
    let fds = match link.take_fds(shared.id(), true, objects::fds_of(&entries), deadline.map(|(end, _)| end))
    {
        Ok(fds) => fds,
        Err(error) => {
            drop(ReceivedObjects::new(link, entries, VecDeque::new()));
            let expired = deadline.filter(|(end, _)| Instant::now() >= *end);
            return Err(expired.map_or(error, |(_, wait)| Error::DeadlineExpired(wait)));
        }
    };
    let mut arrived = ReceivedObjects::new(link, entries, fds);
    read(&mut Reader::with_objects(payload, &mut arrived))
}

/// A large reply that is being read: then its memory may go.
struct LargeReply<'a>(&'a Slot);

impl Drop for LargeReply<'_> {
    fn drop(&mut self) {
        self.0.set_reply_read(true);
    }
}

/// Gives back what a reply brought that nobody will read, also what of it still comes.
#[cold]
pub(crate) fn discard_reply(link: &Arc<Link>, id: u32, slot: &Slot) {
    let (status, _, meta) = slot.read_reply();
    if status != 0 || !meta.has(Meta::OBJECTS) {
        return;
    }
    let area = if meta.has(Meta::AREA_B) { Area::B } else { Area::A };
    let Some(entries) = slot.read_entries(area) else { return };
    link.give_up_fds(id, true, objects::fds_of(&entries));
    drop(ReceivedObjects::new(link, entries, VecDeque::new()));
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
