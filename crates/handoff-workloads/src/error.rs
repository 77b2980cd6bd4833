//! Why a workload could not run.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;

use crate::measurement::BadMeasurement;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A workload that did not run, or whose result cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter is out of its range or contradicts another.
    #[error("{parameter}: {problem}")]
    Parameter {
        /// The parameter, as the command line spells it.
        parameter: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The machine cannot run this workload.
    #[error("this machine cannot run {workload}: {reason}")]
    NotSupported {
        workload: &'static str,
        /// What is missing, and what to do.
        reason: String,
    },
    /// A process of the workload ended before its work was done.
    #[error("the {role} process of the workload {how} before its work was done")]
    PeerDied {
        /// What the process was for.
        role: String,
        /// How it ended, such as `was killed by signal 9`.
        how: String,
    },
    /// The workload did not end in time and was stopped.
    #[error("{what} did not finish within {limit:?} and was stopped")]
    TimedOut { what: String, limit: std::time::Duration },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// A command of the system that the workload needs failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command with its arguments.
        command: String,
        /// What it printed on standard error, or why it could not be started.
        message: String,
    },
    /// The kernel could not be traced.
    #[error(transparent)]
    Trace(#[from] handoff_trace::TraceError),
    #[error(transparent)]
    Placement(#[from] handoff_placement::Error),
    #[error(transparent)]
    Measurement(#[from] BadMeasurement),
}

impl Error {
    /// An operating-system error with what was being done.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { what: what.into(), source: source.into() }
    }

    /// A parameter that cannot be used.
    pub fn parameter(parameter: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Parameter { parameter: parameter.into(), problem: problem.into() }
    }
}

/// Refuses a number that is not in its range: `flows: 0 is not from 1 to 1000`.
pub(crate) fn in_range<N: PartialOrd + fmt::Display>(
    parameter: &str,
    value: N,
    range: RangeInclusive<N>,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::parameter(parameter, format!("{value} is not from {} to {}", range.start(), range.end())))
}

/// A call that failed, as an error of the workload.
pub(crate) fn call_failed(error: &handoff_ipc::Error) -> Error {
    Error::io("a call failed", std::io::Error::other(error.to_string()))
}
