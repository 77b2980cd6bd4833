//! What can go wrong with another machine.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of everything in this crate that can fail.
pub type Result<T, E = TargetError> = std::result::Result<T, E>;

/// Why a target could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The name of the target is none.
    #[error("`{text}` is no target: {why}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The target cannot be reached.
    #[error("cannot reach {target}: {why}")]
    Unreachable {
        /// Its address.
        target: String,
        /// What was said, and what to do.
        why: String,
    },
    /// The machine at that address has another host key than the one that is known.
    #[error(
        "{target} does not have the host key that is known for it: either it was installed anew, or somebody is \
         in between. Compare its key, and only then remove the old one with `ssh-keygen -R`. ssh says: {said}"
    )]
    HostKey {
        /// Its address.
        target: String,
        /// What ssh said.
        said: String,
    },
    /// The target refuses the user.
    #[error("{target} does not let us in: {said}; `ssh` to it by hand must work without a question")]
    Refused {
        /// Its address.
        target: String,
        /// What ssh said.
        said: String,
    },
    /// The link was lost while a command ran.
    #[error("the link to {target} was lost: {why}")]
    Lost {
        /// Its address.
        target: String,
        /// What was seen of it.
        why: String,
    },
    /// The machine was booted anew while a command ran.
    #[error("{target} was booted anew meanwhile: what ran there is gone ({why})")]
    Rebooted {
        /// Its address.
        target: String,
        /// How that was noticed.
        why: String,
    },
    /// Another experiment has the machine.
    #[error("{target} is in use by {holder}: two experiments on one machine would disturb each other")]
    Locked {
        /// Its address.
        target: String,
        /// Who has it.
        holder: String,
    },
    /// The command did not end in time.
    #[error("the command did not end on {target} within {limit:?}, and was killed")]
    Deadline {
        /// Its address.
        target: String,
        /// How long it had.
        limit: Duration,
    },
    /// The program is for another architecture.
    #[error(
        "{program} is for {has}, and {target} is {wants}: build it for that (`cargo xtask dist`) and name it"
    )]
    Architecture {
        /// The program.
        program: PathBuf,
        /// What it is for.
        has: String,
        /// The target's address.
        target: String,
        /// What the target is.
        wants: String,
    },
    /// A step there failed, such as a copy onto a full disk.
    #[error("{target} cannot {what}: {said}")]
    Step {
        /// Its address.
        target: String,
        /// What was tried.
        what: &'static str,
        /// What its shell said.
        said: String,
    },
    /// What came back makes no sense.
    #[error("{target} sends what makes no sense: {what}")]
    Garbage {
        /// Its address.
        target: String,
        /// What it was.
        what: String,
    },
    /// The agent did not start.
    #[error(
        "handoff does not start on {target}: {said}; one that is linked statically (`cargo xtask dist`) starts anywhere"
    )]
    NotStarted {
        /// Its address.
        target: String,
        /// What its shell said.
        said: String,
    },
    /// The agent was killed by somebody there.
    #[error("handoff was killed on {target} (status {status}) {said}")]
    Killed {
        /// Its address.
        target: String,
        /// 128 and the signal.
        status: i32,
        /// What it said before.
        said: String,
    },
    /// The agent ended without an answer.
    #[error("handoff ended on {target} with status {status} and without an answer: {said}")]
    NoAnswer {
        /// Its address.
        target: String,
        /// Its exit status.
        status: i32,
        /// What it said.
        said: String,
    },
    /// The agent is of another handoff.
    #[error(
        "the agent on {target} speaks version {has}, and this handoff version {wants}: use the same on both sides"
    )]
    Version {
        /// Its address.
        target: String,
        /// What it speaks.
        has: String,
        /// What we speak.
        wants: u32,
    },
    /// The agent could not do what it was asked.
    #[error("on {target}: {why}")]
    Failed {
        /// Its address.
        target: String,
        /// Why, as it says.
        why: String,
    },
    /// The guest could not be booted or used.
    #[error(transparent)]
    Guest(#[from] handoff_guest::GuestError),
    /// A file or process on this side failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl TargetError {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        TargetError::Io { what: what.into(), source: source.into() }
    }

    /// Whether another try may succeed, because the link was at fault and not what was asked.
    #[must_use]
    pub fn is_link(&self) -> bool {
        matches!(self, TargetError::Lost { .. } | TargetError::Unreachable { .. })
    }
}
