//! Calls that a thread makes.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::command::Command;
use super::lend;
use super::objects;
use super::process::Process;
use super::remote::BinderRemote;
use super::thread_state::{Buffer, DeliveredParcel, Goal, await_outcome};
use super::token;
use super::uapi::{TF_ACCEPT_FDS, TF_CLEAR_BUF, TF_ONE_WAY, TF_STATUS_CODE, Transaction};
use crate::call::OutCall;
use crate::locked::lock;
use crate::object::{ReadFn, WriteFn};
use crate::parcel::{Object, Reader, SharedBytes};
use crate::{Error, OnewayBacklog, Result, pool};

/// What stands in front of a call's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    /// What [`token::of`] makes of the interface that the caller means.
    pub(super) bytes: &'a [u8],
    /// The caller's priority goes along.
    pub(super) claims: bool,
}

/// Makes one call; `token` stands in front of its arguments.
#[inline(always)]
pub(super) fn transact(
    remote: &BinderRemote,
    call: &OutCall,
    token: Option<Token<'_>>,
    write: WriteFn<'_>,
    read: ReadFn<'_>,
) -> Result<()> {
    let process = remote.process();
    let mut buffer = Buffer::take();
    buffer.secret = call.clear_buffers;
    let mut writer = buffer.writer(process, SharedBytes::from_slice(&[]));
    let claims = token.is_some_and(|token| token.claims);
    if claims {
        lend::write(&mut writer)?;
    }
    if let Some(Token { bytes, .. }) = token {
        token::write(&mut writer, call.work_source, bytes)?;
    }
    write(&mut writer)?;
    let objects = writer.finish();
    let handle = remote.handle();
    if let (Some(within), false) = (call.deadline, call.oneway) {
        return Request { handle, call: *call, claims, buffer, objects }.send_within(process, within, read);
    }
    let outcome = send(process, handle, call, claims, &mut buffer, objects);
    let answered = match outcome {
        Ok(None) => Ok(()),
        Ok(Some(reply)) => take_reply(reply, call.code, read),
        Err(error) => Err(refused(error, call.oneway)),
    };
    buffer.put_back();
    answered
}

#[cold]
fn refused(error: Error, oneway: bool) -> Error {
    match error {
        // The half of the receiver's buffer that is for oneway calls is taken.
        Error::TooLarge { .. } if oneway => Error::OnewayFull(OnewayBacklog::Unknown),
        other => other,
    }
}

/// Sends a call that is written, and waits until it is taken (oneway) or answered.
#[inline(always)]
fn send<'p>(
    process: &'p Arc<Process>,
    handle: u32,
    call: &OutCall,
    claims: bool,
    buffer: &mut Buffer,
    objects: Vec<(u32, Object)>,
) -> Result<Option<DeliveredParcel<'p>>> {
    let outgoing = objects::encode(process, &mut buffer.bytes, objects)?;
    let flags = TF_ACCEPT_FDS
        | if call.oneway { TF_ONE_WAY } else { 0 }
        | if claims { lend::TF_CLAIM } else { 0 }
        | if call.clear_buffers { TF_CLEAR_BUF } else { 0 };
    let data = outgoing.described(&buffer.bytes, handle.into(), call.code, flags);
    let command = Command::Transaction { data, gathered: outgoing.gathered() };
    let outcome = await_outcome(process, command, if call.oneway { Goal::Taken } else { Goal::Reply });
    outgoing.unpin(process);
    outcome
}

#[inline(always)]
fn take_reply(reply: DeliveredParcel<'_>, code: u32, read: ReadFn<'_>) -> Result<()> {
    let outcome =
        reply.read(
            |data, _| {
                if reply.data.flags & TF_STATUS_CODE == 0 { read(data) } else { take_status(data, code) }
            },
        );
    reply.give_back();
    outcome
}

#[cold]
fn take_status(data: &mut Reader<'_>, code: u32) -> Result<()> {
    match data.read_i32()? {
        0 => Ok(()),
        status => Err(Error::from_status_t(status, "the object", code)),
    }
}

/// A call that is written, for another thread to send.
struct Request {
    handle: u32,
    call: OutCall,
    claims: bool,
    buffer: Buffer,
    objects: Vec<(u32, Object)>,
}

impl Request {
    /// Sends it on another thread, since the driver knows no deadlines; the reply is given back unread
    /// if this thread stopped to wait for it.
    #[inline(never)]
    fn send_within(mut self, process: &Arc<Process>, within: Duration, read: ReadFn<'_>) -> Result<()> {
        // What is borrowed may be gone before the reply comes.
        let own = |(at, object)| match object {
            Object::Buffer(bytes) => (at, Object::Buffer(bytes.into_owned())),
            other => (at, other),
        };
        self.objects = self.objects.into_iter().map(own).collect();
        objects::point_again(&mut self.buffer.bytes, &self.objects);
        let code = self.call.code;
        let outcome: Arc<(Mutex<Option<Result<DeliveredReply>>>, Condvar)> = Arc::default();
        let (tell, owner) = (Arc::clone(&outcome), Arc::clone(process));
        pool::run(Box::new(move || {
            let Request { handle, call, claims, mut buffer, objects } = self;
            let made = send(&owner, handle, &call, claims, &mut buffer, objects).and_then(|reply| {
                let reply = reply.ok_or_else(|| Error::Protocol("a call without a reply".into()))?;
                Ok(DeliveredReply { data: Some(reply.into_data()), process: Arc::clone(&owner) })
            });
            *lock(&tell.0) = Some(made);
            tell.1.notify_one();
        }));
        let end = Instant::now() + within;
        let mut place = lock(&outcome.0);
        loop {
            if let Some(made) = place.take() {
                drop(place);
                let mut landed = made?;
                let Some(data) = landed.data.take() else { return Ok(()) };
                return take_reply(DeliveredParcel::new(process, data), code, read);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::DeadlineExpired(within));
            }
            place = outcome.1.wait_timeout(place, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

/// A reply on its way to the thread that waits for it, given back if that has left.
struct DeliveredReply {
    process: Arc<Process>,
    data: Option<Transaction>,
}

impl Drop for DeliveredReply {
    fn drop(&mut self) {
        if let Some(data) = self.data.take() {
            DeliveredParcel::new(&self.process, data).discard();
        }
    }
}
