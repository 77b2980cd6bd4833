//! Data with the objects that stand in it, as they are sent and received.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::object::{Kind, Object, ObjectForm};
use super::reader::Placed;
use super::{Reader, Writer};
use crate::object::Binder;
use crate::{Error, Result};

/// Data in memory of its own, with the references to objects and the file descriptors that stand in it. One who reads and
/// writes values has a [`Parcel`](super::Parcel).
#[derive(Debug, Clone, Default)]
pub struct ParcelData {
    bytes: Vec<u8>,
    // By their places, which lie in `bytes`.
    objects: Vec<(usize, ParcelObject)>,
    // How they stand there, and whether any does: a null reference is none of them.
    form: ObjectForm,
    has_form: bool,
}

/// An object that stands in a [`Parcel`](super::Parcel).
#[derive(Debug, Clone)]
pub enum ParcelObject {
    /// A reference to an object.
    Binder(Binder),
    /// A file descriptor, which copies of the parcel share.
    Fd(Arc<OwnedFd>),
}

impl ParcelObject {
    pub(super) fn kind(&self) -> Kind {
        match self {
            ParcelObject::Binder(_) => Kind::Binder,
            ParcelObject::Fd(_) => Kind::Fd,
        }
    }

    fn of(object: Object) -> Result<Self> {
        match object {
            Object::Binder(binder) => Ok(ParcelObject::Binder(binder)),
            Object::Fd(fd) => Ok(ParcelObject::Fd(Arc::new(fd))),
            Object::Buffer(_) | Object::FdArray(_) => Err(Error::Unsupported {
                engine: "bindings'",
                what: "keep a buffer that is taken from where it is".into(),
            }),
        }
    }
}

impl From<Vec<u8>> for ParcelData {
    fn from(bytes: Vec<u8>) -> Self {
        ParcelData { bytes, ..ParcelData::default() }
    }
}

impl ParcelData {
    /// The objects that are in it, each with the place in the data where it stands.
    #[inline]
    pub fn objects(&self) -> &[(usize, ParcelObject)] {
        &self.objects
    }

    /// The data and the objects in it, for those who put a parcel together by themselves. [`ParcelData::send`] refuses one
    /// whose objects do not lie within the data, each at a multiple of four and behind the one before.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut Vec<u8>, &mut Vec<(usize, ParcelObject)>) {
        (&mut self.bytes, &mut self.objects)
    }

    /// The data, in the layout that travels; objects are not among it.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether references to objects or file descriptors are in it.
    pub fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// The data. Objects are let go.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How objects stand in it.
    pub(super) fn form(&self) -> ObjectForm {
        self.form
    }

    /// Empties it. The memory of its data is kept.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        // Mostly there was never one.
        if self.objects.capacity() > 0 {
            self.objects = Vec::new();
        }
        (self.form, self.has_form) = (ObjectForm::default(), false);
    }

    /// Takes the objects out, before something else is put in with [`ParcelData::refill`]: the last reference to one runs what
    /// its owner has for its end, which some places are not for.
    #[inline]
    pub fn take_objects(&mut self) -> Vec<(usize, ParcelObject)> {
        std::mem::take(&mut self.objects)
    }

    /// The next `size` bytes of `from`, with the objects in them.
    ///
    /// # Errors
    /// If there are not so many, or an object among them cannot be had.
    pub(super) fn receive_part(from: &mut Reader<'_>, size: i32) -> Result<Self> {
        let mut parcel = ParcelData { form: from.form(), ..ParcelData::default() };
        let objects = from.part(size, &mut parcel.bytes)?;
        parcel.hold(objects)?;
        Ok(parcel)
    }

    /// Puts everything that `from` still has in the place of what is in it, whose memory is used again.
    ///
    /// # Errors
    /// If an object that came along cannot be had; then nothing is in it.
    #[inline]
    pub fn refill(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.clear();
        self.form = from.form();
        // Mostly there are no objects.
        if from.may_have_objects() { self.refill_with_objects(from) } else { from.rest_into(&mut self.bytes) }
    }

    fn refill_with_objects(&mut self, from: &mut Reader<'_>) -> Result<()> {
        let filled = from.rest(&mut self.bytes).and_then(|objects| self.hold(objects));
        if filled.is_err() {
            // Its memory stays: whoever has secrets in it clears it.
            self.clear();
        }
        filled
    }

    fn hold(&mut self, objects: Placed) -> Result<()> {
        self.has_form = !objects.is_empty();
        let objects = objects.into_iter().map(|(at, object)| Ok((at, ParcelObject::of(object)?)));
        self.objects = objects.collect::<Result<_>>()?;
        Ok(())
    }

    /// Writes everything that is in it, read or not: the arguments of a call or its reply.
    ///
    /// # Errors
    /// If it does not fit, or its objects stand where none may.
    #[inline]
    pub fn send(&self, to: &mut Writer<'_>) -> Result<()> {
        if !self.has_form && !self.has_objects() {
            return to.write_raw(&self.bytes);
        }
        self.send_with_objects(to)
    }

    fn send_with_objects(&self, to: &mut Writer<'_>) -> Result<()> {
        self.check_objects()?;
        if to.form().0 != self.form {
            // Their sizes differ, and with them those of the parcelables around them, which only their writer knows.
            return Err(Error::Unsupported {
                engine: if self.form == ObjectForm::Rpc { "other" } else { "rpc" },
                what: "carry references and descriptors of a parcel that was put together for another engine: write \
                       them into the call's own parcel"
                    .into(),
            });
        }
        let mut from = 0;
        for (at, object) in &self.objects {
            // Nothing where one begins inside of the other: so a hostile sender may have written them.
            to.write_raw(self.bytes.get(from..*at).unwrap_or_default())?;
            from = match object {
                ParcelObject::Binder(binder) => {
                    to.write_binder(Some(binder))?;
                    // The stability behind it.
                    at + self.form.binder_size() + 4
                }
                ParcelObject::Fd(fd) => {
                    to.write_fd(fd.as_fd())?;
                    at + self.form.fd_size()
                }
            }
            .min(self.bytes.len());
        }
        to.write_raw(&self.bytes[from..])
    }

    fn check_objects(&self) -> Result<()> {
        let mut free = 0;
        for (at, object) in &self.objects {
            let Some(end) = self.form.end_of(object.kind(), *at, free, self.bytes.len()) else {
                let what = "an object does not lie within the data, or overlaps another".into();
                return Err(Error::BadParcel { at: *at, what });
            };
            free = end;
        }
        Ok(())
    }

    /// Adds values at the end; nothing if `values` fails.
    ///
    /// # Errors
    /// Whatever error `values` gives.
    pub fn write(&mut self, values: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
        let mut part = Vec::new();
        let mut writer = Writer::growing(&mut part);
        if self.form == ObjectForm::Rpc {
            writer = writer.in_rpc_form();
        }
        values(&mut writer)?;
        self.has_form |= writer.form().1;
        let first = self.bytes.len();
        let objects = writer.finish().into_iter();
        let objects = objects.map(|(at, object)| Ok((first + at as usize, ParcelObject::of(object)?)));
        self.objects.extend(objects.collect::<Result<Vec<_>>>()?);
        self.bytes.extend_from_slice(&part);
        Ok(())
    }
}
