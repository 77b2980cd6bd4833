//! Names for objects: the service manager that everybody knows, and its client.
//!
//! The interface is Android's `android.os.IServiceManager`, with its transaction codes and parcels,
//! so that the client here also talks to the manager behind the kernel driver's handle 0; codes
//! above 100 are Handoff's own and are sent on its own engines only.
//!
//! `registry.rs` keeps names, `service.rs` is the interface to it, `policy.rs` says who may do what,
//! `server.rs` puts it on a socket; `client.rs` is what applications use.

mod client;
mod connection;
mod policy;
#[cfg(feature = "manager")]
mod policy_file;
mod process;
mod registry;
mod server;
mod service;
mod types;
#[cfg(feature = "manager")]
mod users;
mod watching;

pub use client::ServiceManager;
pub(crate) use connection::Connection;
pub use policy::{Action, NamePattern, Policy, Principal, Range, Rule};
#[cfg(feature = "manager")]
pub use policy_file::PolicyError;
pub use process::{Process, ProcessReport};
pub use server::{Serving, SocketAccess};
pub use service::Manager;
pub use types::{Domain, DumpPriority, MAX_NAME, ServiceInfo, ServiceOptions, UnknownDomain, check_name};
pub use watching::Watch;

use crate::object::Code;
use crate::parcel::{Reader, Writer};
use crate::{Error, Result};

/// The interface's name.
pub const DESCRIPTOR: &str = "android.os.IServiceManager";
/// The name under which the manager lists itself, as Android's does.
pub const MANAGER_NAME: &str = "manager";

/// Transactions in the order of Android 14's `IServiceManager.aidl`.
mod code {
    use super::Code;

    pub(super) const GET: Code = 1;
    pub(super) const CHECK: Code = 2;
    pub(super) const ADD: Code = 3;
    pub(super) const LIST: Code = 4;
    pub(super) const WATCH: Code = 5;
    pub(super) const UNWATCH: Code = 6;
    pub(super) const IS_DECLARED: Code = 7;
    pub(super) const DECLARED_INSTANCES: Code = 8;
    pub(super) const UPDATABLE_VIA_APEX: Code = 9;
    pub(super) const UPDATABLE_NAMES: Code = 10;
    pub(super) const CONNECTION_INFO: Code = 11;
    pub(super) const REGISTER_CLIENT_CALLBACK: Code = 12;
    pub(super) const REMOVE: Code = 13;
    pub(super) const DEBUG_INFO: Code = 14;

    /// As [`ADD`], with the domain, the interface and the process's own object.
    pub(super) const ADD_WITH: Code = 101;
    /// A page of [`super::ServiceInfo`] behind a name.
    pub(super) const LIST_PAGE: Code = 102;
    /// The object of the process that registered a name.
    pub(super) const PROCESS_OF: Code = 103;

    /// `IServiceCallback.onRegistration`, which the manager calls oneway.
    pub(super) const ON_REGISTRATION: Code = 1;
}

/// Interface of the objects that hear of registrations.
const CALLBACK_DESCRIPTOR: &str = "android.os.IServiceCallback";

/// `B_PACK_CHARS('S', 'Y', 'S', 'T')`, which heads a request on a system's driver.
const KERNEL_HEADER: i32 = i32::from_be_bytes(*b"SYST");

/// What stands in front of a request on the kernel driver (`Parcel::writeInterfaceToken`): strict
/// mode, work source, header, descriptor.
fn write_token(to: &mut Writer<'_>, descriptor: &str) -> Result<()> {
    to.write_i32(0)?;
    to.write_i32(-1)?;
    to.write_i32(KERNEL_HEADER)?;
    to.write_string16(descriptor)
}

/// Takes what [`write_token`] wrote.
fn read_token(from: &mut Reader<'_>, descriptor: &str) -> Result<()> {
    let (_strict, _source, _header) = (from.read_i32()?, from.read_i32()?, from.read_i32()?);
    match from.read_string16()? {
        Some(found) if found == descriptor => Ok(()),
        found => Err(Error::BadParcel {
            at: from.position(),
            what: format!("a request to {:?}, not to {descriptor}", found.unwrap_or_default()),
        }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::parcel::SharedBytes;

    #[test]
    fn a_token_is_for_one_interface() {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        write_token(&mut writer, DESCRIPTOR).unwrap();
        writer.write_i32(7).unwrap();
        drop(writer.finish());
        assert_eq!(&bytes[..12], [0, 0, 0, 0, 255, 255, 255, 255, b'T', b'S', b'Y', b'S']);
        let mut reader = Reader::new(SharedBytes::from_slice(&bytes));
        read_token(&mut reader, DESCRIPTOR).unwrap();
        assert_eq!(reader.read_i32().unwrap(), 7);
        let mut reader = Reader::new(SharedBytes::from_slice(&bytes));
        assert!(matches!(read_token(&mut reader, CALLBACK_DESCRIPTOR), Err(Error::BadParcel { .. })));
    }
}
