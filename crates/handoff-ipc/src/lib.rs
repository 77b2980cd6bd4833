//! Fast, priority-aware IPC: objects, parcels, and the engines that carry transactions.
//!
//! A *service* implements an interface and registers under a name with the *service manager*; a
//! client looks the name up, gets a *proxy* and makes *transactions*, synchronous or *oneway*.
//! Objects, file descriptors and shared memory travel in a *parcel*; a *death recipient* hears when
//! the peer's process ends.
//!
//! Where to begin reading: [`Service`] and [`Binder`] are the programming model, [`engine`] the seam
//! below it, `shm/mod.rs` the way a call takes between two processes. With the feature `tokio`, calls,
//! services and event flags have an asynchronous side that needs no thread for each call:
//! `CallBuilder::call_async`, `AsyncService`, `queue::EventFlag::wait_async`.
#![warn(missing_docs)]
#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(all(feature = "tokio", not(loom)))]
mod asynchronous;
#[cfg(not(loom))]
pub mod binder;
#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
mod calling;
#[cfg(not(loom))]
mod claim;
#[cfg(not(loom))]
mod code;
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
mod death;
#[cfg(not(loom))]
mod dispatch;
#[cfg(not(loom))]
mod disposal;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
mod engine_kind;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod folder;
#[cfg(not(loom))]
pub mod frames;
#[cfg(all(any(test, feature = "fuzzing"), not(loom)))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
mod identity;
#[cfg(not(loom))]
mod interface;
#[cfg(not(loom))]
mod known_interfaces;
#[cfg(not(loom))]
mod ledger;
#[cfg(not(loom))]
mod lending;
#[cfg(not(loom))]
mod local;
#[cfg(not(loom))]
mod locked;
#[cfg(all(feature = "log", not(loom)))]
pub mod log;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod object;
#[cfg(not(loom))]
mod oneway_queue;
#[cfg(not(loom))]
pub mod parcel;
#[cfg(not(loom))]
mod parcel_service;
#[cfg(not(loom))]
mod pool;
pub mod queue;
#[cfg(not(loom))]
pub mod runtime;
#[cfg(not(loom))]
mod scheduling;
#[cfg(not(loom))]
pub mod servicemanager;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod weak;

pub mod shm;

#[cfg(not(loom))]
pub use call::Call;
#[cfg(not(loom))]
pub use calling::{CallBuilder, Proxy};
#[cfg(not(loom))]
pub use code::{Code, is_user_code};
#[cfg(not(loom))]
pub use context::{Context, UnknownContext};
#[cfg(not(loom))]
pub use dispatch::calling_identity;
#[cfg(not(loom))]
pub use engine_kind::EngineKind;
#[cfg(not(loom))]
pub use error::{Error, ExceptionCode, Result, Status, Waiting};
#[cfg(not(loom))]
pub use identity::CallingIdentity;
#[cfg(not(loom))]
pub use interface::InterfaceId;
#[cfg(not(loom))]
pub use lending::LendingBuilder;
#[cfg(not(loom))]
pub use memory::SharedMemory;
#[cfg(all(feature = "tokio", not(loom)))]
pub use object::{AsyncService, Reply, Request, Response};
#[cfg(not(loom))]
pub use object::{Binder, Service, Transaction};
#[cfg(not(loom))]
pub use parcel_service::ParcelService;
#[cfg(not(loom))]
pub use runtime::Runtime;
#[cfg(not(loom))]
pub use scheduling::Scheduling;
#[cfg(not(loom))]
pub use weak::WeakBinder;

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
