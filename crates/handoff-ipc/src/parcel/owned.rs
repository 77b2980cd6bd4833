//! A parcel's data in memory of its own, for those who put it together value by value.

use super::{Reader, SharedBytes, Writer};
use crate::{Error, Result};

/// Data to be sent, or data that came: what the bindings for other languages work with. It holds no objects
/// and no descriptors.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parcel {
    bytes: Vec<u8>,
    // Where the next read begins.
    read: usize,
}

impl Parcel {
    /// With nothing in it.
    pub fn new() -> Self {
        Parcel::default()
    }

    /// With data that came from somewhere, to be read from its beginning.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Parcel { bytes, read: 0 }
    }

    /// The data, in the layout that travels.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The data.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds values at the end; nothing if `values` fails.
    ///
    /// # Errors
    /// Those of `values`; [`Error::Unsupported`] if it writes an object or a descriptor.
    pub fn write(&mut self, values: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<()> {
        let mut part = Vec::new();
        let mut writer = Writer::growing(&mut part);
        values(&mut writer)?;
        if !writer.finish().is_empty() {
            return Err(Error::Unsupported {
                engine: "bindings'",
                what: "put objects or descriptors into a parcel of plain data".into(),
            });
        }
        self.bytes.extend_from_slice(&part);
        Ok(())
    }

    /// Reads on from where the last read ended; stays there if `values` fails.
    ///
    /// # Errors
    /// Those of `values`.
    pub fn read<T>(&mut self, values: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        let mut reader = Reader::new(SharedBytes::from_slice(&self.bytes[self.read..]));
        let value = values(&mut reader)?;
        self.read += reader.position();
        Ok(value)
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.read
    }
}
