//! A conformance suite for Binder drivers.
//!
//! Each case speaks to a driver itself, without an engine in between, and names what its expectation comes from. A
//! driver takes each opening for a process of its own, so that one thread plays manager, server and client in most
//! cases, and nothing depends on time. Where a process has to be another one (it is frozen, killed, or has
//! another nice value) this program executes itself once more (`agent.rs`).
//!
//! `seam.rs` is what a driver is to the suite: the kernel's (`kernel.rs`), or one with a fault that the suite has to find
//! (`faults.rs` has the faults, `faulty.rs` puts them before a driver, `search.rs` finds the case that notices). `stage.rs` is what `cases/` are written with.

mod agent;
mod cases;
mod device;
mod faults;
mod faulty;
mod kernel;
mod message;
mod returns;
mod seam;
mod search;
mod stage;
mod suite;

pub use agent::serve_agent;
pub use device::{AgentCommand, KernelDevice};
pub use faults::{FAULTS, Fault};
pub use message::{Call, Message, Parcel};
pub use seam::{Device, Exchange, FileIdentity, Peer, Process};
pub use search::{FaultResult, FaultSearch};
pub use suite::{Case, CaseOutcome, CaseResult, Source, Suite, becomes_manager, cases};

/// The examples of the crate's README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
