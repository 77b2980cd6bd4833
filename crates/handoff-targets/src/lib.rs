//! Machines that Handoff measures on: this one, a QEMU guest, one behind ssh, an Android device.
//!
//! A [`Target`] does one thing: run a shell script there, feed it a file, hand over what it prints as
//! it comes, and say how it ended. Everything else is a [`Session`], the same on every target: what
//! machine it is, pushing a program once (by its hash), running it with arguments, environment, folder,
//! limits and a deadline, fetching files, a lock so that two experiments never share a machine, and
//! noticing that it was booted anew.
//!
//! ```no_run
//! use handoff_targets::{Command, Session};
//!
//! # fn main() -> handoff_targets::Result<()> {
//! let mut session = Session::open(&"ssh://lab-7".parse()?)?;
//! let _lock = session.lock()?;
//! let program = session.push("target/dist/handoff".as_ref())?;
//! let done = session.run(&Command::new(program).args(["latency", "-i", "1000"]), &mut |_, _| {})?;
//! println!("{}", done.status);
//! # Ok(()) }
//! ```
//!
//! What is asked of the other side is what busybox, toybox and coreutils all have.

mod adb;
mod address;
pub mod agent;
mod command;
mod error;
mod facts;
mod folder;
mod guest;
mod known;
mod local;
mod lock;
mod process;
mod retry;
mod session;
mod ssh;
mod target;

pub use address::Address;
pub use command::{Command, Limits, quoted};
pub use error::{Result, TargetError};
pub use facts::Facts;
pub use guest::{Boot, GUEST_PROGRAM};
pub use known::known;
pub use lock::Lock;
pub use retry::Retry;
pub use session::{Done, Session, Ways};
pub use target::{Sink, Stream, Target};

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
