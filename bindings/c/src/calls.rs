//! Calls and services for C: find a service and call it, or serve one with a function.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use handoff_ipc::engine::DeathRegistration;
use handoff_ipc::parcel::Parcel;
use handoff_ipc::runtime::Options;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, CallOptions, Error, ExceptionCode, PlainService, Runtime, Status};

use crate::parcel::{handoff_parcel, parcel};
use crate::{HANDOFF_FAILED, Outcome, answer, text};

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

thread_local! {
    // Kind, exception, the service's own number.
    static LAST: Cell<(c_int, c_int, c_int)> = const { Cell::new((HANDOFF_KIND_OTHER, 0, 0)) };
    // What the handler that runs on this thread refused its call with.
    static REFUSED: Cell<Option<Status>> = const { Cell::new(None) };
}

pub(crate) fn forget_kind() {
    LAST.set((HANDOFF_KIND_OTHER, 0, 0));
}

pub(crate) fn remember_kind(error: &(dyn std::error::Error + 'static)) {
    LAST.set(match error.downcast_ref::<Error>() {
        Some(Error::Dead) => (HANDOFF_KIND_DEAD, 0, 0),
        Some(Error::DeadlineExpired(_)) => (HANDOFF_KIND_DEADLINE, 0, 0),
        Some(Error::NoSuchService(_)) => (HANDOFF_KIND_NO_SERVICE, 0, 0),
        Some(Error::UnknownTransaction { .. }) => (HANDOFF_KIND_UNKNOWN_TRANSACTION, 0, 0),
        Some(Error::Status(status)) => {
            (HANDOFF_KIND_EXCEPTION, status.exception() as c_int, status.service_specific_code())
        }
        _ => (HANDOFF_KIND_OTHER, 0, 0),
    });
}

/// What kind of failure the last one of this thread was, one of `HANDOFF_KIND_...`.
#[unsafe(no_mangle)]
pub extern "C" fn handoff_last_kind() -> c_int {
    LAST.get().0
}

/// The exception that this thread's last call was answered with, as AIDL numbers them (-3 an illegal argument, -8 the
/// service's own number, which is put into `specific` if that is not null). 0 if its last failure was none.
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

/// A reference to an object of another process.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_object(Binder);

/// A death recipient that is in place.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_death {
    _registration: DeathRegistration,
}

/// Runs a body that makes something for C; null on failure.
fn make<T>(body: impl FnOnce() -> Outcome<T>) -> *mut T {
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
unsafe fn borrow<'a, T>(it: *const T, what: &str) -> Outcome<&'a T> {
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
        let options = if socket.is_null() {
            Options::default()
        } else {
            // SAFETY: not null, and a string by the caller's promise.
            Options::at(unsafe { text(socket) }?)
        };
        Ok(handoff_runtime(Runtime::connect(&options)?))
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

/// Gives a reference back. Null is ignored.
///
/// # Safety
///
/// `object` is null, or comes from [`handoff_find`] and was not given back yet.
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
        let options = CallOptions { deadline, ..CallOptions::default() };
        let answered = object.0.call_parcel(options, code, request)?;
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
        object.0.oneway_parcel(CallOptions::default(), code, request)?;
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

/// Serves one call: reads `request`, writes `reply`, and gives 0. 1 says that there is no such transaction; anything
/// else that the call is refused, with what [`handoff_refuse`] was told. Neither parcel is used afterwards.
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

/// In a handler, before it gives -1: the exception that its caller gets. `exception` is AIDL's number; -8 has a number of
/// the service's own. Gives -1, so that a handler can end with it.
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

/// Registers a service under a name; `serve` is called for each call, by several threads at once. Gives 0; -1 on failure.
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
        let serve = serve.ok_or("the function is missing")?;
        let context = Context(context);
        let service = PlainService::new(descriptor, move |call, code, request| {
            let identity = call.identity();
            let caller = handoff_caller {
                pid: identity.pid,
                uid: identity.uid,
                gid: identity.gid,
                oneway: call.is_oneway(),
            };
            let (mut request, mut reply) = (handoff_parcel(request), handoff_parcel(Parcel::new()));
            REFUSED.set(None);
            // SAFETY: any thread may call it so, by the caller's promise; what it is given outlives the call.
            match unsafe { serve(context.get(), &raw const caller, code, &raw mut request, &raw mut reply) } {
                0 => Ok(Some(reply.0)),
                1 => Ok(None),
                _ => Err(REFUSED
                    .take()
                    .unwrap_or_else(|| Status::new(ExceptionCode::IllegalState, "the service failed"))
                    .into()),
            }
        });
        runtime.0.services().add(name, Binder::new(service), ServiceOptions::default())?;
        Ok(0)
    })
}
