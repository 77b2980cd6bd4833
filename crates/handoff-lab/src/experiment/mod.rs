//! The lab: an experiment is a file, a run of it a verdict.
//!
//! Data flows through the files of this folder in this order:
//!
//! 1. [`mod@file`]: the experiment as somebody wrote it, with errors that tell line and column;
//! 2. [`setting`] and [`journal`]: what a variant changes on the machine, written down before it is
//!    changed, and put back after each run, at the end, or by a later process;
//! 3. [`task`]: one run of the workload in a process of its own, and the figures it gave;
//! 4. [`proof`]: whether what is compared was active at all;
//! 5. [`machine`]: from an address to an [`executor`], which does the three above on this machine, or asks the
//!    [`agent`] of another one ([`remote`]), such as a [`guest`];
//! 6. [`runner`]: rounds of the arms A, A' and B in a shuffled order, until the rule says stop;
//! 7. [`result`]: the verdict with everything that it rests on, which [`crate::store`] keeps and
//!    [`crate::report::experiment`] shows.
//!
//! [`plan`] tells beforehand what a run will take.

pub mod agent;
pub mod difference;
pub mod executor;
pub mod file;
pub mod guest;
pub mod journal;
pub mod machine;
pub mod plan;
mod pointer;
pub mod proof;
pub mod remote;
pub mod result;
pub mod runner;
pub mod setting;
mod sys;
pub mod task;

/// One arm of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArmId {
    A,
    /// The baseline once more: what no difference looks like.
    #[serde(rename = "again")]
    Control,
    B,
}

impl ArmId {
    /// All three, as a round has them.
    pub const ALL: [ArmId; 3] = [ArmId::A, ArmId::Control, ArmId::B];

    pub fn name(self) -> &'static str {
        match self {
            ArmId::A => "A",
            ArmId::Control => "A'",
            ArmId::B => "B",
        }
    }
}

/// An error with its causes in one line, for who is elsewhere.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
