//! Android's `PersistableBundle`: values of a few types, each under a name.
//!
//! It travels as the size of what stands behind the mark, the mark, how many values follow, and for each its name, the number
//! of its type and the value. Of an empty one only the size is there, which is 0. Types and marks are those of Android's
//! `ParcelValTypes.h` and `BaseBundle.java`.

use std::collections::BTreeMap;

use super::{Nullable, Parcelable, Reader, Writer};
use crate::{Error, Result};

/// The mark of a bundle that native code wrote, `BUNDLE_MAGIC_NATIVE`; ours, too.
const NATIVE: i32 = 0x4c44_4e44;
/// The mark of one that Java wrote.
const JAVA: i32 = 0x4c44_4e42;
/// The type of what Java has set to null.
const NULL: i32 = -1;
/// The least bytes of an entry: an empty name and a type.
const LEAST_ENTRY: usize = 12;

/// A value of a [`PersistableBundle`].
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Each is what its name says.
pub enum BundleValue {
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    String(String),
    Bools(Vec<bool>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Doubles(Vec<f64>),
    Strings(Vec<String>),
    Bundle(PersistableBundle),
}

/// The numbers of the types, in the order in which native code writes values.
const KINDS: [i32; 11] = [9, 1, 6, 8, 0, 23, 18, 19, 28, 14, 25];

impl BundleValue {
    /// The number of its type.
    fn kind(&self) -> i32 {
        KINDS[match self {
            BundleValue::Bool(_) => 0,
            BundleValue::Int(_) => 1,
            BundleValue::Long(_) => 2,
            BundleValue::Double(_) => 3,
            BundleValue::String(_) => 4,
            BundleValue::Bools(_) => 5,
            BundleValue::Ints(_) => 6,
            BundleValue::Longs(_) => 7,
            BundleValue::Doubles(_) => 8,
            BundleValue::Strings(_) => 9,
            BundleValue::Bundle(_) => 10,
        }]
    }

    fn write(&self, to: &mut Writer<'_>) -> Result<()> {
        match self {
            BundleValue::Bool(value) => to.write(value),
            BundleValue::Int(value) => to.write(value),
            BundleValue::Long(value) => to.write(value),
            BundleValue::Double(value) => to.write(value),
            BundleValue::String(value) => to.write(value),
            BundleValue::Bools(values) => to.write_slice(values),
            BundleValue::Ints(values) => to.write_slice(values),
            BundleValue::Longs(values) => to.write_slice(values),
            BundleValue::Doubles(values) => to.write_slice(values),
            BundleValue::Strings(values) => to.write_slice(values),
            BundleValue::Bundle(value) => value.write(to),
        }
    }

    fn read(kind: i32, from: &mut Reader<'_>) -> Result<Option<Self>> {
        Ok(Some(match KINDS.iter().position(|known| *known == kind) {
            Some(0) => BundleValue::Bool(from.read()?),
            Some(1) => BundleValue::Int(from.read()?),
            Some(2) => BundleValue::Long(from.read()?),
            Some(3) => BundleValue::Double(from.read()?),
            Some(4) => BundleValue::String(from.read()?),
            Some(5) => BundleValue::Bools(from.read()?),
            Some(6) => BundleValue::Ints(from.read()?),
            Some(7) => BundleValue::Longs(from.read()?),
            Some(8) => BundleValue::Doubles(from.read()?),
            Some(9) => BundleValue::Strings(from.read()?),
            Some(_) => BundleValue::Bundle(from.deeper(PersistableBundle::read)?),
            None if kind == NULL => return Ok(None),
            None => return Err(from.bad(format!("a bundle has no values of type {kind}"))),
        }))
    }
}

macro_rules! value_of {
    ($($type:ty => $kind:ident),+ $(,)?) => { $(
        impl From<$type> for BundleValue {
            fn from(value: $type) -> Self {
                BundleValue::$kind(value.into())
            }
        }
    )+ };
}

value_of! {
    bool => Bool, i32 => Int, i64 => Long, f64 => Double, String => String, &str => String, Vec<bool> => Bools,
    Vec<i32> => Ints, Vec<i64> => Longs, Vec<f64> => Doubles, Vec<String> => Strings, PersistableBundle => Bundle,
}

/// Values of a few types, each under a name: AIDL's `android.os.PersistableBundle`.
///
/// ```
/// use handoff_ipc::parcel::{BundleValue, PersistableBundle};
///
/// let mut bundle = PersistableBundle::new();
/// bundle.insert("channel", 36);
/// bundle.insert("name", "guest");
/// assert_eq!(bundle.get("channel"), Some(&BundleValue::Int(36)));
/// assert_eq!(bundle.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PersistableBundle(BTreeMap<String, BundleValue>);

impl PersistableBundle {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value in; gives the one that had the name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<BundleValue>) -> Option<BundleValue> {
        self.0.insert(name.into(), value.into())
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&BundleValue> {
        self.0.get(name)
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &str) -> Option<BundleValue> {
        self.0.remove(name)
    }

    /// The names with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BundleValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many values are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes it without the mark that it is not null.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn write(&self, to: &mut Writer<'_>) -> Result<()> {
        if self.is_empty() {
            return to.write_i32(0);
        }
        let mut part = Vec::new();
        let mut values = Writer::growing(&mut part);
        values.write_len(self.len())?;
        for kind in KINDS {
            for (name, value) in self.0.iter().filter(|(_, value)| value.kind() == kind) {
                values.write_string16(name)?;
                values.write_i32(kind)?;
                value.write(&mut values)?;
            }
        }
        drop(values.finish());
        let size = part.len();
        to.write_i32(i32::try_from(size).map_err(|_| Error::TooLarge { size, limit: i32::MAX as usize })?)?;
        to.write_i32(NATIVE)?;
        to.write_raw(&part)
    }

    /// Reads what [`PersistableBundle::write`], libbinder or Java wrote.
    ///
    /// # Errors
    /// If it is none, is longer than it says, or has values of other types.
    pub fn read(from: &mut Reader<'_>) -> Result<Self> {
        let size = from.read_i32()?;
        if size == 0 {
            return Ok(Self::default());
        }
        let mark = from.read_i32()?;
        if mark != NATIVE && mark != JAVA {
            return Err(from.bad(format!("{mark:#x} is the mark of no bundle")));
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= from.remaining());
        let end = from.position() + size.ok_or_else(|| from.bad("a bundle does not end here"))?;
        let count = from.read_count(LEAST_ENTRY)?.ok_or_else(|| from.null())?;
        let mut bundle = Self::default();
        for _ in 0..count {
            let name: String = from.read()?;
            let kind = from.read_i32()?;
            if let Some(value) = BundleValue::read(kind, from)? {
                bundle.0.insert(name, value);
            }
        }
        if from.position() != end {
            return Err(from.bad("a bundle has another size than it says"));
        }
        Ok(bundle)
    }
}

impl Parcelable for PersistableBundle {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_i32(1)?;
        self.write(to)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl Nullable for PersistableBundle {
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        from.read_some(Self::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Parcel;

    fn written(bundle: &PersistableBundle) -> Parcel {
        let mut parcel = Parcel::new();
        parcel.write(|to| to.write(bundle)).unwrap();
        parcel
    }

    fn words(words: &[i32]) -> Parcel {
        Parcel::from_bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn full() -> PersistableBundle {
        let mut inner = PersistableBundle::new();
        inner.insert("", "text \u{1d11e}");
        let mut all = PersistableBundle::new();
        all.insert("b", true);
        all.insert("i", i32::MIN);
        all.insert("l", i64::MAX);
        all.insert("d", -0.5);
        all.insert("bs", vec![true, false]);
        all.insert("is", vec![1, -1]);
        all.insert("ls", vec![i64::MIN]);
        all.insert("ds", Vec::<f64>::new());
        all.insert("ss", vec!["".to_owned(), "x".to_owned()]);
        all.insert("p", inner);
        all.insert("empty", PersistableBundle::new());
        all
    }

    #[test]
    fn a_bundle_comes_back_with_every_type() {
        let (all, mut parcel) = (full(), written(&full()));
        assert_eq!(parcel.read(|from| from.read::<PersistableBundle>()).unwrap(), all);
        assert_eq!(parcel.remaining(), 0);
        assert_eq!(written(&PersistableBundle::new()).as_bytes(), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(words(&[0]).read(|from| from.read::<Option<PersistableBundle>>()).unwrap(), None);
    }

    /// Native code groups values by their types, truth values in front.
    #[test]
    fn the_bytes_are_those_of_native_code() {
        let mut bundle = PersistableBundle::new();
        bundle.insert("a", 7);
        bundle.insert("b", true);
        let name = |letter: u8| i32::from(letter);
        let expected = words(&[1, 36, NATIVE, 2, 1, name(b'b'), 9, 1, 1, name(b'a'), 1, 7]);
        assert_eq!(written(&bundle).as_bytes(), expected.as_bytes());
        // Java's mark, and what it has set to null.
        let mut java = words(&[1, 32, JAVA, 2, 1, name(b'a'), 1, 7, 1, name(b'n'), NULL]);
        let read = java.read(|from| from.read::<PersistableBundle>()).unwrap();
        assert_eq!((read.len(), read.get("a")), (1, Some(&BundleValue::Int(7))));
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let entry = [1, i32::from(b'a'), 1, 7];
        let of = |head: &[i32]| words(&[head, &entry].concat());
        for (what, mut parcel) in [
            ("another mark", of(&[1, 20, 7, 1])),
            ("beyond the end", of(&[1, 24, NATIVE, 1])),
            ("a negative size", of(&[1, -20, NATIVE, 1])),
            ("shorter than it says", of(&[1, 16, NATIVE, 1])),
            ("more values than bytes", of(&[1, 20, NATIVE, i32::MAX])),
            ("no count", of(&[1, 20, NATIVE, -1])),
            ("an unknown type", words(&[1, 20, NATIVE, 1, 1, i32::from(b'a'), 2, 7])),
            ("a name that is null", words(&[1, 16, NATIVE, 1, -1, 1, 7, 0])),
        ] {
            let read = parcel.read(|from| from.read::<PersistableBundle>());
            assert!(matches!(read, Err(Error::BadParcel { .. })), "{what}: {read:?}");
        }
        of(&[1, 20, NATIVE, 1]).read(|from| from.read::<PersistableBundle>()).unwrap();
        // As deep as parcelables may be nested, and no deeper.
        let nest = |depth: usize| {
            (0..depth).fold(PersistableBundle::new(), |inner, _| {
                let mut outer = PersistableBundle::new();
                outer.insert("x", inner);
                outer
            })
        };
        written(&nest(60)).read(|from| from.read::<PersistableBundle>()).unwrap();
        let error = written(&nest(70)).read(|from| from.read::<PersistableBundle>()).unwrap_err();
        assert!(error.to_string().contains("deeper than 64"), "{error}");
    }
}
