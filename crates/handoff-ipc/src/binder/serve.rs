//! Calls that a thread serves, and what else the driver says to it.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::command::Command;
use super::lend;
use super::objects::{self, Outgoing};
use super::process::Process;
use super::returns::{Return, Returns};
use super::thread_state::{
    Buffer, DeliveredParcel, READ, await_taken, flush, queue_command, queue_reply, talk_with_driver,
};
use super::token;
use super::uapi::{self, TF_ACCEPT_FDS, TF_CLEAR_BUF, TF_ONE_WAY, TF_STATUS_CODE};
use crate::call::{Call, DriverDetails};
use crate::code::is_user_code;
use crate::dispatch::{self, UnderWay};
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::Transaction;
use crate::{Error, Result, pool, stats};

/// The group of a caller, which the driver does not tell.
const UNKNOWN_GID: u32 = u32::MAX;

/// Sees to it that a thread waits for calls from others.
pub(super) fn start_looping(process: &Arc<Process>) {
    if process.begins_looping() {
        spawn_looper(process, Command::EnterLooper);
    }
}

/// Starts a thread that serves calls, as the driver asked for.
fn spawn_looper(process: &Arc<Process>, entry: Command) {
    let process = Arc::clone(process);
    let thread = std::thread::Builder::new().name("handoff-binder".into());
    if let Err(error) = thread.spawn(move || serve(&process, entry)) {
        stats::warn_once(&stats::NO_THREAD, || {
            format!("cannot start a thread that serves calls of the Binder driver: {error}")
        });
    }
}

/// A thread of the pool: serves calls until the driver has no more use for it.
fn serve(process: &Arc<Process>, entry: Command) {
    queue_command(process, entry);
    if process.lends() {
        lend::begin_looping();
    }
    loop {
        match get_and_execute(process) {
            // Each reading begins with a whole return, so that nothing is lost with a cut one but what was behind it.
            Err(Error::Protocol(what)) => stats::warn_once(&stats::MALFORMED, || {
                format!("a part of what the Binder driver said cannot be read, and is passed over: {what}")
            }),
            // The driver has given the process up.
            Err(_) => return,
            Ok(()) => {}
        }
    }
}

/// Hears what there is, waiting for it if there is nothing, and acts on it.
#[inline(always)]
pub(super) fn get_and_execute(process: &Arc<Process>) -> Result<()> {
    let mut buffer = [MaybeUninit::uninit(); READ];
    let mut returns = Returns::new(talk_with_driver(process, &mut buffer)?);
    while let Some(next) = returns.next()? {
        match next {
            Return::Noop | Return::Complete => {}
            Return::Transaction(data, context) => {
                answer(process, uapi::Transaction::from_bytes(data), context)?
            }
            other => execute(process, other)?,
        }
    }
    Ok(())
}

/// Serves what has arrived, for a thread that waits for the driver's file to be readable.
pub(super) fn handle_polled(process: &Arc<Process>) -> Result<()> {
    get_and_execute(process)?;
    // The next wait is not in the driver.
    flush(process);
    Ok(())
}

/// What the driver says to any thread at any time.
#[inline(never)]
pub(super) fn execute(process: &Arc<Process>, what: Return<'_>) -> Result<()> {
    match what {
        Return::Transaction(data, context) => answer(process, uapi::Transaction::from_bytes(data), context)?,
        Return::IncRefs(object, cookie) => {
            process.count(object, 0, 1);
            queue_command(process, Command::IncRefsDone(object, cookie));
        }
        Return::Acquire(object, cookie) => {
            process.count(object, 1, 0);
            queue_command(process, Command::AcquireDone(object, cookie));
        }
        Return::Release(object, _) => process.count(object, -1, 0),
        Return::DecRefs(object, _) => process.count(object, 0, -1),
        Return::SpawnLooper => spawn_looper(process, Command::RegisterLooper),
        Return::DeadBinder(cookie) => {
            process.died(cookie);
            queue_command(process, Command::DeadBinderDone(cookie));
        }
        Return::FrozenBinder { cookie, frozen } => {
            process.froze(cookie, frozen);
            queue_command(process, Command::FreezeNewsDone(cookie));
        }
        Return::Unknown(number) => unknown(number),
        // Of a call that nobody waits for.
        Return::Reply(data) => DeliveredParcel::new(process, uapi::Transaction::from_bytes(data)).discard(),
        // Nothing to do.
        _ => {}
    }
    Ok(())
}

#[cold]
fn unknown(number: u32) {
    stats::UNKNOWN_RETURNS.add();
    stats::warn_once(&stats::UNKNOWN_RETURN, || {
        format!(
            "the Binder driver said {number:#x} (number {}, {} bytes), which this version does not know and passes \
             over; a newer Handoff may",
            number & 0xff,
            number >> 16 & 0x3fff
        )
    });
}

#[inline(never)]
fn answer(process: &Arc<Process>, data: uapi::Transaction, context: Option<u64>) -> Result<()> {
    let _counted = UnderWay::begin();
    let delivered = DeliveredParcel::new(process, data);
    let oneway = data.flags & TF_ONE_WAY != 0;
    // A caller that has its request cleared wants the same of the reply.
    let clears = data.flags & TF_CLEAR_BUF;
    if oneway {
        stats::SERVED_ONEWAY.add();
    }
    let mut buffer = Buffer::take();
    buffer.secret = clears != 0;
    let outcome = delivered.read(|request, extent| {
        let reply = buffer.writer(process, extent);
        let Some(node) = process.node(data.cookie) else { return Err(Error::UnknownObject(data.cookie)) };
        if data.code == lend::ASK && process.lends() {
            return Ok(reply.finish());
        }
        let claim = if data.flags & lend::TF_CLAIM == 0 { None } else { Some(lend::read(request)?) };
        let sender = data.sender_pid.max(0).unsigned_abs();
        let lent = claim.filter(|_| process.lends()).and_then(|claim| claim.verified(sender, None));
        let work_source =
            if is_user_code(data.code) { token::check(request, node.token(token::name))? } else { None };
        let security_context = context.and_then(|at| process.driver.delivered_text(at));
        let tells = work_source.is_some() || security_context.is_some();
        let call = Call {
            code: data.code,
            identity: CallingIdentity { pid: sender, uid: data.sender_euid, gid: UNKNOWN_GID },
            engine: EngineKind::Binder,
            priority: lent.map_or(0, handoff_placement::Priority::pack),
            oneway,
            deadline: None,
            driver_details: tells.then(|| Box::new(DriverDetails { work_source, security_context })),
        };
        let mut transaction = Transaction { call, data: request.reborrow(), reply };
        let mut serve = || dispatch::serve(&**node.service(), &mut transaction);
        if process.lends() {
            lend::at(node.scheduling().effective(lent, pool::base()), serve)?;
        } else {
            serve()?;
        }
        Ok(transaction.reply.finish())
    });
    if oneway {
        // Nobody waits for the outcome.
        return Ok(());
    }
    let outcome = outcome.and_then(|objects| objects::encode(process, &mut buffer.bytes, objects));
    let (outgoing, flags) = match outcome {
        Ok(outgoing) => (outgoing, TF_ACCEPT_FDS),
        Err(error) => {
            buffer.bytes.clear();
            buffer.bytes.extend_from_slice(&error.to_status_t().to_ne_bytes());
            (Outgoing::default(), TF_STATUS_CODE)
        }
    };
    let reply = outgoing.described(&buffer.bytes, 0, 0, flags | clears);
    let command = Command::Reply { data: reply, gathered: outgoing.gathered() };
    if !outgoing.holds_something() {
        // The command is written with the ioctl that waits for the next call, and so is the one that gives
        // the request back, after it: the reply may refer to what the request brought.
        queue_reply(process, command, buffer, outgoing);
        delivered.give_back();
        return Ok(());
    }
    let taken = await_taken(process, command);
    outgoing.unpin(process);
    match taken {
        // The caller is gone, frozen or has no room: the driver told it.
        Ok(()) | Err(Error::Dead | Error::Frozen | Error::TooLarge { .. } | Error::Io { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}
