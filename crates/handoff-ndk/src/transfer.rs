//! References to objects, and file descriptors, in parcels.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, IntoRawFd as _};
use std::sync::Arc;

use handoff_ipc::parcel::ParcelObject;

use crate::object::{AIBinder, node};
use crate::parcel::{AParcel, outcome, readable, writable};
use crate::status::{
    STATUS_BAD_TYPE, STATUS_BAD_VALUE, STATUS_UNEXPECTED_NULL, STATUS_UNKNOWN_ERROR, binder_status_t,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_writeStrongBinder(
    parcel: *mut AParcel,
    binder: *mut AIBinder,
) -> binder_status_t {
    // SAFETY: the header's promise: null, or a reference that is held meanwhile.
    let write = unsafe { writable(parcel) }.and_then(|parcel| {
        // SAFETY: as above.
        let object = (!binder.is_null()).then(|| unsafe { node(binder) });
        parcel.put_objects(|to| to.write_binder(object.as_ref()))
    });
    outcome(write)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_readStrongBinder(
    parcel: *const AParcel,
    found: *mut *mut AIBinder,
) -> binder_status_t {
    let read = || {
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }?;
        let object = parcel.take_flat()?.cloned();
        parcel.take_i32()?; // stability
        let binder = match object {
            None => std::ptr::null_mut(),
            Some(ParcelObject::Binder(binder)) => AIBinder::give(AIBinder::of(binder)),
            Some(ParcelObject::Fd(_)) => return Err(STATUS_BAD_TYPE),
        };
        // SAFETY: there is room for a pointer, by the header's promise.
        unsafe { found.write(binder) };
        Ok(())
    };
    outcome(read())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_writeParcelFileDescriptor(
    parcel: *mut AParcel,
    fd: c_int,
) -> binder_status_t {
    let write = || {
        // SAFETY: the header's promise.
        let parcel = unsafe { writable(parcel) }?;
        if fd == -1 {
            return parcel.put_i32(0);
        }
        if fd < 0 {
            return Err(STATUS_UNKNOWN_ERROR);
        }
        // SAFETY: not negative, and open by the header's promise; the copy fails if it is not.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let start = parcel.position().get();
        // Not null, and without a status channel.
        parcel.put_i32(1)?;
        parcel.put_i32(0)?;
        parcel.put_objects(|to| to.write_fd(fd)).inspect_err(|_| parcel.position().set(start))
    };
    outcome(write())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_readParcelFileDescriptor(
    parcel: *const AParcel,
    found: *mut c_int,
) -> binder_status_t {
    let read = || {
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }?;
        let mut fd = -1;
        if parcel.take_i32()? != 0 {
            if parcel.take_i32()? != 0 {
                // With a status channel, a second descriptor, which only Java's reliable pipes have.
                return Err(STATUS_BAD_VALUE);
            }
            match parcel.take_flat()? {
                Some(ParcelObject::Fd(kept)) => {
                    let copy = Arc::as_ref(kept).try_clone().map_err(|_| STATUS_UNKNOWN_ERROR)?;
                    fd = copy.into_raw_fd();
                }
                Some(ParcelObject::Binder(_)) => return Err(STATUS_BAD_TYPE),
                None => return Err(STATUS_UNEXPECTED_NULL),
            }
        }
        // SAFETY: there is room for one, by the header's promise.
        unsafe { found.write(fd) };
        Ok(())
    };
    outcome(read())
}
