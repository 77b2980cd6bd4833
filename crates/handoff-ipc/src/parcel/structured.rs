//! What interfaces that a compiler read need of a parcel: parcelables and unions as Android's
//! compiler lays them out, and types that only such interfaces use.

use std::os::fd::OwnedFd;

use super::{LEAST_OBJECT_SIZE, Nullable, Parcelable, Reader, Writer};
use crate::{Error, ExceptionCode, Result, Status};

impl Writer<'_> {
    /// A parcelable as an argument, a field or an item: that it is not null, its size, its fields.
    pub fn write_structured(&mut self, fields: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.write_i32(1)?;
        self.write_sized(fields)
    }

    /// A value, or null.
    pub fn write_nullable<T: Nullable>(&mut self, value: Option<&T>) -> Result<()> {
        match value {
            Some(value) => value.write_some(self),
            None => T::write_null(self),
        }
    }

    /// An array, or null.
    pub fn write_nullable_slice<T: Parcelable>(&mut self, items: Option<&[T]>) -> Result<()> {
        match items {
            Some(items) => self.write_slice(items),
            None => self.write_null_length(),
        }
    }

    /// Text, or null.
    pub fn write_nullable_string16(&mut self, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) => self.write_string16(text),
            None => self.write_null_length(),
        }
    }

    /// A value that must be there by now, such as a field of a parcelable that has no default.
    ///
    /// # Errors
    /// A null-pointer status if it is not; `what` says which it is.
    pub fn write_required<T: Parcelable>(&mut self, value: Option<&T>, what: &str) -> Result<()> {
        match value {
            Some(value) => self.write(value),
            None => {
                Err(Status::new(ExceptionCode::NullPointer, format!("{what} must be set and is not")).into())
            }
        }
    }

    /// The length of an array that the callee fills; `None` where there is no array.
    pub fn write_length(&mut self, length: Option<usize>) -> Result<()> {
        match length {
            Some(length) => self.write_len(length),
            None => self.write_null_length(),
        }
    }
}

impl Reader<'_> {
    /// What [`Writer::write_structured`] wrote, or null. Fields that a newer version added are
    /// skipped; where [`Reader::remaining`] is 0, an older one has written no more.
    pub fn read_structured<T>(&mut self, fields: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        self.read_some(|from| from.read_sized(fields))
    }

    /// What `read` reads, or null: the mark in front of a parcelable says which.
    pub fn read_some<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.read_i32()? {
            0 => Ok(None),
            _ => read(self).map(Some),
        }
    }

    /// A union: that it is not null, the number of its field, and what `field` reads for it.
    pub fn read_tagged<T>(&mut self, field: impl FnOnce(i32, &mut Self) -> Result<T>) -> Result<Option<T>> {
        self.read_some(|from| from.read_tag(field))
    }

    /// The number of a union's field, and what `field` reads for it.
    pub fn read_tag<T>(&mut self, field: impl FnOnce(i32, &mut Self) -> Result<T>) -> Result<T> {
        let tag = self.read_i32()?;
        self.deeper(|from| field(tag, from))
    }

    /// Room for an array that the caller wants to be filled, of the length that it says.
    pub fn read_room<T: Default>(&mut self) -> Result<Vec<T>> {
        self.read_nullable_room()?.ok_or_else(|| self.null())
    }

    /// [`Reader::read_room`], where there may be no array.
    pub fn read_nullable_room<T: Default>(&mut self) -> Result<Option<Vec<T>>> {
        let length = self.read_i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length)
            .map_err(|_| self.bad(format!("an array of {length} items is to be filled")))?;
        self.make_room(length, size_of::<T>().max(1))?;
        Ok(Some((0..length).map(|_| T::default()).collect()))
    }
}

/// An array of one length: its count, which must be that length, then the items.
impl<T: Parcelable, const N: usize> Parcelable for [T; N] {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_slice(self)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl<T: Parcelable, const N: usize> Nullable for [T; N] {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        to.write_null_length()
    }

    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        let Some(items) = Vec::<T>::read_nullable(from)? else { return Ok(None) };
        let count = items.len();
        items
            .try_into()
            .map(Some)
            .map_err(|_| from.bad(format!("an array of {N} items is wanted and one of {count} came")))
    }
}

/// As what it holds: for types that contain themselves.
impl<T: Parcelable> Parcelable for Box<T> {
    const LEAST_SIZE: usize = T::LEAST_SIZE;

    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        (**self).write_to(to)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        // Of a value from a peer that knows no fields, or null ones, little stands in the parcel.
        from.make_room(1, size_of::<T>())?;
        T::read_from(from).map(Box::new)
    }
}

impl<T: Nullable> Nullable for Box<T> {
    fn write_null(to: &mut Writer<'_>) -> Result<()> {
        T::write_null(to)
    }

    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        (**self).write_some(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        from.make_room(1, size_of::<T>())?;
        Ok(T::read_nullable(from)?.map(Box::new))
    }
}

/// Java's `CharSequence`, without styles (`TextUtils.writeToParcel`): that it is not null, that it
/// is plain, and the text in UTF-8. Of one with styles the text is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CharSequence(pub String);

/// Kind of a `CharSequence` without styles.
const PLAIN: i32 = 1;

impl Parcelable for CharSequence {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(1)?;
        to.write_i32(PLAIN)?;
        to.write_string8(&self.0)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl Nullable for CharSequence {
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        if from.read_i32()? == 0 {
            return Ok(None);
        }
        let kind = from.read_i32()?;
        let text = from.read_string8()?;
        if kind != PLAIN && from.read_i32()? != 0 {
            return Err(from.bad("text with styles, which only Java can read"));
        }
        Ok(text.map(CharSequence))
    }
}

/// A descriptor without the header of a `ParcelFileDescriptor`: Java's `FileDescriptor`.
#[derive(Debug)]
pub struct BareFd(pub OwnedFd);

impl Parcelable for BareFd {
    const LEAST_SIZE: usize = LEAST_OBJECT_SIZE;

    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_fd(&self.0)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_fd().map(BareFd)
    }
}

/// Android has no null for it.
impl Nullable for BareFd {
    fn write_null(_: &mut Writer<'_>) -> Result<()> {
        Err(Error::Status(Status::new(ExceptionCode::NullPointer, "a bare file descriptor cannot be null")))
    }

    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        Self::read_from(from).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;

    fn bytes(write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        write(&mut writer).unwrap();
        drop(writer.finish());
        bytes
    }

    fn read<T: Parcelable>(bytes: &[u8]) -> Result<T> {
        Reader::new(SharedBytes::from_slice(bytes)).read()
    }

    #[test]
    fn fixed_arrays_have_their_count_in_front_in_each_dimension() {
        let array = [[1i32, 2], [3, 4]];
        let written = bytes(|to| to.write(&array));
        assert_eq!(written[..4], [2, 0, 0, 0]);
        assert_eq!(written[4..12], [2, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(read::<[[i32; 2]; 2]>(&written).unwrap(), array);
        assert!(read::<[[i32; 2]; 3]>(&written).is_err());
        assert_eq!(bytes(|to| to.write(&[1u8, 2, 3])), [3, 0, 0, 0, 1, 2, 3, 0]);
        assert_eq!(read::<Option<[u8; 3]>>(&[0xff; 4]).unwrap(), None);
    }

    #[test]
    fn char_sequences_are_plain_utf8() {
        let written = bytes(|to| to.write(&CharSequence("ab".into())));
        assert_eq!(written, [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 0, 0]);
        assert_eq!(read::<CharSequence>(&written).unwrap().0, "ab");
        assert_eq!(read::<Option<CharSequence>>(&[0; 4]).unwrap(), None);
    }

    #[test]
    fn room_is_bounded() {
        let ask = |length: i32| {
            let bytes = length.to_le_bytes();
            Reader::new(SharedBytes::from_slice(&bytes)).read_room::<u64>().map(|room| room.len())
        };
        assert_eq!(ask(3).unwrap(), 3);
        assert!(ask(-1).is_err() && ask(-2).is_err() && ask(i32::MAX).is_err());
    }

    /// A list that a peer may make as long as it likes.
    #[derive(Debug)]
    struct Nested(Option<Box<Nested>>);

    impl Parcelable for Nested {
        fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
            to.write_structured(|to| to.write(&self.0))
        }
        fn read_from(from: &mut Reader<'_>) -> Result<Self> {
            Self::read_nullable(from)?.ok_or_else(|| from.null())
        }
    }
    impl Nullable for Nested {
        fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
            self.write_to(to)
        }
        fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
            from.read_structured(|from| Ok(Nested(from.read()?)))
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let nest = |depth: usize| (0..depth).fold(Nested(None), |inner, _| Nested(Some(Box::new(inner))));
        assert!(read::<Nested>(&bytes(|to| to.write(&nest(60)))).is_ok());
        // As a hostile peer writes it: sizes that all reach to the end.
        let levels = 100_000i32;
        let mut hostile = Vec::new();
        for level in 0..levels {
            hostile.extend(1i32.to_le_bytes());
            hostile.extend(((levels - level) * 8 - 4).to_le_bytes());
        }
        let error = read::<Nested>(&hostile).unwrap_err();
        assert!(error.to_string().contains("deeper than 64"), "{error}");
    }

    #[test]
    fn what_is_required_is_asked_for_by_name() {
        let mut bytes = Vec::new();
        let error = Writer::growing(&mut bytes).write_required(None::<&i32>, "Foo.fd").unwrap_err();
        assert!(error.to_string().contains("Foo.fd must be set"), "{error}");
    }
}
