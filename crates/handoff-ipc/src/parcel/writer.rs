//! Writes a parcel, once, to the place where it travels.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::copy::{copy, is_slightly_ahead};
use super::gathered::{GATHER_FROM, GatheredBuffer, Handle, NATIVE_HANDLE};
use super::object::{
    FDA_OBJECT_SIZE, FLAT_OBJECT_SIZE, Object, ObjectForm, PTR_OBJECT_SIZE, RPC_BINDER, RPC_FD, RPC_NULL,
    TYPE_BINDER, TYPE_FD, TYPE_FDA, TYPE_PTR,
};
use super::{BytesWriter, Parcelable, SharedBytes, padded};
use crate::object::Binder;
use crate::{Error, Result};

/// Writes typed values in Android's layout.
///
/// Either over a buffer that grows, or over a fixed span (a call slot); there, what does not fit is
/// [`Error::TooLarge`].
pub struct Writer<'a> {
    // Invariant: `start..start + capacity` is writable for 'a and nobody in this process holds a
    // reference into it; `len <= capacity`. With `growable`, it is that vector's capacity behind so many bytes, which
    // are initialized.
    start: *mut u8,
    capacity: usize,
    len: usize,
    growable: Option<(&'a mut Vec<u8>, usize)>,
    // Where a parcel goes on that outgrows a stage.
    spill: Option<Spill>,
    objects: Vec<(u32, Object)>,
    // Whether the engine takes large buffers from where they are.
    gathers: bool,
    form: ObjectForm,
    // Whether a null reference was written, which is none of the objects and looks different in each form.
    has_null: bool,
    // Received bytes that stay where they are until the engine has taken this parcel: address range.
    kept: (usize, usize),
    // Buffers that the caller lends for this parcel.
    lent: &'a [&'a [u8]],
    span: PhantomData<&'a mut [u8]>,
}

/// Memory behind a stage.
#[derive(Clone, Copy)]
pub(crate) struct Spill {
    /// Where a parcel begins.
    pub(crate) start: *mut u8,
    /// Bytes that a parcel may take, from wherever it begins.
    pub(crate) capacity: usize,
    /// A page's beginning that is further away than a stage and a cache line are long. A large run of bytes is put there,
    /// so that the parcel begins shortly before it: buffers mostly begin at or near a page's beginning, and a
    /// copy that lies a little further into its page than the buffer does is slower, because the processor
    /// takes each load for one of what was just stored, whose address ends alike.
    pub(crate) page: *mut u8,
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

impl Spill {
    /// Where a run that is copied from `from` goes: to the page, or to the line before it where the buffer ends its
    /// own page with up to a line.
    fn run(&self, from: usize) -> *mut u8 {
        if is_slightly_ahead(self.page.addr(), from) { self.page.wrapping_sub(LINE) } else { self.page }
    }
}

/// A run of so many bytes begins at a page.
const RUN: usize = 4096;

impl<'a> Writer<'a> {
    /// Over a vector, which is emptied first and holds the data after [`Writer::finish`].
    pub fn growing(buffer: &'a mut Vec<u8>) -> Self {
        Self::growing_behind(buffer, 0)
    }

    /// The same, behind `head` zeros for what goes in front of the parcel.
    pub(crate) fn growing_behind(buffer: &'a mut Vec<u8>, head: usize) -> Self {
        buffer.clear();
        buffer.resize(head, 0);
        let spare = buffer.spare_capacity_mut();
        Writer {
            start: spare.as_mut_ptr().cast(),
            capacity: spare.len(),
            len: 0,
            growable: Some((buffer, head)),
            spill: None,
            objects: Vec::new(),
            gathers: false,
            form: ObjectForm::Flat,
            has_null: false,
            kept: (0, 0),
            lent: &[],
            span: PhantomData,
        }
    }

    /// Large buffers are not copied into the parcel, which becomes one for an engine that gathers.
    ///
    /// `kept` is received bytes that stay readable, and the same, until this parcel is taken over.
    pub(crate) fn gathering(mut self, kept: SharedBytes<'_>) -> Self {
        self.gathers = true;
        self.kept = (kept.start().addr(), kept.start().addr() + kept.len());
        self
    }

    /// References and descriptors stand in the form of Binder RPC.
    pub(crate) fn in_rpc_form(mut self) -> Self {
        self.form = ObjectForm::Rpc;
        self
    }

    /// The form of references and descriptors, and whether any was written, null references among them.
    pub(crate) fn form(&self) -> (ObjectForm, bool) {
        (self.form, self.has_null || self.has_objects())
    }

    /// Over fixed memory.
    ///
    /// # Safety
    /// `start..start + capacity` must be writable for `'a` and no reference into it may be used
    /// meanwhile. Another process may read or write it.
    #[inline]
    pub(crate) unsafe fn over(start: *mut u8, capacity: usize) -> Self {
        Writer {
            start,
            capacity,
            len: 0,
            growable: None,
            spill: None,
            objects: Vec::new(),
            gathers: false,
            form: ObjectForm::Flat,
            has_null: false,
            kept: (0, 0),
            lent: &[],
            span: PhantomData,
        }
    }

    /// Over a small private stage, and over fixed memory from where the stage is too small. A peer
    /// that looks at the memory meanwhile does not slow a small parcel down: it is put there in one
    /// piece, by whoever calls this.
    ///
    /// # Safety
    /// As [`Writer::over`], from `spill.start` until `spill.capacity` after `spill.page`; and the page is no
    /// less than the stage's length and a line behind the start.
    #[inline]
    pub(crate) unsafe fn staged(stage: &'a mut [MaybeUninit<u8>], spill: Spill) -> Self {
        Writer {
            start: stage.as_mut_ptr().cast(),
            capacity: stage.len(),
            len: 0,
            growable: None,
            spill: Some(spill),
            objects: Vec::new(),
            gathers: false,
            form: ObjectForm::Flat,
            has_null: false,
            kept: (0, 0),
            lent: &[],
            span: PhantomData,
        }
    }

    /// Puts what is still on the stage where it belongs.
    #[inline]
    pub(crate) fn unstage(&mut self) {
        if let Some(Spill { start, .. }) = self.spill {
            self.put_down(start);
        }
    }

    /// Goes on in the memory behind the stage, from `start`.
    #[inline]
    fn put_down(&mut self, start: *mut u8) {
        if let Some(spill) = self.spill.take() {
            // SAFETY: `start` is that of `spill`, or `len` before its page or the line before that. `len` bytes of the stage were
            // written, and no more than the stage holds, so that they end before what is behind the page;
            // the two do not overlap.
            unsafe { start.copy_from_nonoverlapping(self.start, self.len) };
            self.start = start;
            self.capacity = spill.capacity;
        }
    }

    /// Where the parcel begins.
    #[inline]
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before anything was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if objects or descriptors were written.
    #[inline]
    pub(crate) fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// The objects so far, which the parcel holds no longer.
    #[inline]
    pub(crate) fn take_objects(&mut self) -> Vec<(u32, Object)> {
        std::mem::take(&mut self.objects)
    }

    /// Makes the buffer's length what was written, and hands the objects over.
    pub fn finish(self) -> Vec<(u32, Object)> {
        if let Some((buffer, head)) = self.growable {
            // SAFETY: `len` bytes of this vector's capacity behind its head were written (type invariant).
            unsafe { buffer.set_len(head + self.len) };
        }
        self.objects
    }

    /// Drops everything after byte `len`, objects too.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.objects.retain(|(offset, _)| (*offset as usize) < len);
    }

    /// Puts a copy of what was written in the place of all that `to` holds. On a slot, a peer may have changed it since.
    pub fn copy_into(&self, to: &mut Vec<u8>) {
        // SAFETY: `len` bytes from `start` on were written, and nobody in this process refers to them (type invariant).
        unsafe { SharedBytes::new(self.start, self.len) }.copy_into(to);
    }

    /// `from`: the address of what is written next, or 0.
    #[cold]
    fn grow(&mut self, needed: usize, from: usize) -> Result<()> {
        if let Some(spill) = self.spill.filter(|spill| needed <= spill.capacity) {
            let run = needed - self.len >= RUN && self.len > 0;
            // SAFETY: what is on the stage is shorter than the way from the start to the line before the page.
            self.put_down(if run { unsafe { spill.run(from).sub(self.len) } } else { spill.start });
            return Ok(());
        }
        let possible = isize::try_from(needed).is_ok();
        let Some((buffer, head)) = self.growable.as_mut().filter(|_| possible) else {
            let limit = self.spill.map_or(self.capacity, |spill| spill.capacity);
            return Err(Error::TooLarge { size: needed, limit });
        };
        // SAFETY: `len` bytes were written behind the head; the vector must know, to carry them over.
        unsafe { buffer.set_len(*head + self.len) };
        buffer.reserve(needed - self.len);
        // SAFETY: the head is a part of the vector.
        self.start = unsafe { buffer.as_mut_ptr().add(*head) };
        self.capacity = buffer.capacity() - *head;
        Ok(())
    }

    /// Space for `size` bytes, which the caller writes at once.
    #[inline]
    fn claim(&mut self, size: usize) -> Result<*mut u8> {
        self.claim_for(size, 0)
    }

    /// [`Writer::claim`], for what is copied from an address.
    #[inline]
    fn claim_for(&mut self, size: usize, from: usize) -> Result<*mut u8> {
        // Saturated, it is more than any capacity, and refused as such.
        let end = self.len.saturating_add(size);
        if end > self.capacity {
            self.grow(end, from)?;
        }
        // SAFETY: `len <= capacity` of one allocation.
        let at = unsafe { self.start.add(self.len) };
        self.len = end;
        Ok(at)
    }

    /// Space for `len` bytes, which the caller copies there at once from an address, and zeros up to a multiple of four.
    #[inline]
    fn claim_padded(&mut self, len: usize, from: usize) -> Result<*mut u8> {
        let size = padded(len).max(len);
        let at = self.claim_for(size, from)?;
        if size > len {
            // The whole last word, before the bytes come: one store where the length of the padding
            // would take a call.
            // SAFETY: `size` bytes were just claimed, four at the least where any are wanted.
            unsafe { at.add(size - 4).cast::<u32>().write_unaligned(0) };
        }
        Ok(at)
    }

    /// A 32-bit integer.
    #[inline]
    pub fn write_i32(&mut self, value: i32) -> Result<()> {
        let at = self.claim(4)?;
        // SAFETY: four bytes were just claimed.
        unsafe { at.cast::<i32>().write_unaligned(value.to_le()) };
        Ok(())
    }

    /// A 64-bit integer, aligned to four bytes as Android does.
    #[inline]
    pub fn write_i64(&mut self, value: i64) -> Result<()> {
        let at = self.claim(8)?;
        // SAFETY: eight bytes were just claimed.
        unsafe { at.cast::<i64>().write_unaligned(value.to_le()) };
        Ok(())
    }

    /// Any parcelable value.
    #[inline]
    pub fn write<T: Parcelable>(&mut self, value: &T) -> Result<()> {
        value.write_to(self)
    }

    /// Bytes as they are, padded with zeros to a multiple of four, without a length.
    #[inline]
    pub fn write_raw(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.claim_padded(bytes.len(), bytes.as_ptr().addr())?;
        // SAFETY: `len` bytes were just claimed; `bytes` is borrowed, so it is not the claimed span, to
        // which no reference exists.
        unsafe { copy(bytes.as_ptr(), at, bytes.len()) };
        Ok(())
    }

    /// Words, then bytes as [`Writer::write_raw`] does.
    #[inline(always)]
    pub fn write_words<const N: usize>(&mut self, words: [i32; N], bytes: &[u8]) -> Result<()> {
        let front = size_of_val(&words);
        let from = bytes.as_ptr().addr().wrapping_sub(front);
        let at = self.claim_padded(front + bytes.len(), from)?;
        // SAFETY: so many bytes were just claimed; `bytes` is borrowed, as there.
        unsafe {
            at.cast::<[i32; N]>().write_unaligned(words.map(i32::to_le));
            copy(bytes.as_ptr(), at.add(front), bytes.len());
        }
        Ok(())
    }

    /// A byte vector: its length, then the bytes.
    #[inline]
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_len(bytes.len())?;
        self.write_raw(bytes)
    }

    /// A byte vector of `len` bytes that `fill` writes in place: no copy is made of data that is
    /// computed on the way out. What it does not write is zero.
    ///
    /// On a slot it is memory that the callee can see, and change, while it is filled.
    pub fn write_bytes_with(&mut self, len: usize, fill: impl FnOnce(&mut BytesWriter<'_>)) -> Result<()> {
        self.write_len(len)?;
        let at = self.claim(padded(len))?;
        // SAFETY: the bytes were just claimed, and nobody in this process refers to them; this writer cannot be
        // used as long as the other one lives.
        let mut bytes = unsafe {
            at.write_bytes(0, padded(len));
            BytesWriter::new(at, len)
        };
        fill(&mut bytes);
        Ok(())
    }

    /// A byte vector that is given away: an engine that gathers takes a large one from where it is
    /// (others, and small ones, are copied). It is read with `read_bytes`.
    ///
    /// `Vec<u8>`, `Arc<[u8]>` (through a newtype that implements `AsRef`) and `&'static [u8]` are
    /// examples.
    pub fn write_buffer(&mut self, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<()> {
        if self.gathers && bytes.as_ref().len() >= GATHER_FROM {
            return self.write_gathered(GatheredBuffer::owned(bytes));
        }
        self.write_bytes(bytes.as_ref())
    }

    /// The byte vector that the caller lent as number `index` with
    /// [`CallBuilder::lend`](crate::CallBuilder::lend): taken from where it is by an engine
    /// that gathers, copied by others. It is read with `read_bytes`.
    #[inline]
    pub fn write_lent(&mut self, index: usize) -> Result<()> {
        let Some(bytes) = self.lent.get(index).copied() else {
            return Err(Error::BadParcel {
                at: self.len,
                what: format!("buffer {index} is written, and {} are lent", self.lent.len()),
            });
        };
        if !self.gathers || bytes.len() < GATHER_FROM {
            return self.write_bytes(bytes);
        }
        // SAFETY: whoever lent it keeps the borrow until the call is over (`lend`).
        self.write_gathered(unsafe { GatheredBuffer::borrowed(bytes.as_ptr(), bytes.len()) })
    }

    /// Runs `with` while these buffers can be written with [`Writer::write_lent`].
    ///
    /// # Safety
    /// The buffers must stay borrowed until the parcel was taken over or dropped.
    pub(crate) unsafe fn lend<R>(&mut self, buffers: &[&[u8]], with: impl FnOnce(&mut Self) -> R) -> R {
        // SAFETY: by the caller, they are there as long as this parcel is used; the longer lifetime is
        // not seen outside of the writer, and taken back right after `with`.
        self.lent = unsafe { std::mem::transmute::<&[&[u8]], &'a [&'a [u8]]>(buffers) };
        let result = with(self);
        self.lent = &[];
        result
    }

    /// An object that refers to bytes elsewhere (`struct binder_buffer_object`).
    fn write_gathered(&mut self, bytes: GatheredBuffer) -> Result<()> {
        let mut object = [0; PTR_OBJECT_SIZE];
        object[..4].copy_from_slice(&TYPE_PTR.to_ne_bytes());
        object[8..16].copy_from_slice(&(bytes.start().addr() as u64).to_ne_bytes());
        object[16..24].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
        self.write_object(&object, Object::Buffer(bytes))
    }

    /// Descriptors and numbers that belong together, as HIDL's `handle`.
    ///
    /// An engine that gathers carries it as libhwbinder does: its size, a buffer with the structure of the C
    /// library, and an array that refers to the descriptors in it.
    pub fn write_handle(&mut self, handle: Handle) -> Result<()> {
        let Handle { fds, ints } = handle;
        let (fd_count, int_count) = Handle::counts(fds.len(), ints.len())?;
        if !self.gathers {
            self.write_i32(fd_count)?;
            self.write_i32(int_count)?;
            ints.iter().try_for_each(|int| self.write_i32(*int))?;
            return fds.into_iter().try_for_each(|fd| self.write_owned_fd(fd));
        }
        let words: Vec<i32> = [NATIVE_HANDLE as i32, fd_count, int_count]
            .into_iter()
            .chain(fds.iter().map(AsRawFd::as_raw_fd))
            .chain(ints)
            .collect();
        self.write_i64((words.len() * 4) as i64)?;
        self.write_gathered(GatheredBuffer::owned(Words(words)))?;
        if fds.is_empty() {
            return Ok(());
        }
        let mut object = [0; FDA_OBJECT_SIZE];
        object[..4].copy_from_slice(&TYPE_FDA.to_ne_bytes());
        object[8..16].copy_from_slice(&(fds.len() as u64).to_ne_bytes());
        // The place of the buffer among the parcel's objects.
        object[16..24].copy_from_slice(&(self.objects.len() as u64 - 1).to_ne_bytes());
        object[24..].copy_from_slice(&(NATIVE_HANDLE as u64).to_ne_bytes());
        self.write_object(&object, Object::FdArray(fds))
    }

    fn write_object(&mut self, bytes: &[u8], object: Object) -> Result<()> {
        let at = self.here()?;
        self.write_raw(bytes)?;
        self.objects.push((at, object));
        Ok(())
    }

    fn here(&self) -> Result<u32> {
        u32::try_from(self.len).map_err(|_| Error::TooLarge { size: self.len, limit: u32::MAX as usize })
    }

    /// A received run of bytes: copied straight from where it arrived, or left there for an engine that
    /// gathers, where that lasts long enough (a reply of what the request brought).
    #[inline]
    pub fn write_shared(&mut self, bytes: SharedBytes<'_>) -> Result<()> {
        let (first, end) = (bytes.start().addr(), bytes.start().addr() + bytes.len());
        if self.gathers && bytes.len() >= GATHER_FROM && self.kept.0 <= first && end <= self.kept.1 {
            // SAFETY: inside of what stays readable until the parcel is taken over (`gathering`).
            return self.write_gathered(unsafe { GatheredBuffer::borrowed(bytes.start(), bytes.len()) });
        }
        self.write_len(bytes.len())?;
        let at = self.claim_padded(bytes.len(), first)?;
        // SAFETY: the span was just claimed; a request that is still borrowed never lies in the
        // span that its reply is written to (the engines keep them apart).
        unsafe { bytes.copy_to_raw(at) };
        Ok(())
    }

    /// A length or count.
    #[inline]
    pub(crate) fn write_len(&mut self, len: usize) -> Result<()> {
        let count =
            i32::try_from(len).map_err(|_| Error::TooLarge { size: len, limit: i32::MAX as usize })?;
        self.write_i32(count)
    }

    /// An array: its count, then the items.
    pub fn write_slice<T: Parcelable>(&mut self, items: &[T]) -> Result<()> {
        self.write_len(items.len())?;
        T::write_items(items, self)
    }

    /// UTF-16 text with its length in units and a closing zero: AIDL's `String`.
    pub fn write_string16(&mut self, text: &str) -> Result<()> {
        let units = text.encode_utf16().count();
        self.write_len(units)?;
        let bytes = padded((units + 1) * 2);
        let at = self.claim(bytes)?;
        // SAFETY: `bytes` bytes were just claimed; units are written at even offsets inside them.
        unsafe {
            at.add(units * 2).write_bytes(0, bytes - units * 2);
            for (index, unit) in text.encode_utf16().enumerate() {
                at.add(index * 2).cast::<u16>().write_unaligned(unit.to_le());
            }
        }
        Ok(())
    }

    /// UTF-8 text with its length in bytes and a closing zero: `Parcel::writeString8`.
    pub fn write_string8(&mut self, text: &str) -> Result<()> {
        self.write_len(text.len())?;
        let bytes = padded(text.len() + 1);
        let at = self.claim(bytes)?;
        // SAFETY: as in `write_raw`, with at least one byte more.
        unsafe {
            at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            at.add(text.len()).write_bytes(0, bytes - text.len());
        }
        Ok(())
    }

    /// A null where a string, a vector or an array could stand.
    pub fn write_null_length(&mut self) -> Result<()> {
        self.write_i32(-1)
    }

    /// A structured parcelable: its size in bytes, the size itself included, then its fields.
    pub fn write_sized(&mut self, fields: impl FnOnce(&mut Writer<'a>) -> Result<()>) -> Result<()> {
        let start = self.len;
        self.write_i32(0)?;
        fields(self)?;
        let size = i32::try_from(self.len - start)
            .map_err(|_| Error::TooLarge { size: self.len - start, limit: i32::MAX as usize })?;
        // SAFETY: four bytes at `start` were written above, and `len` only grew.
        unsafe { self.start.add(start).cast::<i32>().write_unaligned(size.to_le()) };
        Ok(())
    }

    /// A reference to an object, or null.
    pub fn write_binder(&mut self, binder: Option<&Binder>) -> Result<()> {
        self.has_null |= binder.is_none();
        let at = match self.form {
            ObjectForm::Flat => self.write_flat(TYPE_BINDER)?,
            ObjectForm::Rpc => {
                let at = self.here()?;
                self.write_i32(if binder.is_some() { RPC_BINDER } else { RPC_NULL })?;
                if binder.is_some() {
                    // The address: the session gives one when the parcel is sent.
                    self.write_i64(0)?;
                }
                at
            }
        };
        // The stability that libbinder writes after each reference (0 for null, else "system").
        self.write_i32(if binder.is_some() { 12 } else { 0 })?;
        if let Some(binder) = binder {
            self.objects.push((at, Object::Binder(binder.clone())));
        }
        Ok(())
    }

    /// A file descriptor; the receiver gets a copy of its own.
    pub fn write_fd(&mut self, fd: impl AsFd) -> Result<()> {
        let copy = fd
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::io("cannot duplicate a file descriptor to send it", error))?;
        self.write_owned_fd(copy)
    }

    /// A file descriptor that the caller gives away.
    pub fn write_owned_fd(&mut self, fd: OwnedFd) -> Result<()> {
        let at = match self.form {
            ObjectForm::Flat => self.write_flat(TYPE_FD)?,
            ObjectForm::Rpc => {
                let at = self.here()?;
                let before =
                    self.objects.iter().filter(|(_, object)| matches!(object, Object::Fd(_))).count();
                self.write_i32(RPC_FD)?;
                self.write_len(before)?;
                at
            }
        };
        self.objects.push((at, Object::Fd(fd)));
        Ok(())
    }

    fn write_flat(&mut self, kind: u32) -> Result<u32> {
        let at = self.here()?;
        let mut flat = [0u8; FLAT_OBJECT_SIZE];
        flat[..4].copy_from_slice(&kind.to_le_bytes());
        self.write_raw(&flat)?;
        Ok(at)
    }
}

/// Words as the bytes that they are in memory: aligned to four, which the driver asks of descriptors in
/// a buffer.
struct Words(Vec<i32>);

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the words are initialised, any bytes are valid `u8`, and the borrow is that of `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 4) }
    }
}
