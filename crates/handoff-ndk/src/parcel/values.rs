//! Single numbers and texts.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use super::{AParcel, StatusResult, outcome, readable, writable};
use crate::status::{STATUS_BAD_VALUE, STATUS_NO_MEMORY, STATUS_UNEXPECTED_NULL, binder_status_t};

/// A pair of functions for a type of number, as it stands alone in a parcel.
macro_rules! number {
    ($write:ident, $read:ident, $type:ty, $wire:ty) => {
        number!($write, $read, $type, $wire, |value| value as $wire, |wire| wire as $type);
    };
    ($write:ident, $read:ident, $type:ty, $wire:ty, $to:expr, $from:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $write(parcel: *mut AParcel, value: $type) -> binder_status_t {
            let to: fn($type) -> $wire = $to;
            // SAFETY: the header's promise.
            outcome(unsafe { writable(parcel) }.and_then(|parcel| parcel.put_array(to(value).to_le_bytes())))
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(parcel: *const AParcel, value: *mut $type) -> binder_status_t {
            let from: fn($wire) -> $type = $from;
            // SAFETY: the header's promise.
            let read = unsafe { readable(parcel) }.and_then(|parcel| parcel.take_array());
            let read = read.map(|raw| {
                // SAFETY: there is room for one, by the header's promise.
                unsafe { value.write(from(<$wire>::from_le_bytes(raw))) }
            });
            outcome(read)
        }
    };
}

number!(AParcel_writeInt32, AParcel_readInt32, i32, i32);
number!(AParcel_writeUint32, AParcel_readUint32, u32, u32);
number!(AParcel_writeInt64, AParcel_readInt64, i64, i64);
number!(AParcel_writeUint64, AParcel_readUint64, u64, u64);
number!(AParcel_writeFloat, AParcel_readFloat, f32, f32);
number!(AParcel_writeDouble, AParcel_readDouble, f64, f64);
number!(AParcel_writeBool, AParcel_readBool, bool, i32, i32::from, |wire| wire != 0);
number!(AParcel_writeChar, AParcel_readChar, u16, i32);
number!(AParcel_writeByte, AParcel_readByte, i8, i32);

pub type AParcel_stringAllocator =
    Option<unsafe extern "C-unwind" fn(data: *mut c_void, length: i32, buffer: *mut *mut c_char) -> bool>;

/// A text of C: null with a length of -1, or so many bytes, which need not end in a zero.
///
/// # Safety
/// `text` is null or has `length` bytes.
pub(super) unsafe fn text<'a>(text: *const c_char, length: i32) -> StatusResult<Option<&'a str>> {
    if text.is_null() {
        return if length == -1 || length == 0 { Ok(None) } else { Err(STATUS_BAD_VALUE) };
    }
    let length = usize::try_from(length).map_err(|_| STATUS_BAD_VALUE)?;
    // SAFETY: so many bytes by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    std::str::from_utf8(bytes).map(Some).map_err(|_| STATUS_BAD_VALUE)
}

/// Hands a text, or null, to C, which says where it is to go: with a zero behind it.
///
/// # Safety
/// What `allocate` gives has room for as many bytes as it is asked for.
pub(super) unsafe fn hand_over(
    text: Option<&str>,
    allocate: impl FnOnce(i32, *mut *mut c_char) -> bool,
) -> StatusResult<()> {
    let Some(text) = text else {
        return if allocate(-1, std::ptr::null_mut()) { Ok(()) } else { Err(STATUS_UNEXPECTED_NULL) };
    };
    let size = i32::try_from(text.len() + 1).map_err(|_| STATUS_NO_MEMORY)?;
    let mut buffer = std::ptr::null_mut();
    if !allocate(size, &raw mut buffer) || buffer.is_null() {
        return Err(STATUS_NO_MEMORY);
    }
    // SAFETY: room for `size` bytes, the text and a zero, by the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_writeString(
    parcel: *mut AParcel,
    string: *const c_char,
    length: i32,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let write = unsafe { text(string, length) }
        .and_then(|text| unsafe { writable(parcel) }.and_then(|parcel| parcel.put_string(text)));
    outcome(write)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AParcel_readString(
    parcel: *const AParcel,
    data: *mut c_void,
    allocator: AParcel_stringAllocator,
) -> binder_status_t {
    let read = || {
        let allocator = allocator.ok_or(STATUS_UNEXPECTED_NULL)?;
        // SAFETY: the header's promise.
        let text = unsafe { readable(parcel) }?.take_string()?;
        // SAFETY: the allocator gives room, by the header's promise.
        unsafe { hand_over(text.as_deref(), |length, buffer| allocator(data, length, buffer)) }
    };
    outcome(read())
}
