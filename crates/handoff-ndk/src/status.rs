//! `AStatus`, and the two kinds of numbers that say what failed: `binder_status_t` of the transport, `binder_exception_t`
//! of a service.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};

use handoff_ipc::Error;

pub type binder_status_t = i32;
pub type binder_exception_t = i32;

pub const STATUS_OK: binder_status_t = 0;
pub const STATUS_UNKNOWN_ERROR: binder_status_t = i32::MIN;
pub const STATUS_NO_MEMORY: binder_status_t = -12;
pub const STATUS_INVALID_OPERATION: binder_status_t = -38;
pub const STATUS_BAD_VALUE: binder_status_t = -22;
pub const STATUS_BAD_TYPE: binder_status_t = i32::MIN + 1;
pub const STATUS_NAME_NOT_FOUND: binder_status_t = -2;
pub const STATUS_PERMISSION_DENIED: binder_status_t = -1;
pub const STATUS_NO_INIT: binder_status_t = -19;
pub const STATUS_ALREADY_EXISTS: binder_status_t = -17;
pub const STATUS_DEAD_OBJECT: binder_status_t = -32;
pub const STATUS_FAILED_TRANSACTION: binder_status_t = i32::MIN + 2;
pub const STATUS_UNKNOWN_TRANSACTION: binder_status_t = -74;
pub const STATUS_WOULD_BLOCK: binder_status_t = -11;
pub const STATUS_TIMED_OUT: binder_status_t = -110;
pub const STATUS_BAD_INDEX: binder_status_t = -75;
pub const STATUS_NOT_ENOUGH_DATA: binder_status_t = -61;
pub const STATUS_FDS_NOT_ALLOWED: binder_status_t = i32::MIN + 7;
pub const STATUS_UNEXPECTED_NULL: binder_status_t = i32::MIN + 8;

pub const EX_NONE: binder_exception_t = 0;
pub const EX_SECURITY: binder_exception_t = -1;
pub const EX_ILLEGAL_ARGUMENT: binder_exception_t = -3;
pub const EX_NULL_POINTER: binder_exception_t = -4;
pub const EX_ILLEGAL_STATE: binder_exception_t = -5;
pub const EX_UNSUPPORTED_OPERATION: binder_exception_t = -7;
pub const EX_SERVICE_SPECIFIC: binder_exception_t = -8;
pub const EX_PARCELABLE: binder_exception_t = -9;
pub const EX_TRANSACTION_FAILED: binder_exception_t = -129;

/// Names of the numbers that callers may see; any other becomes `STATUS_UNKNOWN_ERROR`.
const STATUSES: [(binder_status_t, &str); 19] = [
    (STATUS_OK, "OK"),
    (STATUS_UNKNOWN_ERROR, "UNKNOWN_ERROR"),
    (STATUS_NO_MEMORY, "NO_MEMORY"),
    (STATUS_INVALID_OPERATION, "INVALID_OPERATION"),
    (STATUS_BAD_VALUE, "BAD_VALUE"),
    (STATUS_BAD_TYPE, "BAD_TYPE"),
    (STATUS_NAME_NOT_FOUND, "NAME_NOT_FOUND"),
    (STATUS_PERMISSION_DENIED, "PERMISSION_DENIED"),
    (STATUS_NO_INIT, "NO_INIT"),
    (STATUS_ALREADY_EXISTS, "ALREADY_EXISTS"),
    (STATUS_DEAD_OBJECT, "DEAD_OBJECT"),
    (STATUS_FAILED_TRANSACTION, "FAILED_TRANSACTION"),
    (STATUS_UNKNOWN_TRANSACTION, "UNKNOWN_TRANSACTION"),
    (STATUS_WOULD_BLOCK, "WOULD_BLOCK"),
    (STATUS_TIMED_OUT, "TIMED_OUT"),
    (STATUS_BAD_INDEX, "BAD_INDEX"),
    (STATUS_NOT_ENOUGH_DATA, "NOT_ENOUGH_DATA"),
    (STATUS_FDS_NOT_ALLOWED, "FDS_NOT_ALLOWED"),
    (STATUS_UNEXPECTED_NULL, "UNEXPECTED_NULL"),
];

/// Names of the exceptions; any other becomes `EX_TRANSACTION_FAILED`.
const EXCEPTIONS: [(binder_exception_t, &str); 11] = [
    (EX_NONE, "NONE"),
    (EX_SECURITY, "SECURITY"),
    (-2, "BAD_PARCELABLE"),
    (EX_ILLEGAL_ARGUMENT, "ILLEGAL_ARGUMENT"),
    (EX_NULL_POINTER, "NULL_POINTER"),
    (EX_ILLEGAL_STATE, "ILLEGAL_STATE"),
    (-6, "NETWORK_MAIN_THREAD"),
    (EX_UNSUPPORTED_OPERATION, "UNSUPPORTED_OPERATION"),
    (EX_SERVICE_SPECIFIC, "SERVICE_SPECIFIC"),
    (EX_PARCELABLE, "PARCELABLE"),
    (EX_TRANSACTION_FAILED, "TRANSACTION_FAILED"),
];

fn name(of: &[(i32, &'static str)], number: i32) -> &'static str {
    of.iter().find(|(known, _)| *known == number).map_or("UNKNOWN", |(_, name)| *name)
}

/// The number itself if the NDK has a name for it.
pub(crate) fn known_status(number: i32) -> binder_status_t {
    if STATUSES.iter().any(|(known, _)| *known == number) { number } else { STATUS_UNKNOWN_ERROR }
}

pub(crate) fn known_exception(number: i32) -> binder_exception_t {
    if EXCEPTIONS.iter().any(|(known, _)| *known == number) { number } else { EX_TRANSACTION_FAILED }
}

/// What callers see of a failure of the runtime.
pub(crate) fn status_of(error: &Error) -> binder_status_t {
    known_status(error.to_status_t())
}

/// Whether a call succeeded, and what its service answered if not.
#[derive(Debug, Clone, Default)]
pub struct AStatus {
    pub(crate) exception: binder_exception_t,
    // The transport's status, or the service's own number: as the exception says.
    pub(crate) code: i32,
    pub(crate) message: Option<CString>,
}

/// What nearly every call ends with: one for all of them.
static OK: AStatus = AStatus { exception: EX_NONE, code: STATUS_OK, message: None };

impl AStatus {
    fn of_status(status: binder_status_t) -> Self {
        let code = known_status(status);
        let exception = if code == STATUS_OK { EX_NONE } else { EX_TRANSACTION_FAILED };
        AStatus { exception, code, message: None }
    }

    fn of_exception(exception: binder_exception_t) -> Self {
        match known_exception(exception) {
            EX_TRANSACTION_FAILED => AStatus::of_status(STATUS_FAILED_TRANSACTION),
            exception => AStatus { exception, ..AStatus::default() },
        }
    }

    /// # Safety
    /// `message` is null or a string.
    unsafe fn with_message(mut self, message: *const c_char) -> Self {
        if !message.is_null() {
            // SAFETY: the caller's promise.
            self.message = Some(unsafe { CStr::from_ptr(message) }.to_owned());
        }
        self
    }

    /// The one that all calls share that succeed: nothing changes a status.
    #[inline]
    pub(crate) fn ok() -> *mut AStatus {
        (&raw const OK).cast_mut()
    }

    pub(crate) fn give(self) -> *mut AStatus {
        if self.exception == EX_NONE { AStatus::ok() } else { Box::into_raw(Box::new(self)) }
    }

    fn describe(&self) -> String {
        if self.exception == EX_NONE {
            return "Status(EX_NONE): No error".to_owned();
        }
        let number = match self.exception {
            EX_SERVICE_SPECIFIC => format!("{}", self.code),
            EX_TRANSACTION_FAILED => name(&STATUSES, self.code).to_owned(),
            _ => String::new(),
        };
        let space = if number.is_empty() { "" } else { ", " };
        let exception = name(&EXCEPTIONS, self.exception);
        let message = self.message.as_deref().map(CStr::to_string_lossy).unwrap_or_default();
        format!("Status({}, EX_{exception}{space}{number}): '{message}'", self.exception)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn AStatus_newOk() -> *mut AStatus {
    AStatus::ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn AStatus_fromExceptionCode(exception: binder_exception_t) -> *mut AStatus {
    AStatus::of_exception(exception).give()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_fromExceptionCodeWithMessage(
    exception: binder_exception_t,
    message: *const c_char,
) -> *mut AStatus {
    // SAFETY: the header's promise.
    unsafe { AStatus::of_exception(exception).with_message(message) }.give()
}

#[unsafe(no_mangle)]
pub extern "C" fn AStatus_fromServiceSpecificError(code: i32) -> *mut AStatus {
    AStatus { exception: EX_SERVICE_SPECIFIC, code, message: None }.give()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_fromServiceSpecificErrorWithMessage(
    code: i32,
    message: *const c_char,
) -> *mut AStatus {
    let status = AStatus { exception: EX_SERVICE_SPECIFIC, code, message: None };
    // SAFETY: the header's promise.
    unsafe { status.with_message(message) }.give()
}

#[unsafe(no_mangle)]
pub extern "C" fn AStatus_fromStatus(status: binder_status_t) -> *mut AStatus {
    if status == STATUS_OK { AStatus::ok() } else { AStatus::of_status(status).give() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_isOk(status: *const AStatus) -> bool {
    // SAFETY: the header's promise: a status that is alive.
    unsafe { (*status).exception == EX_NONE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_getExceptionCode(status: *const AStatus) -> binder_exception_t {
    // SAFETY: as above.
    unsafe { (*status).exception }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_getServiceSpecificError(status: *const AStatus) -> i32 {
    // SAFETY: as above.
    let status = unsafe { &*status };
    if status.exception == EX_SERVICE_SPECIFIC { status.code } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_getStatus(status: *const AStatus) -> binder_status_t {
    // SAFETY: as above.
    let status = unsafe { &*status };
    if status.exception == EX_TRANSACTION_FAILED { status.code } else { STATUS_OK }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_getMessage(status: *const AStatus) -> *const c_char {
    // SAFETY: as above; the text lives as long as the status does.
    unsafe { (*status).message.as_deref() }.unwrap_or_default().as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_getDescription(status: *const AStatus) -> *const c_char {
    // SAFETY: as above.
    let text = unsafe { &*status }.describe();
    // A message has no zero in it.
    CString::new(text).unwrap_or_default().into_raw()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_deleteDescription(description: *const c_char) {
    if !description.is_null() {
        // SAFETY: made by `CString::into_raw`, and nobody uses it afterwards.
        drop(unsafe { CString::from_raw(description.cast_mut()) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AStatus_delete(status: *mut AStatus) {
    if !status.is_null() && !std::ptr::eq(status, &raw const OK) {
        // SAFETY: made by `give`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(status) });
    }
}
