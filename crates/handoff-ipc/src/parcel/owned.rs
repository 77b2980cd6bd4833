//! A parcel in memory of its own, for those who put it together value by value.

use std::os::fd::OwnedFd;

use super::object::{Incoming, Kind, ObjectForm, Sealed, no_object, wrong_kind};
use super::{ParcelData, ParcelObject, Reader, SharedBytes, Writer};
use crate::object::Binder;
use crate::{Error, Result};

/// How deep parcelables may be nested in each other, as for [`Reader`].
const DEEPEST: usize = 64;

/// What is to be sent, or what came: the bindings for other languages work with it. References to objects and
/// file descriptors are in it beside the bytes, and each read of one gives a reference or a copy of its own.
///
/// ```
/// use handoff_ipc::parcel::Parcel;
///
/// let mut parcel = Parcel::new();
/// parcel.write(|to| to.write(&7))?;
/// parcel.write(|to| to.write_string16("seven"))?;
/// assert_eq!(parcel.read(|from| from.read::<i32>())?, 7);
/// assert_eq!(parcel.read(|from| from.read::<String>())?, "seven");
/// assert!(parcel.read(|from| from.read::<i32>()).is_err(), "nothing is left");
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Parcel {
    data: ParcelData,
    // Where the next read begins.
    read: usize,
    // Parcelables that are being written: where their sizes stand.
    written: Vec<usize>,
    // Parcelables that are being read, the outermost first: where they end, if they say so.
    opened: Vec<Option<usize>>,
}

impl Parcel {
    /// With nothing in it.
    pub fn new() -> Self {
        Parcel::default()
    }

    /// With data that came from somewhere, to be read from its beginning.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Parcel { data: bytes.into(), ..Parcel::default() }
    }

    /// Everything that `from` still has.
    ///
    /// # Errors
    /// If an object that came along cannot be had.
    pub fn receive(from: &mut Reader<'_>) -> Result<Self> {
        let mut parcel = Parcel::new();
        parcel.data.refill(from)?;
        Ok(parcel)
    }

    /// The next `size` bytes of `from`, with the objects in them.
    ///
    /// # Errors
    /// If there are not so many, or an object among them cannot be had.
    pub fn receive_part(from: &mut Reader<'_>, size: i32) -> Result<Self> {
        Ok(Parcel { data: ParcelData::receive_part(from, size)?, ..Parcel::new() })
    }

    /// The objects that are in it, each with the place in the data where it stands.
    pub fn objects(&self) -> &[(usize, ParcelObject)] {
        self.data.objects()
    }

    /// The data and the objects in it, as [`ParcelData::parts_mut`] gives them. The next read begins at the beginning, and
    /// parcelables that were begun or entered are not any longer.
    pub fn parts_mut(&mut self) -> (&mut Vec<u8>, &mut Vec<(usize, ParcelObject)>) {
        // They are places in the data, which may be shorter afterwards.
        self.read = 0;
        self.written.clear();
        self.opened.clear();
        self.data.parts_mut()
    }

    /// The data, in the layout that travels; objects are not among it.
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_bytes()
    }

    /// Whether references to objects or file descriptors are in it.
    pub fn has_objects(&self) -> bool {
        self.data.has_objects()
    }

    /// The data. Objects are let go.
    pub fn into_bytes(self) -> Vec<u8> {
        self.data.into_bytes()
    }

    /// Writes everything that is in it, read or not: the arguments of a call or its reply.
    ///
    /// # Errors
    /// If it does not fit, or its objects stand where none may.
    pub fn send(&self, to: &mut Writer<'_>) -> Result<()> {
        self.data.send(to)
    }

    /// Adds values at the end; nothing if `values` fails.
    ///
    /// # Errors
    /// Whatever error `values` gives.
    pub fn write(&mut self, values: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
        self.data.write(values)
    }

    /// Reads on from where the last read ended; stays there if `values` fails.
    ///
    /// # Errors
    /// Whatever error `values` gives.
    pub fn read<T>(&mut self, values: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        let mut kept = KeptObjects { objects: self.data.objects(), first: self.read };
        let bytes = SharedBytes::from_slice(&self.data.as_bytes()[self.read..self.end()]);
        let mut reader = Reader::with_objects(bytes, &mut kept);
        if self.data.form() == ObjectForm::Rpc {
            reader = reader.in_rpc_form();
        }
        let value = values(&mut reader)?;
        self.read += reader.position();
        Ok(value)
    }

    /// Bytes that were not read yet, of the parcelable that is being read if one is.
    pub fn remaining(&self) -> usize {
        self.end().saturating_sub(self.read)
    }

    fn end(&self) -> usize {
        let inner = self.opened.iter().rev().find_map(|end| *end);
        inner.unwrap_or(self.as_bytes().len()).max(self.read)
    }

    /// Begins a structured parcelable, whose fields follow until [`Parcel::end_sized`]: the form of
    /// [`Writer::write_sized`] for those who cannot hand a closure over.
    pub fn begin_sized(&mut self) {
        let (bytes, _) = self.data.parts_mut();
        self.written.push(bytes.len());
        bytes.extend_from_slice(&[0; 4]);
    }

    /// Ends the parcelable that was begun last.
    ///
    /// # Errors
    /// If none was begun, or it is too large.
    pub fn end_sized(&mut self) -> Result<()> {
        let (bytes, _) = self.data.parts_mut();
        let Some(start) = self.written.pop() else {
            let what = "a parcelable is ended that was never begun".into();
            return Err(Error::BadParcel { at: bytes.len(), what });
        };
        let size = bytes.len() - start;
        let told = i32::try_from(size).map_err(|_| Error::TooLarge { size, limit: i32::MAX as usize })?;
        bytes[start..start + 4].copy_from_slice(&told.to_le_bytes());
        Ok(())
    }

    /// Goes into a structured parcelable: until [`Parcel::leave`], nothing behind its end is read.
    ///
    /// # Errors
    /// If its size does not fit here, or it is nested too deep.
    pub fn enter_sized(&mut self) -> Result<()> {
        let (start, end) = (self.read, self.end());
        let size = self.read(|from| from.read_i32())?;
        let inner = usize::try_from(size).ok().filter(|size| *size >= 4);
        let inner = inner.and_then(|size| start.checked_add(size)).filter(|inner| *inner <= end);
        let Some(inner) = inner else {
            let what = format!("a parcelable of {size} bytes does not fit here");
            return Err(Error::BadParcel { at: start, what });
        };
        self.open(Some(inner))
    }

    /// Goes into a union, which does not say where it ends, until [`Parcel::leave`]; gives its tag.
    ///
    /// # Errors
    /// If there is no tag, or it is nested too deep.
    pub fn enter_tagged(&mut self) -> Result<i32> {
        let tag = self.read(|from| from.read_i32())?;
        self.open(None)?;
        Ok(tag)
    }

    fn open(&mut self, end: Option<usize>) -> Result<()> {
        if self.opened.len() >= DEEPEST {
            let what = format!("parcelables nested deeper than {DEEPEST} levels");
            return Err(Error::BadParcel { at: self.read, what });
        }
        self.opened.push(end);
        Ok(())
    }

    /// Leaves the parcelable that was entered last; fields of a newer version are skipped.
    ///
    /// # Errors
    /// If none was entered.
    pub fn leave(&mut self) -> Result<()> {
        match self.opened.pop() {
            Some(end) => {
                self.read = end.unwrap_or(self.read);
                Ok(())
            }
            None => Err(Error::BadParcel {
                at: self.read,
                what: "a parcelable is left that was not entered".into(),
            }),
        }
    }
}

/// The objects of a parcel to one who reads from byte `first` on.
struct KeptObjects<'a> {
    objects: &'a [(usize, ParcelObject)],
    first: usize,
}

impl KeptObjects<'_> {
    fn find(&self, at: usize) -> Result<&ParcelObject> {
        let place = self.objects.binary_search_by_key(&(self.first + at), |(at, _)| *at);
        place.map(|index| &self.objects[index].1).map_err(|_| no_object(at))
    }
}

impl Sealed for KeptObjects<'_> {}

impl Incoming for KeptObjects<'_> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match self.find(at)? {
            ParcelObject::Binder(binder) => Ok(binder.clone()),
            ParcelObject::Fd(_) => Err(wrong_kind(at, "an object reference", "a file descriptor")),
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        match self.find(at)? {
            ParcelObject::Fd(fd) => fd
                .try_clone()
                .map_err(|error| Error::io("cannot duplicate a file descriptor of a parcel", error)),
            ParcelObject::Binder(_) => Err(wrong_kind(at, "a file descriptor", "an object reference")),
        }
    }

    fn places(&self) -> Vec<(usize, Kind)> {
        let ahead = self.objects.iter().filter(|(at, _)| *at >= self.first);
        ahead.map(|(at, held)| (at - self.first, held.kind())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Object;
    use super::*;

    #[test]
    fn parcelables_are_written_and_read_piece_by_piece() {
        let mut parcel = Parcel::new();
        parcel.begin_sized();
        parcel.write(|to| to.write(&1)).unwrap();
        parcel.begin_sized();
        parcel.end_sized().unwrap();
        parcel.write(|to| to.write(&2)).unwrap();
        parcel.end_sized().unwrap();
        parcel.write(|to| to.write(&3)).unwrap();
        let by_closure = {
            let mut whole = Parcel::new();
            let inner = |to: &mut Writer<'_>| {
                to.write(&1)?;
                to.write_sized(|_| Ok(()))?;
                to.write(&2)
            };
            whole.write(|to| to.write_sized(inner)).unwrap();
            whole.write(|to| to.write(&3)).unwrap();
            whole.into_bytes()
        };
        assert_eq!(parcel.as_bytes(), by_closure);
        assert!(parcel.end_sized().is_err());

        parcel.enter_sized().unwrap();
        assert_eq!(parcel.read(|from| from.read::<i32>()).unwrap(), 1);
        parcel.enter_sized().unwrap();
        assert_eq!(parcel.remaining(), 0);
        assert!(parcel.read(|from| from.read::<i32>()).is_err(), "that belongs to the outer one");
        parcel.leave().unwrap();
        assert_eq!(parcel.remaining(), 4);
        // What is left unread is skipped.
        parcel.leave().unwrap();
        assert_eq!(parcel.read(|from| from.read::<i32>()).unwrap(), 3);
        assert!(parcel.leave().is_err());
    }

    #[test]
    fn who_cuts_a_parcel_while_it_is_read_and_written_begins_anew() {
        let mut parcel = Parcel::from_bytes([12i32, 7, 8, 9].map(i32::to_le_bytes).concat());
        parcel.enter_sized().unwrap();
        assert_eq!(parcel.read(|from| from.read::<i32>()).unwrap(), 7);
        parcel.begin_sized();
        parcel.parts_mut().0.truncate(4);
        assert_eq!(parcel.remaining(), 4);
        assert!(parcel.end_sized().is_err(), "its size would stand behind the end");
        assert_eq!(parcel.read(|from| from.read::<i32>()).unwrap(), 12);
        assert!(parcel.leave().is_err());
        assert!(parcel.read(|from| from.read::<i32>()).is_err());
    }

    #[test]
    fn objects_that_stand_where_none_may_are_not_sent() {
        let object =
            || ParcelObject::Binder(Binder::new(crate::ParcelService::new("test.INone", |_, _| Ok(None))));
        for (places, is_good) in [
            (&[0, 24][..], true),
            (&[44], false),
            (&[2], false),
            (&[0, 20], false),
            (&[24, 0], false),
            (&[usize::MAX - 3], false),
        ] {
            let mut parcel = Parcel::from_bytes(vec![0; 64]);
            parcel.parts_mut().1.extend(places.iter().map(|at| (*at, object())));
            let sent = Parcel::new().write(|to| parcel.send(to));
            assert_eq!(sent.is_ok(), is_good, "{places:?}: {sent:?}");
        }
    }

    #[test]
    fn hostile_sizes_and_depths_are_refused() {
        for size in [i32::MIN, -1, 0, 3, 9, i32::MAX] {
            let mut parcel = Parcel::from_bytes([size.to_le_bytes(), [0; 4]].concat());
            assert!(parcel.enter_sized().is_err(), "{size}");
        }
        let mut deep = Parcel::from_bytes(vec![0; 4000]);
        let error = (0..1000).find_map(|_| deep.enter_tagged().err()).unwrap();
        assert!(error.to_string().contains("deeper than 64"), "{error}");
        // An inner one cannot reach beyond the outer one.
        let mut parcel = Parcel::from_bytes([8i32, 12, 0, 0].map(i32::to_le_bytes).concat());
        parcel.enter_sized().unwrap();
        assert!(parcel.enter_sized().is_err());
    }

    #[test]
    fn tables_of_objects_that_are_none_are_refused() {
        let (end, _other) = std::io::pipe().unwrap();
        let fd = || Object::Fd(end.try_clone().unwrap().into());
        let receive = |places: &[u32]| {
            let bytes = [0; 64];
            let mut table: Vec<_> = places.iter().map(|at| (*at, Some(fd()))).collect();
            let mut reader = Reader::with_objects(SharedBytes::from_slice(&bytes), &mut table);
            reader.read_i32()?;
            Parcel::receive(&mut reader)
        };
        assert_eq!(receive(&[0, 4, 28]).unwrap().objects().len(), 2, "the first was before what is read");
        // A reference without what belongs behind it can be passed on.
        let mut narrow = receive(&[4, 28]).unwrap();
        narrow.parts_mut().1[0].1 =
            ParcelObject::Binder(Binder::new(crate::ParcelService::new("test", |_, _| Ok(None))));
        let mut sent = Vec::new();
        narrow.send(&mut Writer::growing(&mut sent)).unwrap();
        for bad in [&[4, 8][..], &[4, 4], &[6], &[44], &[u32::MAX - 3]] {
            assert!(matches!(receive(bad), Err(Error::BadParcel { .. })), "{bad:?}");
        }
    }
}
