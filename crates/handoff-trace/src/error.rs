//! What can go wrong while tracing, said so that the reader knows what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = TraceError> = std::result::Result<T, E>;

/// Why a trace could not be taken, read or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The kernel's tracing file system was found nowhere and could not be mounted.
    #[error(
        "the kernel's tracing files were found in none of {tried}, and mounting them failed ({why}): \
         run as root on a kernel with CONFIG_FTRACE, or mount them with \
         `mount -t tracefs tracefs /sys/kernel/tracing`"
    )]
    NoTraceFs { tried: String, why: io::Error },

    /// A control file of tracefs refused.
    #[error("cannot {action} {path}: {source}{}", hint(source))]
    Control {
        /// What was tried, such as `write "mono" to`.
        action: String,
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// An event that was asked for is not on this kernel.
    #[error(
        "this kernel has no event {event}: leave it out, or use a kernel built with the option that \
         provides it (events it has are listed in {list})"
    )]
    NoEvent {
        /// The event, `system:name`.
        event: String,
        /// Where the kernel lists its events.
        list: PathBuf,
    },

    /// The description of an event or a page that the kernel (or a file) gave makes no sense.
    #[error("the description of {what} cannot be used: {why}")]
    Format {
        /// The event or page described.
        what: String,
        /// What is wrong with it.
        why: String,
    },

    /// A ring-buffer page holds something that no kernel writes.
    #[error("page {page} of CPU {cpu} is damaged: {why}; the trace up to there is lost too, record it again")]
    Page {
        /// The CPU whose buffer it is from.
        cpu: u16,
        /// Counted from 0 in the order they were read.
        page: usize,
        /// What is wrong with it.
        why: &'static str,
    },

    /// A trace file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },

    /// A trace file is not one, is damaged, or uses something this reader does not know.
    #[error("{path} is not a trace this version can read: {why}")]
    NotATrace {
        /// The file, or a description of where the bytes came from.
        path: PathBuf,
        /// What is wrong, and what would help.
        why: String,
    },

    /// The question asked of a trace has no answer in it.
    #[error("{0}")]
    NotInTrace(String),

    /// The command to be traced could not be run.
    #[error("cannot {action} `{command}`: {source}")]
    Command {
        /// `start` or `wait for`.
        action: &'static str,
        command: String,
        source: io::Error,
    },
}

impl TraceError {
    pub(crate) fn control(action: impl Into<String>, path: &Path, source: io::Error) -> Self {
        Self::Control { action: action.into(), path: path.to_owned(), source }
    }

    pub(crate) fn format(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Format { what: what.into(), why: why.into() }
    }
}

/// What helps against the errors that people meet here.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            ": tracing needs root (or, on Android, the shell user and `atrace`)"
        }
        io::ErrorKind::ResourceBusy => ": another program holds it open; close that one and try again",
        io::ErrorKind::OutOfMemory => ": the buffer does not fit into memory, ask for a smaller one",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_control_says_what_to_do() {
        let error = TraceError::control(
            "create",
            Path::new("/sys/kernel/tracing/instances/x"),
            io::Error::from(io::ErrorKind::PermissionDenied),
        );
        let text = error.to_string();
        assert!(text.contains("cannot create /sys/kernel/tracing/instances/x"), "{text}");
        assert!(text.contains("needs root"), "{text}");
    }
}
