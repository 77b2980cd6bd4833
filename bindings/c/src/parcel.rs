//! Parcels for C: values in Android's layout, written and read one after the other.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};

use handoff_ipc::parcel::{Parcel, Parcelable, SharedBytes};

use crate::calls::{borrow, handoff_object};
use crate::{BoxResult, answer, text};

/// The data of a call or a reply, with objects and file descriptors. Values are read in the order in which they were written.
#[allow(non_camel_case_types)] // A C name.
pub struct handoff_parcel(pub(crate) Parcel);

/// What a pointer of C means.
///
/// # Safety
///
/// `parcel` is null, or comes from this library and is used by nobody else meanwhile.
pub(crate) unsafe fn parcel<'a>(parcel: *mut handoff_parcel) -> BoxResult<&'a mut Parcel> {
    // SAFETY: the caller's promise.
    unsafe { parcel.as_mut() }.map(|parcel| &mut parcel.0).ok_or_else(|| "a parcel is missing".into())
}

/// A parcel with nothing in it.
#[unsafe(no_mangle)]
pub extern "C" fn handoff_parcel_new() -> *mut handoff_parcel {
    Box::into_raw(Box::new(handoff_parcel(Parcel::new())))
}

/// Frees a parcel. Null is ignored.
///
/// # Safety
///
/// `freed` is null, or comes from [`handoff_parcel_new`] and was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_parcel_free(freed: *mut handoff_parcel) {
    if !freed.is_null() {
        // SAFETY: made by `Box::into_raw`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(freed) });
    }
}

/// Bytes of the parcel that were not read yet.
///
/// # Safety
///
/// `from` is null or a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_parcel_remaining(from: *mut handoff_parcel) -> usize {
    // SAFETY: the caller's promise.
    unsafe { parcel(from) }.map_or(0, |parcel| parcel.remaining())
}

/// # Safety
/// As [`parcel`].
unsafe fn write<T: Parcelable>(to: *mut handoff_parcel, value: T) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        unsafe { parcel(to) }?.write(|to| to.write(&value))?;
        Ok(0)
    })
}

/// # Safety
/// As [`parcel`]; `value` is null or has room for one.
unsafe fn read<T: Parcelable>(from: *mut handoff_parcel, value: *mut T) -> c_int {
    answer(|| {
        if value.is_null() {
            return Err("the place for the value is missing".into());
        }
        // SAFETY: the caller's promise.
        let found = unsafe { parcel(from) }?.read(|from| from.read::<T>())?;
        // SAFETY: there is room for one, by the caller's promise.
        unsafe { value.write(found) };
        Ok(0)
    })
}

/// Adds a `boolean`. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_bool(to: *mut handoff_parcel, value: bool) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write(to, value) }
}

/// Reads a `boolean`. Gives 0; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel, `value` has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_bool(from: *mut handoff_parcel, value: *mut bool) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { read(from, value) }
}

/// Adds an `int`. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_i32(to: *mut handoff_parcel, value: i32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write(to, value) }
}

/// Reads an `int`. Gives 0; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel, `value` has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_i32(from: *mut handoff_parcel, value: *mut i32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { read(from, value) }
}

/// Adds a `long`. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_i64(to: *mut handoff_parcel, value: i64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write(to, value) }
}

/// Reads a `long`. Gives 0; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel, `value` has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_i64(from: *mut handoff_parcel, value: *mut i64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { read(from, value) }
}

/// Adds a `double`. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_f64(to: *mut handoff_parcel, value: f64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write(to, value) }
}

/// Reads a `double`. Gives 0; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel, `value` has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_f64(from: *mut handoff_parcel, value: *mut f64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { read(from, value) }
}

/// Adds a `String`, which travels in UTF-16. Gives 0; -1 on failure, as if it is no UTF-8.
///
/// # Safety
///
/// `to` is a parcel, `value` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_string(to: *mut handoff_parcel, value: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let (to, value) = unsafe { (parcel(to)?, text(value)?) };
        to.write(|to| to.write_string16(value))?;
        Ok(0)
    })
}

/// Adds a `byte[]`. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel; `bytes` has `size` bytes, or is null with a size of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_bytes(
    to: *mut handoff_parcel,
    bytes: *const u8,
    size: usize,
) -> c_int {
    answer(|| {
        if bytes.is_null() && size > 0 {
            return Err("the bytes are missing".into());
        }
        let bytes = if size == 0 {
            &[]
        } else {
            // SAFETY: not null, and so many bytes by the caller's promise.
            unsafe { std::slice::from_raw_parts(bytes, size) }
        };
        // SAFETY: the caller's promise.
        unsafe { parcel(to) }?.write(|to| to.write_bytes(bytes))?;
        Ok(0)
    })
}

/// Gives bytes to C if there is room, with a zero after them where `ends`; else the read is undone.
///
/// # Safety
///
/// As [`parcel`]; `buffer` has room for `size` bytes, or is null with a size of 0.
unsafe fn give(
    from: *mut handoff_parcel,
    buffer: *mut u8,
    size: usize,
    ends: bool,
    read: impl FnOnce(&mut Parcel) -> handoff_ipc::Result<Vec<u8>>,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let from = unsafe { parcel(from) }?;
        let mut rest = from.clone();
        let bytes = read(&mut rest)?;
        let needed = bytes.len() + usize::from(ends);
        if (buffer.is_null() && needed > 0) || needed > size {
            return Err(format!("the value needs {needed} bytes; there is room for {size}").into());
        }
        // SAFETY: there is room for the bytes and the zero after them, and they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer, bytes.len());
            if ends {
                buffer.add(bytes.len()).write(0);
            }
        }
        *from = rest;
        Ok(c_int::try_from(bytes.len())?)
    })
}

/// Reads a `String` as UTF-8, with a zero after it. Gives its length; -1 if the parcel holds none, or if it does not
/// fit: then it can be read again, into [`handoff_parcel_remaining`] times 3 and 1 bytes at the most.
///
/// # Safety
///
/// `from` is a parcel; `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_string(
    from: *mut handoff_parcel,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    let read = |from: &mut Parcel| from.read(|from| from.read::<String>()).map(String::into_bytes);
    // SAFETY: the caller's promise.
    unsafe { give(from, buffer.cast(), size, true, read) }
}

/// Reads a `byte[]`. Gives its length; -1 if the parcel holds none, or if it does not fit: then it can be read
/// again, into [`handoff_parcel_remaining`] bytes at the most.
///
/// # Safety
///
/// `from` is a parcel; `buffer` has room for `size` bytes, or is null with a size of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_bytes(
    from: *mut handoff_parcel,
    buffer: *mut u8,
    size: usize,
) -> c_int {
    let bytes = |bytes: SharedBytes<'_>| bytes.to_vec();
    let read = |from: &mut Parcel| from.read(|from| from.read_bytes().map(bytes));
    // SAFETY: the caller's promise.
    unsafe { give(from, buffer, size, false, read) }
}

/// Adds a reference to an object (`IBinder`, an interface); null is one to none. Gives 0; -1 on failure.
///
/// # Safety
///
/// `to` is a parcel; `object` is null or a reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_object(
    to: *mut handoff_parcel,
    object: *const handoff_object,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let object = if object.is_null() { None } else { Some(&unsafe { borrow(object, "the object") }?.0) };
        // SAFETY: the caller's promise.
        unsafe { parcel(to) }?.write(|to| to.write_binder(object))?;
        Ok(0)
    })
}

/// Reads a reference, which is to be given back with `handoff_object_free`; null is put where a reference to no object
/// came. Gives 0; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel, `object` has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_object(
    from: *mut handoff_parcel,
    object: *mut *mut handoff_object,
) -> c_int {
    answer(|| {
        if object.is_null() {
            return Err("the place for the object is missing".into());
        }
        // SAFETY: the caller's promise.
        let found = unsafe { parcel(from) }?.read(|from| from.read_binder())?;
        let found =
            found.map_or(std::ptr::null_mut(), |binder| Box::into_raw(Box::new(handoff_object(binder))));
        // SAFETY: there is room for one, by the caller's promise.
        unsafe { object.write(found) };
        Ok(0)
    })
}

/// Adds a `ParcelFileDescriptor`: the parcel has a copy of the descriptor, which stays the caller's. Gives 0; -1 on
/// failure.
///
/// # Safety
///
/// `to` is a parcel; `fd` stays open until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_write_fd(to: *mut handoff_parcel, fd: c_int) -> c_int {
    answer(|| {
        if fd < 0 {
            return Err(format!("{fd} is no file descriptor").into());
        }
        // SAFETY: not negative, and open by the caller's promise.
        let copy: OwnedFd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        // SAFETY: the caller's promise.
        unsafe { parcel(to) }?.write(|to| to.write(&copy))?;
        Ok(0)
    })
}

/// Reads a `ParcelFileDescriptor`. Gives a descriptor that is the caller's to close; -1 if the parcel holds none.
///
/// # Safety
///
/// `from` is a parcel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_read_fd(from: *mut handoff_parcel) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { parcel(from) }?.read(|from| from.read::<OwnedFd>())?;
        Ok(found.into_raw_fd())
    })
}
