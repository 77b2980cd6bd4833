//! The `binder` engine: the kernel's Binder driver.
//!
//! `uapi.rs` is the driver's language, `driver.rs` the open file, `process.rs` what a process keeps
//! (objects it gave away, proxies it holds, recipients of deaths), `talk.rs` the conversation of one
//! thread with the driver, on either side of a call, and `objects.rs` how references and
//! descriptors stand in a parcel.

mod driver;
mod engine;
mod objects;
mod process;
mod remote;
mod talk;
mod token;
mod uapi;

pub use engine::{BinderEngine, DEFAULT_DEVICE};
