//! One thread's conversation with the driver: what it has to say, what it hears, and what it waits
//! for. `call.rs` makes calls with it and `serve.rs` serves them, nested in each other to any depth.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::command::Command;
use super::driver::BUFFER;
use super::objects::{Arrived, Outgoing};
use super::process::Process;
use super::remote::BinderRemote;
use super::returns::{Return, Returns};
use super::serve;
use super::uapi::Transaction;
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

/// What a thread has to say to one driver with its next ioctl.
struct Talk {
    process: Arc<Process>,
    out: Vec<u8>,
    /// The parcel of a reply in `out`; afterwards, memory for another.
    reply: Buffer,
    /// `out` has a reply.
    replies: bool,
    /// What else must stay until the driver has read `out`.
    kept: Option<Box<Kept>>,
    /// Bytes of large parcels that `out` gives back.
    freed: u64,
}

/// What must stay until commands were read. It may do anything when it is dropped, talk to the driver
/// for one: never while the thread's conversation is borrowed.
#[derive(Default)]
struct Kept {
    /// What the parcel of a reply refers to.
    reply: Outgoing,
    /// New proxies: their references must not be given back before they are taken.
    proxies: Vec<Arc<BinderRemote>>,
}

impl Talk {
    fn new(process: &Arc<Process>) -> Self {
        Talk {
            process: Arc::clone(process),
            out: Vec::with_capacity(READ),
            reply: Buffer::default(),
            replies: false,
            kept: None,
            freed: 0,
        }
    }

    /// Everything in `out` was read.
    #[inline]
    fn was_said(&mut self) {
        self.replies = false;
        if self.reply.secret || self.reply.bytes.capacity() > KEEP {
            self.reply = Buffer::default();
        }
        if self.freed != 0 {
            self.process.unfreed.fetch_sub(std::mem::take(&mut self.freed), Ordering::Relaxed);
        }
    }

    /// Says what there is to say now. Gives what need not be kept any longer.
    #[must_use]
    fn flush(&mut self) -> Option<Box<Kept>> {
        if self.out.is_empty() {
            return None;
        }
        // A driver that refuses has buried the process: nothing is left to say.
        drop(self.process.driver.write_read(&mut self.out, &mut []));
        self.out.clear();
        self.was_said();
        self.kept.take()
    }
}

/// What this thread has to say: one entry a driver that it talks to, nearly always one.
#[derive(Default)]
struct Pending(Vec<Talk>);

impl Drop for Pending {
    fn drop(&mut self) {
        for mut talk in self.0.drain(..) {
            drop(talk.flush());
            talk.process.driver.thread_exit();
        }
    }
}

thread_local! {
    static PENDING: RefCell<Pending> = RefCell::default();
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `with` on what this thread has to say to the driver.
#[inline]
fn pending<R>(process: &Arc<Process>, with: impl FnOnce(&mut Talk) -> R) -> R {
    let mut with = Some(with);
    let done = PENDING.try_with(|pending| {
        let known = &mut pending.borrow_mut().0;
        let at = match known.iter().position(|talk| Arc::ptr_eq(&talk.process, process)) {
            Some(at) => at,
            None => {
                known.push(Talk::new(process));
                known.len() - 1
            }
        };
        with.take().map(|with| with(&mut known[at]))
    });
    match (done, with) {
        (Ok(Some(done)), _) => done,
        // The thread ends: say it now.
        (_, Some(with)) => {
            let mut talk = Talk::new(process);
            let done = with(&mut talk);
            drop(talk.flush());
            done
        }
        _ => unreachable!("`with` is taken only where its result is returned"),
    }
}

/// Has the next ioctl say this too.
#[inline]
pub(super) fn say(process: &Arc<Process>, command: Command) {
    pending(process, |talk| command.put(&mut talk.out));
}

/// Has the next ioctl take the references of a new proxy, which is kept until then.
pub(super) fn say_acquire(process: &Arc<Process>, handle: u32, proxy: Arc<BinderRemote>) {
    pending(process, |talk| {
        Command::IncRefs(handle).put(&mut talk.out);
        Command::Acquire(handle).put(&mut talk.out);
        talk.kept.get_or_insert_default().proxies.push(proxy);
    });
}

/// Has the next ioctl say a reply, whose parcel is kept until then.
#[inline]
pub(super) fn say_reply(process: &Arc<Process>, command: Command, buffer: Buffer, outgoing: Outgoing) {
    pending(process, |talk| {
        command.put(&mut talk.out);
        talk.reply = buffer;
        talk.replies = true;
        if !outgoing.is_empty() {
            talk.kept.get_or_insert_default().reply = outgoing;
        }
    });
}

/// Says what is pending, without waiting for anything.
pub(super) fn flush(process: &Arc<Process>) {
    let said = pending(process, Talk::flush);
    drop(said);
}

/// Says what is pending and hears what there is.
#[inline]
pub(super) fn exchange<'b>(
    process: &Arc<Process>,
    buffer: &'b mut [MaybeUninit<u8>; READ],
) -> Result<&'b [u8]> {
    // Nothing of this process runs while the driver has the floor: what is pending can stay in place.
    let (heard, said) = pending(process, |talk| {
        let heard = process.driver.write_read(&mut talk.out, buffer);
        if heard.is_err() {
            // What the driver refused must not be said again: it may point to parcels that are gone.
            talk.out.clear();
        }
        talk.was_said();
        (heard, talk.kept.take())
    });
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
    #[inline]
    pub(super) fn take() -> Self {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        Buffer { bytes: spare.ok().flatten().unwrap_or_default(), secret: false }
    }

    /// A parcel in it, by the rules of the driver's domain; `kept` stays until the parcel is read.
    #[inline]
    pub(super) fn writer(&mut self, process: &Process, kept: SharedBytes<'_>) -> Writer<'_> {
        let writer = Writer::growing(&mut self.bytes);
        if process.domain.gathers() { writer.gathering(kept) } else { writer }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // Nothing to keep, and nothing to free.
        if self.bytes.capacity() == 0 {
            return;
        }
        if self.secret {
            self.bytes.fill(0);
            // Seen by nobody, the zeros might be left out.
            std::hint::black_box(&self.bytes);
        }
        if self.bytes.capacity() <= KEEP {
            let bytes = std::mem::take(&mut self.bytes);
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(bytes));
        }
    }
}

/// A delivered parcel; given back when it is dropped.
pub(super) struct Delivered<'a> {
    process: &'a Arc<Process>,
    pub(super) data: Transaction,
    // Bytes that it takes in this process's buffer, as far as is known.
    size: Cell<u64>,
}

impl<'a> Delivered<'a> {
    pub(super) fn new(process: &'a Arc<Process>, data: Transaction) -> Self {
        Delivered { process, data, size: Cell::new(data.data_size) }
    }

    fn parts(&self) -> Result<(SharedBytes<'_>, SharedBytes<'_>)> {
        let driver = &self.process.driver;
        let data = driver.delivered(self.data.buffer, self.data.data_size);
        let offsets = driver.delivered(self.data.offsets, self.data.offsets_size);
        data.zip(offsets).ok_or_else(|| Error::Protocol("the driver delivered outside of its buffer".into()))
    }

    /// Runs `with` on the parcel's contents, and on the memory in which everything that it refers to
    /// stays until it is given back.
    #[inline]
    pub(super) fn read<R>(
        &self,
        with: impl FnOnce(&mut Reader<'_>, SharedBytes<'_>) -> Result<R>,
    ) -> Result<R> {
        let (data, offsets) = self.parts()?;
        if offsets.is_empty() {
            return with(&mut Reader::new(data), data);
        }
        let mut arrived = Arrived::new(self.process, data, offsets);
        let extent = arrived.extent();
        self.size.set(extent.len() as u64);
        with(&mut Reader::with_objects(data, &mut arrived), extent)
    }

    /// Nobody wants it: descriptors in it are closed.
    pub(super) fn discard(self) {
        drop(self.read(|_, _| Ok(())));
    }

    /// The parcel without what gives it back: for another thread, which makes it one of these again.
    pub(super) fn into_data(self) -> Transaction {
        std::mem::ManuallyDrop::new(self).data
    }
}

impl Drop for Delivered<'_> {
    #[inline]
    fn drop(&mut self) {
        let said = pending(self.process, |talk| {
            Command::FreeBuffer(self.data.buffer).put(&mut talk.out);
            let size = self.size.get();
            // It rides along with whatever this thread says next, unless that would be too much for
            // those who want to send something here meanwhile.
            if size >= LARGE {
                talk.freed += size;
                let waiting = self.process.unfreed.fetch_add(size, Ordering::Relaxed) + size;
                // A reply goes out at once anyway.
                if waiting > MUCH && !talk.replies {
                    return talk.flush();
                }
            }
            None
        });
        drop(said);
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

/// Waits until the driver has taken a command, or the reply is here; serves nested calls meanwhile.
pub(super) fn await_outcome(process: &Arc<Process>, goal: Goal) -> Result<Option<Delivered<'_>>> {
    let mut buffer = [MaybeUninit::uninit(); READ];
    loop {
        let mut returns = Returns::new(exchange(process, &mut buffer)?);
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
            return Ok(Some(Delivered::new(process, Transaction::from_bytes(data))));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if taken {
            return Ok(None);
        }
    }
}

/// The driver saw most of a receiver's room for oneway calls taken by this process.
#[cold]
fn suspected() {
    stats::ONEWAY_SPAM.add();
    stats::say_once(&stats::SPAMMED, || {
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
