//! Arrays: C brings the memory, or is asked for it.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use handoff_ipc::parcel::SharedBytes;

use super::values::{hand_over, text};
use super::{AParcel, StatusResult, outcome, readable, writable};
use crate::status::{STATUS_BAD_VALUE, STATUS_NO_MEMORY, STATUS_OK, STATUS_UNEXPECTED_NULL, binder_status_t};

/// How many items follow a length, of which -1 says null; so does no memory, unless it is said to hold nothing.
#[inline]
fn count_of(is_null: bool, length: i32) -> StatusResult<usize> {
    if length < -1 || (is_null && length > 0) {
        return Err(STATUS_BAD_VALUE);
    }
    Ok(usize::try_from(length).unwrap_or_default())
}

/// Writes a length; gives how many items follow.
fn put_length(parcel: &mut AParcel, is_null: bool, length: i32) -> StatusResult<usize> {
    let count = count_of(is_null, length)?;
    parcel.put_i32(length)?;
    Ok(count)
}

/// Has C make room for so many items, or for null; gives where to put them.
fn room<T>(
    count: Option<usize>,
    allocate: impl FnOnce(i32, *mut *mut T) -> bool,
) -> StatusResult<Option<*mut T>> {
    let Some(count) = count else {
        return if allocate(-1, std::ptr::null_mut()) { Ok(None) } else { Err(STATUS_UNEXPECTED_NULL) };
    };
    let mut buffer = std::ptr::null_mut();
    let length = i32::try_from(count).map_err(|_| STATUS_BAD_VALUE)?;
    if !allocate(length, &raw mut buffer) || (count > 0 && buffer.is_null()) {
        return Err(STATUS_NO_MEMORY);
    }
    Ok((count > 0).then_some(buffer))
}

/// Not of Android: the templates call it before they make room for as many items as a parcel says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_AParcel_makeRoom(
    parcel: *const AParcel,
    count: i32,
    size: usize,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let made = unsafe { readable(parcel) }.and_then(|parcel| {
        let count = usize::try_from(count).map_err(|_| STATUS_UNEXPECTED_NULL)?;
        let mut room = parcel.room.get();
        let fits = room.take(count, size, parcel.bytes().len());
        parcel.room.set(room);
        if fits { Ok(()) } else { Err(STATUS_NO_MEMORY) }
    });
    outcome(made)
}

/// Not of Android: the templates make vectors of bytes from where they stand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn handoff_AParcel_takeBytes(
    parcel: *const AParcel,
    bytes: *mut *const c_void,
    length: *mut i32,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let taken = unsafe { readable(parcel) }.and_then(|parcel| {
        let items = parcel.take_items(1)?;
        // Its count was one.
        let count = items.map_or(-1, |items| items.len() as i32);
        // SAFETY: as above: there is room for a pointer and a length.
        unsafe {
            bytes.write(items.map_or(std::ptr::null(), |items| items.as_ptr().cast()));
            length.write(count);
        }
        Ok(())
    });
    outcome(taken)
}

/// A pair of functions for arrays of numbers that stand in a parcel as they do in memory.
macro_rules! packed {
    ($write:ident, $read:ident, $allocator:ident, $type:ty) => {
        pub type $allocator = Option<
            unsafe extern "C-unwind" fn(data: *mut c_void, length: i32, buffer: *mut *mut $type) -> bool,
        >;

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $write(
            parcel: *mut AParcel,
            data: *const $type,
            length: i32,
        ) -> binder_status_t {
            // SAFETY: the header's promise.
            let write = unsafe { writable(parcel) }.and_then(|parcel| {
                let size = count_of(data.is_null(), length)? * size_of::<$type>();
                let bytes = if size == 0 {
                    &[][..]
                } else {
                    // SAFETY: `length` items by the header's promise; numbers are bytes, and have no padding.
                    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
                };
                parcel.put_items(length, bytes)
            });
            outcome(write)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $read(
            parcel: *const AParcel,
            data: *mut c_void,
            allocator: $allocator,
        ) -> binder_status_t {
            let read = || {
                let allocator = allocator.ok_or(STATUS_UNEXPECTED_NULL)?;
                // SAFETY: the header's promise.
                let parcel = unsafe { readable(parcel) }?;
                let items = parcel.take_items(size_of::<$type>())?;
                let count = items.map(|items| items.len() / size_of::<$type>());
                // SAFETY: as above.
                let buffer = room(count, |length, buffer| unsafe { allocator(data, length, buffer) })?;
                if let Some((buffer, items)) = buffer.zip(items) {
                    // SAFETY: there is room for so many items by the header's promise; any bytes are numbers.
                    unsafe { SharedBytes::from_slice(items).copy_to_raw(buffer.cast()) };
                }
                Ok(())
            };
            outcome(read())
        }
    };
}

// What is in memory is what travels.
const _: () = assert!(cfg!(target_endian = "little"));

packed!(AParcel_writeInt32Array, AParcel_readInt32Array, AParcel_int32ArrayAllocator, i32);
packed!(AParcel_writeUint32Array, AParcel_readUint32Array, AParcel_uint32ArrayAllocator, u32);
packed!(AParcel_writeInt64Array, AParcel_readInt64Array, AParcel_int64ArrayAllocator, i64);
packed!(AParcel_writeUint64Array, AParcel_readUint64Array, AParcel_uint64ArrayAllocator, u64);
packed!(AParcel_writeFloatArray, AParcel_readFloatArray, AParcel_floatArrayAllocator, f32);
packed!(AParcel_writeDoubleArray, AParcel_readDoubleArray, AParcel_doubleArrayAllocator, f64);
packed!(AParcel_writeByteArray, AParcel_readByteArray, AParcel_byteArrayAllocator, i8);

pub type AParcel_charArrayAllocator =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, length: i32, buffer: *mut *mut u16) -> bool>;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_writeCharArray(
    parcel: *mut AParcel,
    data: *const u16,
    length: i32,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let write = unsafe { writable(parcel) }.and_then(|parcel| {
        let count = put_length(parcel, data.is_null(), length)?;
        // SAFETY: `length` items by the header's promise.
        (0..count).try_for_each(|index| parcel.put_i32(unsafe { *data.add(index) }.into()))
    });
    outcome(write)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_readCharArray(
    parcel: *const AParcel,
    data: *mut c_void,
    allocator: AParcel_charArrayAllocator,
) -> binder_status_t {
    let read = || {
        let allocator = allocator.ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }?;
        let count = parcel.take_count(4)?;
        // SAFETY: as above.
        let Some(buffer) = room(count, |length, buffer| unsafe { allocator(data, length, buffer) })? else {
            return Ok(());
        };
        for index in 0..count.unwrap_or_default() {
            // SAFETY: there is room for so many items, by the header's promise.
            unsafe { buffer.add(index).write(parcel.take_i32()? as u16) };
        }
        Ok(())
    };
    outcome(read())
}

pub type AParcel_boolArrayGetter =
    Option<unsafe extern "C-unwind" fn(data: *const c_void, index: usize) -> bool>;
pub type AParcel_boolArrayAllocator =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, length: i32) -> bool>;
pub type AParcel_boolArraySetter =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, index: usize, value: bool)>;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_writeBoolArray(
    parcel: *mut AParcel,
    data: *const c_void,
    length: i32,
    getter: AParcel_boolArrayGetter,
) -> binder_status_t {
    let write = || {
        let getter = getter.ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let parcel = unsafe { writable(parcel) }?;
        let count = put_length(parcel, false, length)?;
        // SAFETY: as above.
        (0..count).try_for_each(|index| parcel.put_i32(unsafe { getter(data, index) }.into()))
    };
    outcome(write())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_readBoolArray(
    parcel: *const AParcel,
    data: *mut c_void,
    allocator: AParcel_boolArrayAllocator,
    setter: AParcel_boolArraySetter,
) -> binder_status_t {
    let read = || {
        let (allocator, setter) = allocator.zip(setter).ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }?;
        // SAFETY: as above.
        let count = items(parcel.take_count(4)?, |length| unsafe { allocator(data, length) })?;
        for index in 0..count {
            let value = parcel.take_i32()? != 0;
            // SAFETY: as above.
            unsafe { setter(data, index, value) };
        }
        Ok(())
    };
    outcome(read())
}

/// Has C make room for items that it takes one by one; gives how many come.
fn items(count: Option<usize>, allocate: impl FnOnce(i32) -> bool) -> StatusResult<usize> {
    let length = count.map_or(Ok(-1), i32::try_from).map_err(|_| STATUS_BAD_VALUE)?;
    match (allocate(length), count) {
        (true, count) => Ok(count.unwrap_or_default()),
        (false, None) => Err(STATUS_UNEXPECTED_NULL),
        (false, Some(_)) => Err(STATUS_NO_MEMORY),
    }
}

pub type AParcel_stringArrayElementGetter =
    Option<unsafe extern "C-unwind" fn(data: *const c_void, index: usize, length: *mut i32) -> *const c_char>;
pub type AParcel_stringArrayAllocator =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, length: i32) -> bool>;
pub type AParcel_stringArrayElementAllocator = Option<
    unsafe extern "C-unwind" fn(
        data: *mut c_void,
        index: usize,
        length: i32,
        buffer: *mut *mut c_char,
    ) -> bool,
>;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_writeStringArray(
    parcel: *mut AParcel,
    data: *const c_void,
    length: i32,
    getter: AParcel_stringArrayElementGetter,
) -> binder_status_t {
    let write = || {
        let getter = getter.ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let parcel = unsafe { writable(parcel) }?;
        for index in 0..put_length(parcel, false, length)? {
            let mut length = 0;
            // SAFETY: the header's promise: a text that stays until the next is asked for.
            let string = unsafe { getter(data, index, &raw mut length) };
            // SAFETY: as above.
            parcel.put_string(unsafe { text(string, length) }?)?;
        }
        Ok(())
    };
    outcome(write())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_readStringArray(
    parcel: *const AParcel,
    data: *mut c_void,
    allocator: AParcel_stringArrayAllocator,
    element: AParcel_stringArrayElementAllocator,
) -> binder_status_t {
    let read = || {
        let (allocator, element) = allocator.zip(element).ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }?;
        // SAFETY: as above.
        let count = items(parcel.take_count(4)?, |length| unsafe { allocator(data, length) })?;
        for index in 0..count {
            let text = parcel.take_string()?;
            // SAFETY: the allocator gives room, by the header's promise.
            unsafe {
                hand_over(text.as_deref(), |length, buffer| element(data, index, length, buffer))?;
            }
        }
        Ok(())
    };
    outcome(read())
}

pub type AParcel_writeParcelableElement = Option<
    unsafe extern "C-unwind" fn(parcel: *mut AParcel, data: *const c_void, index: usize) -> binder_status_t,
>;
pub type AParcel_parcelableArrayAllocator =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, length: i32) -> bool>;
pub type AParcel_readParcelableElement = Option<
    unsafe extern "C-unwind" fn(parcel: *const AParcel, data: *mut c_void, index: usize) -> binder_status_t,
>;

fn checked(status: binder_status_t) -> StatusResult<()> {
    if status == STATUS_OK { Ok(()) } else { Err(status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_writeParcelableArray(
    parcel: *mut AParcel,
    data: *const c_void,
    length: i32,
    element: AParcel_writeParcelableElement,
) -> binder_status_t {
    let write = || {
        let element = element.ok_or(STATUS_UNEXPECTED_NULL)?;
        // No reference is held while C writes to the parcel.
        // SAFETY: the header's promise.
        let count = put_length(unsafe { writable(parcel) }?, false, length)?;
        // SAFETY: as above.
        (0..count).try_for_each(|index| checked(unsafe { element(parcel, data, index) }))
    };
    outcome(write())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_readParcelableArray(
    parcel: *const AParcel,
    data: *mut c_void,
    allocator: AParcel_parcelableArrayAllocator,
    element: AParcel_readParcelableElement,
) -> binder_status_t {
    let read = || {
        let (allocator, element) = allocator.zip(element).ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let count = unsafe { readable(parcel) }?.take_count(4)?;
        // SAFETY: as above.
        let count = items(count, |length| unsafe { allocator(data, length) })?;
        // SAFETY: as above.
        (0..count).try_for_each(|index| checked(unsafe { element(parcel, data, index) }))
    };
    outcome(read())
}
