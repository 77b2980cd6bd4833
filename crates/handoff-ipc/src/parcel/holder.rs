//! AIDL's `ParcelableHolder`: a parcelable of a type that the interface does not know.
//!
//! It travels as its stability, the size of what follows, the name of the type and what the type writes, without the mark
//! that it is not null.

use super::{Parcel, Reader, Writer};
use crate::{Error, ExceptionCode, Result, Status};

/// How far a type promises to stay as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Stability {
    /// Not beyond what is built together with it.
    Local = 0,
    /// `@VintfStability`: as long as devices have it.
    Vintf = 1,
}

/// A parcelable that a [`ParcelableHolder`] can hold: every parcelable and union of AIDL.
pub trait Holdable: Sized {
    /// Its full name in AIDL.
    const DESCRIPTOR: &'static str;
    /// What its file promises.
    const STABILITY: Stability;

    /// Writes it, without the mark that it is not null.
    ///
    /// # Errors
    /// If it does not fit, or cannot be written.
    fn write_held(&self, to: &mut Writer<'_>) -> Result<()>;

    /// Reads what [`Holdable::write_held`] wrote.
    ///
    /// # Errors
    /// If it is not there.
    fn read_held(from: &mut Reader<'_>) -> Result<Self>;
}

/// A parcelable of any type, such as what a vendor adds; or nothing. It stays as it travels until somebody asks for it.
///
/// ```
/// # use handoff_ipc::parcel::{Holdable, ParcelableHolder, Reader, Stability, Writer};
/// # use handoff_ipc::Result;
/// # #[derive(Debug, PartialEq)]
/// # struct Extra { number: i32 }
/// # impl Holdable for Extra {
/// #     const DESCRIPTOR: &'static str = "sample.Extra";
/// #     const STABILITY: Stability = Stability::Local;
/// #     fn write_held(&self, to: &mut Writer<'_>) -> Result<()> { to.write_sized(|to| to.write(&self.number)) }
/// #     fn read_held(from: &mut Reader<'_>) -> Result<Self> {
/// #         from.read_sized(|from| Ok(Extra { number: from.read()? }))
/// #     }
/// # }
/// # let mut extension = ParcelableHolder::new(Stability::Local);
/// // `Extra` is generated from AIDL, and `extension` is a field of another parcelable.
/// extension.set(&Extra { number: 7 })?;
/// assert_eq!(extension.get::<Extra>()?, Some(Extra { number: 7 }));
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ParcelableHolder {
    stability: Stability,
    // The type's name and what it wrote; read from its beginning each time.
    held: Parcel,
}

impl ParcelableHolder {
    /// With nothing in it, for types that promise at least so much.
    pub fn new(stability: Stability) -> Self {
        ParcelableHolder { stability, held: Parcel::new() }
    }

    /// Puts a value in, in the place of what was there.
    ///
    /// # Errors
    /// An illegal-argument status if the type promises less than the holder must; those of the type.
    pub fn set<T: Holdable>(&mut self, value: &T) -> Result<()> {
        self.set_named(T::DESCRIPTOR, T::STABILITY, |to| value.write_held(to))
    }

    /// [`ParcelableHolder::set`] for the bindings of other languages: `write` writes a value of the type of this name.
    ///
    /// # Errors
    /// As [`ParcelableHolder::set`].
    pub fn set_named(
        &mut self,
        descriptor: &str,
        stability: Stability,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<()> {
        if stability < self.stability {
            let text = format!("{descriptor} is not `@VintfStability`, as what holds it is");
            return Err(Status::new(ExceptionCode::IllegalArgument, text).into());
        }
        let mut held = Parcel::new();
        held.write(|to| {
            to.write_string16(descriptor)?;
            write(to)
        })?;
        self.held = held;
        Ok(())
    }

    /// The value, if one of this type is there.
    ///
    /// # Errors
    /// If the sender wrote no such value under that name.
    pub fn get<T: Holdable>(&self) -> Result<Option<T>> {
        self.get_named(T::DESCRIPTOR, T::read_held)
    }

    /// [`ParcelableHolder::get`] for the bindings of other languages: `read` reads a value of the type of this name.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn get_named<T>(
        &self,
        descriptor: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.held.clone().read(|from| {
            let is_it = from.read::<String>()? == descriptor;
            if is_it { read(from).map(Some) } else { Ok(None) }
        })
    }

    /// The full name of the type whose value is there.
    ///
    /// # Errors
    /// If the sender wrote no name.
    pub fn descriptor(&self) -> Result<Option<String>> {
        if self.is_empty() { Ok(None) } else { self.held.clone().read(|from| from.read()).map(Some) }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.held.as_bytes().is_empty()
    }

    /// Lets go what is there.
    pub fn clear(&mut self) {
        self.held = Parcel::new();
    }

    /// Writes it as a field of a parcelable.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn write(&self, to: &mut Writer<'_>) -> Result<()> {
        let size = self.held.as_bytes().len();
        to.write_i32(1)?; // not null
        to.write_i32(self.stability as i32)?;
        to.write_i32(i32::try_from(size).map_err(|_| Error::TooLarge { size, limit: i32::MAX as usize })?)?;
        self.held.send(to)
    }

    /// Reads a field of a parcelable that promises so much.
    ///
    /// # Errors
    /// If it is null, or the sender's promises something else.
    pub fn read(from: &mut Reader<'_>, stability: Stability) -> Result<Self> {
        if from.read_i32()? == 0 {
            return Err(from.null());
        }
        let found = from.read_i32()?;
        if found != stability as i32 {
            return Err(from.bad(format!("a holder of stability {found} where {stability:?} is meant")));
        }
        let size = from.read_i32()?;
        let held = Parcel::receive_part(from, size)?;
        Ok(ParcelableHolder { stability, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::ParcelObject;
    use crate::{Binder, ParcelService};

    #[derive(Debug, PartialEq)]
    struct Extra(i32, Option<Binder>);

    impl Holdable for Extra {
        const DESCRIPTOR: &'static str = "a.Extra";
        const STABILITY: Stability = Stability::Local;
        fn write_held(&self, to: &mut Writer<'_>) -> Result<()> {
            to.write_sized(|to| {
                to.write(&self.0)?;
                to.write(&self.1)
            })
        }
        fn read_held(from: &mut Reader<'_>) -> Result<Self> {
            from.read_sized(|from| Ok(Extra(from.read()?, from.read()?)))
        }
    }

    #[derive(Debug, PartialEq)]
    struct Other;

    impl Holdable for Other {
        const DESCRIPTOR: &'static str = "a.Other";
        const STABILITY: Stability = Stability::Vintf;
        fn write_held(&self, to: &mut Writer<'_>) -> Result<()> {
            to.write_sized(|_| Ok(()))
        }
        fn read_held(from: &mut Reader<'_>) -> Result<Self> {
            from.read_sized(|_| Ok(Other))
        }
    }

    fn object() -> Binder {
        Binder::new(ParcelService::new("a.IObject", |_, request| Ok(Some(request))))
    }

    /// Holders between objects, there and back.
    fn travelled(holder: &ParcelableHolder) -> Result<ParcelableHolder> {
        let (before, after) = (object(), object());
        let mut parcel = Parcel::new();
        parcel.write(|to| {
            to.write(&before)?;
            holder.write(to)?;
            to.write(&after)
        })?;
        parcel.read(|from| {
            assert_eq!(from.read::<Binder>()?, before);
            let holder = ParcelableHolder::read(from, holder.stability)?;
            assert_eq!(from.read::<Binder>()?, after);
            Ok(holder)
        })
    }

    #[test]
    fn a_holder_holds_what_was_put_in_and_nothing_else() {
        let mut holder = ParcelableHolder::new(Stability::Local);
        assert!(travelled(&holder).unwrap().is_empty());
        let extra = Extra(7, Some(object()));
        holder.set(&extra).unwrap();
        let back = travelled(&holder).unwrap();
        for _ in 0..2 {
            assert_eq!(back.get::<Extra>().unwrap().as_ref(), Some(&extra));
            assert_eq!(back.get::<Other>().unwrap(), None);
        }
        holder.set(&Other).unwrap();
        assert_eq!(travelled(&holder).unwrap().get::<Other>().unwrap(), Some(Other));
        holder.clear();
        assert!(holder.is_empty() && holder.get::<Other>().unwrap().is_none());
    }

    #[test]
    fn stability_is_kept() {
        let mut stable = ParcelableHolder::new(Stability::Vintf);
        let error = stable.set(&Extra(1, None)).unwrap_err();
        assert!(
            matches!(error, Error::Status(status) if status.exception() == ExceptionCode::IllegalArgument)
        );
        stable.set(&Other).unwrap();
        let mut parcel = Parcel::new();
        parcel.write(|to| stable.write(to)).unwrap();
        let wrong = parcel.read(|from| ParcelableHolder::read(from, Stability::Local)).unwrap_err();
        assert!(matches!(wrong, Error::BadParcel { .. }), "{wrong}");
        parcel.read(|from| ParcelableHolder::read(from, Stability::Vintf)).unwrap();
    }

    #[test]
    fn what_does_not_lie_within_a_holder_is_refused() {
        for size in [-1, 1, 8, 44, i32::MAX] {
            let mut parcel = Parcel::new();
            parcel.write(|to| [1, 0, size, 0].iter().try_for_each(|one| to.write_i32(*one))).unwrap();
            let wrong = parcel.read(|from| ParcelableHolder::read(from, Stability::Local)).unwrap_err();
            assert!(matches!(wrong, Error::BadParcel { .. }), "{size}: {wrong}");
        }
        // An object that begins in it and ends behind it.
        let mut bytes: Vec<u8> = [1, 0, 8].iter().flat_map(|one: &i32| one.to_le_bytes()).collect();
        bytes.resize(64, 0);
        let mut parcel = Parcel::from_bytes(bytes);
        parcel.parts_mut().1.push((16, ParcelObject::Binder(object())));
        let wrong = parcel.read(|from| ParcelableHolder::read(from, Stability::Local)).unwrap_err();
        assert!(matches!(wrong, Error::BadParcel { .. }), "{wrong}");
    }
}
