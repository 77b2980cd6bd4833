//! The exception in front of a reply.
#![allow(unsafe_code)]

use std::ffi::CString;

use super::{AParcel, StatusResult, outcome};
use crate::status::{
    AStatus, EX_NONE, EX_PARCELABLE, EX_SERVICE_SPECIFIC, EX_TRANSACTION_FAILED, STATUS_BAD_VALUE,
    STATUS_FAILED_TRANSACTION, STATUS_OK, STATUS_UNEXPECTED_NULL, binder_status_t, known_exception,
};

/// A reply that begins so has a header of a newer Android, which says how long it is.
const HAS_REPLY_HEADER: i32 = -128;
/// As above: notes about the operations that the call made use of.
const NOTED_APPOPS_REPLY_HEADER: i32 = -127;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_writeStatusHeader(
    parcel: *mut AParcel,
    status: *const AStatus,
) -> binder_status_t {
    // SAFETY: the header's promise: null, or alive and used by nobody else.
    let (Some(parcel), Some(status)) = (unsafe { parcel.as_mut() }, unsafe { status.as_ref() }) else {
        return STATUS_UNEXPECTED_NULL;
    };
    if status.exception == EX_TRANSACTION_FAILED {
        // The transport's failure is the answer; there is no reply.
        return status.code;
    }
    outcome(match status.exception {
        EX_NONE => parcel.put_i32(EX_NONE),
        _ => put_exception(parcel, status),
    })
}

#[cold]
fn put_exception(parcel: &mut AParcel, status: &AStatus) -> StatusResult<()> {
    parcel.put_i32(status.exception)?;
    let message = status.message.as_deref().unwrap_or_default().to_string_lossy();
    parcel.put_string(Some(&message))?;
    parcel.put_i32(0)?; // no stack trace of another machine
    if status.exception == EX_SERVICE_SPECIFIC {
        parcel.put_i32(status.code)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_readStatusHeader(
    parcel: *const AParcel,
    status: *mut *mut AStatus,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let Some(parcel) = (unsafe { parcel.as_ref() }) else { return STATUS_UNEXPECTED_NULL };
    let found = parcel.take_i32().and_then(|first| match first {
        EX_NONE => Ok(AStatus::ok()),
        _ => read_status(parcel, first).map(AStatus::give),
    });
    match found {
        Ok(found) => {
            // SAFETY: the header's promise: there is room for a pointer.
            unsafe { status.write(found) };
            STATUS_OK
        }
        Err(failed) => failed,
    }
}

/// What stands behind an exception or a header.
#[cold]
fn read_status(parcel: &AParcel, mut exception: i32) -> StatusResult<AStatus> {
    if exception == NOTED_APPOPS_REPLY_HEADER {
        parcel.skip_sized()?;
        exception = parcel.take_i32()?;
    }
    if exception == HAS_REPLY_HEADER {
        parcel.skip_sized()?;
        exception = EX_NONE;
    }
    if exception == EX_NONE {
        return Ok(AStatus::default());
    }
    let message = parcel.take_string()?.map(|text| text.replace('\0', " "));
    let trace = parcel.take_i32()?;
    if trace > 4 {
        parcel.take(usize::try_from(trace).map_err(|_| STATUS_BAD_VALUE)? - 4)?;
    }
    let mut code = 0;
    if exception == EX_SERVICE_SPECIFIC {
        code = parcel.take_i32()?;
    } else if exception == EX_PARCELABLE {
        parcel.skip_sized()?;
    }
    let exception = known_exception(exception);
    if exception == EX_TRANSACTION_FAILED {
        code = STATUS_FAILED_TRANSACTION;
    }
    Ok(AStatus { exception, code, message: message.and_then(|text| CString::new(text).ok()) })
}
