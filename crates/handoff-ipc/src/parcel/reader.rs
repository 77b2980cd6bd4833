//! Reads a parcel where it arrived.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, compiler_fence};

use super::gathered::{Handle, NATIVE_HANDLE};
use super::object::{
    FDA_OBJECT_SIZE, FLAT_OBJECT_SIZE, Incoming, Kind, Object, ObjectForm, PTR_OBJECT_SIZE, RPC_BINDER,
    RPC_NULL, no_object, wrong_kind,
};
use super::{Parcelable, SharedBytes, padded};
use crate::object::Binder;
use crate::{Error, Result};

/// Objects with their places in the data.
pub(crate) type Placed = Vec<(usize, Object)>;

/// What the counts in one parcel have had this process allocate. A null takes four bytes of a parcel, and of memory
/// as much as the value would; so a parcel has a budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room(usize);

impl Room {
    /// Bytes that any parcel may have allocated.
    const MOST: usize = 16 << 20;
    /// And so many more for each of its own: more than what values take in memory that are not null.
    const OF_BYTE: usize = 8;

    /// Enters `count` values of `size` bytes for a parcel of `len` bytes; false if that is too much for it.
    #[must_use]
    pub fn take(&mut self, count: usize, size: usize, len: usize) -> bool {
        let most = len.saturating_mul(Self::OF_BYTE).saturating_add(Self::MOST);
        let taken =
            count.checked_mul(size).and_then(|size| size.checked_add(self.0)).filter(|taken| *taken <= most);
        self.0 = taken.unwrap_or(self.0);
        taken.is_some()
    }
}

/// How deep parcelables may be nested in each other: reading them takes stack.
const DEEPEST: u32 = 64;

/// Reads typed values in Android's layout.
///
/// Each byte is read once, out of memory that a peer may be changing: what is returned is private.
pub struct Reader<'a> {
    bytes: SharedBytes<'a>,
    at: usize,
    // Structured parcelables end here for a while; the end of the data otherwise.
    end: usize,
    // How many parcelables are open: a peer may nest them as deep as its bytes last.
    depth: u32,
    room: Room,
    form: ObjectForm,
    // They are of a slice, which nobody writes to meanwhile.
    is_private: bool,
    objects: Option<&'a mut dyn Incoming>,
}

impl<'a> Reader<'a> {
    /// Over bytes without objects.
    #[inline]
    pub fn new(bytes: SharedBytes<'a>) -> Self {
        Reader {
            bytes,
            at: 0,
            end: bytes.len(),
            depth: 0,
            room: Room(0),
            form: ObjectForm::Flat,
            is_private: false,
            objects: None,
        }
    }

    /// Over memory of this process that nobody writes to meanwhile.
    #[inline]
    pub(crate) fn of_slice(bytes: &'a [u8]) -> Self {
        Reader { is_private: true, ..Reader::new(SharedBytes::from_slice(bytes)) }
    }

    /// All that is left, where it lies: if that is memory of this process that nobody writes to, and no object stands in it.
    #[inline]
    pub fn private_rest(&self) -> Option<&'a [u8]> {
        let is_plain = self.objects.is_none() && self.form == ObjectForm::Flat;
        let rest = self.bytes.slice(self.at, self.remaining()).filter(|_| is_plain);
        rest.and_then(|rest| self.private(rest))
    }

    /// A part of the parcel as a slice, if that is memory of this process that nobody writes to.
    #[inline]
    fn private(&self, part: SharedBytes<'a>) -> Option<&'a [u8]> {
        // SAFETY: it is of a slice that is borrowed for 'a.
        self.is_private.then(|| unsafe { std::slice::from_raw_parts(part.start(), part.len()) })
    }

    /// Over bytes with the objects that came along.
    #[inline]
    pub fn with_objects(bytes: SharedBytes<'a>, objects: &'a mut dyn Incoming) -> Self {
        Reader::new(bytes).along_with(objects)
    }

    /// With the objects that came along.
    #[inline]
    pub(crate) fn along_with(mut self, objects: &'a mut dyn Incoming) -> Self {
        self.objects = Some(objects);
        self
    }

    /// References and descriptors stand in the form of Binder RPC.
    pub(crate) fn in_rpc_form(mut self) -> Self {
        self.form = ObjectForm::Rpc;
        self
    }

    /// The form of references and descriptors.
    pub(crate) fn form(&self) -> ObjectForm {
        self.form
    }

    /// The same, from where this one is, for as long as this one is not used.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> Reader<'_> {
        let Reader { bytes, at, end, depth, room, form, is_private, .. } = *self;
        let objects = self.objects.as_mut().map(|objects| &mut **objects as &mut dyn Incoming);
        Reader { bytes, at, end, depth, room, form, is_private, objects }
    }

    /// Offset of the next byte to be read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }

    #[cold]
    fn short(&self, size: usize) -> Error {
        self.bad(format!("{size} bytes are wanted and {} are left", self.remaining()))
    }

    /// An error at the present position.
    #[cold]
    pub fn bad(&self, what: impl Into<String>) -> Error {
        Error::BadParcel { at: self.at, what: what.into() }
    }

    #[inline]
    fn claim(&mut self, size: usize) -> Result<*const u8> {
        if size > self.remaining() {
            return Err(self.short(size));
        }
        // SAFETY: `at + size <= end <= bytes.len()`.
        let from = unsafe { self.bytes.start().add(self.at) };
        self.at += size;
        Ok(from)
    }

    /// A 32-bit integer.
    #[inline]
    pub fn read_i32(&mut self) -> Result<i32> {
        let mut raw = [0u8; 4];
        let from = self.claim(4)?;
        // SAFETY: four bytes were claimed; copied out once, torn or not.
        unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(from, 4) };
        // What is used is this copy: the compiler may not go back to where it came from.
        compiler_fence(Ordering::SeqCst);
        Ok(i32::from_le_bytes(raw))
    }

    /// A 64-bit integer.
    #[inline]
    pub fn read_i64(&mut self) -> Result<i64> {
        let mut raw = [0u8; 8];
        let from = self.claim(8)?;
        // SAFETY: eight bytes were claimed; copied out once, torn or not.
        unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(from, 8) };
        // As above.
        compiler_fence(Ordering::SeqCst);
        Ok(i64::from_le_bytes(raw))
    }

    /// Passes over the next bytes if they are these; otherwise nothing is read.
    #[inline]
    pub(crate) fn pass(&mut self, expected: &[u8]) -> bool {
        let Some(found) = self.bytes.slice(self.at, expected.len()) else { return false };
        if expected.len() > self.remaining() || !found.equals(expected) {
            return false;
        }
        self.at += expected.len();
        true
    }

    /// Any parcelable value.
    #[inline]
    pub fn read<T: Parcelable>(&mut self) -> Result<T> {
        T::read_from(self)
    }

    /// `len` bytes that were written with `write_raw`, borrowed.
    #[inline]
    pub fn read_raw(&mut self, len: usize) -> Result<SharedBytes<'a>> {
        if len > self.remaining() {
            return Err(self.short(len));
        }
        // SAFETY: `at + len <= end <= bytes.len()`.
        let found = unsafe { SharedBytes::new(self.bytes.start().add(self.at), len) };
        self.at = (self.at + padded(len)).min(self.end);
        Ok(found)
    }

    /// A count, checked against the bytes that so many items need at the least; `None` for null.
    #[inline]
    pub fn read_count(&mut self, least_item_size: usize) -> Result<Option<usize>> {
        match self.read_i32()? {
            -1 => Ok(None),
            count => match usize::try_from(count) {
                Ok(n) if n.checked_mul(least_item_size).is_some_and(|b| b <= self.remaining()) => Ok(Some(n)),
                _ => Err(self.bad_count(count)),
            },
        }
    }

    /// Before memory is allocated for `count` values of `size` bytes each, because a peer says that so many come, or
    /// asks for room for them.
    ///
    /// # Errors
    /// If that is more than a parcel of this size may have; see [`Room`].
    pub fn make_room(&mut self, count: usize, size: usize) -> Result<()> {
        if self.room.take(count, size, self.bytes.len()) { Ok(()) } else { Err(self.no_room(count, size)) }
    }

    #[cold]
    fn no_room(&self, count: usize, size: usize) -> Error {
        let len = self.bytes.len();
        self.bad(format!("{count} more values of {size} bytes: too much memory for a parcel of {len} bytes"))
    }

    #[cold]
    fn bad_count(&self, count: i32) -> Error {
        self.bad(format!("a count of {count} in front of {} bytes", self.remaining()))
    }

    /// A byte vector, borrowed where it arrived: no copy is made, whether it stands in the parcel or
    /// was gathered from where its sender had it.
    #[inline]
    pub fn read_bytes(&mut self) -> Result<SharedBytes<'a>> {
        if self.objects.is_some() {
            if let Some(gathered) = self.gathered()? {
                return Ok(gathered);
            }
        }
        self.read_bytes_here()
    }

    /// A byte vector that stands in the parcel.
    #[inline]
    fn read_bytes_here(&mut self) -> Result<SharedBytes<'a>> {
        let Some(len) = self.read_count(1)? else { return Err(self.null()) };
        self.read_raw(len)
    }

    /// A byte vector for who only looks at it: borrowed where it lies if that is memory of this process that nobody writes
    /// to, copied out of any other.
    ///
    /// # Errors
    /// If none is there, or it is null.
    #[inline]
    pub fn read_byte_slice(&mut self) -> Result<Cow<'a, [u8]>> {
        let bytes = self.read_bytes_here()?;
        Ok(self.private(bytes).map_or_else(|| Cow::Owned(bytes.to_vec()), Cow::Borrowed))
    }

    /// The buffer that an object at this place refers to, if one stands here.
    #[inline(never)]
    fn gathered(&mut self) -> Result<Option<SharedBytes<'a>>> {
        let Some(objects) = self.objects.as_deref() else { return Ok(None) };
        let Some(found) = objects.buffer(self.at)? else { return Ok(None) };
        // SAFETY: the engine's table of objects vouches for the bytes as long as for the parcel's own:
        // they were delivered together, and are given back together.
        let found = unsafe { SharedBytes::new(found.start(), found.len()) };
        self.claim(PTR_OBJECT_SIZE)?;
        Ok(Some(found))
    }

    /// Descriptors and numbers that belong together, as [`Writer::write_handle`](super::Writer) puts
    /// them.
    pub fn read_handle(&mut self) -> Result<Handle> {
        let is_gathered = match self.objects.as_deref() {
            Some(objects) => objects.buffer(self.at + 8)?.is_some(),
            None => false,
        };
        if !is_gathered {
            let (fds, ints) = (self.read_handle_count()?, self.read_handle_count()?);
            let ints = (0..ints).map(|_| self.read_i32()).collect::<Result<_>>()?;
            let fds = (0..fds).map(|_| self.read_fd()).collect::<Result<_>>()?;
            return Ok(Handle { fds, ints });
        }
        let size = self.read_i64()?;
        let Some(words) = self.gathered()? else { return Err(no_object(self.at)) };
        if i64::try_from(words.len()) != Ok(size) {
            return Err(self.bad(format!("a handle of {size} bytes in a buffer of {}", words.len())));
        }
        let mut words = Reader::new(words);
        let version = words.read_i32()?;
        if version != NATIVE_HANDLE as i32 {
            return Err(self.bad(format!("a handle of version {version}, not {NATIVE_HANDLE}")));
        }
        let (fd_count, int_count) = (words.read_handle_count()?, words.read_handle_count()?);
        if words.remaining() != (fd_count + int_count) * 4 {
            return Err(self.bad("a handle that is shorter or longer than it says"));
        }
        words.read_raw(fd_count * 4)?;
        let ints = (0..int_count).map(|_| words.read_i32()).collect::<Result<_>>()?;
        if fd_count == 0 {
            return Ok(Handle { fds: Vec::new(), ints });
        }
        let at = self.at;
        self.claim(FDA_OBJECT_SIZE)?;
        let fds = match self.objects.as_deref() {
            Some(objects) => objects.fd_array(at, NATIVE_HANDLE)?,
            None => return Err(no_object(at)),
        };
        if fds.len() != fd_count {
            return Err(self.bad(format!("{} descriptors of a handle's {fd_count}", fds.len())));
        }
        Ok(Handle { fds, ints })
    }

    fn read_handle_count(&mut self) -> Result<usize> {
        let count = self.read_i32()?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= Handle::MOST)
            .ok_or_else(|| self.bad(format!("a handle with {count} descriptors or numbers")))
    }

    /// The error of a null at the present position, where none is allowed.
    #[cold]
    pub fn null(&self) -> Error {
        self.bad("null where a value is required")
    }

    /// UTF-16 text, or null.
    pub fn read_string16(&mut self) -> Result<Option<String>> {
        let Some(units) = self.read_count(2)? else { return Ok(None) };
        let raw = self.read_raw((units + 1) * 2)?.to_vec();
        let (text, end) = raw.split_at(units * 2);
        if end != [0, 0] {
            return Err(self.bad("UTF-16 text without its closing zero"));
        }
        let units: Vec<u16> =
            text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map(Some).map_err(|_| self.bad("text that is not UTF-16"))
    }

    /// UTF-8 text, or null.
    pub fn read_string8(&mut self) -> Result<Option<String>> {
        let Some(len) = self.read_count(1)? else { return Ok(None) };
        let mut raw = self.read_raw(len + 1)?.to_vec();
        if raw.pop() != Some(0) {
            return Err(self.bad("text without its closing zero"));
        }
        String::from_utf8(raw).map(Some).map_err(|_| self.bad("text that is not UTF-8"))
    }

    /// A structured parcelable: `fields` sees no byte after its end, and what it leaves unread
    /// (fields of a newer version) is skipped.
    pub fn read_sized<T>(&mut self, fields: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let start = self.at;
        let size = self.read_i32()?;
        let end = usize::try_from(size)
            .ok()
            .filter(|size| *size >= 4)
            .and_then(|size| start.checked_add(size))
            .filter(|end| *end <= self.end)
            .ok_or_else(|| self.bad(format!("a parcelable of {size} bytes does not fit here")))?;
        let outer = std::mem::replace(&mut self.end, end);
        let value = self.deeper(fields);
        self.end = outer;
        self.at = end;
        value
    }

    /// What a parcelable holds, if it is not nested deeper than anybody's is.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEEPEST {
            return Err(self.bad(format!("parcelables nested deeper than {DEEPEST} levels")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// A reference to an object, or null.
    pub fn read_binder(&mut self) -> Result<Option<Binder>> {
        let at = self.at;
        let is_null = match self.form {
            ObjectForm::Flat => {
                let flat = self.flat()?;
                self.read_i32()? == 0 && flat[8..16] == [0; 8]
            }
            ObjectForm::Rpc => {
                let kind = self.read_i32()?;
                if kind == RPC_BINDER {
                    self.read_i64()?;
                } else if kind != RPC_NULL {
                    return Err(wrong_kind(at, "an object reference", &format!("kind {kind}")));
                }
                self.read_i32()?;
                kind == RPC_NULL
            }
        };
        if is_null {
            return Ok(None);
        }
        match self.objects.as_deref_mut() {
            Some(objects) => objects.take_binder(at).map(Some),
            None => Err(no_object(at)),
        }
    }

    /// A file descriptor.
    pub fn read_fd(&mut self) -> Result<OwnedFd> {
        let at = self.at;
        match self.form {
            ObjectForm::Flat => drop(self.flat()?),
            ObjectForm::Rpc => drop(self.read_i64()?),
        }
        match self.objects.as_deref_mut() {
            Some(objects) => objects.take_fd(at),
            None => Err(no_object(at)),
        }
    }

    /// Whether objects came along.
    #[inline]
    pub(super) fn may_have_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// All bytes that are left, in the place of what `bytes` holds.
    #[inline(always)]
    pub(super) fn rest_into(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        self.read_raw(self.remaining())?.copy_into(bytes);
        Ok(())
    }

    /// Everything that is left: the bytes, in the place of what `bytes` holds, and each object with its place among them.
    ///
    /// # Errors
    /// If the sender's table of objects is none: places that do not lie in the data, or meet.
    pub(super) fn rest(&mut self, bytes: &mut Vec<u8>) -> Result<Placed> {
        self.placed(self.remaining(), usize::MAX, bytes)
    }

    /// The next `size` bytes, and the objects in them, as [`Reader::rest`] gives all that is left.
    pub(super) fn part(&mut self, size: i32, bytes: &mut Vec<u8>) -> Result<Placed> {
        match usize::try_from(size).ok().filter(|size| size % 4 == 0 && *size <= self.remaining()) {
            Some(size) => self.placed(size, self.at + size, bytes),
            None => Err(self.bad(format!("{size} bytes do not lie within what is left here"))),
        }
    }

    /// So many bytes, and the objects that begin in front of `behind`.
    fn placed(&mut self, size: usize, behind: usize, bytes: &mut Vec<u8>) -> Result<Placed> {
        let first = self.at;
        self.read_raw(size)?.copy_into(bytes);
        let Some(table) = self.objects.as_deref_mut() else { return Ok(Vec::new()) };
        let mut places = table.places();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        places.sort_unstable_by_key(|(at, _)| *at);
        let (mut objects, mut free) = (Vec::with_capacity(places.len()), first);
        for (at, kind) in places.into_iter().filter(|(at, _)| (first..behind).contains(at)) {
            let Some(end) = self.form.end_of(kind, at, free, first + size) else {
                return Err(Error::BadParcel { at, what: "an object that overlaps something else".into() });
            };
            free = end;
            let object = match kind {
                Kind::Binder => Object::Binder(table.take_binder(at)?),
                Kind::Fd => Object::Fd(table.take_fd(at)?),
            };
            objects.push((at - first, object));
        }
        Ok(objects)
    }

    fn flat(&mut self) -> Result<[u8; FLAT_OBJECT_SIZE]> {
        let mut flat = [0u8; FLAT_OBJECT_SIZE];
        self.read_raw(FLAT_OBJECT_SIZE)?.copy_to(&mut flat);
        Ok(flat)
    }
}
