//! Experiments on many devices: planned, queued, carried out, combined.
//!
//! A task is one whole interleaved experiment on one device, never one job for each arm, so that every
//! comparison stays inside a device. Data flows through the files of this crate in this order:
//!
//! 1. [`mod@file`]: the campaign as somebody wrote it, with errors that tell line and column;
//! 2. [`plan`]: its tasks, one for each experiment, combination of parameters and target;
//! 3. [`record`]: a folder with what came of each task, a round at a time; a task is claimed by a lock that
//!    the kernel drops with its process, so that no clock decides who is dead;
//! 4. [`device`]: the end that runs on the device, and can be started any number of times;
//! 5. [`work`]: the end here: puts that there, keeps its rounds, and starts it again when it was lost;
//! 6. [`local`], [`slurm`]: who starts [`work`], on what;
//! 7. [`mod@collect`] and [`mod@report`]: results into the lab's store, and devices combined as blocks.
//!
//! [`export`] writes a campaign for schedulers that other labs have; [`mod@simulate`] tells from recorded noise what a campaign on far more devices would take and find.

pub mod collect;
pub mod device;
mod error;
pub mod export;
pub mod file;
pub mod local;
pub mod plan;
pub mod record;
pub mod report;
pub mod simulate;
pub mod slurm;
pub mod status;
pub mod work;

pub use error::{CampaignError, Result};

/// The examples of the crate's README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
