//! Why a policy cannot be had here, or stopped.

use crate::file::Problems;

/// The result of a policy's work.
pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine cannot give what the policy's profiles ask for, or refused it.
    #[error("{0}")]
    Policy(Problems),

    /// The kernel, the journal or a control group refused a placement.
    #[error(transparent)]
    Placement(#[from] handoff_placement::Error),
}
