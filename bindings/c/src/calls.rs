//! Calls and services for C: find a service and call it, or serve one with a function.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use handoff_ipc::engine::DeathRegistration;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, Error, ExceptionCode, InterfaceId, ParcelService, Runtime, Status};

use crate::parcel::{handoff_parcel, parcel};
use crate::{BoxResult, HANDOFF_FAILED, answer, text};

/// What kind of failure the last one of a thread was: [`handoff_last_kind`].
pub const HANDOFF_KIND_OTHER: c_int = 0;
/// The process that serves the object has died.
pub const HANDOFF_KIND_DEAD: c_int = 1;
/// The reply did not come within the deadline.
pub const HANDOFF_KIND_DEADLINE: c_int = 2;
/// The service answered with an exception: [`handoff_last_exception`].
pub const HANDOFF_KIND_EXCEPTION: c_int = 3;
/// No service has this name.
pub const HANDOFF_KIND_NO_SERVICE: c_int = 4;
/// The object does not know this transaction.
pub const HANDOFF_KIND_UNKNOWN_TRANSACTION: c_int = 5;
/// The object has another interface than was meant; nothing was sent.
pub const HANDOFF_KIND_WRONG_INTERFACE: c_int = 6;
/// Another process has registered the name: [`handoff_register`].
pub const HANDOFF_KIND_NAME_TAKEN: c_int = 7;
/// The receiver of oneway calls does not keep up.
pub const HANDOFF_KIND_ONEWAY_FULL: c_int = 8;
/// The caller may not do this.
pub const HANDOFF_KIND_PERMISSION_DENIED: c_int = 9;

/// The caller of a service lacks a permission.
pub const HANDOFF_EXCEPTION_SECURITY: c_int = -1;
/// An argument could not be read.
pub const HANDOFF_EXCEPTION_BAD_PARCELABLE: c_int = -2;
/// An argument is out of its range.
pub const HANDOFF_EXCEPTION_ILLEGAL_ARGUMENT: c_int = -3;
/// A null was passed where none is allowed.
pub const HANDOFF_EXCEPTION_NULL_POINTER: c_int = -4;
/// The service is not in a state to do this.
pub const HANDOFF_EXCEPTION_ILLEGAL_STATE: c_int = -5;
/// The service does not implement this.
pub const HANDOFF_EXCEPTION_UNSUPPORTED_OPERATION: c_int = -7;
/// The service's own error number says more.
pub const HANDOFF_EXCEPTION_SERVICE_SPECIFIC: c_int = -8;

/// A handler has served the call.
pub const HANDOFF_SERVED: c_int = 0;
/// A handler does not know the transaction.
pub const HANDOFF_UNKNOWN_TRANSACTION: c_int = 1;

/// For [`handoff_register`]: takes the name from a process that has it, until this one ends.
pub const HANDOFF_REPLACE: u32 = 1;

thread_local! {
    // Kind, exception, the service's own number.
    static LAST: Cell<(c_int, c_int, c_int)> = const { Cell::new((HANDOFF_KIND_OTHER, 0, 0)) };
    // What the handler that runs on this thread refused its call with.
    static REFUSED: Cell<Option<Status>> = const { Cell::new(None) };
}

pub(crate) fn forget_kind() {
    LAST.set((HANDOFF_KIND_OTHER, 0, 0));
}

/// What failed on this thread before a handler began is none of its.
fn forget() {
    forget_kind();
    crate::remember(String::new());
}

pub(crate) fn remember_kind(error: &(dyn std::error::Error + 'static)) {
    let error = error.downcast_ref::<Error>();
    if let Some(Error::Status(status)) = error {
        let number = status.service_specific_code();
        return LAST.set((HANDOFF_KIND_EXCEPTION, status.exception() as c_int, number));
    }
    let kind = match error {
        Some(Error::Dead) => HANDOFF_KIND_DEAD,
        Some(Error::DeadlineExpired(_)) => HANDOFF_KIND_DEADLINE,
        Some(Error::NoSuchService(_)) => HANDOFF_KIND_NO_SERVICE,
        Some(Error::UnknownTransaction { .. }) => HANDOFF_KIND_UNKNOWN_TRANSACTION,
        Some(Error::WrongInterface { .. }) => HANDOFF_KIND_WRONG_INTERFACE,
        Some(Error::NameTaken { .. }) => HANDOFF_KIND_NAME_TAKEN,
        Some(Error::OnewayFull(_)) => HANDOFF_KIND_ONEWAY_FULL,
        Some(Error::PermissionDenied(_)) => HANDOFF_KIND_PERMISSION_DENIED,
        _ => HANDOFF_KIND_OTHER,
    };
    LAST.set((kind, 0, 0));
}

/// What kind of failure the last one of this thread was, one of `HANDOFF_KIND_...`.
#[unsafe(no_mangle)]
pub extern "C" fn handoff_last_kind() -> c_int {
    LAST.get().0
}

/// The exception that this thread's last call was answered with, one of `HANDOFF_EXCEPTION_...`. The service's own
/// number is put into `specific` if that is not null. 0 if its last failure was none.
///
/// # Safety
///
/// `specific` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_last_exception(specific: *mut c_int) -> c_int {
    let (_, exception, number) = LAST.get();
    if !specific.is_null() {
        // SAFETY: room for one, by the caller's promise.
        unsafe { specific.write(number) };
    }
    exception
}

/// A connection to the service manager, and what was registered through it.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_runtime(Runtime);

/// A reference to an object, of another process or of this one.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_object(pub(crate) Binder);

/// A death recipient that is in place.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_death {
    _registration: DeathRegistration,
}

/// Runs a body that makes something for C; null on failure.
pub(crate) fn make<T>(body: impl FnOnce() -> BoxResult<T>) -> *mut T {
    let mut made = std::ptr::null_mut();
    answer(|| {
        made = Box::into_raw(Box::new(body()?));
        Ok(0)
    });
    made
}

/// Frees what [`make`] made.
///
/// # Safety
///
/// `it` is null, or comes from `make` and was not freed yet.
unsafe fn free<T>(it: *mut T) {
    if !it.is_null() {
        // A panic must not unwind into C.
        answer(|| {
            // SAFETY: made by `Box::into_raw`, and nobody uses it afterwards.
            drop(unsafe { Box::from_raw(it) });
            Ok(0)
        });
    }
}

/// # Safety
/// `it` is null or a value of this library that is alive.
pub(crate) unsafe fn borrow<'a, T>(it: *const T, what: &str) -> BoxResult<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { it.as_ref() }.ok_or_else(|| format!("{what} is missing").into())
}

/// Connects to the service manager at a socket; null is where `$HANDOFF_SOCKET` says, or the usual place.
/// Gives null on failure.
///
/// # Safety
///
/// `socket` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_connect(socket: *const c_char) -> *mut handoff_runtime {
    make(|| {
        handoff_ipc::log::to_stderr();
        let mut builder = Runtime::builder();
        if !socket.is_null() {
            // SAFETY: not null, and a string by the caller's promise.
            builder = builder.socket(unsafe { text(socket) }?);
        }
        Ok(handoff_runtime(builder.connect()?))
    })
}

/// Ends a connection: what was registered through it is gone. Null is ignored.
///
/// # Safety
///
/// `runtime` is null, or comes from [`handoff_connect`] and was not ended yet; its objects are used no longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_disconnect(runtime: *mut handoff_runtime) {
    // SAFETY: the caller's promise.
    unsafe { free(runtime) }
}

/// Blocks until [`handoff_stop`], for a main thread that has nothing else to do: the runtime's own threads serve. Then
/// takes back the names that were registered, and waits for the calls that are being served, ten seconds at the most.
/// Gives 0; -1 on failure.
///
/// # Safety
///
/// `runtime` is a connection, and is not ended meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_join_thread_pool(runtime: *const handoff_runtime) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        unsafe { borrow(runtime, "the connection") }?.0.join_thread_pool();
        Ok(0)
    })
}

/// Lets [`handoff_join_thread_pool`] return. From any thread, also in a handler; not in a signal handler. Gives 0; -1 on
/// failure.
///
/// # Safety
///
/// `runtime` is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_stop(runtime: *const handoff_runtime) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        unsafe { borrow(runtime, "the connection") }?.0.stop();
        Ok(0)
    })
}

/// Finds a service, waiting so many milliseconds for it to be registered. Gives null on failure.
///
/// # Safety
///
/// `runtime` is a connection, `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_find(
    runtime: *const handoff_runtime,
    name: *const c_char,
    timeout_ms: u32,
) -> *mut handoff_object {
    make(|| {
        // SAFETY: the caller's promise.
        let (runtime, name) = unsafe { (borrow(runtime, "the connection")?, text(name)?) };
        let services = runtime.0.services();
        let found = match timeout_ms {
            0 => services.get(name)?,
            wait => services.wait_for(name, Duration::from_millis(wait.into()))?,
        };
        Ok(handoff_object(found))
    })
}

/// Checks that an object has the interface of this descriptor, or one that extends it. Gives 0; -1 if not: of the kind
/// `HANDOFF_KIND_WRONG_INTERFACE` with both names in `handoff_last_error`.
///
/// # Safety
///
/// `object` is a reference, `descriptor` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_check_interface(
    object: *const handoff_object,
    descriptor: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let (object, descriptor) = unsafe { (borrow(object, "the object")?, text(descriptor)?) };
        object.0.check_interface(InterfaceId::interned(descriptor))?;
        Ok(0)
    })
}

/// 1 if both are references to one object, 0 if not.
///
/// # Safety
///
/// Both are references.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_is_same(one: *const handoff_object, other: *const handoff_object) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| unsafe { Ok((borrow(one, "the object")?.0 == borrow(other, "the object")?.0).into()) })
}

/// Gives a reference back. Null is ignored.
///
/// # Safety
///
/// `object` is null, or comes from this library ([`handoff_find`], [`handoff_offer`], `handoff_read_object`) and was not
/// given back yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_object_free(object: *mut handoff_object) {
    // SAFETY: the caller's promise.
    unsafe { free(object) }
}

/// Calls a transaction and waits for its reply, so many milliseconds at the most (0: for ever). What was in `reply`
/// is replaced. Gives 0; -1 on failure, of which [`handoff_last_kind`] tells the kind.
///
/// # Safety
///
/// `object` is a reference; `request` and `reply` are two parcels; null stands for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_call(
    object: *const handoff_object,
    code: u32,
    request: *mut handoff_parcel,
    reply: *mut handoff_parcel,
    timeout_ms: u32,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(object, "the object") }?;
        let nothing = Parcel::new();
        // SAFETY: the caller's promise.
        let request = if request.is_null() { &nothing } else { unsafe { parcel(request) }? };
        let deadline = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into()));
        let answered =
            object.0.transaction(code).deadline(deadline).call(|to| request.send(to), Parcel::receive)?;
        if !reply.is_null() {
            // SAFETY: the caller's promise.
            *unsafe { parcel(reply) }? = answered;
        }
        Ok(0)
    })
}

/// Queues a call whose result nobody waits for. Gives 0; -1 on failure.
///
/// # Safety
///
/// `object` is a reference; `request` is a parcel or null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_call_oneway(
    object: *const handoff_object,
    code: u32,
    request: *mut handoff_parcel,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(object, "the object") }?;
        let nothing = Parcel::new();
        // SAFETY: the caller's promise.
        let request = if request.is_null() { &nothing } else { unsafe { parcel(request) }? };
        object.0.transaction(code).oneway(|to| request.send(to))?;
        Ok(0)
    })
}

/// 1 unless the object's process is known to be gone; 0 then.
///
/// # Safety
///
/// `object` is a reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_is_alive(object: *const handoff_object) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| Ok(unsafe { borrow(object, "the object") }?.0.is_alive().into()))
}

/// A pointer of C that its owner lets other threads use.
struct Context(*mut c_void);

// SAFETY: whoever gives the pointer promises that any thread may use it: `handoff_serve`, `handoff_on_death`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Hears that an object's process has ended.
#[allow(non_camel_case_types)] // A C name.
pub type handoff_died = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Has `died` called once, on a thread of the runtime, when the object's process ends; at once if it has. Gives
/// null on failure. End it with [`handoff_death_free`]: one that runs at that moment may go on.
///
/// # Safety
///
/// `object` is a reference; any thread may call `died` with `context`, as long as the process lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_on_death(
    object: *const handoff_object,
    died: handoff_died,
    context: *mut c_void,
) -> *mut handoff_death {
    make(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(object, "the object") }?;
        let died = died.ok_or("the function is missing")?;
        let context = Context(context);
        // SAFETY: any thread may call it so, by the caller's promise.
        let registration = object.0.link_to_death(move || unsafe { died(context.get()) })?;
        Ok(handoff_death { _registration: registration })
    })
}

/// Takes a death recipient back. Null is ignored.
///
/// # Safety
///
/// `death` is null, or comes from [`handoff_on_death`] and was not taken back yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_death_free(death: *mut handoff_death) {
    // SAFETY: the caller's promise.
    unsafe { free(death) }
}

/// Who calls, as the kernel vouches for it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_caller {
    /// Its process; 0 where that is not visible here.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether nobody waits for a reply.
    pub oneway: bool,
}

/// Serves one call: reads `request`, writes `reply`, and gives `HANDOFF_SERVED`. `HANDOFF_UNKNOWN_TRANSACTION` says that
/// there is no such transaction; anything else that the call is refused, with what [`handoff_refuse`] was told, or else
/// as an illegal state with what failed last in the handler. Neither parcel is used afterwards.
#[allow(non_camel_case_types)] // A C name.
pub type handoff_handler = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        caller: *const handoff_caller,
        code: u32,
        request: *mut handoff_parcel,
        reply: *mut handoff_parcel,
    ) -> c_int,
>;

/// In a handler, before it gives -1: the exception that its caller gets, one of `HANDOFF_EXCEPTION_...`. `specific` is the
/// service's own number, for `HANDOFF_EXCEPTION_SERVICE_SPECIFIC`. Gives -1, so that a handler can end with it.
///
/// # Safety
///
/// `message` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_refuse(exception: c_int, specific: c_int, message: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: not null, and a string by the caller's promise.
        let message = if message.is_null() { "" } else { unsafe { text(message) }? };
        REFUSED.set(Some(match ExceptionCode::from_raw(exception) {
            ExceptionCode::ServiceSpecific => Status::service_specific(specific, message),
            ExceptionCode::None => return Err("0 is no exception".into()),
            other => Status::new(other, message),
        }));
        Ok(0)
    });
    HANDOFF_FAILED
}

/// The object that C serves with a function.
fn served(descriptor: &str, serve: handoff_handler, context: *mut c_void) -> BoxResult<Binder> {
    let serve = serve.ok_or("the function is missing")?;
    let context = Context(context);
    let service = ParcelService::new(descriptor, move |call, request| {
        let identity = call.identity();
        let caller = handoff_caller {
            pid: identity.pid,
            uid: identity.uid,
            gid: identity.gid,
            oneway: call.is_oneway(),
        };
        let (mut request, mut reply) = (handoff_parcel(request), handoff_parcel(Parcel::new()));
        REFUSED.set(None);
        forget();
        // SAFETY: any thread may call it so, by the promise of who gave it; what it is given outlives the call.
        match unsafe {
            serve(context.get(), &raw const caller, call.code(), &raw mut request, &raw mut reply)
        } {
            HANDOFF_SERVED => Ok(Some(reply.0)),
            HANDOFF_UNKNOWN_TRANSACTION => Ok(None),
            _ => Err(REFUSED.take().unwrap_or_else(failed).into()),
        }
    });
    Ok(Binder::new(service))
}

/// What a handler failed with that did not say.
fn failed() -> Status {
    let text = match (LAST.get().0, crate::last_error()) {
        // The service itself is alive: its caller must not take this for its death.
        (HANDOFF_KIND_DEAD, _) => "a process that this service depends on has died".to_owned(),
        (_, text) if text.is_empty() => "the service failed".to_owned(),
        (_, text) => format!("the service failed: {text}"),
    };
    Status::new(ExceptionCode::IllegalState, text)
}

/// An object of this process, for others to call: it can be registered, or sent in a parcel as a callback. `serve` is called
/// for each call, by several threads at once. Gives null on failure.
///
/// # Safety
///
/// `descriptor` is a string; any thread may call `serve` with `context`, as long as the process lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_offer(
    descriptor: *const c_char,
    serve: handoff_handler,
    context: *mut c_void,
) -> *mut handoff_object {
    // SAFETY: the caller's promise.
    make(|| Ok(handoff_object(served(unsafe { text(descriptor) }?, serve, context)?)))
}

/// Registers an object under a name. Gives 0; -1 on failure, such as `HANDOFF_KIND_NAME_TAKEN` if another process has the
/// name. `flags` is 0 or `HANDOFF_REPLACE`, which takes the name: that process has it again when this one ends.
///
/// # Safety
///
/// `runtime` is a connection, `name` a string, `object` a reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_register(
    runtime: *const handoff_runtime,
    name: *const c_char,
    object: *const handoff_object,
    flags: u32,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let (runtime, name) = unsafe { (borrow(runtime, "the connection")?, text(name)?) };
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(object, "the object") }?;
        if flags & !HANDOFF_REPLACE != 0 {
            return Err(format!("flags {flags:#x} are not known").into());
        }
        let options = ServiceOptions { replace: flags & HANDOFF_REPLACE != 0, ..ServiceOptions::default() };
        runtime.0.services().add(name, object.0.clone(), options)?;
        Ok(0)
    })
}

/// [`handoff_offer`] and [`handoff_register`] in one: registers a service under a name. Gives 0; -1 on failure.
///
/// # Safety
///
/// `runtime` is a connection, `name` and `descriptor` are strings; any thread may call `serve` with `context`, as long as
/// the process lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_serve(
    runtime: *const handoff_runtime,
    name: *const c_char,
    descriptor: *const c_char,
    serve: handoff_handler,
    context: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let runtime = unsafe { borrow(runtime, "the connection") }?;
        // SAFETY: the caller's promise.
        let (name, descriptor) = unsafe { (text(name)?, text(descriptor)?) };
        let service = served(descriptor, serve, context)?;
        runtime.0.services().add(name, service, ServiceOptions::default())?;
        Ok(0)
    })
}
