//! Policies: which process runs where and how urgently, and when that changes.
//!
//! A policy is a TOML file of profiles (what to give) and rules (to whom, and when). The first rule
//! that matches a process and whose conditions hold decides; a process that no rule claims gets back
//! what it had.
//!
//! ```
//! use handoff_policy::Policy;
//!
//! let policy = Policy::parse(r#"
//!     [profile.foreground]
//!     cpus = "big"
//!     nice = 0
//!
//!     [profile.background]
//!     cpus = "little"
//!     nice = 10
//!     io = "idle"
//!
//!     [[rule]]
//!     match = { comm = "map-*" }
//!     when = { foreground = true }
//!     profile = "foreground"
//!
//!     [[rule]]
//!     match = { comm = "map-*" }
//!     profile = "background"
//! "#)?;
//! assert_eq!(policy.rules.len(), 2);
//! # Ok::<(), handoff_policy::Problems>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `file` | the language: TOML in, [`Policy`] or [`Problems`] with lines and suggestions out |
//! | `rule` | whom a rule matches, and when |
//! | `decide` | which rule each process gets, with the reason; no side effects |
//! | `state` | processes, foreground, pressure, temperature, battery as they are |
//! | `events`, `listen` | what wakes the daemon |
//! | `daemon` | decides, places, and puts back |
//! | `log` | what it tells of its work |
//! | `socket`, `request` | how foreground changes reach it |
//! | `permits` | how many connections and lines of the log each user may have |
//! | `task_profiles` | Android's `task_profiles.json` as a policy |

mod daemon;
mod decide;
mod error;
mod events;
mod file;
mod listen;
mod log;
mod permits;
mod request;
mod rule;
mod socket;
mod state;
mod task_profiles;
mod text;

pub use daemon::{Daemon, Options};
pub use decide::{Decider, Decision, Explanation, Subject};
pub use error::{Error, Result};
pub use file::{Policy, Problem, Problems, Profile};
pub use log::{Event, StopReport};
pub use rule::{Match, Rule, Threshold, When};
pub use state::{Process, SystemState};
pub use task_profiles::{Import, import_task_profiles};

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
