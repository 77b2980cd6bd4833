//! What can go wrong around a guest, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::console::Incident;

/// Why a guest could not be fetched, booted or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// A program that the host needs is not installed.
    #[error("`{tool}` is not installed; {advice}")]
    MissingTool {
        /// The program's name.
        tool: String,
        /// How to get it, as a sentence.
        advice: String,
    },
    /// The package manager does not know a package, or cannot download it.
    #[error("cannot fetch the package {package}: {reason}")]
    Package {
        /// The package, with its architecture where that is not the host's.
        package: String,
        /// What the package manager said, and what to do.
        reason: String,
    },
    /// A fetched package does not hold what it should.
    #[error("the package file {} is not usable: {reason}", file.display())]
    Unpack {
        /// The package file in the cache.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A kernel module cannot be found or read.
    #[error("cannot load the kernel module `{module}`: {reason}")]
    Module {
        /// The module's name.
        module: String,
        /// What is wrong.
        reason: String,
    },
    /// A program cannot be copied into a guest.
    #[error("cannot run {} in the guest: {reason}", program.display())]
    Program {
        /// The program on the host.
        program: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The options contradict each other or a value is out of range.
    #[error("{0}")]
    Options(String),
    /// A device tree cannot be read or edited.
    #[error("the guest's device tree is not usable: {0}")]
    DeviceTree(String),
    /// QEMU ended, or could not be started, before the guest was ready.
    #[error("QEMU did not start the guest: {reason}")]
    Qemu {
        /// Its own words and the last lines of the console.
        reason: String,
    },
    /// The guest's kernel did not get as far as accepting commands.
    #[error("the guest did not boot within {} s{}", limit.as_secs(), tail(console))]
    BootTimeout {
        /// How long it was waited for.
        limit: Duration,
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// The guest's kernel came up but cannot carry commands.
    #[error("the guest's kernel cannot carry commands: {reason}")]
    Transport {
        /// What the kernel lacks.
        reason: String,
    },
    /// The guest's kernel panicked.
    #[error("the guest's kernel stopped: {0}")]
    Panic(Box<Incident>),
    /// The guest went away while it was in use, without a panic.
    #[error("the guest ended unexpectedly{}", tail(console))]
    Gone {
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// A command did not end in time, though the guest still answers.
    #[error("`{command}` did not end within {} s in the guest, which is alive{}{}",
        limit.as_secs(),
        if *killed { "; it was killed there" } else { "; it could not be killed" },
        if state.is_empty() { String::new() } else { format!("\n  {}", state.replace("; ", "\n  ")) })]
    CommandTimeout {
        /// The command line.
        command: String,
        /// Its time limit.
        limit: Duration,
        /// Whether the guest is usable again.
        killed: bool,
        /// What the command's processes were doing, as the guest saw it.
        state: String,
    },
    /// A command did not end in time and the guest answers nothing.
    #[error("the guest hangs: `{command}` did not end within {} s and the guest answers nothing{}",
        limit.as_secs(), tail(console))]
    Hang {
        /// The command line.
        command: String,
        /// Its time limit.
        limit: Duration,
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// Somebody asked for the guest to be stopped.
    #[error("the guest was stopped on request")]
    Cancelled,
    /// What the guest sent makes no sense.
    #[error("the guest answered with something that is not the protocol: {0}")]
    Protocol(String),
    /// A file or socket of the host failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
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
