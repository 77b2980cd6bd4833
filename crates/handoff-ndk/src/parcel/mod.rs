//! `AParcel`: data with a position that reads and writes share, and the objects that stand in it.
//!
//! Numbers are little-endian, everything begins at a multiple of four: the layout of Android's parcels, and of
//! `handoff_ipc::parcel`.
#![allow(unsafe_code)]

mod answer;
mod arrays;
mod header;
mod values;

use std::cell::Cell;
use std::mem::ManuallyDrop;

use handoff_ipc::parcel::{FLAT_OBJECT_SIZE, ParcelData, ParcelObject, Reader, Room, SharedBytes, Writer};

use crate::status::{
    STATUS_BAD_TYPE, STATUS_BAD_VALUE, STATUS_NOT_ENOUGH_DATA, STATUS_OK, STATUS_UNEXPECTED_NULL,
    binder_status_t, status_of,
};

use answer::whole;

pub use arrays::*;
pub use header::*;
pub use values::*;

pub(crate) type StatusResult<T> = Result<T, binder_status_t>;

pub(crate) fn outcome(done: StatusResult<()>) -> binder_status_t {
    done.err().unwrap_or(STATUS_OK)
}

/// The largest parcel that anybody can put together: positions are `int32_t`.
const LARGEST: usize = i32::MAX as usize;

/// Of a larger one the memory is given back.
const LARGEST_SPARE: usize = 64 << 10;

/// The data of a call or a reply.
#[derive(Default)]
pub struct AParcel {
    // What engines send, and put there.
    data: ParcelData,
    // Where a request is read that the engine has put into memory of this process: then there is no other data.
    lent: Option<&'static [u8]>,
    // Where an answer is put together: then there is no other data, and as much stands there as `position` says.
    answer: Option<answer::Place>,
    // Readers move it, and have a pointer to const.
    position: Cell<usize>,
    room: Cell<Room>,
    /// The address of the object that it was prepared to be sent to.
    pub(crate) meant_for: Option<usize>,
    /// What is in it, and what is received in its place, is to be cleared when it is let go. Memory that it outgrew before is not.
    pub(crate) is_sensitive: Cell<bool>,
}

impl AParcel {
    /// Empties it for a later call. False if its memory is not to be kept: of a sensitive one, or of a large one.
    #[inline]
    pub(crate) fn becomes_spare(&mut self) -> bool {
        if self.is_sensitive.get() {
            return false;
        }
        self.data.clear();
        self.rewind();
        self.bytes_mut().capacity() <= LARGEST_SPARE
    }

    /// Has `work` read bytes where they lie. They must hold no objects.
    pub(crate) fn reading<R>(bytes: &[u8], work: impl FnOnce(&AParcel) -> R) -> R {
        // It never has data of its own: nothing is to be dropped.
        let mut parcel = ManuallyDrop::new(AParcel::default());
        // SAFETY: the parcel is gone before the bytes are, and gives them out for no longer than itself.
        parcel.lent = Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) });
        work(&parcel)
    }

    /// What can be read. Of an answer that stands where the engine has it, only what is behind its end is asked for.
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.lent.unwrap_or_else(|| self.data.as_bytes())
    }

    /// How many bytes were written, also of an answer, which has none of its own.
    #[inline]
    fn size(&self) -> usize {
        if self.answer.is_some() { self.position.get() } else { self.bytes().len() }
    }

    /// The data and the objects of its own.
    #[inline]
    fn parts_mut(&mut self) -> (&mut Vec<u8>, &mut Vec<(usize, ParcelObject)>) {
        if self.answer.is_some() {
            self.take_answer_back();
        }
        self.data.parts_mut()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut Vec<u8> {
        self.parts_mut().0
    }

    /// Has engines send what is in it, or put in its place what they received, which is read from its beginning.
    pub(crate) fn lend<T>(
        &mut self,
        work: impl FnOnce(&mut ParcelData) -> handoff_ipc::Result<T>,
    ) -> handoff_ipc::Result<T> {
        let outcome = work(&mut self.data);
        self.rewind();
        outcome
    }

    /// Has values read and written from the beginning, for no object yet.
    fn rewind(&mut self) {
        (self.position, self.room, self.meant_for) = (Cell::default(), Cell::default(), None);
    }

    /// Forgets everything but its memory, and that it is sensitive.
    pub(crate) fn empty(&mut self) {
        self.clear_sensitive();
        self.data.clear();
        self.rewind();
    }

    /// Of a sensitive one, fills all memory with zeros: behind a short reply is what was left of the request.
    fn clear_sensitive(&mut self) {
        if self.is_sensitive.get() {
            let bytes = self.bytes_mut();
            bytes.clear();
            bytes.resize(bytes.capacity(), 0);
            // Seen by nobody, the zeros might be left out.
            std::hint::black_box(bytes);
        }
    }

    pub(crate) fn give(self: Box<Self>) -> *mut AParcel {
        Box::into_raw(self)
    }

    /// Where the next value is read or written.
    pub(crate) fn position(&self) -> &Cell<usize> {
        &self.position
    }

    fn remaining(&self) -> usize {
        self.bytes().len().saturating_sub(self.position.get())
    }

    /// Whether the next value comes behind all others, where a word begins.
    #[inline]
    fn is_at_end(&self) -> bool {
        let at = self.position.get();
        at == self.size() && at.is_multiple_of(4)
    }

    /// Writes bytes at the position, and zeros up to a multiple of four.
    #[inline]
    fn put(&mut self, data: &[u8]) -> StatusResult<()> {
        if self.is_at_end() { self.append([], data) } else { self.put_within(data) }
    }

    /// [`AParcel::put`] anywhere.
    #[cold]
    fn put_within(&mut self, data: &[u8]) -> StatusResult<()> {
        let at = self.position.get();
        let end = at.checked_add(data.len()).and_then(|end| end.checked_next_multiple_of(4));
        let end = end.filter(|end| *end <= LARGEST && at <= self.size()).ok_or(STATUS_BAD_VALUE)?;
        self.forget_objects(at, end);
        let bytes = self.bytes_mut();
        if end > bytes.len() {
            bytes.resize(end, 0);
        }
        bytes[at..at + data.len()].copy_from_slice(data);
        bytes[at + data.len()..end].fill(0);
        self.position.set(end);
        Ok(())
    }

    /// Writes words and bytes where [`AParcel::is_at_end`] holds, and zeros up to a multiple of four.
    #[inline(always)]
    fn append<const WORDS: usize>(&mut self, words: [i32; WORDS], data: &[u8]) -> StatusResult<()> {
        // A slice has less than half of the address space, and a parcel too.
        let size = size_of_val(&words) + ((data.len() + 3) & !3);
        let end = self.position.get() + size;
        if end > LARGEST {
            return Err(STATUS_BAD_VALUE);
        }
        if self.answer().is_some_and(|to| to.write_words(words, data).is_ok()) {
            self.position.set(end);
            return Ok(());
        }
        // Of an answer, it does not fit there, which nobody is told before it is sent.
        let bytes = self.bytes_mut();
        bytes.reserve(size);
        // SAFETY: so much is reserved, and all of it written before the length says so: the last word of `data` is zeros first,
        // as not all of it may be overwritten.
        unsafe {
            let start = bytes.as_mut_ptr().add(bytes.len());
            start.cast::<[i32; WORDS]>().write_unaligned(words);
            if !data.is_empty() {
                start.add(size - 4).cast::<u32>().write_unaligned(0);
                SharedBytes::from_slice(data).copy_to_raw(start.add(size_of_val(&words)));
            }
            bytes.set_len(end);
        }
        self.position.set(end);
        Ok(())
    }

    /// [`AParcel::put`] of a number, which mostly comes behind all others and fills words.
    #[inline]
    fn put_array<const N: usize>(&mut self, raw: [u8; N]) -> StatusResult<()> {
        let at = self.position.get();
        if at != self.size() || at > LARGEST - N || !N.is_multiple_of(4) {
            return self.put_within(&raw);
        }
        if self.answer().is_none_or(|to| to.write_words([], &raw).is_err()) {
            self.bytes_mut().extend_from_slice(&raw);
        }
        self.position.set(at + N);
        Ok(())
    }

    /// Writes how many items there are, and the items.
    #[inline(always)]
    fn put_items(&mut self, length: i32, items: &[u8]) -> StatusResult<()> {
        if self.is_at_end() { self.append([length], items) } else { self.put_items_within(length, items) }
    }

    #[cold]
    fn put_items_within(&mut self, length: i32, items: &[u8]) -> StatusResult<()> {
        self.put_i32(length)?;
        if items.is_empty() { Ok(()) } else { self.put(items) }
    }

    /// What is written over is no object any longer.
    fn forget_objects(&mut self, from: usize, to: usize) {
        let (_, objects) = self.parts_mut();
        if !objects.is_empty() {
            objects.retain(|(at, _)| *at >= to || at + FLAT_OBJECT_SIZE <= from);
        }
    }

    #[inline]
    pub(crate) fn put_i32(&mut self, value: i32) -> StatusResult<()> {
        self.put_array(value.to_le_bytes())
    }

    pub(crate) fn put_string(&mut self, text: Option<&str>) -> StatusResult<()> {
        let Some(text) = text else { return self.put_i32(-1) };
        let units = text.encode_utf16().count();
        let mut data = Vec::with_capacity(units * 2 + 6);
        data.extend_from_slice(&i32::try_from(units).map_err(|_| STATUS_BAD_VALUE)?.to_le_bytes());
        for unit in text.encode_utf16().chain([0]) {
            data.extend_from_slice(&unit.to_le_bytes());
        }
        self.put(&data)
    }

    /// The next bytes; the position goes behind them and what fills them up to a multiple of four.
    #[inline]
    pub(crate) fn take(&self, size: usize) -> StatusResult<&[u8]> {
        let (bytes, at) = (self.bytes(), self.position.get());
        let end = at.checked_add(size).ok_or(STATUS_BAD_VALUE)?;
        let found = bytes.get(at..end).ok_or(STATUS_NOT_ENOUGH_DATA)?;
        self.position.set(end.next_multiple_of(4).min(bytes.len()));
        Ok(found)
    }

    #[inline]
    fn take_array<const N: usize>(&self) -> StatusResult<[u8; N]> {
        self.take(N)?.first_chunk().copied().ok_or(STATUS_NOT_ENOUGH_DATA)
    }

    #[inline]
    pub(crate) fn take_i32(&self) -> StatusResult<i32> {
        self.take_array().map(i32::from_le_bytes)
    }

    pub(crate) fn take_string(&self) -> StatusResult<Option<String>> {
        let Some(units) = self.take_count(2)? else { return Ok(None) };
        let raw = self.take((units + 1) * 2)?;
        let (text, end) = raw.split_at(units * 2);
        if end != [0, 0] {
            return Err(STATUS_BAD_VALUE);
        }
        let units: Vec<u16> =
            text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map(Some).map_err(|_| STATUS_BAD_VALUE)
    }

    /// A count of items of so many bytes at the least; `None` is null. What follows holds so many.
    #[inline]
    fn take_count(&self, least_size: usize) -> StatusResult<Option<usize>> {
        let count = self.take_i32()?;
        if count == -1 {
            return Ok(None);
        }
        let count = usize::try_from(count).map_err(|_| STATUS_BAD_VALUE)?;
        let fits = count.checked_mul(least_size).is_some_and(|size| size <= self.remaining());
        if fits { Ok(Some(count)) } else { Err(STATUS_NOT_ENOUGH_DATA) }
    }

    /// Items of so many bytes behind their count; `None` is null. The position goes behind them.
    #[inline(always)]
    fn take_items(&self, size: usize) -> StatusResult<Option<&[u8]>> {
        let (bytes, at) = (self.bytes(), self.position.get());
        let (count, rest) =
            bytes.get(at..).and_then(<[u8]>::split_first_chunk).ok_or(STATUS_NOT_ENOUGH_DATA)?;
        let count = i32::from_le_bytes(*count);
        let Ok(count) = usize::try_from(count) else {
            self.position.set(at + 4);
            return if count == -1 { Ok(None) } else { Err(STATUS_BAD_VALUE) };
        };
        let items =
            count.checked_mul(size).and_then(|size| rest.get(..size)).ok_or(STATUS_NOT_ENOUGH_DATA)?;
        self.position.set((at + 4 + items.len().next_multiple_of(4)).min(bytes.len()));
        Ok(Some(items))
    }

    /// Passes over what begins with its own size.
    pub(crate) fn skip_sized(&self) -> StatusResult<()> {
        let size = usize::try_from(self.take_i32()?).map_err(|_| STATUS_BAD_VALUE)?;
        self.take(size.checked_sub(4).ok_or(STATUS_BAD_VALUE)?).map(drop)
    }

    /// What a reader of `handoff_ipc` makes of the next bytes, which has no objects in it.
    pub(crate) fn take_with<T>(
        &self,
        read: impl FnOnce(&mut Reader<'_>) -> handoff_ipc::Result<T>,
    ) -> StatusResult<T> {
        let at = self.position.get();
        let bytes = SharedBytes::from_slice(self.bytes().get(at..).ok_or(STATUS_NOT_ENOUGH_DATA)?);
        let mut reader = Reader::new(bytes);
        let value = read(&mut reader).map_err(|error| status_of(&error))?;
        self.position.set(at + reader.position());
        Ok(value)
    }

    /// Puts what a writer of `handoff_ipc` makes: the one place that knows how objects stand in a parcel.
    pub(crate) fn put_objects(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> handoff_ipc::Result<()>,
    ) -> StatusResult<()> {
        let mut part = ParcelData::default();
        part.write(write).map_err(|error| status_of(&error))?;
        let (bytes, objects) = part.parts_mut();
        let first = self.position.get();
        if !first.is_multiple_of(4) {
            return Err(STATUS_BAD_VALUE);
        }
        self.put(bytes)?;
        self.place(first, std::mem::take(objects));
        Ok(())
    }

    /// Enters objects that stand behind `first` in what was just put there: others have gone from it.
    fn place(&mut self, first: usize, objects: Vec<(usize, ParcelObject)>) {
        let (_, all) = self.parts_mut();
        let next = all.partition_point(|(at, _)| *at < first);
        let objects = objects.into_iter().map(|(at, object)| (first + at, object));
        drop(all.splice(next..next, objects));
    }

    /// The object that stands here, or `None` for a reference to nothing.
    pub(crate) fn take_flat(&self) -> StatusResult<Option<&ParcelObject>> {
        let found = self.data.objects().binary_search_by_key(&self.position.get(), |(at, _)| *at);
        let flat = self.take(FLAT_OBJECT_SIZE)?;
        // That has neither a handle nor a pointer.
        match found {
            Ok(index) => Ok(Some(&self.data.objects()[index].1)),
            Err(_) if flat[8..16] == [0; 8] => Ok(None),
            Err(_) => Err(STATUS_BAD_TYPE),
        }
    }
}

impl Drop for AParcel {
    fn drop(&mut self) {
        self.clear_sensitive();
    }
}

/// # Safety
/// `parcel` is null or a parcel that nobody else uses meanwhile.
pub(crate) unsafe fn writable<'a>(parcel: *mut AParcel) -> StatusResult<&'a mut AParcel> {
    // SAFETY: the caller's promise.
    unsafe { parcel.as_mut() }.ok_or(STATUS_UNEXPECTED_NULL)
}

/// # Safety
/// As [`writable`], and nobody writes it meanwhile.
pub(crate) unsafe fn readable<'a>(parcel: *const AParcel) -> StatusResult<&'a AParcel> {
    // SAFETY: the caller's promise.
    unsafe { parcel.as_ref() }.ok_or(STATUS_UNEXPECTED_NULL)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_setDataPosition(parcel: *const AParcel, position: i32) -> binder_status_t {
    // SAFETY: the header's promise.
    let set = unsafe { whole(parcel) }.and_then(|parcel| {
        parcel.position.set(usize::try_from(position).map_err(|_| STATUS_BAD_VALUE)?);
        Ok(())
    });
    outcome(set)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_getDataPosition(parcel: *const AParcel) -> i32 {
    // SAFETY: the header's promise. It was set from an `int32_t`, or is that of data, which is no larger.
    unsafe { readable(parcel) }.map_or(0, |parcel| parcel.position.get() as i32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_getDataSize(parcel: *const AParcel) -> i32 {
    // SAFETY: as above.
    unsafe { readable(parcel) }.map_or(0, |parcel| parcel.size() as i32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_reset(parcel: *mut AParcel) -> binder_status_t {
    // SAFETY: the header's promise.
    outcome(unsafe { writable(parcel) }.map(|parcel| *parcel = AParcel::default()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_markSensitive(parcel: *const AParcel) {
    // SAFETY: the header's promise.
    if let Ok(parcel) = unsafe { readable(parcel) } {
        parcel.is_sensitive.set(true);
    }
}

/// File descriptors may be written into every parcel here.
#[unsafe(no_mangle)]
pub extern "C" fn AParcel_getAllowFds(_: *const AParcel) -> bool {
    true
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_appendFrom(
    from: *const AParcel,
    to: *mut AParcel,
    start: i32,
    size: i32,
) -> binder_status_t {
    let append = || {
        let range = usize::try_from(start).ok().zip(usize::try_from(size).ok());
        let (start, size) = range.ok_or(STATUS_BAD_VALUE)?;
        let end = start.checked_add(size).ok_or(STATUS_BAD_VALUE)?;
        // Copied first: both may be one parcel.
        // SAFETY: the header's promise.
        let source = unsafe { whole(from) }?;
        let data = source.bytes().get(start..end).ok_or(STATUS_BAD_VALUE)?.to_vec();
        let whole = |(at, _): &&(usize, ParcelObject)| *at >= start && at + FLAT_OBJECT_SIZE <= end;
        let objects = source.data.objects().iter().filter(whole);
        let objects: Vec<_> = objects.map(|(at, object)| (at - start, object.clone())).collect();
        // SAFETY: as above; the borrow of the source has ended.
        let to = unsafe { writable(to) }?;
        let first = to.position.get();
        if !first.is_multiple_of(4) || (!start.is_multiple_of(4) && !objects.is_empty()) {
            return Err(STATUS_BAD_VALUE);
        }
        to.put(&data)?;
        to.place(first, objects);
        Ok(())
    };
    outcome(append())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_marshal(
    parcel: *const AParcel,
    buffer: *mut u8,
    start: usize,
    len: usize,
) -> binder_status_t {
    // SAFETY: the header's promise.
    let marshal = unsafe { whole(parcel) }.and_then(|parcel| {
        if parcel.data.has_objects() {
            return Err(crate::status::STATUS_INVALID_OPERATION);
        }
        let end = start.checked_add(len).ok_or(STATUS_BAD_VALUE)?;
        let data = parcel.bytes().get(start..end).ok_or(STATUS_BAD_VALUE)?;
        if buffer.is_null() && len > 0 {
            return Err(STATUS_UNEXPECTED_NULL);
        }
        // SAFETY: there is room for `len` bytes by the header's promise, and no parcel lies there.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer, len) };
        Ok(())
    });
    outcome(marshal)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AParcel_unmarshal(
    parcel: *mut AParcel,
    buffer: *const u8,
    len: usize,
) -> binder_status_t {
    let unmarshal = || {
        if len > LARGEST || (buffer.is_null() && len > 0) {
            return Err(STATUS_BAD_VALUE);
        }
        // SAFETY: so many bytes by the header's promise; nothing is read from a null.
        let data = if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(buffer, len) } };
        // SAFETY: the header's promise.
        let parcel = unsafe { writable(parcel) }?;
        let data = data.to_vec();
        parcel.empty();
        *parcel.bytes_mut() = data;
        Ok(())
    };
    outcome(unmarshal())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_kept_of_a_parcel_is_its_memory() {
        let mut parcel = AParcel::default();
        parcel.put(&[1; 100]).unwrap();
        parcel.meant_for = Some(7);
        let memory = parcel.bytes().as_ptr();
        assert!(parcel.becomes_spare());
        assert_eq!((parcel.bytes().as_ptr(), parcel.bytes().len(), parcel.position.get()), (memory, 0, 0));
        assert!(parcel.meant_for.is_none());
        let (end, _other) = std::io::pipe().unwrap();
        parcel.put_objects(|to| to.write_fd(end.as_fd())).unwrap();
        assert!(parcel.becomes_spare());
        assert_eq!(parcel.data.parts_mut().1.capacity(), 0, "nor the list of its objects");
        parcel.bytes_mut().reserve(LARGEST_SPARE + 1);
        assert!(!parcel.becomes_spare());
    }

    #[test]
    fn what_is_written_fills_words_and_leaves_what_is_there() {
        for len in 0..10 {
            // Memory that is used again is full of something else.
            let mut parcel = AParcel::default();
            parcel.bytes_mut().resize(64, 9);
            parcel.data.clear();
            let data = vec![7; len];
            parcel.put(&data).unwrap();
            parcel.put_items(len as i32, &data).unwrap();
            let filled = [data.clone(), vec![0; len.next_multiple_of(4) - len]].concat();
            let expected = [&filled[..], &(len as i32).to_le_bytes(), &filled].concat();
            assert_eq!((parcel.bytes(), parcel.position.get()), (&expected[..], expected.len()));
        }
        // Where no word begins.
        let mut parcel = AParcel::default();
        *parcel.bytes_mut() = vec![5; 5];
        parcel.position.set(5);
        parcel.put(&[7]).unwrap();
        assert_eq!(parcel.bytes(), [5, 5, 5, 5, 5, 7, 0, 0]);
        // And over others.
        parcel.position.set(0);
        parcel.put_items(1, &[8]).unwrap();
        assert_eq!(parcel.bytes(), [1, 0, 0, 0, 8, 0, 0, 0]);
        parcel.position.set(9);
        assert_eq!(parcel.put(&[1]), Err(STATUS_BAD_VALUE));
    }

    #[test]
    fn a_sensitive_parcel_is_cleared_and_not_kept() {
        let mut parcel = AParcel::default();
        parcel.put(&[7; 100]).unwrap();
        parcel.is_sensitive.set(true);
        parcel.lend(|_| Ok(())).unwrap();
        assert!(parcel.is_sensitive.get(), "the reply is, too");
        let (memory, size) = (parcel.bytes().as_ptr(), parcel.bytes_mut().capacity());
        parcel.empty();
        assert_eq!((parcel.bytes().as_ptr(), parcel.bytes().len()), (memory, 0));
        // SAFETY: all of it was filled, and is still the parcel's.
        assert!(unsafe { std::slice::from_raw_parts(memory, size) }.iter().all(|byte| *byte == 0));
        parcel.put(&[7; 100]).unwrap();
        assert!(!parcel.becomes_spare());
    }

    #[test]
    fn objects_are_known_by_where_they_stand_in_whatever_order_they_were_written() {
        let (end, _other) = std::io::pipe().unwrap();
        let mut parcel = AParcel::default();
        parcel.put(&[0; 96]).unwrap();
        for at in [64, 0, 32] {
            parcel.position.set(at);
            parcel.put_objects(|to| to.write_fd(end.as_fd())).unwrap();
        }
        let places = |parcel: &AParcel| parcel.data.objects().iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(places(&parcel), [0, 32, 64]);
        parcel.position.set(32);
        assert!(matches!(parcel.take_flat(), Ok(Some(ParcelObject::Fd(_)))));
        // Written over.
        parcel.position.set(40);
        parcel.put_i32(1).unwrap();
        assert_eq!(places(&parcel), [0, 64]);
        // What engines are lent comes back as it was.
        parcel.lend(|_| Ok(())).unwrap();
        assert_eq!((places(&parcel), parcel.bytes().len()), (vec![0, 64], 96));
    }
}
