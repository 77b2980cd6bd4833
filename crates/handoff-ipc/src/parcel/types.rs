//! How Rust's types stand in a parcel.

use std::os::fd::OwnedFd;

use super::{Parcelable, Reader, Writer};
use crate::Result;
use crate::object::Binder;

/// A value that may also be null: `Option` of it travels in AIDL's `@nullable` form.
pub trait Nullable: Parcelable + Sized {
    /// Appends a null.
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(0)
    }

    /// Appends a value so that it can be told from null.
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(1)?;
        self.write_to(to)
    }

    /// Takes a value or null.
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        match from.read_i32()? {
            0 => Ok(None),
            _ => Self::read_from(from).map(Some),
        }
    }
}

impl<T: Nullable> Parcelable for Option<T> {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        match self {
            Some(value) => value.write_some(to),
            None => T::write_null(to),
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        T::read_nullable(from)
    }
}

macro_rules! as_number {
    ($($type:ty => $write:ident($wide:ty), $read:ident, $size:literal);+ $(;)?) => { $(
        impl Parcelable for $type {
            const LEAST_SIZE: usize = $size;
            #[inline]
            fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
                to.$write(*self as $wide)
            }
            #[inline]
            fn read_from(from: &mut Reader<'_>) -> Result<Self> {
                from.$read().map(|raw| raw as $type)
            }
        }
    )+ };
}

as_number! {
    i32 => write_i32(i32), read_i32, 4;
    u32 => write_i32(i32), read_i32, 4;
    i16 => write_i32(i32), read_i32, 4;
    u16 => write_i32(i32), read_i32, 4;
    i64 => write_i64(i64), read_i64, 8;
    u64 => write_i64(i64), read_i64, 8;
}

impl Parcelable for f32 {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(self.to_bits() as i32)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i32().map(|raw| f32::from_bits(raw as u32))
    }
}

impl Parcelable for f64 {
    const LEAST_SIZE: usize = 8;
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i64(self.to_bits() as i64)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i64().map(|raw| f64::from_bits(raw as u64))
    }
}

impl Parcelable for bool {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(i32::from(*self))
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i32().map(|raw| raw != 0)
    }
}

/// Alone in 32 bits, packed in arrays.
impl Parcelable for u8 {
    const LEAST_SIZE: usize = 1;
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(i32::from(*self))
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i32().map(|raw| raw as u8)
    }
    fn write_items(items: &[Self], to: &mut Writer<'_>) -> Result<()> {
        to.write_raw(items)
    }
    fn read_items(count: usize, from: &mut Reader<'_>) -> Result<Vec<Self>> {
        Ok(from.read_raw(count)?.to_vec())
    }
}

/// AIDL's `byte`: alone in 32 bits, packed in arrays.
impl Parcelable for i8 {
    const LEAST_SIZE: usize = 1;
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(i32::from(*self))
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_i32().map(|raw| raw as i8)
    }
    fn write_items(items: &[Self], to: &mut Writer<'_>) -> Result<()> {
        to.write_raw(&items.iter().map(|item| *item as u8).collect::<Vec<u8>>())
    }
    fn read_items(count: usize, from: &mut Reader<'_>) -> Result<Vec<Self>> {
        Ok(u8::read_items(count, from)?.into_iter().map(|byte| byte as i8).collect())
    }
}

impl<T: Parcelable> Parcelable for Vec<T> {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_slice(self)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl<T: Parcelable> Nullable for Vec<T> {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_null_length()
    }
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        match from.read_count(T::LEAST_SIZE)? {
            Some(count) => T::read_items(count, from).map(Some),
            None => Ok(None),
        }
    }
}

/// AIDL's `String`: UTF-16 on the wire.
impl Parcelable for String {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_string16(self)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_string16()?.ok_or_else(|| from.null())
    }
}

impl Nullable for String {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_null_length()
    }
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        from.read_string16()
    }
}

/// Text that travels as UTF-8 (`Parcel::writeString8`): half the bytes where both ends agree on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Utf8(pub String);

impl Parcelable for Utf8 {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_string8(&self.0)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl Nullable for Utf8 {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_null_length()
    }
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        Ok(from.read_string8()?.map(Utf8))
    }
}

impl Parcelable for Binder {
    const LEAST_SIZE: usize = super::LEAST_OBJECT_SIZE;
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_binder(Some(self))
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_binder()?.ok_or_else(|| from.null())
    }
}

impl Nullable for Binder {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_binder(None)
    }
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        from.read_binder()
    }
}

/// As AIDL's `ParcelFileDescriptor`: no status channel, then the descriptor. Write with
/// [`Writer::write_fd`]'s bare form for HIDL handles and `FileDescriptor`.
impl Parcelable for OwnedFd {
    const LEAST_SIZE: usize = super::LEAST_OBJECT_SIZE;
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(1)?; // not null
        to.write_i32(0)?; // without a status channel
        to.write_fd(self)
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl Nullable for OwnedFd {
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }
    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        if from.read_i32()? == 0 {
            return Ok(None);
        }
        if from.read_i32()? != 0 {
            return Err(from.bad("a file descriptor with a status channel, which is not supported"));
        }
        from.read_fd().map(Some)
    }
}
