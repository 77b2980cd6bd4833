//! `APersistableBundle`: values of a few types, each under a name.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};

use handoff_ipc::parcel::{BundleValue, PersistableBundle};

use crate::parcel::{AParcel, StatusResult, outcome, readable, writable};
use crate::status::{STATUS_BAD_VALUE, binder_status_t};

/// `APERSISTABLEBUNDLE_KEY_NOT_FOUND`
const KEY_NOT_FOUND: i32 = -1;
/// `APERSISTABLEBUNDLE_ALLOCATOR_FAILED`
const ALLOCATOR_FAILED: i32 = -2;

/// A bundle of C's.
#[derive(Default)]
pub struct APersistableBundle(PersistableBundle);

pub type APersistableBundle_stringAllocator =
    Option<unsafe extern "C-unwind" fn(size: i32, context: *mut c_void) -> *mut c_char>;

impl APersistableBundle {
    fn give(bundle: PersistableBundle) -> *mut Self {
        Box::into_raw(Box::new(APersistableBundle(bundle)))
    }
}

/// # Safety
/// `bundle` is null or a bundle that nobody changes meanwhile.
unsafe fn borrow<'a>(bundle: *const APersistableBundle) -> Option<&'a PersistableBundle> {
    // SAFETY: the caller's promise.
    unsafe { bundle.as_ref() }.map(|bundle| &bundle.0)
}

/// A text of C, as Unicode: what is none in it is replaced.
///
/// # Safety
/// `text` is null or ends in a zero.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: not null, and a string by the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Items of an array of C's.
///
/// # Safety
/// `items` is null or has `count` of them.
unsafe fn items<T: Clone>(items: *const T, count: i32) -> Option<Vec<T>> {
    let count = usize::try_from(count).ok()?;
    if count == 0 {
        return Some(Vec::new());
    }
    // SAFETY: so many by the caller's promise.
    (!items.is_null()).then(|| unsafe { std::slice::from_raw_parts(items, count) }.to_vec())
}

/// Puts a value in; nothing where there is no bundle, no name or no value.
///
/// # Safety
/// `bundle` is null or nobody else's meanwhile, and `key` is null or a string.
unsafe fn put(bundle: *mut APersistableBundle, key: *const c_char, value: Option<impl Into<BundleValue>>) {
    // SAFETY: the caller's promise.
    let (bundle, key) = unsafe { (bundle.as_mut(), text(key)) };
    if let (Some(bundle), Some(key), Some(value)) = (bundle, key, value) {
        bundle.0.insert(key, value);
    }
}

/// The value of a name.
///
/// # Safety
/// As [`borrow`], and `key` is null or a string.
unsafe fn get<'a>(bundle: *const APersistableBundle, key: *const c_char) -> Option<&'a BundleValue> {
    // SAFETY: the caller's promise.
    unsafe { borrow(bundle)?.get(&text(key)?) }
}

/// Fills an array of C's as far as it reaches; gives the bytes that all items take.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
unsafe fn fill<T: Copy>(items: &[T], buffer: *mut T, size: i32) -> i32 {
    let room = usize::try_from(size).unwrap_or_default() / size_of::<T>();
    if !buffer.is_null() {
        let count = room.min(items.len());
        // SAFETY: there is room for `count` of them, by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), buffer, count) };
    }
    i32::try_from(size_of_val(items)).unwrap_or(i32::MAX)
}

/// Has C make room for a text and a zero behind it, and writes it there; null if there is none.
///
/// # Safety
/// `allocator` gives as many bytes as it is asked for, or null.
unsafe fn hand_over(
    text: &str,
    allocator: unsafe extern "C-unwind" fn(i32, *mut c_void) -> *mut c_char,
    context: *mut c_void,
) -> *mut c_char {
    let Ok(size) = i32::try_from(text.len() + 1) else { return std::ptr::null_mut() };
    // SAFETY: the caller's promise.
    let room = unsafe { allocator(size, context) };
    if !room.is_null() {
        // SAFETY: room for `size` bytes, the text and a zero.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), room, text.len());
            room.add(text.len()).write(0);
        }
    }
    room
}

/// As [`fill`], of texts, for each of which C makes room.
///
/// # Safety
/// As [`fill`] and [`hand_over`].
unsafe fn fill_texts<'t>(
    texts: impl ExactSizeIterator<Item = &'t str>,
    buffer: *mut *mut c_char,
    size: i32,
    allocator: APersistableBundle_stringAllocator,
    context: *mut c_void,
) -> i32 {
    let Some(allocator) = allocator else { return ALLOCATOR_FAILED };
    let needed = i32::try_from(texts.len() * size_of::<*mut c_char>()).unwrap_or(i32::MAX);
    let room = usize::try_from(size).unwrap_or_default() / size_of::<*mut c_char>();
    let room = if buffer.is_null() { 0 } else { room };
    for (index, text) in texts.take(room).enumerate() {
        // SAFETY: the caller's promise; `index` is below what there is room for.
        unsafe {
            let copy = hand_over(text, allocator, context);
            buffer.add(index).write(copy);
            if copy.is_null() {
                return ALLOCATOR_FAILED;
            }
        }
    }
    needed
}

#[unsafe(no_mangle)]
pub extern "C" fn APersistableBundle_new() -> *mut APersistableBundle {
    APersistableBundle::give(PersistableBundle::new())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_dup(
    bundle: *const APersistableBundle,
) -> *mut APersistableBundle {
    // SAFETY: the header's promise.
    APersistableBundle::give(unsafe { borrow(bundle) }.cloned().unwrap_or_default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_delete(bundle: *mut APersistableBundle) {
    if !bundle.is_null() {
        // SAFETY: made by `give`, and nobody uses it afterwards.
        drop(unsafe { Box::from_raw(bundle) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_isEqual(
    left: *const APersistableBundle,
    right: *const APersistableBundle,
) -> bool {
    // SAFETY: the header's promise.
    unsafe { borrow(left) == borrow(right) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_readFromParcel(
    parcel: *const AParcel,
    bundle: *mut *mut APersistableBundle,
) -> binder_status_t {
    let read = || -> StatusResult<()> {
        if bundle.is_null() {
            return Err(STATUS_BAD_VALUE);
        }
        // SAFETY: the header's promise.
        let parcel = unsafe { readable(parcel) }.map_err(|_| STATUS_BAD_VALUE)?;
        let read = parcel.take_with(PersistableBundle::read)?;
        // SAFETY: there is room for one, by the header's promise.
        unsafe { bundle.write(APersistableBundle::give(read)) };
        Ok(())
    };
    outcome(read())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_writeToParcel(
    bundle: *const APersistableBundle,
    parcel: *mut AParcel,
) -> binder_status_t {
    let write = || -> StatusResult<()> {
        // SAFETY: the header's promise.
        let bundle = unsafe { borrow(bundle) }.ok_or(STATUS_BAD_VALUE)?;
        // SAFETY: as above.
        let parcel = unsafe { writable(parcel) }.map_err(|_| STATUS_BAD_VALUE)?;
        parcel.put_objects(|to| bundle.write(to))
    };
    outcome(write())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_size(bundle: *const APersistableBundle) -> i32 {
    // SAFETY: the header's promise.
    let size = unsafe { borrow(bundle) }.map_or(0, PersistableBundle::len);
    i32::try_from(size).unwrap_or(i32::MAX)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_erase(
    bundle: *mut APersistableBundle,
    key: *const c_char,
) -> i32 {
    // SAFETY: the header's promise.
    let (bundle, key) = unsafe { (bundle.as_mut(), text(key)) };
    bundle.zip(key).is_some_and(|(bundle, key)| bundle.0.remove(&key).is_some()).into()
}

/// The functions for a type of number: one value, several of them, and the names that have either.
macro_rules! number {
    ($type:ty, $one:ident, $many:ident, $put:ident, $get:ident, $put_many:ident, $get_many:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $put(bundle: *mut APersistableBundle, key: *const c_char, value: $type) {
            // SAFETY: the header's promise.
            unsafe { put(bundle, key, Some(value)) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            bundle: *const APersistableBundle,
            key: *const c_char,
            value: *mut $type,
        ) -> bool {
            // SAFETY: the header's promise.
            let Some(BundleValue::$one(found)) = (unsafe { get(bundle, key) }) else { return false };
            // SAFETY: there is room for one, by the header's promise.
            unsafe { value.write(*found) };
            true
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $put_many(
            bundle: *mut APersistableBundle,
            key: *const c_char,
            values: *const $type,
            count: i32,
        ) {
            // SAFETY: the header's promise.
            unsafe { put(bundle, key, items(values, count)) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_many(
            bundle: *const APersistableBundle,
            key: *const c_char,
            buffer: *mut $type,
            size: i32,
        ) -> i32 {
            // SAFETY: the header's promise.
            match unsafe { get(bundle, key) } {
                // SAFETY: as above.
                Some(BundleValue::$many(found)) => unsafe { fill(found, buffer, size) },
                _ => KEY_NOT_FOUND,
            }
        }
    };
}

number!(
    bool,
    Bool,
    Bools,
    APersistableBundle_putBoolean,
    APersistableBundle_getBoolean,
    APersistableBundle_putBooleanVector,
    APersistableBundle_getBooleanVector
);
number!(
    i32,
    Int,
    Ints,
    APersistableBundle_putInt,
    APersistableBundle_getInt,
    APersistableBundle_putIntVector,
    APersistableBundle_getIntVector
);
number!(
    i64,
    Long,
    Longs,
    APersistableBundle_putLong,
    APersistableBundle_getLong,
    APersistableBundle_putLongVector,
    APersistableBundle_getLongVector
);
number!(
    f64,
    Double,
    Doubles,
    APersistableBundle_putDouble,
    APersistableBundle_getDouble,
    APersistableBundle_putDoubleVector,
    APersistableBundle_getDoubleVector
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_putString(
    bundle: *mut APersistableBundle,
    key: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the header's promise.
    unsafe { put(bundle, key, text(value)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn APersistableBundle_getString(
    bundle: *const APersistableBundle,
    key: *const c_char,
    value: *mut *mut c_char,
    allocator: APersistableBundle_stringAllocator,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the header's promise.
    let Some(BundleValue::String(found)) = (unsafe { get(bundle, key) }) else { return KEY_NOT_FOUND };
    let Some(allocator) = allocator else { return ALLOCATOR_FAILED };
    // SAFETY: as above; there is room for one pointer.
    unsafe {
        let copy = hand_over(found, allocator, context);
        value.write(copy);
        if copy.is_null() { ALLOCATOR_FAILED } else { i32::try_from(found.len()).unwrap_or(i32::MAX) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_putStringVector(
    bundle: *mut APersistableBundle,
    key: *const c_char,
    values: *const *const c_char,
    count: i32,
) {
    // SAFETY: the header's promise.
    let values = unsafe { items(values, count) };
    // SAFETY: each is a string, by the same promise.
    let text = |value: *const c_char| unsafe { text(value) };
    let texts: Option<Vec<String>> = values.and_then(|values| values.into_iter().map(text).collect());
    // SAFETY: as above.
    unsafe { put(bundle, key, texts) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn APersistableBundle_getStringVector(
    bundle: *const APersistableBundle,
    key: *const c_char,
    buffer: *mut *mut c_char,
    size: i32,
    allocator: APersistableBundle_stringAllocator,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the header's promise.
    let Some(BundleValue::Strings(found)) = (unsafe { get(bundle, key) }) else { return KEY_NOT_FOUND };
    // SAFETY: as above.
    unsafe { fill_texts(found.iter().map(String::as_str), buffer, size, allocator, context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_putPersistableBundle(
    bundle: *mut APersistableBundle,
    key: *const c_char,
    value: *const APersistableBundle,
) {
    // Copied first: it may be the one that it is put into.
    // SAFETY: the header's promise.
    let value = unsafe { borrow(value) }.cloned();
    // SAFETY: as above.
    unsafe { put(bundle, key, value) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn APersistableBundle_getPersistableBundle(
    bundle: *const APersistableBundle,
    key: *const c_char,
    value: *mut *mut APersistableBundle,
) -> bool {
    // SAFETY: the header's promise.
    let Some(BundleValue::Bundle(found)) = (unsafe { get(bundle, key) }) else { return false };
    // SAFETY: there is room for one pointer, by the header's promise.
    unsafe { value.write(APersistableBundle::give(found.clone())) };
    true
}

/// The names that have values of one type.
macro_rules! keys {
    ($($kind:ident => $keys:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $keys(
            bundle: *const APersistableBundle,
            buffer: *mut *mut c_char,
            size: i32,
            allocator: APersistableBundle_stringAllocator,
            context: *mut c_void,
        ) -> i32 {
            // SAFETY: the header's promise.
            let all = unsafe { borrow(bundle) }.into_iter().flat_map(PersistableBundle::iter);
            let of = |(name, value)| matches!(value, &BundleValue::$kind(_)).then_some(name);
            let names: Vec<&str> = all.filter_map(of).collect();
            // SAFETY: as above.
            unsafe { fill_texts(names.into_iter(), buffer, size, allocator, context) }
        }
    )+ };
}

keys! {
    Bool => APersistableBundle_getBooleanKeys,
    Int => APersistableBundle_getIntKeys,
    Long => APersistableBundle_getLongKeys,
    Double => APersistableBundle_getDoubleKeys,
    String => APersistableBundle_getStringKeys,
    Bools => APersistableBundle_getBooleanVectorKeys,
    Ints => APersistableBundle_getIntVectorKeys,
    Longs => APersistableBundle_getLongVectorKeys,
    Doubles => APersistableBundle_getDoubleVectorKeys,
    Strings => APersistableBundle_getStringVectorKeys,
    Bundle => APersistableBundle_getPersistableBundleKeys,
}
