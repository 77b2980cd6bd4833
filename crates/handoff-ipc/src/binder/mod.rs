//! The `binder` engine: the kernel's Binder driver.
//!
//! `uapi.rs`, `command.rs` and `returns.rs` are the driver's language, `driver.rs` the open file, `process.rs` what a process keeps
//! (objects it gave away, proxies it holds, recipients of deaths), `thread_state.rs` the command buffers of one
//! thread with the driver (`call.rs` makes calls, `serve.rs` serves them), and `objects.rs` how references and
//! descriptors stand in a parcel. `device.rs` finds drivers and asks what they can do, `binderfs.rs`
//! makes new ones. `lend.rs` has callers' priorities inherited where the driver does not. `scripted/` has any bytes
//! said to all of this, for tests.

mod binderfs;
mod call;
mod command;
mod device;
mod driver;
mod engine;
mod freeze;
mod lend;
mod numbers;
mod objects;
mod process;
mod proxy;
mod remote;
mod returns;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod scripted;
mod serve;
mod thread_state;
pub(crate) mod token;
#[doc(hidden)]
pub mod uapi;

pub use binderfs::Binderfs;
pub use device::{FOLDER_VARIABLE, Features, Implementation, find_device};
pub use engine::{BinderEngine, Poller};
pub use freeze::{FrozenInfo, freeze, frozen_info, thaw};
