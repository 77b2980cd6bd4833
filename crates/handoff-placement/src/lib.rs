//! Where threads run and how urgently: cores, affinity, scheduling class, policies.
//!
//! ```
//! use handoff_placement::{AffinityGuard, CpuSet, Tid, affinity, fast};
//!
//! let here = fast::current_cpu();
//! let before = affinity(Tid::current())?;
//! {
//!     let guard = AffinityGuard::pin(&CpuSet::of(here))?;
//!     assert_eq!(guard.granted(), &CpuSet::of(here));
//! } // the former mask is back, also after a panic
//! assert_eq!(affinity(Tid::current())?, before);
//! # Ok::<(), handoff_placement::Error>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | name CPUs | [`CpuSet`], [`Selector`] (`big`, `llc:0`, `0-3,5`) |
//! | know the cores | [`Topology`], [`Allowed`] |
//! | read or set the mask of one thread | [`affinity()`], [`set_affinity`], [`AffinityGuard`] |
//! | move a whole process, and notice when it escapes | [`Pin`], [`Scope`] |
//! | do so on a path that may not allocate | [`fast`] |
//! | read or set policy, real-time priority and nice | [`Priority`], [`PriorityGuard`], [`can_raise_to`] |
//! | reserve a deadline, clamp utilisation, order I/O | [`Scheduling`], [`IoPriority`] |
//! | do several of these, or none of them | [`Placement`] |
//! | tell a running placement policy who is in the foreground | [`notice`] |
//! | limit a group of processes | [`ControlGroup`], [`mod@cgroup`] |
//! | put back what a killed process changed | [`Journal`] |
//! | keep what another user may not have written | [`PrivateFolder`] |
//! | close what another process sent, whatever waits in it | [`PromptClose`] |
//! | write to the kernel's files and no others | [`write_setting`] |

#![warn(missing_docs)]

mod affinity;
mod allowed;
pub mod cgroup;
mod controller;
mod cpuset;
mod denial;
mod error;
pub mod fast;
mod group;
mod guard;
mod journal;
mod journal_file;
mod kernel_file;
pub mod notice;
mod pin;
mod placement;
mod priority;
mod private_folder;
pub mod process;
mod prompt_close;
mod rights;
mod root;
mod scheduling;
mod selector;
mod selector_error;
mod snapshot;
pub mod suggest;
mod sys;
mod tid;
mod topology;

pub use affinity::{affinity, set_affinity};
pub use allowed::Allowed;
pub use cpuset::{CpuId, CpuListError, CpuSet};
pub use error::{Error, Result};
pub use group::{ControlGroup, Limits, enter_group};
pub use guard::{AffinityGuard, PriorityGuard};
pub use journal::{Journal, POLICY_GROUP, RecoveryReport};
pub use journal_file::{JournalFile, LeftJournals};
pub use kernel_file::write_setting;
pub use pin::{LossCause, LostPin, Pin};
pub use placement::{AppliedPlacement, Placement};
pub use priority::{Policy, Priority, PriorityParseError};
pub use private_folder::PrivateFolder;
pub use process::Scope;
pub use prompt_close::PromptClose;
pub use rights::can_raise_to;
pub use root::Root;
pub use scheduling::{Deadline, IoPriority, Scheduling, rt_hazard, rt_was_throttled};
pub use selector::Selector;
pub use selector_error::SelectorError;
pub use snapshot::{RestoreOutcome, Snapshot};
pub use tid::Tid;
pub use topology::{Class, ClassSource, Cpu, Group, Topology};

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
