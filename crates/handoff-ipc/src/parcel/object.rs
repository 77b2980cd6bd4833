//! What a parcel carries: values that say how they stand in it, references to objects, file descriptors.

use std::os::fd::OwnedFd;

use super::bytes::SharedBytes;
use super::gathered::GatheredBuffer;
use super::{Reader, Writer};
use crate::Result;
use crate::object::Binder;

/// A value that travels in a parcel.
///
/// Structured parcelables of your own write their fields inside [`Writer::write_sized`], so that
/// a newer version can add fields at the end:
///
/// ```
/// use handoff_ipc::parcel::{Nullable, Parcelable, Reader, Writer};
///
/// struct Point { x: i32, y: i32 }
///
/// impl Parcelable for Point {
///     fn write_to(&self, to: &mut Writer<'_>) -> handoff_ipc::Result<()> {
///         to.write_sized(|to| {
///             to.write(&self.x)?;
///             to.write(&self.y)
///         })
///     }
///     fn read_from(from: &mut Reader<'_>) -> handoff_ipc::Result<Self> {
///         from.read_sized(|from| Ok(Point { x: from.read()?, y: from.read()? }))
///     }
/// }
/// impl Nullable for Point {}
/// ```
pub trait Parcelable {
    /// Least bytes that a value takes: what a count is checked against before memory is reserved.
    const LEAST_SIZE: usize = 4;

    /// Appends the value.
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()>;

    /// Takes the value.
    fn read_from(from: &mut Reader<'_>) -> Result<Self>
    where
        Self: Sized;

    /// Appends an array's items; bytes are packed, everything else goes one by one.
    fn write_items(items: &[Self], to: &mut Writer<'_>) -> Result<()>
    where
        Self: Sized,
    {
        items.iter().try_for_each(|item| item.write_to(to))
    }

    /// Takes `count` items of an array.
    fn read_items(count: usize, from: &mut Reader<'_>) -> Result<Vec<Self>>
    where
        Self: Sized,
    {
        from.make_room(count, size_of::<Self>())?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(Self::read_from(from)?);
        }
        Ok(items)
    }
}

/// Bytes that an object takes in a parcel's data: `struct flat_binder_object` of
/// `include/uapi/linux/android/binder.h`.
pub const FLAT_OBJECT_SIZE: usize = 24;

/// `BINDER_TYPE_BINDER`: what a null reference is written as.
pub(crate) const TYPE_BINDER: u32 = pack_chars(b's', b'b');
/// `BINDER_TYPE_PTR`.
pub(crate) const TYPE_PTR: u32 = pack_chars(b'p', b't');
/// Bytes of `struct binder_buffer_object`.
pub(crate) const PTR_OBJECT_SIZE: usize = 40;
/// `BINDER_TYPE_FDA`.
pub(crate) const TYPE_FDA: u32 = u32::from_be_bytes([b'f', b'd', b'a', 0x85]);
/// Bytes of `struct binder_fd_array_object`.
pub(crate) const FDA_OBJECT_SIZE: usize = 32;
/// `BINDER_TYPE_FD`.
pub(crate) const TYPE_FD: u32 = pack_chars(b'f', b'd');

/// How references and descriptors stand in a parcel's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ObjectForm {
    /// As the kernel's driver wants them: `flat_binder_object`.
    #[default]
    Flat,
    /// As in parcels of Binder RPC: a kind, and the address of the object or the number of the descriptor among
    /// those that come along.
    Rpc,
}

impl ObjectForm {
    /// Bytes of a reference without the stability behind it.
    pub(crate) const fn binder_size(self) -> usize {
        match self {
            ObjectForm::Flat => FLAT_OBJECT_SIZE,
            ObjectForm::Rpc => 12,
        }
    }

    /// Bytes of a descriptor.
    pub(crate) const fn fd_size(self) -> usize {
        match self {
            ObjectForm::Flat => FLAT_OBJECT_SIZE,
            ObjectForm::Rpc => LEAST_OBJECT_SIZE,
        }
    }

    /// Where an object at byte `at` ends: it begins at a multiple of four, not before byte `free`, and lies within `len`
    /// bytes. `None` for one that does not.
    pub(crate) fn end_of(self, kind: Kind, at: usize, free: usize, len: usize) -> Option<usize> {
        let size = match kind {
            Kind::Binder => self.binder_size(),
            Kind::Fd => self.fd_size(),
        };
        let end = at.checked_add(size).filter(|end| *end <= len)?;
        (at >= free && at % 4 == 0).then_some(end)
    }
}

/// Bytes that any object takes at the least: a null reference with its stability, and a descriptor, in the form of RPC.
pub(crate) const LEAST_OBJECT_SIZE: usize = 8;

/// Kinds of objects in the form of RPC (`RpcFields::ObjectType`).
pub(crate) const RPC_NULL: i32 = 0;
pub(crate) const RPC_BINDER: i32 = 1;
pub(crate) const RPC_FD: i32 = 2;

const fn pack_chars(first: u8, second: u8) -> u32 {
    u32::from_be_bytes([first, second, b'*', 0x85])
}

/// An object on its way out.
#[derive(Debug)]
pub enum Object {
    /// A reference to an object, here or elsewhere.
    Binder(Binder),
    /// A file descriptor; the receiver gets its own copy.
    Fd(OwnedFd),
    /// Bytes that stay where they are until the engine takes them. Only in parcels that gather.
    Buffer(GatheredBuffer),
    /// Descriptors whose numbers stand in the buffer before it, behind the header of a
    /// `native_handle_t`. Only in parcels that gather.
    FdArray(Vec<OwnedFd>),
}

impl Object {
    fn kind(&self) -> &'static str {
        match self {
            Object::Binder(_) => "an object reference",
            Object::Fd(_) => "a file descriptor",
            Object::Buffer(_) => "a buffer",
            Object::FdArray(_) => "an array of file descriptors",
        }
    }
}

mod sealed {
    /// Only engines of this crate bring objects: readers believe what they say of memory.
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// What stands at a place of a parcel, for whoever takes everything out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A reference to an object.
    Binder,
    /// A file descriptor.
    Fd,
}

/// Objects as they arrived: each fetched by the reader at most once, and only if it is asked for.
pub trait Incoming: Sealed {
    /// Takes the reference that stands at byte `at` of the data.
    fn take_binder(&mut self, at: usize) -> Result<Binder>;
    /// Takes the descriptor that stands at byte `at` of the data.
    fn take_fd(&mut self, at: usize) -> Result<OwnedFd>;
    /// Where references and descriptors stand that were not taken yet, in no order. It is the sender's word:
    /// not even that they lie within the data is known.
    fn places(&self) -> Vec<(usize, Kind)>;
    /// The buffer that the object at byte `at` refers to; `None` if no such object stands there. It
    /// stays as long as the parcel's data do.
    fn buffer(&self, _at: usize) -> Result<Option<SharedBytes<'_>>> {
        Ok(None)
    }
    /// Copies of the descriptors that the array at byte `at` refers to; they stand at `first` of the
    /// buffer before it.
    fn fd_array(&self, at: usize, _first: usize) -> Result<Vec<OwnedFd>> {
        Err(no_object(at))
    }
}

impl Sealed for Vec<(u32, Option<Object>)> {}

/// Objects of a parcel that never left this process.
impl Incoming for Vec<(u32, Option<Object>)> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match take(self, at)? {
            Object::Binder(binder) => Ok(binder),
            other => Err(wrong_kind(at, "an object reference", other.kind())),
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        match take(self, at)? {
            Object::Fd(fd) => Ok(fd),
            other => Err(wrong_kind(at, "a file descriptor", other.kind())),
        }
    }

    fn places(&self) -> Vec<(usize, Kind)> {
        let kind = |object: &Object| match object {
            Object::Binder(_) => Some(Kind::Binder),
            Object::Fd(_) => Some(Kind::Fd),
            Object::Buffer(_) | Object::FdArray(_) => None,
        };
        self.iter().filter_map(|(at, object)| Some((*at as usize, kind(object.as_ref()?)?))).collect()
    }
}

fn take(table: &mut [(u32, Option<Object>)], at: usize) -> Result<Object> {
    table
        .iter_mut()
        .find(|(offset, _)| *offset as usize == at)
        .and_then(|(_, object)| object.take())
        .ok_or_else(|| no_object(at))
}

pub(crate) fn no_object(at: usize) -> crate::Error {
    crate::Error::BadParcel { at, what: "no object is recorded here, or it was already read".into() }
}

pub(crate) fn wrong_kind(at: usize, wanted: &str, found: &str) -> crate::Error {
    crate::Error::BadParcel { at, what: format!("expected {wanted}, found {found}") }
}
