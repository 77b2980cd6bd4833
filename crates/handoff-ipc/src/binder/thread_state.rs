//! One thread's conversation with the driver: the commands that its next ioctl writes, the returns that it reads, and what it waits
//! for. `call.rs` makes calls with it and `serve.rs` serves them, nested in each other to any depth.
//!
//! What every call passes through is inlined into one function on either side, with what is rare kept out
//! of it: its code then stands on two or three pages. Spread over as many as it has functions, it costs a
//! translation of addresses for each page whenever the two processes take turns on a CPU that forgets them.

use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::command::Command;
use super::objects::{Outgoing, ReceivedObjects};
use super::process::Process;
use super::remote::BinderRemote;
use super::returns::{Return, Returns};
use super::serve;
use super::uapi::{BUFFER, Transaction};
use crate::parcel::{Reader, SharedBytes, Writer};
use crate::{Error, Result, stats};

/// Bytes of returns taken at a time; a transaction takes 68 of them.
pub(super) const READ: usize = 256;
/// Delivered parcels of this size are counted while they wait to be given back.
const LARGE: u64 = 4 << 10;
/// When so many bytes wait in this process, they are given back at once, not with the next command.
const MUCH: u64 = BUFFER as u64 / 4;
/// Buffers that grew larger are freed rather than kept for the next parcel.
const KEEP: usize = 256 << 10;
/// Buffers that a thread keeps: more than calls are nested. One that sends what others wrote, as calls with a deadline
/// are, is left with a buffer of each.
const SPARES: usize = 8;

/// What a thread has to say to one driver with its next ioctl.
struct ThreadState {
    process: Arc<Process>,
    out: Vec<u8>,
    /// The parcel of a reply in `out`; afterwards, memory for another.
    reply: Buffer,
    /// `out` has a reply.
    replies: bool,
    /// What else must stay until the driver has read `out`.
    kept: Option<Box<SentObjects>>,
    /// Bytes of large parcels that `out` gives back.
    freed: u64,
    /// The thread ends, and nothing of it will say more: it is said at once.
    late: bool,
    spare: Vec<Vec<u8>>,
    /// With another driver that this thread talks to, nearly always none.
    next: Option<Box<ThreadState>>,
}

/// What must stay until commands were read. It may do anything when it is dropped, talk to the driver
/// for one: never while the thread's conversation is borrowed.
#[derive(Default)]
struct SentObjects {
    /// What the parcel of a reply refers to.
    reply: Outgoing,
    /// New proxies: their references must not be given back before they are taken.
    proxies: Vec<Arc<BinderRemote>>,
}

impl ThreadState {
    fn new(process: &Arc<Process>, late: bool) -> Self {
        ThreadState {
            process: Arc::clone(process),
            out: Vec::with_capacity(READ),
            reply: Buffer::default(),
            replies: false,
            kept: None,
            freed: 0,
            late,
            spare: Vec::new(),
            next: None,
        }
    }

    /// Everything in `out` was read.
    #[inline(always)]
    fn was_written(&mut self) {
        self.replies = false;
        if self.reply.secret || self.reply.bytes.capacity() > KEEP {
            self.reply = Buffer::default();
        }
        if self.freed != 0 {
            self.process.unfreed.fetch_sub(std::mem::take(&mut self.freed), Ordering::Relaxed);
        }
    }

    /// A large parcel is among what is given back: that waits no longer if it would be too much for those who
    /// want to send something here meanwhile.
    #[must_use]
    fn gave_back_large(&mut self, size: u64) -> Option<Box<SentObjects>> {
        self.freed += size;
        let waiting = self.process.unfreed.fetch_add(size, Ordering::Relaxed) + size;
        // A reply goes out at once anyway.
        if waiting > MUCH && !self.replies { self.flush() } else { None }
    }

    /// Says what there is to say now. Gives what need not be kept any longer.
    #[must_use]
    fn flush(&mut self) -> Option<Box<SentObjects>> {
        if self.out.is_empty() {
            return None;
        }
        // A driver that refuses has given the process up: nothing is left to say.
        drop(self.process.driver.write_read(&mut self.out, &mut []));
        self.out.clear();
        self.was_written();
        self.kept.take()
    }
}

/// One of a thread's conversations, before the others.
type First = ManuallyDrop<Option<Box<ThreadState>>>;

thread_local! {
    // Emptied by `ENDING`: without a destructor of its own, no access has to ask whether it ran.
    static STATES: Cell<First> = const { Cell::new(ManuallyDrop::new(None)) };
    static ENDING: ThreadEnd = const { ThreadEnd };
}

/// The end of a thread that talked to a driver.
struct ThreadEnd;

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let mut next = ManuallyDrop::into_inner(STATES.take());
        while let Some(mut state) = next {
            next = state.next.take();
            drop(state.flush());
            state.process.driver.thread_exit();
        }
    }
}

/// Takes what this thread has to say to the driver out of its place, until [`put`]. Nothing in between may
/// do the same, nor drop anything that might.
#[inline(always)]
fn take(process: &Arc<Process>) -> Box<ThreadState> {
    match ManuallyDrop::into_inner(STATES.take()) {
        Some(state) if Arc::ptr_eq(&state.process, process) => state,
        other => find(other, process),
    }
}

/// The end of [`take`].
#[inline(always)]
fn put(state: Box<ThreadState>) {
    if state.late {
        return write_late(*state);
    }
    STATES.set(ManuallyDrop::new(Some(state)));
}

/// The conversation with another driver than last time.
#[cold]
fn find(mut first: Option<Box<ThreadState>>, process: &Arc<Process>) -> Box<ThreadState> {
    let (mut found, mut others) = (None, None);
    while let Some(mut state) = first {
        first = state.next.take();
        if Arc::ptr_eq(&state.process, process) {
            found = Some(state);
        } else {
            state.next = others;
            others = Some(state);
        }
    }
    let mut state = found.unwrap_or_else(|| {
        let late = ENDING.try_with(|_| ()).is_err();
        Box::new(ThreadState::new(process, late))
    });
    state.next = others;
    state
}

/// The thread ends: nobody else comes to say it.
#[cold]
fn write_late(mut state: ThreadState) {
    STATES.set(ManuallyDrop::new(state.next.take()));
    drop(state.flush());
}

/// Has the next ioctl say this too.
#[inline(always)]
pub(super) fn queue_command(process: &Arc<Process>, command: Command) {
    let mut state = take(process);
    command.put(&mut state.out);
    put(state);
}

/// The proxy for a handle. A new one's references are taken with this thread's next ioctl, which must go out before
/// the buffer that the handle came in is freed.
pub(super) fn proxy(process: &Arc<Process>, handle: u32) -> Arc<BinderRemote> {
    process.proxy(handle, |new| queue_acquire(process, handle, Arc::clone(new)))
}

/// Has the next ioctl take the references of a new proxy, which is kept until then.
fn queue_acquire(process: &Arc<Process>, handle: u32, proxy: Arc<BinderRemote>) {
    let mut state = take(process);
    Command::IncRefs(handle).put(&mut state.out);
    Command::Acquire(handle).put(&mut state.out);
    state.kept.get_or_insert_default().proxies.push(proxy);
    put(state);
}

/// Has the next ioctl say a reply, whose parcel is kept until then.
#[inline(always)]
pub(super) fn queue_reply(process: &Arc<Process>, command: Command, buffer: Buffer, outgoing: Outgoing) {
    let mut state = take(process);
    command.put(&mut state.out);
    state.replies = true;
    if !outgoing.is_empty() {
        state.kept.get_or_insert_default().reply = outgoing;
    }
    let former = std::mem::replace(&mut state.reply, buffer);
    put(state);
    former.put_back();
}

/// Says what is pending, without waiting for anything.
pub(super) fn flush(process: &Arc<Process>) {
    let mut state = take(process);
    let said = state.flush();
    put(state);
    drop(said);
}

/// Says what is pending and hears what there is.
#[inline(always)]
pub(super) fn talk_with_driver<'b>(
    process: &Arc<Process>,
    buffer: &'b mut [MaybeUninit<u8>; READ],
) -> Result<&'b [u8]> {
    write_read(take(process), buffer)
}

/// `BINDER_WRITE_READ`: writes the queued commands, and reads returns.
#[inline(always)]
fn write_read(mut state: Box<ThreadState>, buffer: &mut [MaybeUninit<u8>; READ]) -> Result<&[u8]> {
    // Nothing of this process runs while the driver has the floor: what is pending can stay in place.
    let heard = state.process.driver.write_read(&mut state.out, buffer);
    if heard.is_err() {
        // What the driver refused must not be said again: it may point to parcels that are gone.
        state.out.clear();
    }
    state.was_written();
    let said = state.kept.take();
    put(state);
    drop(said);
    heard
}

/// A buffer for a parcel on its way out, used again by the thread.
#[derive(Default)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// Overwritten with zeros when it is no longer needed.
    pub(super) secret: bool,
}

impl Buffer {
    #[inline(always)]
    pub(super) fn take() -> Self {
        let mut first = STATES.take();
        let spare = first.as_mut().and_then(|state| state.spare.pop());
        STATES.set(first);
        Buffer { bytes: spare.unwrap_or_default(), secret: false }
    }

    /// A parcel in it, by the rules of the driver's context; `kept` stays until the parcel is read.
    #[inline(always)]
    pub(super) fn writer(&mut self, process: &Process, kept: SharedBytes<'_>) -> Writer<'_> {
        let writer = Writer::growing(&mut self.bytes);
        if process.context.gathers() { writer.gathering(kept) } else { writer }
    }

    /// As if it was dropped, where that is on the way of every call.
    #[inline(always)]
    pub(super) fn put_back(self) {
        ManuallyDrop::new(self).release();
    }

    /// Leaves nothing in it.
    #[inline(always)]
    fn release(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if self.secret || bytes.capacity() > KEEP {
            forget(bytes, self.secret);
        } else if bytes.capacity() > 0 {
            let mut first = STATES.take();
            // A thread that ends, has never talked, or has enough has no use for it.
            if let Some(state) = first.as_mut().filter(|state| state.spare.len() < SPARES) {
                state.spare.push(std::mem::take(&mut bytes));
            }
            STATES.set(first);
        }
    }
}

/// How many buffers this thread keeps, and the most that it may.
#[cfg(test)]
pub(super) fn spares() -> (usize, usize) {
    let first = STATES.take();
    let kept = first.as_ref().map_or(0, |state| state.spare.len());
    STATES.set(first);
    (kept, SPARES)
}

/// Frees memory of a parcel that was secret, or is too large to be kept.
#[cold]
fn forget(mut bytes: Vec<u8>, secret: bool) {
    if secret {
        bytes.fill(0);
        // Seen by nobody, the zeros might be left out.
        std::hint::black_box(&bytes);
    }
}

impl Drop for Buffer {
    #[cold]
    fn drop(&mut self) {
        self.release();
    }
}

/// A delivered parcel; given back when it is dropped.
pub(super) struct DeliveredParcel<'a> {
    process: &'a Arc<Process>,
    pub(super) data: Transaction,
    // Bytes that it takes in this process's buffer, as far as is known.
    size: Cell<u64>,
}

impl<'a> DeliveredParcel<'a> {
    pub(super) fn new(process: &'a Arc<Process>, data: Transaction) -> Self {
        DeliveredParcel { process, data, size: Cell::new(data.data_size) }
    }

    #[inline(always)]
    fn parts(&self) -> Result<(SharedBytes<'_>, SharedBytes<'_>)> {
        let driver = &self.process.driver;
        let data = driver.delivered(self.data.buffer, self.data.data_size);
        let offsets = driver.delivered(self.data.offsets, self.data.offsets_size);
        data.zip(offsets).ok_or_else(outside)
    }

    /// Runs `with` on the parcel's contents, and on the memory in which everything that it refers to
    /// stays until it is given back.
    #[inline(always)]
    pub(super) fn read<R>(
        &self,
        with: impl FnOnce(&mut Reader<'_>, SharedBytes<'_>) -> Result<R>,
    ) -> Result<R> {
        let (data, offsets) = self.parts()?;
        let mut arrived;
        let (mut reader, extent) = if offsets.is_empty() {
            (Reader::new(data), data)
        } else {
            arrived = ReceivedObjects::new(self.process, data, offsets);
            let extent = arrived.extent();
            self.size.set(extent.len() as u64);
            (Reader::with_objects(data, &mut arrived), extent)
        };
        with(&mut reader, extent)
    }

    /// Nobody wants it: descriptors in it are closed.
    pub(super) fn discard(self) {
        drop(self.read(|_, _| Ok(())));
    }

    /// The parcel without what gives it back: for another thread, which makes it one of these again.
    pub(super) fn into_data(self) -> Transaction {
        ManuallyDrop::new(self).data
    }
}

#[cold]
fn outside() -> Error {
    Error::Protocol("the driver delivered outside of its buffer".into())
}

impl DeliveredParcel<'_> {
    /// As if it was dropped, where that is on the way of every call.
    #[inline(always)]
    pub(super) fn give_back(self) {
        ManuallyDrop::new(self).release();
    }

    #[inline(always)]
    fn release(&mut self) {
        let mut state = take(self.process);
        Command::FreeBuffer(self.data.buffer).put(&mut state.out);
        // It rides along with whatever this thread says next.
        let said = if self.size.get() < LARGE { None } else { state.gave_back_large(self.size.get()) };
        put(state);
        drop(said);
    }
}

impl Drop for DeliveredParcel<'_> {
    #[cold]
    fn drop(&mut self) {
        self.release();
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// The driver took the command over.
    Taken,
    /// The reply to a call.
    Reply,
}

/// Says something and waits until the driver has taken it; serves nested calls meanwhile.
#[cold]
pub(super) fn await_taken(process: &Arc<Process>, command: Command) -> Result<()> {
    // What nobody asked for is given back.
    await_outcome(process, command, Goal::Taken).map(|reply| reply.map_or((), DeliveredParcel::discard))
}

/// Says something and waits until the driver has taken it, or the reply is here; serves nested calls meanwhile.
#[inline(always)]
pub(super) fn await_outcome(
    process: &Arc<Process>,
    command: Command,
    goal: Goal,
) -> Result<Option<DeliveredParcel<'_>>> {
    let mut buffer = [MaybeUninit::uninit(); READ];
    let mut state = take(process);
    command.put(&mut state.out);
    loop {
        let mut returns = Returns::new(write_read(state, &mut buffer)?);
        let (mut taken, mut reply, mut failed) = (false, None, None);
        while let Some(next) = returns.next()? {
            match next {
                Return::Noop => {}
                Return::Complete => taken |= goal == Goal::Taken,
                Return::Reply(data) => reply = Some(data),
                Return::OnewaySpamSuspect => {
                    suspected();
                    taken |= goal == Goal::Taken;
                }
                Return::PendingFrozen => taken = true,
                Return::DeadReply => failed = Some(Error::Dead),
                Return::FrozenReply => failed = Some(Error::Frozen),
                Return::FailedReply => failed = Some(failure(process)),
                Return::Error(error) => failed = Some(Error::from_status_t(error, "the driver", 0)),
                other => serve::execute(process, other)?,
            }
        }
        if let Some(data) = reply {
            return Ok(Some(DeliveredParcel::new(process, Transaction::from_bytes(data))));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if taken {
            return Ok(None);
        }
        state = take(process);
    }
}

/// The driver saw most of a receiver's room for oneway calls taken by this process.
#[cold]
fn suspected() {
    stats::ONEWAY_SPAM.add();
    stats::warn_once(&stats::SPAMMED, || {
        "the Binder driver suspects this process of flooding another with oneway calls: it does not keep up \
         with them"
            .to_owned()
    });
}

/// Why the driver refused a transaction.
#[cold]
fn failure(process: &Process) -> Error {
    let source = match process.driver.extended_error() {
        // No room in the target's buffer.
        Some(error) if error == -libc::ENOSPC || error == -libc::ENOMEM => {
            return Error::TooLarge { size: BUFFER, limit: BUFFER / 2 };
        }
        Some(error) => std::io::Error::from_raw_os_error(error.saturating_abs()),
        None => std::io::Error::other("the driver does not say why"),
    };
    Error::io("the Binder driver could not deliver the transaction", source)
}
