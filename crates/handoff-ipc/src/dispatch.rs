//! From a transaction to a service: what the runtime answers itself, and the header of a reply.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::code::{DUMP, EXTENSION, FIRST_CALL, INTERFACE, INTERFACE_CHAIN, LAST_CALL, PING, SHELL_COMMAND};
use crate::identity::CallingIdentity;
#[cfg(feature = "tokio")]
use crate::object::{AsyncService, Reply, Request, Response};
use crate::object::{Service, Transaction};
use crate::parcel::{Reader, Writer};
use crate::shell::ShellRequest;
use crate::{Error, ExceptionCode, Result, Status};

thread_local! {
    static CALLER: Cell<Option<CallingIdentity>> = const { Cell::new(None) };
}

/// Who calls the service that runs on this thread; this process itself outside of a call.
pub fn calling_identity() -> CallingIdentity {
    CALLER.get().unwrap_or_else(CallingIdentity::own)
}

/// Calls that are being served elsewhere than on threads of the pool, which counts its own.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// One of the calls that [`under_way`] counts, until it goes.
pub(crate) struct UnderWay(());

impl UnderWay {
    pub(crate) fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        UnderWay(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls that tasks, and threads of the `binder` engine, serve now.
pub(crate) fn under_way() -> usize {
    UNDER_WAY.load(Ordering::Relaxed)
}

/// Serves one transaction. An `Err` is for the transport; exceptions are already in the reply.
#[inline]
pub(crate) fn serve(service: &dyn Service, transaction: &mut Transaction<'_>) -> Result<()> {
    let outer = CALLER.replace(Some(transaction.call.identity));
    // A service that panics costs its caller an error, not every other caller the process.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if (FIRST_CALL..=LAST_CALL).contains(&transaction.code()) {
            serve_own(service, transaction)
        } else {
            serve_system(service, transaction)
        }
    }));
    CALLER.set(outer);
    match outcome {
        Ok(served) => served,
        Err(_) => answer_panicked(&mut transaction.reply),
    }
}

#[cold]
fn answer_panicked(reply: &mut Writer<'_>) -> Result<()> {
    reply.truncate(0);
    write_status(reply, &panicked())
}

#[inline(always)]
fn serve_own(service: &dyn Service, transaction: &mut Transaction<'_>) -> Result<()> {
    let start = transaction.reply.len();
    transaction.reply.write_i32(ExceptionCode::None as i32)?;
    match service.on_transact(transaction) {
        Ok(()) => Ok(()),
        Err(error) => write_failure(error.for_caller(), start, &mut transaction.reply),
    }
}

/// Puts an exception in the place of the reply that began at `start`; any other error is the transport's.
#[cold]
fn write_failure(error: Error, start: usize, reply: &mut Writer<'_>) -> Result<()> {
    let Error::Status(status) = error else { return Err(error) };
    reply.truncate(start);
    write_status(reply, &status)
}

#[cold]
fn serve_system(service: &dyn Service, transaction: &mut Transaction<'_>) -> Result<()> {
    let Transaction { data, reply, .. } = transaction;
    match transaction.call.code() {
        PING => Ok(()),
        INTERFACE => reply.write_string16(service.descriptor()),
        INTERFACE_CHAIN => write_chain(service.descriptor(), service.base_descriptors(), reply),
        DUMP => {
            let args: Vec<String> = data.read()?;
            reply.write_string16(&service.dump(&args))
        }
        SHELL_COMMAND => {
            let request = ShellRequest::read(transaction.call.identity, data)?;
            request.serve(service.descriptor(), |command| service.shell_command(command))
        }
        EXTENSION => reply.write_binder(service.extension().as_ref()),
        _ => Err(transaction.unknown(service.descriptor())),
    }
}

/// Answers [`INTERFACE_CHAIN`].
fn write_chain(descriptor: &str, bases: &[&str], reply: &mut Writer<'_>) -> Result<()> {
    let chain = std::iter::once(descriptor).chain(bases.iter().copied()).map(str::to_owned);
    reply.write(&chain.collect::<Vec<_>>())
}

/// Has an asynchronous service read one transaction; what the runtime answers itself is ready at once.
#[cfg(feature = "tokio")]
pub(crate) fn begin(service: &Arc<dyn AsyncService>, request: &mut Request<'_>) -> Result<Response> {
    let outer = CALLER.replace(Some(request.caller()));
    let outcome = catch_unwind(AssertUnwindSafe(|| match request.code() {
        FIRST_CALL..=LAST_CALL => Arc::clone(service).on_transact(request).map_err(Error::for_caller),
        PING => Ok(Response::bare(|_| Ok(()))),
        INTERFACE => {
            let service = Arc::clone(service);
            Ok(Response::bare(move |reply| reply.write_string16(service.descriptor())))
        }
        INTERFACE_CHAIN => {
            let service = Arc::clone(service);
            Ok(Response::bare(move |reply| {
                write_chain(service.descriptor(), service.base_descriptors(), reply)
            }))
        }
        DUMP => {
            let args: Vec<String> = request.data.read()?;
            let text = service.dump(&args);
            Ok(Response::bare(move |reply| reply.write_string16(&text)))
        }
        SHELL_COMMAND => {
            let (request, service) =
                (ShellRequest::read(request.caller(), &mut request.data)?, Arc::clone(service));
            // It reads and writes as it likes, and may wait there for ever.
            let work = move || request.serve(service.descriptor(), |command| service.shell_command(command));
            let ended = tokio::task::spawn_blocking(work);
            Ok(Response::bare_after(async { ended.await.unwrap_or_else(|_| Err(panicked().into())) }))
        }
        _ => Err(request.unknown(service.descriptor())),
    }));
    CALLER.set(outer);
    outcome.unwrap_or_else(|_| Err(panicked().into()))
}

/// Waits for a handler. One that panics costs its caller an error.
#[cfg(feature = "tokio")]
pub(crate) async fn finish(mut response: Response) -> Result<Reply> {
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| response.poll(context)));
        let polled = polled.unwrap_or_else(|_| std::task::Poll::Ready(Err(panicked().into())));
        polled.map_err(Error::for_caller)
    })
    .await
}

/// Puts what a handler came to into the reply, as [`serve`] does.
#[cfg(feature = "tokio")]
pub(crate) fn write_outcome(outcome: Result<Reply>, reply: &mut Writer<'_>) -> Result<()> {
    let written = catch_unwind(AssertUnwindSafe(|| outcome?.write(reply).map_err(Error::for_caller)));
    written.unwrap_or_else(|_| Err(panicked().into())).or_else(|error| write_failure(error, 0, reply))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Binder;

    /// Fails with the error that the code stands for.
    struct Failing;

    impl Service for Failing {
        fn descriptor(&self) -> &str {
            "test.IFailing"
        }

        fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
            transaction.reply.write(&7)?;
            Err(match transaction.code() {
                1 => Error::io("cannot open /x", std::io::Error::from_raw_os_error(2)),
                2 => Error::PermissionDenied("not for you".into()),
                3 => Error::Unsupported { engine: "shm", what: "fly".into() },
                4 => Error::Dead,
                5 => Error::NoSuchService("bank".into()),
                _ => transaction.unknown(self.descriptor()),
            })
        }
    }

    #[test]
    fn what_a_handler_failed_with_reaches_its_caller_with_its_text() {
        let failing = Binder::new(Failing);
        let expected = [
            (1, ExceptionCode::IllegalState, "cannot open /x: No such file or directory"),
            (2, ExceptionCode::Security, "not for you"),
            (3, ExceptionCode::UnsupportedOperation, "the shm engine cannot fly"),
            // Its caller must not think that this service has died.
            (4, ExceptionCode::IllegalState, "a process that this service depends on has died"),
            (5, ExceptionCode::IllegalState, "no service is registered as \"bank\""),
        ];
        for (code, exception, text) in expected {
            let failed = failing.transaction(code).call(|_| Ok(()), |_| Ok(())).unwrap_err();
            let Error::Status(status) = failed else { panic!("{code}: {failed:?}") };
            assert_eq!(status.exception(), exception, "{status}");
            assert!(status.message().unwrap().starts_with(text), "{status}");
        }
        let unknown = failing.transaction(6).call(|_| Ok(()), |_| Ok(())).unwrap_err();
        assert!(matches!(unknown, Error::UnknownTransaction { code: 6, .. }), "{unknown:?}");
    }
}
