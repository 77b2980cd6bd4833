//! What can go wrong with another machine.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of everything in this crate that can fail.
pub type Result<T, E = TargetError> = std::result::Result<T, E>;

/// Why a target could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("`{text}` is no target: {why}")]
    Address { text: String, why: String },
    #[error("cannot reach {target}: {why}")]
    Unreachable {
        target: String,
        /// What was said, and what to do.
        why: String,
    },
    #[error(
        "{target} does not have the host key that is known for it: either it was installed anew, or somebody is \
         in between. Compare its key, and only then remove the old one with `ssh-keygen -R`. ssh says: {said}"
    )]
    HostKey { target: String, said: String },
    #[error("{target} does not let us in: {said}; `ssh` to it by hand must work without a question")]
    Refused { target: String, said: String },
    #[error("the link to {target} was lost: {why}")]
    Lost { target: String, why: String },
    #[error("{target} was booted anew meanwhile: what ran there is gone ({why})")]
    Rebooted { target: String, why: String },
    #[error("{target} is in use by {holder}: two experiments on one machine would disturb each other")]
    Locked { target: String, holder: String },
    #[error("the command did not end on {target} within {limit:?}, and was killed")]
    Deadline { target: String, limit: Duration },
    #[error(
        "{program} is for {has}, and {target} is {wants}: build it for that (`cargo xtask dist`) and name it"
    )]
    Architecture { program: PathBuf, has: String, target: String, wants: String },
    #[error("{target} cannot {what}: {said}")]
    Step { target: String, what: &'static str, said: String },
    #[error("{target} sends what makes no sense: {what}")]
    Garbage { target: String, what: String },
    #[error(
        "handoff does not start on {target}: {said}; one that is linked statically (`cargo xtask dist`) starts anywhere"
    )]
    NotStarted { target: String, said: String },
    #[error("handoff was killed on {target} (status {status}) {said}")]
    Killed {
        target: String,
        /// 128 and the signal.
        status: i32,
        said: String,
    },
    #[error("handoff ended on {target} with status {status} and without an answer: {said}")]
    NoAnswer { target: String, status: i32, said: String },
    #[error(
        "the agent on {target} speaks version {has}, and this handoff version {wants}: use the same on both sides"
    )]
    Version { target: String, has: String, wants: u32 },
    #[error("on {target}: {why}")]
    Failed { target: String, why: String },
    /// The guest could not be booted or used.
    #[error(transparent)]
    Guest(#[from] handoff_guest::GuestError),
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
}

impl TargetError {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        TargetError::Io { what: what.into(), source: source.into() }
    }

    /// Whether another try may succeed, because the link was at fault and not what was asked.
    pub fn is_link(&self) -> bool {
        matches!(self, TargetError::Lost { .. } | TargetError::Unreachable { .. })
    }
}
