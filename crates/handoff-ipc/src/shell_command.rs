//! A command that somebody gives a service by hand, as the service sees it.

use std::fs::File;
use std::io::Write as _;

use crate::identity::CallingIdentity;

/// Status of an object that has no commands: Android's `INVALID_OPERATION`.
const NO_COMMANDS: i32 = -38;

/// A command that somebody gives an object by hand, with where it reads and writes.
#[derive(Debug)]
pub struct ShellCommand {
    /// The caller's standard input.
    pub input: File,
    /// The caller's standard output.
    pub output: File,
    /// The caller's standard error.
    pub error: File,
    /// What stands behind the service's name on the command line.
    pub args: Vec<String>,
    /// Who gives it.
    pub caller: CallingIdentity,
}

impl ShellCommand {
    /// Answers for an object that has no commands: says so, and gives the status for that.
    pub fn refuse(&mut self, descriptor: &str) -> i32 {
        // Who does not read is told by the status.
        let _ = writeln!(self.error, "{descriptor} has no shell commands");
        NO_COMMANDS
    }
}
