//! The parcel: typed values in Android's wire layout, written to and read from memory that the
//! engine owns.
//!
//! Everything is padded to four bytes, little-endian on every machine that we support; 64-bit
//! values are aligned to four bytes only, as in Android's `libbinder/Parcel.cpp`. An engine hands a
//! [`Writer`] over the place where the bytes travel (a call slot, a driver buffer), so that they
//! are written once; a [`Reader`] borrows them where they arrived.

mod bundle;
mod bytes;
mod copy;
mod data;
mod gathered;
mod holder;
mod object;
mod owned;
mod reader;
mod structured;
#[cfg(test)]
mod tests;
mod types;
mod writer;

pub use bundle::{BundleValue, PersistableBundle};
pub use bytes::{BytesWriter, SharedBytes};
pub use data::{ParcelData, ParcelObject};
pub(crate) use gathered::NATIVE_HANDLE;
pub use gathered::{GatheredBuffer, Handle};
pub use holder::{Holdable, ParcelableHolder, Stability};
pub(crate) use object::{
    FDA_OBJECT_SIZE, LEAST_OBJECT_SIZE, PTR_OBJECT_SIZE, RPC_BINDER, RPC_FD, Sealed, TYPE_FDA, TYPE_PTR,
    no_object, wrong_kind,
};
pub use object::{FLAT_OBJECT_SIZE, Incoming, Kind, Object, Parcelable};
pub use owned::Parcel;
pub use reader::{Reader, Room};
pub use structured::{BareFd, CharSequence};
pub use types::{Nullable, Utf8};
pub use writer::Writer;
pub(crate) use writer::{LINE, Spill};

/// Bytes after `len` until the next multiple of four.
#[inline]
pub(crate) fn padded(len: usize) -> usize {
    len.wrapping_add(3) & !3
}
