//! The interface token in front of each call's arguments (`Parcel::writeInterfaceToken`).

use crate::context::Context;
use crate::parcel::{Reader, Writer};
use crate::{Error, Result};

/// `STRICT_MODE_PENALTY_GATHER`, which every caller sets.
const STRICT_MODE: i32 = 1 << 31;
/// `kUnsetWorkSource`.
const NO_WORK_SOURCE: i32 = -1;
/// Which partition the caller is of: "SYST" of the framework.
const HEADER: i32 = i32::from_be_bytes(*b"SYST");
/// "VNDR", of vendor processes on `/dev/vndbinder`.
const VENDOR_HEADER: i32 = i32::from_be_bytes(*b"VNDR");
/// "RECO", of the recovery.
const RECOVERY_HEADER: i32 = i32::from_be_bytes(*b"RECO");

/// The token of calls that no other user is behind: what nearly every call begins with, so that none has to
/// encode it again.
pub(super) fn of(context: Context, descriptor: &str) -> Box<[u8]> {
    let header = if context == Context::Vendor { VENDOR_HEADER } else { HEADER };
    [STRICT_MODE, NO_WORK_SOURCE, header]
        .into_iter()
        .flat_map(i32::to_le_bytes)
        .chain(name(descriptor))
        .collect()
}

/// An interface's name as it stands in each token.
pub(crate) fn name(descriptor: &str) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let mut writer = Writer::growing(&mut bytes);
    // Only one of more than 2^31 units cannot be written; nothing accepts an empty one in its place.
    let written = writer.write_string16(descriptor);
    debug_assert!(written.is_ok());
    drop(writer.finish());
    bytes.into()
}

/// Puts a token; one that [`of`] made, with this work source.
#[inline]
pub(super) fn write(to: &mut Writer<'_>, work_source: Option<u32>, token: &[u8]) -> Result<()> {
    let Some(user) = work_source else { return to.write_raw(token) };
    to.write_i32(STRICT_MODE)?;
    to.write_i32(user as i32)?;
    to.write_raw(token.get(8..).unwrap_or_default())
}

/// Reads a token and checks that the caller means this interface. Gives its work source.
pub(super) fn check(from: &mut Reader<'_>, name: &[u8]) -> Result<Option<u32>> {
    from.read_i32()?; // strict mode
    let work_source = from.read_i32()?;
    let header = from.read_i32()?;
    if header != HEADER && header != VENDOR_HEADER && header != RECOVERY_HEADER {
        return Err(no_token());
    }
    check_name(from, name)?;
    Ok((work_source != NO_WORK_SOURCE).then_some(work_source as u32))
}

/// Reads the interface's name alone, which is all of a token where no kernel is between caller and object.
pub(crate) fn check_name(from: &mut Reader<'_>, name: &[u8]) -> Result<()> {
    if from.pass(name) { Ok(()) } else { Err(another_interface(from)) }
}

#[cold]
fn no_token() -> Error {
    Error::BadParcel { at: 8, what: "no interface token".into() }
}

#[cold]
fn another_interface(from: &mut Reader<'_>) -> Error {
    match from.read_string16() {
        Ok(meant) => Error::PermissionDenied(format!(
            "the caller means the interface {}, which this object is not of",
            meant.as_deref().unwrap_or("without a name")
        )),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;

    fn token(context: Context, work_source: Option<u32>, descriptor: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        write(&mut writer, work_source, &of(context, descriptor)).unwrap();
        writer.finish();
        bytes
    }

    #[test]
    fn a_token_is_accepted_by_its_own_interface_only() {
        let bytes = token(Context::Framework, None, "a.IB");
        // Header, four units and the closing zero, padded: as libbinder writes it.
        assert_eq!(bytes.len(), 12 + 4 + 12);
        assert_eq!(&bytes[8..12], b"TSYS");
        let reader = || Reader::new(SharedBytes::from_slice(&bytes));
        assert_eq!(check(&mut reader(), &name("a.IB")).unwrap(), None);
        for other in ["a.IC", "a.I", "a.IBB", ""] {
            let error = check(&mut reader(), &name(other)).unwrap_err().to_string();
            assert!(error.contains("a.IB"), "{error}");
        }
        for len in 0..bytes.len() {
            assert!(check(&mut Reader::new(SharedBytes::from_slice(&bytes[..len])), &name("a.IB")).is_err());
        }
    }

    #[test]
    fn the_partition_and_the_work_source_are_told() {
        let bytes = token(Context::Vendor, Some(10_007), "a.IB");
        assert_eq!(&bytes[8..12], b"RDNV");
        let found = check(&mut Reader::new(SharedBytes::from_slice(&bytes)), &name("a.IB")).unwrap();
        assert_eq!(found, Some(10_007));
    }
}
