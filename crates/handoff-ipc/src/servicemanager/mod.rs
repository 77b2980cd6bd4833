//! Names for objects: the service manager that everybody knows, and its client.
//!
//! The interface is Android's `android.os.IServiceManager`, with its transaction codes and parcels,
//! as Android 16 has them, so that the client here also talks to the manager behind the kernel driver's
//! handle 0, and foreign clients to the manager here; codes
//! above 100 are Handoff's own, and the client does without where they are not known.
//!
//! `registry.rs` keeps names, `service.rs` is the interface to it, `policy.rs` says who may do what,
//! `server.rs` puts it on a socket; `client.rs` is what applications use.

mod client;
mod connection;
mod names;
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

pub use crate::context::{Context, UnknownContext};
pub use client::ServiceManager;
pub(crate) use connection::Connection;
pub use names::NameChange;
pub use policy::{Action, NamePattern, Policy, Principal, Range, Rule};
#[cfg(feature = "manager")]
pub use policy_file::PolicyError;
pub use process::{Process, ProcessReport};
pub use server::{ManagerServer, SocketAccess};
pub use service::Manager;
pub use types::{Clients, DumpPriority, MAX_NAME, ServiceInfo, ServiceOptions, check_name};
pub use watching::Watch;

use crate::code::Code;

/// The interface's name.
pub const DESCRIPTOR: &str = "android.os.IServiceManager";
/// The name under which the manager lists itself, as Android's does.
pub const MANAGER_NAME: &str = "manager";

/// Transactions in the order of Android 16's `IServiceManager.aidl` (those before 16 lack `getService2` and
/// `checkService2`, so that all others have other numbers there).
mod code {
    use super::Code;

    pub(super) const GET: Code = 1;
    pub(super) const GET_SERVICE: Code = 2;
    pub(super) const CHECK: Code = 3;
    pub(super) const CHECK_SERVICE: Code = 4;
    pub(super) const ADD: Code = 5;
    pub(super) const LIST: Code = 6;
    pub(super) const WATCH: Code = 7;
    pub(super) const UNWATCH: Code = 8;
    pub(super) const IS_DECLARED: Code = 9;
    pub(super) const DECLARED_INSTANCES: Code = 10;
    pub(super) const UPDATABLE_VIA_APEX: Code = 11;
    pub(super) const UPDATABLE_NAMES: Code = 12;
    pub(super) const CONNECTION_INFO: Code = 13;
    pub(super) const REGISTER_CLIENT_CALLBACK: Code = 14;
    pub(super) const REMOVE: Code = 15;
    pub(super) const DEBUG_INFO: Code = 16;

    /// As [`ADD`], with the context, the interface, the process's own object, what to do if the name is taken, and who is
    /// told when it is lost. The reply says who has the name where it is refused.
    pub(super) const ADD_WITH: Code = 101;
    /// A page of [`super::ServiceInfo`] behind a name.
    pub(super) const LIST_PAGE: Code = 102;
    /// The object of the process that registered a name.
    pub(super) const PROCESS_OF: Code = 103;

    /// `IServiceCallback.onRegistration`, which the manager calls oneway.
    pub(super) const ON_REGISTRATION: Code = 1;
    /// The manager tells a process that it has lost a name, or has it again; oneway, to the object that came with the
    /// registration.
    pub(super) const NAME_CHANGED: Code = 1;
}

/// Interface of the objects that hear of registrations.
const CALLBACK_DESCRIPTOR: &str = "android.os.IServiceCallback";
