//! What the daemon tells of its work.

use handoff_placement::Recovered;
use serde::Serialize;
use std::fmt;

/// What the daemon did, with its reason: one line of its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A policy that was killed had left something to put back.
    Recovered(Recovered),
    /// What the daemon cannot hear of on this machine, and what it does instead.
    Without {
        source: &'static str,
        /// Why it is not to be had.
        reason: String,
    },
    /// A process got another profile, or none any more.
    Placed {
        pid: i32,
        comm: String,
        /// The profiles that it and its threads have now.
        profiles: Vec<String>,
        reason: String,
    },
    /// A process could not be placed, and was left as it had been.
    Refused { pid: i32, comm: String, reason: String },
    /// A pin was lost and applied again.
    Repaired {
        pid: i32,
        /// Which threads, and what is likely to have done it.
        lost: Vec<String>,
    },
    /// A pin was lost and cannot be applied again for now. It is tried again, and told again when that changes.
    Lost {
        pid: i32,
        /// Which threads, and what is likely to have done it.
        lost: Vec<String>,
        /// Why it cannot be applied again.
        reason: String,
    },
    /// A foreground change or a service name was told.
    Told { pid: i32, what: String },
}

/// What is left at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// Processes that have back what they had.
    pub restored: usize,
    /// Processes of which the kernel refused something.
    pub partly: usize,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered(recovered) => write!(f, "a policy was killed before: {recovered}"),
            Self::Without { source, reason } => write!(f, "cannot hear of {source}: {reason}"),
            Self::Placed { pid, comm, profiles, reason } if profiles.is_empty() => {
                write!(f, "{pid} {comm}: given back what it had ({reason})")
            }
            Self::Placed { pid, comm, profiles, reason } => {
                write!(f, "{pid} {comm}: {} ({reason})", profiles.join(", "))
            }
            Self::Refused { pid, comm, reason } => write!(f, "{pid} {comm}: left as it was ({reason})"),
            Self::Repaired { pid, lost } => write!(f, "{pid}: placed again ({})", lost.join("; ")),
            Self::Lost { pid, lost, reason } => {
                write!(f, "{pid}: not where it was placed ({}), and {reason}", lost.join("; "))
            }
            Self::Told { pid, what } => write!(f, "{pid}: told that it is {what}"),
        }
    }
}

/// Names come from others: they must not steer the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
