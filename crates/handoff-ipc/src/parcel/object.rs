//! What a parcel carries besides bytes: references to objects and file descriptors.

use std::os::fd::OwnedFd;

use crate::Result;
use crate::object::Binder;

/// Bytes that an object takes in a parcel's data: `struct flat_binder_object` of
/// `include/uapi/linux/android/binder.h`.
pub const FLAT_OBJECT_SIZE: usize = 24;

/// `BINDER_TYPE_BINDER`: what a null reference is written as.
pub(crate) const TYPE_BINDER: u32 = pack_chars(b's', b'b');
/// `BINDER_TYPE_FD`.
pub(crate) const TYPE_FD: u32 = pack_chars(b'f', b'd');

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
}

/// An object as it arrived: fetched by the reader at most once, and only if it is asked for.
pub trait Incoming {
    /// Takes the reference that stands at byte `at` of the data.
    fn take_binder(&mut self, at: usize) -> Result<Binder>;
    /// Takes the descriptor that stands at byte `at` of the data.
    fn take_fd(&mut self, at: usize) -> Result<OwnedFd>;
}

/// Objects of a parcel that never left this process.
impl Incoming for Vec<(u32, Option<Object>)> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match take(self, at)? {
            Object::Binder(binder) => Ok(binder),
            Object::Fd(_) => Err(wrong_kind(at, "an object reference", "a file descriptor")),
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        match take(self, at)? {
            Object::Fd(fd) => Ok(fd),
            Object::Binder(_) => Err(wrong_kind(at, "a file descriptor", "an object reference")),
        }
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
