//! One thread's conversation with the driver: calls that it makes, and calls that it serves, which
//! may be nested in each other to any depth.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::command::Command;
use super::lend;
use super::objects::{self, Arrived, Outgoing};
use super::process::Process;
use super::remote::BinderRemote;
use super::returns::{Return, Returns};
use super::token;
use super::uapi::{TF_ACCEPT_FDS, TF_ONE_WAY, TF_STATUS_CODE, Transaction};
use crate::engine::{EngineKind, OutCall, ReadFn, WriteFn};
use crate::object::{Call, CallingIdentity, is_user_code};
use crate::parcel::{Object, Reader, SharedBytes, Writer};
use crate::{Error, Result, dispatch, pool, stats};

/// Bytes of returns taken at a time; a transaction takes 68 of them.
const READ: usize = 256;
/// A delivered parcel of this size is given back at once, not with the next command.
const LARGE: u64 = 64 << 10;

/// The group of a caller, which the driver does not tell.
const UNKNOWN_GID: u32 = u32::MAX;

/// What a thread has to say with its next ioctl.
#[derive(Default)]
struct Pending {
    // One entry a driver that the thread talks to; nearly always one.
    by_process: Vec<(Arc<Process>, Vec<u8>)>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        for (process, mut out) in self.by_process.drain(..) {
            if !out.is_empty() {
                // The process ends its conversation either way.
                drop(process.driver.write_read(&mut out, &mut []));
            }
            process.driver.thread_exit();
        }
    }
}

thread_local! {
    static PENDING: RefCell<Pending> = RefCell::default();
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `with` on what this thread has to say to the driver.
fn pending<R>(process: &Arc<Process>, with: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut with = Some(with);
    let done = PENDING.try_with(|pending| {
        let known = &mut pending.borrow_mut().by_process;
        let at = match known.iter().position(|(other, _)| Arc::ptr_eq(other, process)) {
            Some(at) => at,
            None => {
                known.push((Arc::clone(process), Vec::with_capacity(256)));
                known.len() - 1
            }
        };
        with.take().map(|with| with(&mut known[at].1))
    });
    match (done, with) {
        (Ok(Some(done)), _) => done,
        // The thread ends: say it now.
        (_, Some(with)) => {
            let mut out = Vec::new();
            let done = with(&mut out);
            drop(process.driver.write_read(&mut out, &mut []));
            done
        }
        _ => unreachable!("`with` is taken only where its result is returned"),
    }
}

/// Says what is pending and hears what there is.
fn exchange(process: &Arc<Process>, buffer: &mut [u8; READ]) -> Result<usize> {
    // Taken out meanwhile: handlers on this thread may have something to say of their own.
    let mut out = pending(process, std::mem::take);
    let heard = process.driver.write_read(&mut out, buffer);
    pending(process, |now| {
        if now.is_empty() {
            *now = out;
        } else {
            out.append(now);
            *now = out;
        }
    });
    heard
}

/// A buffer for a parcel on its way out, used again.
struct Buffer(Vec<u8>);

impl Buffer {
    fn take() -> Self {
        Buffer(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() <= LARGE as usize * 4 {
            let buffer = std::mem::take(&mut self.0);
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(buffer));
        }
    }
}

/// A delivered parcel; given back when it is dropped.
struct Delivered<'a> {
    process: &'a Arc<Process>,
    data: Transaction,
}

impl Delivered<'_> {
    fn parts(&self) -> Result<(SharedBytes<'_>, SharedBytes<'_>)> {
        let driver = &self.process.driver;
        let data = driver.delivered(self.data.buffer, self.data.data_size);
        let offsets = driver.delivered(self.data.offsets, self.data.offsets_size);
        data.zip(offsets).ok_or_else(|| Error::Protocol("the driver delivered outside of its buffer".into()))
    }

    /// Runs `with` on the parcel's contents.
    fn read<R>(&self, with: impl FnOnce(&mut Reader<'_>) -> Result<R>) -> Result<R> {
        let (data, offsets) = self.parts()?;
        if offsets.is_empty() {
            return with(&mut Reader::new(data));
        }
        let mut arrived = Arrived::new(self.process, data, offsets);
        let result = with(&mut Reader::with_objects(data, &mut arrived));
        let commands = std::mem::take(&mut arrived.commands);
        pending(self.process, |out| out.extend_from_slice(&commands));
        result
    }
}

impl Drop for Delivered<'_> {
    fn drop(&mut self) {
        let large = self.data.data_size >= LARGE;
        pending(self.process, |out| {
            Command::FreeBuffer(self.data.buffer).put(out);
            if large {
                // Otherwise it rides along with whatever this thread says next.
                drop(self.process.driver.write_read(out, &mut []));
            }
        });
    }
}

/// What stands in front of a call's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    /// The interface that the caller means.
    pub(super) descriptor: &'a str,
    /// The caller's priority goes along.
    pub(super) claims: bool,
}

/// Makes one call; `token` stands in front of its arguments.
pub(super) fn transact(
    remote: &BinderRemote,
    call: &OutCall,
    token: Option<Token<'_>>,
    write: WriteFn<'_>,
    read: ReadFn<'_>,
) -> Result<()> {
    let process = remote.process();
    let mut buffer = Buffer::take();
    let mut writer = Writer::growing(&mut buffer.0);
    let mut flags = TF_ACCEPT_FDS | if call.oneway { TF_ONE_WAY } else { 0 };
    if let Some(Token { descriptor, claims }) = token {
        if claims {
            flags |= lend::TF_CLAIM;
            lend::write(&mut writer)?;
        }
        token::write(&mut writer, descriptor)?;
    }
    write(&mut writer)?;
    let objects = writer.finish();
    if let (Some(within), false) = (call.deadline, call.oneway) {
        return transact_within(remote, call, flags, within, buffer, objects, read);
    }
    let outgoing = objects::encode(process, &mut buffer.0, objects)?;
    let data = described(&buffer, &outgoing, remote.handle().into(), call.code, flags);
    pending(process, |out| Command::Transaction { data, gathered: 0 }.put(out));
    let reply = await_outcome(process, if call.oneway { Goal::Taken } else { Goal::Reply });
    outgoing.pins.iter().for_each(|id| process.unpin(*id));
    match reply {
        // The half of the receiver's buffer that is for oneway calls is taken.
        Err(Error::TooLarge { .. }) if call.oneway => Err(Error::OnewayFull(0)),
        Err(error) => Err(error),
        Ok(None) => Ok(()),
        Ok(Some(reply)) => take_reply(reply, call, read),
    }
}

fn described(buffer: &Buffer, outgoing: &Outgoing, target: u64, code: u32, flags: u32) -> Transaction {
    Transaction {
        target,
        code,
        flags,
        data_size: buffer.0.len() as u64,
        offsets_size: (outgoing.offsets.len() * 8) as u64,
        buffer: buffer.0.as_ptr() as u64,
        offsets: outgoing.offsets.as_ptr() as u64,
        ..Transaction::default()
    }
}

fn take_reply(reply: Delivered<'_>, call: &OutCall, read: ReadFn<'_>) -> Result<()> {
    reply.read(|data| {
        if reply.data.flags & TF_STATUS_CODE == 0 {
            return read(data);
        }
        match data.read_i32()? {
            0 => Ok(()),
            status => Err(Error::from_status_t(status, "the object", call.code)),
        }
    })
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// The driver took the command over.
    Taken,
    /// The reply to a call.
    Reply,
}

/// Waits until the driver has taken a command, or the reply is here; serves nested calls meanwhile.
fn await_outcome(process: &Arc<Process>, goal: Goal) -> Result<Option<Delivered<'_>>> {
    let mut buffer = [0; READ];
    loop {
        let heard = exchange(process, &mut buffer)?;
        let mut returns = Returns::new(&buffer[..heard]);
        let mut outcome = None;
        while let Some(next) = returns.next()? {
            match next {
                Return::Complete if goal == Goal::Taken => outcome = Some(Ok(None)),
                Return::Complete => {}
                Return::OnewaySpamSuspect if goal == Goal::Taken => outcome = Some(Ok(None)),
                Return::PendingFrozen => outcome = Some(Ok(None)),
                Return::Reply(data) => outcome = Some(Ok(Some(Delivered { process, data }))),
                Return::DeadReply => outcome = Some(Err(Error::Dead)),
                Return::FrozenReply => {
                    outcome = Some(Err(Error::Io {
                        what: "the process that serves this object is frozen".into(),
                        source: std::io::Error::from_raw_os_error(libc::EAGAIN),
                    }));
                }
                Return::FailedReply => outcome = Some(Err(failure(process))),
                Return::Error(error) => outcome = Some(Err(Error::from_status_t(error, "the driver", 0))),
                other => execute(process, other)?,
            }
        }
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

/// Why the driver refused a transaction.
fn failure(process: &Process) -> Error {
    let source = match process.driver.extended_error() {
        // No room in the target's buffer.
        Some(error) if error == -libc::ENOSPC || error == -libc::ENOMEM => {
            return Error::TooLarge { size: super::driver::BUFFER, limit: super::driver::BUFFER / 2 };
        }
        Some(error) => std::io::Error::from_raw_os_error(error.abs()),
        None => std::io::Error::other("the driver does not say why"),
    };
    Error::io("the Binder driver could not deliver the transaction", source)
}

/// What the driver says to any thread at any time.
fn execute(process: &Arc<Process>, what: Return) -> Result<()> {
    match what {
        Return::IncRefs(object, cookie) => {
            process.count(object, 0, 1);
            pending(process, |out| Command::IncRefsDone(object, cookie).put(out));
        }
        Return::Acquire(object, cookie) => {
            process.count(object, 1, 0);
            pending(process, |out| Command::AcquireDone(object, cookie).put(out));
        }
        Return::Release(object, _) => process.count(object, -1, 0),
        Return::DecRefs(object, _) => process.count(object, 0, -1),
        Return::Transaction(data, _) => answer(process, data)?,
        Return::SpawnLooper => process.spawn_looper(Command::RegisterLooper),
        Return::DeadBinder(cookie) => {
            process.died(cookie);
            pending(process, |out| Command::DeadBinderDone(cookie).put(out));
        }
        _ => {}
    }
    Ok(())
}

/// Serves one transaction.
fn answer(process: &Arc<Process>, data: Transaction) -> Result<()> {
    let delivered = Delivered { process, data };
    let oneway = data.flags & TF_ONE_WAY != 0;
    if oneway {
        stats::SERVED_ONEWAY.add();
    }
    let mut buffer = Buffer::take();
    let mut writer = Writer::growing(&mut buffer.0);
    let outcome = delivered.read(|request| {
        let node = process.node(data.cookie).ok_or(Error::UnknownObject(data.cookie))?;
        if data.code == lend::ASK && process.lends() {
            return Ok(());
        }
        let claim = if data.flags & lend::TF_CLAIM == 0 { None } else { Some(lend::read(request)?) };
        let sender = data.sender_pid.max(0).unsigned_abs();
        let lent = claim.filter(|_| process.lends()).and_then(|claim| claim.verified(sender));
        if is_user_code(data.code) {
            token::check(request, node.service().descriptor())?;
        }
        let call = Call {
            identity: CallingIdentity { pid: sender, uid: data.sender_euid, gid: UNKNOWN_GID },
            engine: EngineKind::Binder,
            priority: lent,
            oneway,
            deadline: None,
            lifetime: std::marker::PhantomData,
        };
        let mut serve = || dispatch::serve(&**node.service(), &call, data.code, request, &mut writer);
        if !process.lends() {
            return serve();
        }
        lend::at(node.scheduling().effective(lent, pool::base()), serve)
    });
    let objects = writer.finish();
    drop(delivered);
    if oneway {
        // Nobody waits for the outcome.
        return Ok(());
    }
    let outcome = outcome.and_then(|()| objects::encode(process, &mut buffer.0, objects));
    let (outgoing, flags) = match outcome {
        Ok(outgoing) => (outgoing, TF_ACCEPT_FDS),
        Err(error) => {
            buffer.0.clear();
            buffer.0.extend_from_slice(&error.to_status_t().to_ne_bytes());
            (Outgoing::default(), TF_STATUS_CODE)
        }
    };
    let reply = described(&buffer, &outgoing, 0, 0, flags);
    pending(process, |out| Command::Reply { data: reply, gathered: 0 }.put(out));
    if outgoing.pins.is_empty() && outgoing.fds.is_empty() {
        // The command is written with the ioctl that waits for the next call: one for each call.
        // The parcel must stay until then.
        keep_until_written(buffer, outgoing);
        return Ok(());
    }
    let taken = await_outcome(process, Goal::Taken);
    outgoing.pins.iter().for_each(|id| process.unpin(*id));
    match taken {
        // The caller is gone or has no room: the driver told it.
        Ok(_) | Err(Error::Dead | Error::TooLarge { .. } | Error::Io { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

thread_local! {
    // The last reply of this thread, of which the driver has not been told yet.
    static LAST_REPLY: RefCell<Option<(Buffer, Outgoing)>> = const { RefCell::new(None) };
}

fn keep_until_written(buffer: Buffer, outgoing: Outgoing) {
    let former = LAST_REPLY.replace(Some((buffer, outgoing)));
    // It was written before the transaction that was just served was read.
    drop(former);
}

/// A thread of the pool: serves calls until the driver has no more use for it.
pub(super) fn serve(process: &Arc<Process>, entry: Command) {
    pending(process, |out| entry.put(out));
    if process.lends() {
        lend::begin_looping();
    }
    let mut buffer = [0; READ];
    loop {
        let Ok(heard) = exchange(process, &mut buffer) else { return };
        let mut returns = Returns::new(&buffer[..heard]);
        loop {
            match returns.next() {
                Ok(Some(next)) => {
                    if execute(process, next).is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// A reply that was copied out, for a caller that may have stopped to wait.
type Copied = Result<(Vec<u8>, Vec<(u32, Option<Object>)>)>;

/// A call with a deadline: the driver knows none, so another thread makes the call, and its reply
/// is dropped if this one stopped to wait.
fn transact_within(
    remote: &BinderRemote,
    call: &OutCall,
    flags: u32,
    within: Duration,
    buffer: Buffer,
    objects: Vec<(u32, Object)>,
    read: ReadFn<'_>,
) -> Result<()> {
    let outcome: Arc<(Mutex<Option<Copied>>, Condvar)> = Arc::default();
    let (tell, process, handle, code) =
        (Arc::clone(&outcome), Arc::clone(remote.process()), remote.handle(), call.code);
    pool::run(Box::new(move || {
        let made = copied_call(&process, handle, (code, flags), buffer, objects);
        *tell.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        tell.1.notify_one();
    }));
    let end = Instant::now() + within;
    let mut place = outcome.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(made) = place.take() {
            let (bytes, mut objects) = made?;
            return read(&mut Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::DeadlineExpired(within));
        }
        place = outcome.1.wait_timeout(place, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn copied_call(
    process: &Arc<Process>,
    handle: u32,
    (code, flags): (u32, u32),
    mut buffer: Buffer,
    objects: Vec<(u32, Object)>,
) -> Copied {
    let outgoing = objects::encode(process, &mut buffer.0, objects)?;
    let data = described(&buffer, &outgoing, handle.into(), code, flags);
    pending(process, |out| Command::Transaction { data, gathered: 0 }.put(out));
    let reply = await_outcome(process, Goal::Reply);
    outgoing.pins.iter().for_each(|id| process.unpin(*id));
    let reply = reply?.ok_or_else(|| Error::Protocol("a call without a reply".into()))?;
    if reply.data.flags & TF_STATUS_CODE != 0 {
        let status = reply.read(|data| data.read_i32())?;
        return Err(Error::from_status_t(status, "the object", code));
    }
    let (data, offsets) = reply.parts()?;
    let mut arrived = Arrived::new(process, data, offsets);
    let objects = arrived.take_all();
    let commands = std::mem::take(&mut arrived.commands);
    let bytes = data.to_vec();
    drop(arrived);
    pending(process, |out| out.extend_from_slice(&commands));
    Ok((bytes, objects))
}
