//! `AIBinder_Class`: what objects of one interface have in common.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use handoff_ipc::InterfaceId;

use crate::object::AIBinder;
use crate::parcel::AParcel;
use crate::status::{STATUS_OK, binder_status_t};

pub type transaction_code_t = u32;

pub type AIBinder_Class_onCreate = Option<unsafe extern "C-unwind" fn(args: *mut c_void) -> *mut c_void>;
pub type AIBinder_Class_onDestroy = Option<unsafe extern "C-unwind" fn(user_data: *mut c_void)>;
pub type AIBinder_Class_onTransact = Option<OnTransact>;
pub type AIBinder_onDump = Option<OnDump>;
pub type AIBinder_handleShellCommand = Option<HandleShellCommand>;

pub(crate) type OnTransact = unsafe extern "C-unwind" fn(
    binder: *mut AIBinder,
    code: transaction_code_t,
    data: *const AParcel,
    reply: *mut AParcel,
) -> binder_status_t;
pub(crate) type OnDump = unsafe extern "C-unwind" fn(
    binder: *mut AIBinder,
    fd: c_int,
    args: *mut *const c_char,
    count: u32,
) -> binder_status_t;

pub(crate) type HandleShellCommand = unsafe extern "C-unwind" fn(
    binder: *mut AIBinder,
    input: c_int,
    output: c_int,
    error: c_int,
    args: *mut *const c_char,
    count: u32,
) -> binder_status_t;

/// An interface, and the functions that serve its objects. It lives as long as the process.
pub struct AIBinder_Class {
    pub(crate) descriptor: CString,
    pub(crate) interface: InterfaceId,
    pub(crate) on_create: unsafe extern "C-unwind" fn(args: *mut c_void) -> *mut c_void,
    pub(crate) on_destroy: unsafe extern "C-unwind" fn(user_data: *mut c_void),
    pub(crate) on_transact: OnTransact,
    pub(crate) on_dump: OnceLock<OnDump>,
    pub(crate) handle_shell_command: OnceLock<HandleShellCommand>,
    function_names: OnceLock<Vec<CString>>,
    /// It was said that an object is not of this class.
    pub(crate) has_complained: AtomicBool,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_define(
    descriptor: *const c_char,
    on_create: AIBinder_Class_onCreate,
    on_destroy: AIBinder_Class_onDestroy,
    on_transact: AIBinder_Class_onTransact,
) -> *mut AIBinder_Class {
    let (Some(on_create), Some(on_destroy), Some(on_transact)) = (on_create, on_destroy, on_transact) else {
        return std::ptr::null_mut();
    };
    if descriptor.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: not null, and a string by the header's promise.
    let descriptor = unsafe { CStr::from_ptr(descriptor) }.to_owned();
    let Ok(name) = descriptor.to_str() else { return std::ptr::null_mut() };
    let interface = InterfaceId::interned(name);
    let class = AIBinder_Class {
        descriptor,
        interface,
        on_create,
        on_destroy,
        on_transact,
        on_dump: OnceLock::new(),
        handle_shell_command: OnceLock::new(),
        function_names: OnceLock::new(),
        has_complained: AtomicBool::new(false),
    };
    Box::into_raw(Box::new(class))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_setOnDump(class: *mut AIBinder_Class, on_dump: AIBinder_onDump) {
    // SAFETY: the header's promise: null or a class, which lives for ever.
    if let (Some(class), Some(on_dump)) = (unsafe { class.as_ref() }, on_dump) {
        // The first one stays: objects may be dumped already.
        let _ = class.on_dump.set(on_dump);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_setHandleShellCommand(
    class: *mut AIBinder_Class,
    handle: AIBinder_handleShellCommand,
) {
    // SAFETY: as above.
    if let (Some(class), Some(handle)) = (unsafe { class.as_ref() }, handle) {
        // The first one stays: objects may be given commands already.
        let _ = class.handle_shell_command.set(handle);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_getDescriptor(class: *const AIBinder_Class) -> *const c_char {
    // SAFETY: as above.
    unsafe { class.as_ref() }.map_or(std::ptr::null(), |class| class.descriptor.as_ptr())
}

/// No parcel has a header here that could be left out: the engine says which interface is meant.
#[unsafe(no_mangle)]
pub extern "C" fn AIBinder_Class_disableInterfaceTokenHeader(_: *mut AIBinder_Class) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_setTransactionCodeToFunctionNameMap(
    class: *mut AIBinder_Class,
    names: *mut *const c_char,
    length: usize,
) -> binder_status_t {
    // SAFETY: as above.
    let Some(class) = (unsafe { class.as_ref() }) else { return crate::status::STATUS_UNEXPECTED_NULL };
    if names.is_null() {
        return crate::status::STATUS_UNEXPECTED_NULL;
    }
    // SAFETY: so many strings by the header's promise.
    let name = |index| unsafe { CStr::from_ptr(*names.add(index)) }.to_owned();
    match class.function_names.set((0..length).map(name).collect()) {
        Ok(()) => STATUS_OK,
        Err(_) => crate::status::STATUS_INVALID_OPERATION,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AIBinder_Class_getFunctionName(
    class: *const AIBinder_Class,
    code: transaction_code_t,
) -> *const c_char {
    // SAFETY: as above.
    let names = unsafe { class.as_ref() }.and_then(|class| class.function_names.get());
    let index = usize::try_from(code).ok().and_then(|code| code.checked_sub(1));
    let name = names.zip(index).and_then(|(names, index)| names.get(index));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}
