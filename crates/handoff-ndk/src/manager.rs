//! `AServiceManager`: services by name.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handoff_ipc::servicemanager::{ServiceOptions, Watch};
use handoff_ipc::{Binder, Error, Runtime};

use crate::object::{AIBinder, node};
use crate::process::runtime;
use crate::status::{
    EX_ILLEGAL_ARGUMENT, EX_ILLEGAL_STATE, EX_NONE, EX_SECURITY, EX_TRANSACTION_FAILED,
    EX_UNSUPPORTED_OPERATION, binder_exception_t,
};

/// What `AServiceManager_getService` waits for a service, as on Android.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long one who waits without an end waits before it looks whether there is a manager at all.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long it pauses where there is none.
const WITHOUT_MANAGER: Duration = Duration::from_millis(200);

/// `ADD_SERVICE_ALLOW_ISOLATED`.
const ALLOW_ISOLATED: u32 = 1;

/// # Safety
/// `name` is null or a string.
pub(crate) unsafe fn name_of<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: not null, and a string by the caller's promise.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
}

/// Says on standard error, which is Android's log here, why a function answers with less than was hoped for.
pub(crate) fn complain(function: &str, name: &str, why: &dyn std::fmt::Display) {
    eprintln!("libbinder_ndk: {function}(\"{name}\"): {why}");
}

fn exception_of(error: &Error) -> binder_exception_t {
    match error {
        Error::Status(status) => status.exception() as binder_exception_t,
        Error::PermissionDenied(_) => EX_SECURITY,
        Error::NameTaken { .. } => EX_ILLEGAL_STATE,
        Error::Unsupported { .. } => EX_UNSUPPORTED_OPERATION,
        _ => EX_TRANSACTION_FAILED,
    }
}

/// As on Android, the last object that a process adds under a name has it. Another process's name is not taken.
fn add(runtime: &Runtime, name: &str, node: Binder, options: ServiceOptions) -> Result<(), Error> {
    match runtime.services().add(name, node.clone(), options) {
        Err(Error::NameTaken { pid, .. }) if pid == std::process::id() => {
            runtime.services().add(name, node, ServiceOptions { replace: true, ..options })
        }
        added => added,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_addServiceWithFlags(
    binder: *mut AIBinder,
    instance: *const c_char,
    flags: u32,
) -> binder_exception_t {
    // SAFETY: the header's promise.
    let Some(name) = (unsafe { name_of(instance) }).filter(|_| !binder.is_null()) else {
        return EX_ILLEGAL_ARGUMENT;
    };
    if flags & !ALLOW_ISOLATED != 0 {
        complain(
            "AServiceManager_addServiceWithFlags",
            name,
            &format!("flags {flags:#x} are not known here"),
        );
        return EX_ILLEGAL_ARGUMENT;
    }
    // SAFETY: not null, and held by the header's promise.
    let node = unsafe { node(binder) };
    let options = ServiceOptions { allow_isolated: flags & ALLOW_ISOLATED != 0, ..ServiceOptions::default() };
    match runtime().map(|runtime| add(&runtime, name, node, options)) {
        Ok(Ok(())) => EX_NONE,
        Ok(Err(error)) => {
            complain("AServiceManager_addService", name, &error);
            exception_of(&error)
        }
        Err(error) => {
            complain("AServiceManager_addService", name, &error);
            EX_TRANSACTION_FAILED
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_addService(
    binder: *mut AIBinder,
    instance: *const c_char,
) -> binder_exception_t {
    // SAFETY: the header's promise.
    unsafe { AServiceManager_addServiceWithFlags(binder, instance, 0) }
}

/// Looks a service up; null, with the reason on standard error, if there is none.
///
/// # Safety
/// As [`name_of`].
unsafe fn look_up(
    function: &str,
    instance: *const c_char,
    find: impl FnOnce(&Runtime, &str) -> Result<Option<Binder>, Error>,
) -> *mut AIBinder {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { name_of(instance) }) else { return std::ptr::null_mut() };
    let found = runtime().and_then(|runtime| find(&runtime, name).map_err(|error| error.to_string()));
    match found {
        Ok(Some(binder)) => AIBinder::give(AIBinder::of(binder)),
        Ok(None) => std::ptr::null_mut(),
        Err(why) => {
            complain(function, name, &why);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_checkService(instance: *const c_char) -> *mut AIBinder {
    // SAFETY: the header's promise.
    unsafe {
        look_up("AServiceManager_checkService", instance, |runtime, name| runtime.services().check(name))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_getService(instance: *const c_char) -> *mut AIBinder {
    // SAFETY: the header's promise.
    unsafe {
        look_up("AServiceManager_getService", instance, |runtime, name| {
            runtime.services().wait_for(name, LONGEST_WAIT).map(Some)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_waitForService(instance: *const c_char) -> *mut AIBinder {
    // SAFETY: the header's promise.
    let Some(name) = (unsafe { name_of(instance) }) else { return std::ptr::null_mut() };
    let mut has_complained = false;
    loop {
        let why = match runtime().map(|runtime| runtime.services().wait_for(name, LOOK_AGAIN)) {
            Ok(Ok(binder)) => return AIBinder::give(AIBinder::of(binder)),
            // These stay as they are, however long one waits.
            Ok(Err(error @ (Error::PermissionDenied(_) | Error::Status(_)))) => {
                complain("AServiceManager_waitForService", name, &error);
                return std::ptr::null_mut();
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error,
        };
        if !std::mem::replace(&mut has_complained, true) {
            complain("AServiceManager_waitForService", name, &format!("{why}; it waits on"));
        }
        std::thread::sleep(WITHOUT_MANAGER);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_isDeclared(instance: *const c_char) -> bool {
    // SAFETY: the header's promise.
    let Some(name) = (unsafe { name_of(instance) }) else { return false };
    runtime().is_ok_and(|runtime| runtime.services().is_declared(name).unwrap_or_default())
}

pub type AServiceManager_onRegister = Option<
    unsafe extern "C-unwind" fn(instance: *const c_char, registered: *mut AIBinder, cookie: *mut c_void),
>;

/// Somebody who hears of registrations.
pub struct AServiceManager_NotificationRegistration {
    _watch: Watch,
    // False once it was deleted: whoever deletes it waits for one that runs.
    listens: Arc<Mutex<bool>>,
}

struct Cookie(*mut c_void);

// SAFETY: the header says that any thread may call the function with its cookie.
unsafe impl Send for Cookie {}
// SAFETY: as above.
unsafe impl Sync for Cookie {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_registerForServiceNotifications(
    instance: *const c_char,
    on_register: AServiceManager_onRegister,
    cookie: *mut c_void,
) -> *mut AServiceManager_NotificationRegistration {
    // SAFETY: the header's promise.
    let (Some(name), Some(on_register)) = (unsafe { name_of(instance) }, on_register) else {
        return std::ptr::null_mut();
    };
    let cookie = Cookie(cookie);
    let listens = Arc::new(Mutex::new(true));
    let is_heard = Arc::clone(&listens);
    let callback = move |name: &str, binder: Binder| {
        let cookie = &cookie;
        let Ok(name) = CString::new(name) else { return };
        let object = AIBinder::of(binder);
        let listens = crate::locked::lock(&is_heard);
        if *listens {
            // SAFETY: as whoever registered it said; the name is held until it returns, and the reference is its own.
            unsafe { on_register(name.as_ptr(), AIBinder::give(object), cookie.0) };
        }
    };
    let watch = runtime().and_then(|runtime| {
        runtime.services().on_registration(name, callback).map_err(|error| error.to_string())
    });
    match watch {
        Ok(watch) => {
            Box::into_raw(Box::new(AServiceManager_NotificationRegistration { _watch: watch, listens }))
        }
        Err(why) => {
            complain("AServiceManager_registerForServiceNotifications", name, &why);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AServiceManager_NotificationRegistration_delete(
    registration: *mut AServiceManager_NotificationRegistration,
) {
    if !registration.is_null() {
        // SAFETY: made by `Box::into_raw`, and nobody uses it afterwards.
        let registration = unsafe { Box::from_raw(registration) };
        *crate::locked::lock(&registration.listens) = false;
    }
}

/// Calls `callback` with each instance of an interface that the policy file names.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AServiceManager_forEachDeclaredInstance(
    interface: *const c_char,
    context: *mut c_void,
    callback: Option<unsafe extern "C-unwind" fn(instance: *const c_char, context: *mut c_void)>,
) {
    // SAFETY: the header's promise.
    let (Some(interface), Some(callback)) = (unsafe { name_of(interface) }, callback) else { return };
    let found = runtime().and_then(|runtime| {
        runtime.services().declared_instances(interface).map_err(|error| error.to_string())
    });
    match found {
        // A name with a zero in it is none.
        Ok(found) => {
            found.into_iter().filter_map(|instance| CString::new(instance).ok()).for_each(|instance| {
                // SAFETY: as whoever gave it said; the name lives until it returns.
                unsafe { callback(instance.as_ptr(), context) };
            })
        }
        Err(why) => complain("AServiceManager_forEachDeclaredInstance", interface, &why),
    }
}

/// Nothing is updated through an APEX here.
#[unsafe(no_mangle)]
pub extern "C" fn AServiceManager_isUpdatableViaApex(_: *const c_char) -> bool {
    false
}

/// As above: `callback` is never called.
#[unsafe(no_mangle)]
pub extern "C" fn AServiceManager_getUpdatableApexName(
    _: *const c_char,
    _: *mut c_void,
    _: Option<unsafe extern "C-unwind" fn(*const c_char, *mut c_void)>,
) {
}
