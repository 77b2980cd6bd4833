//! The interface token in front of each call's arguments (`Parcel::writeInterfaceToken`).

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

pub(super) fn write(to: &mut Writer<'_>, descriptor: &str) -> Result<()> {
    to.write_i32(STRICT_MODE)?;
    to.write_i32(NO_WORK_SOURCE)?;
    to.write_i32(HEADER)?;
    to.write_string16(descriptor)
}

/// Reads a token and checks that the caller means this interface.
pub(super) fn check(from: &mut Reader<'_>, descriptor: &str) -> Result<()> {
    from.read_i32()?; // strict mode
    from.read_i32()?; // work source
    let header = from.read_i32()?;
    if ![HEADER, VENDOR_HEADER, RECOVERY_HEADER].contains(&header) {
        return Err(Error::BadParcel { at: 8, what: "no interface token".into() });
    }
    match from.read_string16()? {
        Some(meant) if meant == descriptor => Ok(()),
        meant => Err(Error::PermissionDenied(format!(
            "the caller means {}, this is {descriptor}",
            meant.as_deref().unwrap_or("nothing")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;

    #[test]
    fn a_token_is_accepted_by_its_own_interface_only() {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        write(&mut writer, "a.IB").unwrap();
        writer.finish();
        // Header, four units and the closing zero, padded: as libbinder writes it.
        assert_eq!(bytes.len(), 12 + 4 + 12);
        assert_eq!(&bytes[8..12], b"TSYS");
        let reader = || Reader::new(SharedBytes::from_slice(&bytes));
        check(&mut reader(), "a.IB").unwrap();
        assert!(check(&mut reader(), "a.IC").is_err());
        assert!(check(&mut Reader::new(SharedBytes::from_slice(&bytes[..9])), "a.IB").is_err());
    }
}
