//! Reads any bytes, and objects between them, as C++ of Android reads a parcel: by any functions, from any position.
//!
//! An input is a list of steps, up to a zero, and then the parcel as a hostile peer would fill it.
#![no_main]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use binder_ndk::binder::{AIBinder, AIBinder_decStrong, AIBinder_isRemote, AIBinder_new};
use binder_ndk::class::{AIBinder_Class, AIBinder_Class_define};
use binder_ndk::parcel::*;
use binder_ndk::status::{AStatus_delete, STATUS_OK, binder_status_t};
use binder_ndk::thread::{AParcel_create, AParcel_delete};
use binder_ndk::transfer::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (steps, data) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    // SAFETY: pointers are of what lives here, and allocators give the room that they are asked for.
    unsafe {
        let parcel = AParcel_create();
        assert_eq!(AParcel_unmarshal(parcel, data.as_ptr(), data.len()), STATUS_OK);
        let mut steps = steps.iter();
        while let Some(step) = steps.next() {
            let number = |steps: &mut std::slice::Iter<'_, u8>| steps.next().map_or(0, |byte| i32::from(*byte));
            match step {
                1 => drop(AParcel_setDataPosition(parcel, number(&mut steps))),
                2 => drop(AParcel_setDataPosition(parcel, number(&mut steps) * 4)),
                3 => {
                    let binder = AIBinder_new(class(), null_mut());
                    AParcel_writeStrongBinder(parcel, binder);
                    AIBinder_decStrong(binder);
                }
                4 => drop(AParcel_writeParcelFileDescriptor(parcel, 0)),
                5 => drop(AParcel_writeInt32(parcel, number(&mut steps))),
                6 => {
                    let other = AParcel_create();
                    AParcel_appendFrom(parcel, other, number(&mut steps), number(&mut steps));
                    AParcel_setDataPosition(other, 0);
                    read(other, number(&mut steps));
                    AParcel_delete(other);
                }
                7 => drop(AParcel_appendFrom(parcel, parcel, number(&mut steps), number(&mut steps))),
                step => read(parcel, i32::from(*step)),
            }
        }
        AParcel_delete(parcel);
    }
});

/// Reads one value, of a kind that the step says.
unsafe fn read(parcel: *mut AParcel, step: i32) {
    macro_rules! number {
        ($read:ident, $zero:expr) => {{
            let mut value = $zero;
            $read(parcel, &raw mut value)
        }};
    }
    macro_rules! array {
        ($read:ident, $type:ty) => {{
            let mut room: Room<$type> = Room::of(parcel);
            $read(parcel, (&raw mut room).cast(), Some(allocate::<$type>))
        }};
    }
    let mut room: Room<u8> = Room::of(parcel);
    let data: *mut c_void = (&raw mut room).cast();
    // SAFETY: as the fuzz target's.
    let status: binder_status_t = unsafe {
        match step % 28 {
            0 => number!(AParcel_readInt32, 0),
            1 => number!(AParcel_readUint32, 0),
            2 => number!(AParcel_readInt64, 0),
            3 => number!(AParcel_readUint64, 0),
            4 => number!(AParcel_readFloat, 0.0),
            5 => number!(AParcel_readDouble, 0.0),
            6 => number!(AParcel_readBool, false),
            7 => number!(AParcel_readChar, 0),
            8 => number!(AParcel_readByte, 0),
            9 => array!(AParcel_readInt32Array, i32),
            10 => array!(AParcel_readUint32Array, u32),
            11 => array!(AParcel_readInt64Array, i64),
            12 => array!(AParcel_readUint64Array, u64),
            13 => array!(AParcel_readFloatArray, f32),
            14 => array!(AParcel_readDoubleArray, f64),
            15 => array!(AParcel_readByteArray, i8),
            16 => array!(AParcel_readCharArray, u16),
            17 => AParcel_readBoolArray(parcel, data, Some(allocate_items), Some(set)),
            18 => AParcel_readString(parcel, data, Some(allocate_text)),
            19 => AParcel_readStringArray(parcel, data, Some(allocate_items), Some(allocate_item)),
            20 => AParcel_readParcelableArray(parcel, data, Some(allocate_items), Some(read_item)),
            21 => {
                let mut found = null_mut();
                let status = AParcel_readStrongBinder(parcel, &raw mut found);
                if status == STATUS_OK && !found.is_null() {
                    assert!(!AIBinder_isRemote(found), "an object came out of nothing");
                    AIBinder_decStrong(found);
                }
                status
            }
            22 => {
                let mut found: c_int = -1;
                let status = AParcel_readParcelFileDescriptor(parcel, &raw mut found);
                if status == STATUS_OK && found != -1 {
                    let file = OwnedFd::from_raw_fd(found);
                    assert!(file.try_clone().is_ok(), "a descriptor came out of nothing");
                }
                status
            }
            23 => {
                let mut found = null_mut();
                let status = AParcel_readStatusHeader(parcel, &raw mut found);
                if status == STATUS_OK {
                    AStatus_delete(found);
                }
                status
            }
            24 => AParcel_readString(parcel, data, None),
            25 => AParcel_readInt32Array(parcel, data, Some(refuse::<i32>)),
            26 => {
                let (mut bytes, mut length) = (null(), 0);
                let status = handoff_AParcel_takeBytes(parcel, &raw mut bytes, &raw mut length);
                if status == STATUS_OK {
                    assert!(length >= -1 && bytes.is_null() == (length == -1), "{length} bytes");
                    // All of them can be read.
                    let all = (0..length).map(|index| u64::from(*bytes.cast::<u8>().add(index as usize)));
                    std::hint::black_box(all.sum::<u64>());
                }
                status
            }
            _ => AParcel_readStringArray(parcel, data, None, None),
        }
    };
    // SAFETY: as above.
    let (position, size) = unsafe { (AParcel_getDataPosition(parcel), AParcel_getDataSize(parcel)) };
    assert!(position >= 0 && (status != STATUS_OK || position <= size), "{position} of {size}");
}

fn class() -> *const AIBinder_Class {
    static CLASS: OnceLock<usize> = OnceLock::new();
    unsafe extern "C-unwind" fn create(args: *mut c_void) -> *mut c_void {
        args
    }
    unsafe extern "C-unwind" fn destroy(_: *mut c_void) {}
    unsafe extern "C-unwind" fn transact(
        _: *mut AIBinder,
        _: u32,
        _: *const AParcel,
        _: *mut AParcel,
    ) -> binder_status_t {
        STATUS_OK
    }
    // SAFETY: a string, and functions as the header asks for them.
    let define =
        || unsafe { AIBinder_Class_define(c"fuzz".as_ptr(), Some(create), Some(destroy), Some(transact)) }.addr();
    *CLASS.get_or_init(define) as *const AIBinder_Class
}

/// What a reader asked for room in.
struct Room<T> {
    items: Vec<T>,
    text: Vec<u8>,
    /// No more items than that can have come.
    most: usize,
}

impl<T> Room<T> {
    fn of(parcel: *mut AParcel) -> Self {
        // SAFETY: the target's parcel.
        let size = unsafe { AParcel_getDataSize(parcel) };
        Room { items: Vec::new(), text: Vec::new(), most: usize::try_from(size).unwrap() / size_of::<T>() }
    }

    /// # Safety
    /// `data` is a `Room` of such items.
    unsafe fn at<'a>(data: *mut c_void) -> &'a mut Self {
        // SAFETY: the caller's promise.
        unsafe { &mut *data.cast() }
    }
}

unsafe extern "C-unwind" fn allocate<T: Default + Clone>(data: *mut c_void, length: i32, buffer: *mut *mut T) -> bool {
    let Ok(length) = usize::try_from(length) else { return true };
    // SAFETY: `array!` gives its own room.
    let room = unsafe { Room::<T>::at(data) };
    assert!(length <= room.most, "room for {length} items of {} that can be", room.most);
    room.items = vec![T::default(); length];
    // SAFETY: the reader's own pointer.
    unsafe { buffer.write(room.items.as_mut_ptr()) };
    true
}

unsafe extern "C-unwind" fn refuse<T>(_: *mut c_void, _: i32, _: *mut *mut T) -> bool {
    false
}

unsafe extern "C-unwind" fn allocate_text(data: *mut c_void, length: i32, buffer: *mut *mut c_char) -> bool {
    if length == -1 {
        return true;
    }
    // A character of two bytes is three at the most.
    // SAFETY: `read` gives its own room.
    let room = unsafe { Room::<u8>::at(data) };
    room.text = vec![0; usize::try_from(length).unwrap()];
    assert!(room.text.len() <= room.most * 2 + 1);
    // SAFETY: the reader's own pointer.
    unsafe { buffer.write(room.text.as_mut_ptr().cast()) };
    true
}

unsafe extern "C-unwind" fn allocate_items(data: *mut c_void, length: i32) -> bool {
    let length = usize::try_from(length).unwrap_or_default();
    // SAFETY: as above.
    let room = unsafe { Room::<u8>::at(data) };
    assert!(length <= room.most / 4);
    room.items = vec![0; length];
    true
}

unsafe extern "C-unwind" fn allocate_item(
    data: *mut c_void,
    index: usize,
    length: i32,
    buffer: *mut *mut c_char,
) -> bool {
    // SAFETY: as above.
    assert!(index < unsafe { Room::<u8>::at(data) }.items.len());
    // SAFETY: as above.
    unsafe { allocate_text(data, length, buffer) }
}

unsafe extern "C-unwind" fn set(data: *mut c_void, index: usize, value: bool) {
    // SAFETY: as above.
    unsafe { Room::<u8>::at(data) }.items[index] = value.into();
}

unsafe extern "C-unwind" fn read_item(parcel: *const AParcel, data: *mut c_void, index: usize) -> binder_status_t {
    // SAFETY: as above; the value is written here.
    unsafe {
        let item = &mut Room::<u8>::at(data).items[index];
        let mut value = 0;
        let status = AParcel_readInt32(parcel, &raw mut value);
        *item = value as u8;
        status
    }
}
