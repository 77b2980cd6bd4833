//! From a transaction to a service: what the runtime answers itself, and the header of a reply.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "tokio")]
use std::sync::Arc;

#[cfg(feature = "tokio")]
use crate::asynchronous::{AsyncService, Handling, Reply};
use crate::object::{Call, CallingIdentity, Code, Service};
use crate::parcel::{Reader, Writer};
use crate::{Error, ExceptionCode, Result, Status};

/// `IBinder::FIRST_CALL_TRANSACTION`.
pub(crate) const FIRST_CALL: Code = 1;
/// `IBinder::LAST_CALL_TRANSACTION`.
pub(crate) const LAST_CALL: Code = 0x00ff_ffff;
/// `IBinder::PING_TRANSACTION`.
pub(crate) const PING: Code = u32::from_be_bytes(*b"_PNG");
/// `IBinder::INTERFACE_TRANSACTION`.
pub(crate) const INTERFACE: Code = u32::from_be_bytes(*b"_NTF");
/// `IBinder::DUMP_TRANSACTION`, here with the arguments in the request and text in the reply.
pub(crate) const DUMP: Code = u32::from_be_bytes(*b"_DMP");

thread_local! {
    static CALLER: Cell<Option<CallingIdentity>> = const { Cell::new(None) };
}

/// Who calls the service that runs on this thread; this process itself outside of a call.
pub fn calling_identity() -> CallingIdentity {
    CALLER.get().unwrap_or_else(CallingIdentity::own)
}

/// Serves one transaction. An `Err` is for the transport; exceptions are already in the reply.
#[inline]
pub(crate) fn serve(
    service: &dyn Service,
    call: &Call<'_>,
    code: Code,
    data: &mut Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<()> {
    let outer = CALLER.replace(Some(call.identity));
    // A service that panics costs its caller an error, not every other caller the process.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if (FIRST_CALL..=LAST_CALL).contains(&code) {
            serve_own(service, call, code, data, reply)
        } else {
            serve_system(service, code, data, reply)
        }
    }));
    CALLER.set(outer);
    match outcome {
        Ok(served) => served,
        Err(_) => answer_panicked(reply),
    }
}

#[cold]
fn answer_panicked(reply: &mut Writer<'_>) -> Result<()> {
    reply.truncate(0);
    write_status(reply, &panicked())
}

#[inline(always)]
fn serve_own(
    service: &dyn Service,
    call: &Call<'_>,
    code: Code,
    data: &mut Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<()> {
    let start = reply.len();
    reply.write_i32(ExceptionCode::None as i32)?;
    match service.on_transact(call, code, data, reply) {
        Err(Error::Status(status)) => {
            reply.truncate(start);
            write_status(reply, &status)
        }
        other => other,
    }
}

#[cold]
fn serve_system(
    service: &dyn Service,
    code: Code,
    data: &mut Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<()> {
    match code {
        PING => Ok(()),
        INTERFACE => reply.write_string16(service.descriptor()),
        DUMP => {
            let args: Vec<String> = data.read()?;
            reply.write_string16(&service.dump(&args))
        }
        _ => Err(Error::UnknownTransaction { descriptor: service.descriptor().to_owned(), code }),
    }
}

/// Has an asynchronous service read one transaction; what the runtime answers itself is ready at once.
#[cfg(feature = "tokio")]
pub(crate) fn begin(
    service: &Arc<dyn AsyncService>,
    call: &Call<'_>,
    code: Code,
    data: &mut Reader<'_>,
) -> Result<Handling> {
    let outer = CALLER.replace(Some(call.identity));
    let outcome = catch_unwind(AssertUnwindSafe(|| match code {
        FIRST_CALL..=LAST_CALL => Arc::clone(service).on_transact(call, code, data),
        PING => Ok(Handling::bare(|_| Ok(()))),
        INTERFACE => {
            let service = Arc::clone(service);
            Ok(Handling::bare(move |reply| reply.write_string16(service.descriptor())))
        }
        DUMP => {
            let args: Vec<String> = data.read()?;
            let text = service.dump(&args);
            Ok(Handling::bare(move |reply| reply.write_string16(&text)))
        }
        _ => Err(Error::UnknownTransaction { descriptor: service.descriptor().to_owned(), code }),
    }));
    CALLER.set(outer);
    outcome.unwrap_or_else(|_| Err(panicked().into()))
}

/// Waits for a handler. One that panics costs its caller an error.
#[cfg(feature = "tokio")]
pub(crate) async fn finish(mut handling: Handling) -> Result<Reply> {
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| handling.poll(context)));
        polled.unwrap_or_else(|_| std::task::Poll::Ready(Err(panicked().into())))
    })
    .await
}

/// Puts what a handler came to into the reply, as [`serve`] does.
#[cfg(feature = "tokio")]
pub(crate) fn write_outcome(outcome: Result<Reply>, reply: &mut Writer<'_>) -> Result<()> {
    let written = catch_unwind(AssertUnwindSafe(|| outcome?.write(reply)));
    match written.unwrap_or_else(|_| Err(panicked().into())) {
        Err(Error::Status(status)) => {
            reply.truncate(0);
            write_status(reply, &status)
        }
        other => other,
    }
}

fn panicked() -> Status {
    Status::new(ExceptionCode::IllegalState, "the service panicked")
}

/// An exception as `Status::writeToParcel` puts it: code, message, no remote stack trace, and the
/// service's own number where it has one.
pub(crate) fn write_status(reply: &mut Writer<'_>, status: &Status) -> Result<()> {
    reply.write_i32(status.exception() as i32)?;
    if status.exception() == ExceptionCode::None {
        return Ok(());
    }
    match status.message() {
        Some(message) => reply.write_string16(message)?,
        None => reply.write_null_length()?,
    }
    reply.write_i32(0)?;
    if status.exception() == ExceptionCode::ServiceSpecific {
        reply.write_i32(status.service_specific_code())?;
    }
    Ok(())
}

/// Reads the header of a reply; an exception becomes [`Error::Status`].
#[inline]
pub(crate) fn read_status(reply: &mut Reader<'_>) -> Result<()> {
    match reply.read_i32()? {
        0 => Ok(()),
        raw => Err(read_exception(raw, reply)),
    }
}

#[cold]
fn read_exception(raw: i32, reply: &mut Reader<'_>) -> Error {
    let rest = |reply: &mut Reader<'_>| -> Result<Status> {
        let exception = ExceptionCode::from_raw(raw);
        let message = reply.read_string16()?;
        // A stack trace of the remote side may stand here; its size says how much to skip.
        let trace = reply.read_i32()?;
        if trace > 4 {
            reply.read_raw(trace as usize - 4)?;
        }
        let specific = if exception == ExceptionCode::ServiceSpecific { reply.read_i32()? } else { 0 };
        Ok(Status::from_parts(exception, specific, message))
    };
    match rest(reply) {
        Ok(status) => Error::Status(status),
        Err(error) => error,
    }
}
