//! What the daemon tells of its work.

use super::permits::{RateLimit, is_trusted};
use handoff_placement::RecoveryReport;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// What the daemon did, with its reason: one line of its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A policy that was killed had left something to put back.
    Recovered(RecoveryReport),
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
    Announced { pid: i32, what: String },
    /// What a user asked for gave more lines than its share of the log has; these are not in it.
    LeftOut { uid: u32, lines: u64 },
}

/// What is left at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StopReport {
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
            Self::Announced { pid, what } => write!(f, "{pid}: told that it is {what}"),
            Self::LeftOut { uid, lines } => {
                write!(f, "{lines} lines of what user {uid} asked for are left out: it asks too often")
            }
        }
    }
}

/// Lines of what one user asks for: so many at once, then one a second.
const LINES: RateLimit = RateLimit::new(64, Duration::from_secs(1));

/// How long lines are left out before their number is told.
const EACH_SUM: Duration = Duration::from_secs(10);

/// Takes what the daemon tells, and of what a user asks for no more than its share.
pub(super) struct Log<'a> {
    write: Box<dyn FnMut(Event) + 'a>,
    speaks_for: Option<u32>,
    users: BTreeMap<u32, User>,
}

struct User {
    rate: RateLimit,
    left_out: u64,
    /// When the number of those lines is told.
    due: Instant,
}

impl<'a> Log<'a> {
    pub(super) fn new(write: impl FnMut(Event) + 'a) -> Self {
        Self { write: Box::new(write), speaks_for: None, users: BTreeMap::new() }
    }

    /// Whose request makes the daemon tell what follows.
    pub(super) fn speaks_for(&mut self, uid: Option<u32>) {
        self.speaks_for = uid.filter(|&uid| !is_trusted(uid));
    }

    pub(super) fn tell(&mut self, event: Event) {
        if let Some(uid) = self.speaks_for {
            let now = Instant::now();
            let user = self.users.entry(uid).or_insert(User { rate: LINES, left_out: 0, due: now });
            if !user.rate.may(now) {
                if user.left_out == 0 {
                    user.due = now + EACH_SUM;
                }
                user.left_out += 1;
                return;
            }
        }
        (self.write)(event);
    }

    /// When the next number of lines that were left out is to be told.
    pub(super) fn due(&self) -> Option<Instant> {
        self.users.values().filter(|user| user.left_out > 0).map(|user| user.due).min()
    }

    /// The numbers that are due, or all of them at the end.
    pub(super) fn tell_what_was_left_out(&mut self, now: Option<Instant>) {
        for (&uid, user) in &mut self.users {
            if user.left_out > 0 && now.is_none_or(|now| user.due <= now) {
                let lines = std::mem::take(&mut user.left_out);
                (self.write)(Event::LeftOut { uid, lines });
            }
        }
        let now = Instant::now();
        self.users.retain(|_, user| user.left_out > 0 || !user.rate.is_idle(now));
    }
}

/// Names come from others: they must not steer the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
