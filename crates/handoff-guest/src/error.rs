//! What can go wrong around a guest, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::console::Incident;

/// Why a guest could not be fetched, booted or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    #[error("`{tool}` is not installed; {advice}")]
    MissingTool {
        tool: String,
        /// How to get it, as a sentence.
        advice: String,
    },
    #[error("cannot fetch the package {package}: {reason}")]
    Package {
        /// The package, with its architecture where that is not the host's.
        package: String,
        /// What the package manager said, and what to do.
        reason: String,
    },
    #[error("the package file {} is not usable: {reason}", file.display())]
    Unpack {
        file: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    #[error("cannot load the kernel module `{module}`: {reason}")]
    Module { module: String, reason: String },
    #[error("cannot run {} in the guest: {reason}", program.display())]
    Program { program: PathBuf, reason: String },
    #[error("{0}")]
    Options(String),
    #[error("the guest's device tree is not usable: {0}")]
    DeviceTree(String),
    #[error("QEMU did not start the guest: {reason}")]
    Qemu {
        /// Its own words and the last lines of the console.
        reason: String,
    },
    #[error("the guest did not boot within {} s{}", limit.as_secs(), tail(console))]
    BootTimeout { limit: Duration, console: Vec<String> },
    #[error("the guest's kernel cannot carry commands: {reason}")]
    Transport { reason: String },
    #[error("the guest's kernel stopped: {0}")]
    Panic(Box<Incident>),
    #[error("the guest ended unexpectedly{}", tail(console))]
    Gone { console: Vec<String> },
    #[error("`{command}` did not end within {} s in the guest, which is alive{}{}",
        limit.as_secs(),
        if *killed { "; it was killed there" } else { "; it could not be killed" },
        if state.is_empty() { String::new() } else { format!("\n  {}", state.replace("; ", "\n  ")) })]
    CommandTimeout {
        command: String,
        limit: Duration,
        killed: bool,
        /// What the command's processes were doing, as the guest saw it.
        state: String,
    },
    #[error("the guest hangs: `{command}` did not end within {} s and the guest answers nothing{}",
        limit.as_secs(), tail(console))]
    Hang { command: String, limit: Duration, console: Vec<String> },
    #[error("the guest was stopped on request")]
    Cancelled,
    #[error("the guest answered with something that is not the protocol: {0}")]
    Protocol(String),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl GuestError {
    /// Makes a function for `map_err` that says what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// The last console lines below a message, or nothing.
fn tail(console: &[String]) -> String {
    if console.is_empty() {
        return "; its console stayed silent".to_owned();
    }
    let mut text = "; its console ends with:".to_owned();
    for line in console {
        text.push_str("\n  | ");
        text.push_str(line);
    }
    text
}
