//! Fast, priority-aware IPC: objects, parcels, and the engines that carry transactions.
//!
//! A *service* implements an interface and registers under a name with the *service manager*; a
//! client looks the name up, gets a *proxy* and makes *transactions*, synchronous or *oneway*.
//! Objects, file descriptors and shared memory travel in a *parcel*; a *death recipient* hears when
//! the peer's process ends.
//!
//! ```
//! use handoff_ipc::servicemanager::ServiceOptions;
//! use handoff_ipc::{Binder, Result, Runtime, Service, Transaction};
//!
//! struct Doubler;
//!
//! impl Service for Doubler {
//!     fn descriptor(&self) -> &str {
//!         "sample.IDoubler"
//!     }
//!
//!     fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
//!         let Transaction { call, data, reply } = transaction;
//!         match call.code() {
//!             1 => reply.write(&(2 * data.read::<i32>()?)),
//!             _ => Err(transaction.unknown("sample.IDoubler")),
//!         }
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     // A service manager in this process; `Runtime::connect()` finds the one of the machine.
//!     let runtime = Runtime::private()?;
//!     runtime.services().add("doubler", Binder::new(Doubler), ServiceOptions::default())?;
//!     // In any process that finds the manager:
//!     let doubler = runtime.services().get("doubler")?;
//!     let four: i32 = doubler.transaction(1).call(|data| data.write(&2), |reply| reply.read())?;
//!     assert_eq!(four, 4);
//!     Ok(())
//! }
//! ```
//!
//! Proxies and stubs are usually made of an interface's file, by the crate `handoff-aidl`.
//!
//! Where to begin reading: [`Service`] and [`Binder`] are the programming model, [`engine`] the seam
//! below it, `shm/mod.rs` the way a call takes between two processes. With the feature `tokio`, calls,
//! services and event flags have an asynchronous side that needs no thread for each call:
//! `CallBuilder::call_async`, `AsyncService`, `queue::EventFlag::wait_async`.
#![warn(missing_docs)]

#[cfg(feature = "tokio")]
mod asynchronous;
pub mod binder;
mod call;
mod calling;
mod claim;
mod code;
mod context;
mod death;
mod dispatch;
mod disposal;
pub mod engine;
mod engine_kind;
mod error;
mod folder;
pub mod frames;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod interface;
mod known_interfaces;
mod ledger;
mod lending;
mod local;
mod locked;
#[cfg(feature = "log")]
pub mod log;
mod memory;
mod object;
mod oneway_queue;
mod oneway_threads;
pub mod parcel;
mod parcel_service;
mod pool;
pub mod queue;
pub mod rpc;
pub mod runtime;
mod scheduling;
pub mod servicemanager;
mod shell;
mod shell_command;
mod socket_file;
mod stats;
mod weak;

pub mod shm;

pub use call::Call;
pub use calling::{CallBuilder, Proxy};
pub use code::{Code, is_user_code};
pub use context::{Context, UnknownContext};
pub use dispatch::calling_identity;
pub use engine_kind::EngineKind;
pub use error::{Error, ExceptionCode, OnewayBacklog, Result, Status};
pub use identity::CallingIdentity;
pub use interface::InterfaceId;
pub use lending::LendingBuilder;
pub use memory::SharedMemory;
#[cfg(feature = "tokio")]
pub use object::{AsyncService, Reply, Request, Response};
pub use object::{Binder, Service, Transaction};
pub use parcel_service::ParcelService;
pub use runtime::Runtime;
pub use scheduling::Scheduling;
pub use shell_command::ShellCommand;
pub use weak::WeakBinder;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
