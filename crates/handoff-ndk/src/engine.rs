//! How objects of C are called and served: the one place that knows what `handoff-ipc` asks of a service.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::Arc;

use handoff_ipc::{
    Binder, CallBuilder, CallingIdentity, Error, Result, Scheduling, Service, ShellCommand, Transaction,
    calling_identity,
};

use crate::class::{AIBinder_Class, HandleShellCommand, OnDump, transaction_code_t};
use crate::object::AIBinder;
use crate::parcel::{AParcel, StatusResult};
use crate::status::{STATUS_FAILED_TRANSACTION, STATUS_OK, binder_status_t, status_of};
use crate::thread::{self, Serving, Thread};
use crate::{polling, process};

/// What the innermost call that this thread serves tells.
fn innermost<T>(tell: impl FnOnce(&Serving) -> T) -> Option<T> {
    // SAFETY: who put it there has not returned, and nobody has a mutable reference to it.
    thread::with(|thread| unsafe { thread.serving.get().as_ref() }.map(tell))
}

/// Does `work` as a part of serving a call.
#[inline]
fn serving<R>(
    thread: &Thread,
    sid: Option<CString>,
    caller: Option<CallingIdentity>,
    work: impl FnOnce() -> R,
) -> R {
    /// Puts back the call that this one came in the middle of, also when `work` unwinds.
    struct Back<'a>(&'a Cell<*const Serving>, *const Serving);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let call = Serving { sid, caller };
    let _back = Back(&thread.serving, thread.serving.replace(&raw const call));
    work()
}

pub(crate) fn caller() -> CallingIdentity {
    innermost(|call| call.caller).flatten().unwrap_or_else(calling_identity)
}

pub(crate) fn is_serving() -> bool {
    thread::with(|thread| !thread.serving.get().is_null())
}

pub(crate) fn caller_sid() -> *const c_char {
    innermost(|call| call.sid.as_deref().map(CStr::as_ptr)).flatten().unwrap_or(std::ptr::null())
}

/// Makes the node of an object that C serves.
pub(crate) fn serve(object: Arc<AIBinder>) -> Binder {
    Binder::from_arc(Arc::new(Served(object)))
}

/// Carries one transaction, whose reply takes the request's place.
#[inline]
pub(crate) fn transact(
    thread: &Thread,
    node: &Binder,
    class: Option<&AIBinder_Class>,
    code: transaction_code_t,
    parcel: &mut AParcel,
    oneway: bool,
    is_secret: bool,
) -> StatusResult<()> {
    let call = node.transaction(code).interface(class.map(|class| class.interface));
    let call = if is_secret { call.clear_buffers() } else { call };
    let _calling = polling::Calling::begin(thread);
    let transacted = if oneway { send(call, parcel) } else { parcel.lend(|data| call.exchange(data)) };
    transacted.map_err(failed)
}

#[cold]
fn failed(error: Error) -> binder_status_t {
    status_of(&error)
}

/// Carries a oneway transaction. No reply is left.
#[inline(never)]
fn send(call: CallBuilder<'_>, parcel: &mut AParcel) -> Result<()> {
    let sent = parcel.lend(|parcel| call.oneway(|data| parcel.send(data)));
    parcel.empty();
    sent
}

pub(crate) fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> binder_status_t {
    let written = fd.try_clone_to_owned().and_then(|fd| File::from(fd).write_all(bytes));
    match written {
        Ok(()) => STATUS_OK,
        Err(error) => crate::status::known_status(-error.raw_os_error().unwrap_or_default()),
    }
}

/// What an object of C's writes to the file that it is given.
fn dumped(object: &Arc<AIBinder>, on_dump: OnDump, args: &[CString]) -> std::io::Result<Vec<u8>> {
    let mut pointers: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
    let count = u32::try_from(pointers.len()).unwrap_or_default();
    let mut file = File::from(rustix::fs::memfd_create("dump", rustix::fs::MemfdFlags::CLOEXEC)?);
    // SAFETY: as the class's maker said; strings and file live until it returns.
    let status =
        unsafe { on_dump(Arc::as_ptr(object).cast_mut(), file.as_raw_fd(), pointers.as_mut_ptr(), count) };
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    if status != STATUS_OK {
        text.extend_from_slice(format!("the dump failed with status {status}\n").as_bytes());
    }
    Ok(text)
}

/// Has an object's class handle a command; gives its status.
fn commanded(
    object: &Arc<AIBinder>,
    handle: HandleShellCommand,
    [input, output, error]: [RawFd; 3],
    args: &[CString],
) -> binder_status_t {
    let mut pointers: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
    let count = u32::try_from(pointers.len()).unwrap_or_default();
    let object = Arc::as_ptr(object).cast_mut();
    // SAFETY: as the class's maker said; strings and descriptors live until it returns.
    unsafe { handle(object, input, output, error, pointers.as_mut_ptr(), count) }
}

#[cold]
fn c_string(text: &str) -> Option<CString> {
    CString::new(text).ok()
}

/// An object of C's as a service.
struct Served(Arc<AIBinder>);

impl Served {
    fn class(&self) -> Result<&'static AIBinder_Class> {
        #[cold]
        fn none() -> Error {
            Error::Protocol("an object without a class is served".into())
        }
        self.0.class().ok_or_else(none)
    }
}

/// Whether a call is one for the thread that polls: not what this process calls itself, nor what is nested in a call.
#[inline]
fn is_left_to_poller(caller: CallingIdentity) -> bool {
    process::polls() && caller.pid != std::process::id() && !thread::with(|thread| thread.calls.get())
}

/// A request in memory of its own.
fn copied(thread: &Thread, transaction: &mut Transaction<'_>) -> Result<Box<AParcel>> {
    let mut request = thread.take();
    request.lend(|data| data.refill(&mut transaction.data))?;
    Ok(request)
}

/// What a call is served with.
struct Handler<'a> {
    object: &'a Arc<AIBinder>,
    class: &'static AIBinder_Class,
    code: transaction_code_t,
}

impl Handler<'_> {
    /// Has the object's class handle the call; gives its status, and fills the answer.
    #[inline]
    fn handle(&self, request: &AParcel, answer: &mut AParcel) -> binder_status_t {
        let object = Arc::as_ptr(self.object).cast_mut();
        // SAFETY: as the class's maker said; object and parcels are held until it returns.
        unsafe { (self.class.on_transact)(object, self.code, &raw const *request, &raw mut *answer) }
    }

    /// [`Handler::handle`] of a request that ends in it, with the objects that it holds.
    fn handle_all(&self, thread: &Thread, request: Box<AParcel>, answer: &mut AParcel) -> binder_status_t {
        let status = self.handle(&request, answer);
        thread.keep(request);
        status
    }

    /// Serves a request that is copied first: a large one, where it stands, may be changed by its sender, and one with objects
    /// has to keep them.
    #[inline(never)]
    fn serve_copy(
        &self,
        thread: &Thread,
        transaction: &mut Transaction<'_>,
        sid: Option<CString>,
    ) -> Result<binder_status_t> {
        let request = copied(thread, transaction)?;
        let handle = |answer: &mut _| self.handle_all(thread, request, answer);
        serving(thread, sid, None, || AParcel::answering(&mut transaction.reply, handle))
    }

    /// Has the thread that polls serve a request.
    #[cold]
    fn leave_to_poller(
        &self,
        thread: &Thread,
        transaction: &mut Transaction<'_>,
        sid: Option<CString>,
    ) -> Result<binder_status_t> {
        let request = copied(thread, transaction)?;
        let (object, class, code) = (Arc::clone(self.object), self.class, self.code);
        let caller = transaction.caller();
        let serve = move |thread: &Thread| {
            let mut answer = thread.take();
            let handler = Handler { object: &object, class, code };
            let handle = || handler.handle_all(thread, request, &mut answer);
            (serving(thread, sid, Some(caller), handle), answer)
        };
        let Some((status, mut answer)) = polling::serve(move || thread::with(serve)) else {
            return Ok(STATUS_FAILED_TRANSACTION);
        };
        answer.lend(|data| transaction.replace_reply(data))?;
        thread.keep(answer);
        Ok(status)
    }

    /// Why the call failed.
    #[cold]
    fn failure(&self, status: binder_status_t) -> Error {
        let failure = Error::from_status_t(status, self.class.interface.descriptor(), self.code);
        Error::Runtime(Box::new(failure))
    }
}

impl Service for Served {
    fn descriptor(&self) -> &str {
        self.0.class().map_or("", |class| class.interface.descriptor())
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let handler = Handler { object: &self.0, class: self.class()?, code: transaction.code() };
        let sid = transaction.call.security_context().and_then(c_string);
        let status = thread::with(|thread| {
            if is_left_to_poller(transaction.caller()) {
                return handler.leave_to_poller(thread, transaction, sid);
            }
            let Some(bytes) = transaction.data.private_rest() else {
                return handler.serve_copy(thread, transaction, sid);
            };
            let handle = |answer: &mut _| AParcel::reading(bytes, |request| handler.handle(request, answer));
            serving(thread, sid, None, || AParcel::answering(&mut transaction.reply, handle))
        })?;
        // The exception in front of the reply is there already: the class's maker wrote it.
        if status == STATUS_OK { Ok(()) } else { Err(handler.failure(status)) }
    }

    fn dump(&self, args: &[String]) -> String {
        let Some(on_dump) = self.0.class().and_then(|class| class.on_dump.get()) else {
            return format!("{} has nothing to dump\n", self.descriptor());
        };
        let args: Vec<CString> = args.iter().filter_map(|arg| CString::new(arg.as_str()).ok()).collect();
        let object = Arc::clone(&self.0);
        let dump = move |caller| {
            thread::with(|thread| serving(thread, None, caller, || dumped(&object, *on_dump, &args)))
        };
        let caller = calling_identity();
        let dumped = if is_left_to_poller(caller) {
            polling::serve(move || dump(Some(caller)))
        } else {
            Some(dump(None))
        };
        match dumped {
            Some(Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
            Some(Err(error)) => format!("no file to dump to: {error}\n"),
            None => "the dump was not finished\n".into(),
        }
    }

    fn shell_command(&self, command: &mut ShellCommand) -> i32 {
        let Some(handle) = self.0.class().and_then(|class| class.handle_shell_command.get()) else {
            return command.refuse(self.descriptor());
        };
        let files = [&command.input, &command.output, &command.error].map(|file| file.as_raw_fd());
        let args: Vec<CString> =
            command.args.iter().filter_map(|arg| CString::new(arg.as_str()).ok()).collect();
        let (object, handle, caller) = (Arc::clone(&self.0), *handle, command.caller);
        let run = move |caller| {
            thread::with(|thread| serving(thread, None, caller, || commanded(&object, handle, files, &args)))
        };
        if is_left_to_poller(caller) {
            polling::serve(move || run(Some(caller))).unwrap_or(STATUS_FAILED_TRANSACTION)
        } else {
            run(None)
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.0.scheduling()
    }

    fn wants_security_context(&self) -> bool {
        self.0.wants_security_context()
    }

    fn extension(&self) -> Option<Binder> {
        self.0.extension().map(|extension| extension.node())
    }
}
