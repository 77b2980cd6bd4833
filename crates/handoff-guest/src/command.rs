//! What is run in a guest, and what came of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use super::console::Incident;
use super::protocol::quote;

/// A program to run in a guest, with its arguments, like `std::process::Command` for this machine.
#[derive(Debug, Clone)]
pub struct GuestCommand {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<OsString>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) timeout: Option<Duration>,
}

impl GuestCommand {
    /// The program of this name or path in the guest, without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            arguments: vec![program.as_ref().to_owned()],
            environment: Vec::new(),
            folder: None,
            stdin: Vec::new(),
            timeout: None,
        }
    }

    /// A script for the guest's shell.
    pub fn shell(script: impl AsRef<OsStr>) -> Self {
        Self::new("sh").arg("-c").arg(script)
    }

    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of the program.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the folder in which the program starts; `/` otherwise.
    #[must_use]
    pub fn current_dir(mut self, folder: impl AsRef<OsStr>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Gives the program these bytes as its standard input; none otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Kills the program in the guest when it took longer; no limit otherwise.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The command as the line that the guest's shell gets.
    pub(crate) fn script(&self) -> String {
        let mut script = String::new();
        if let Some(folder) = &self.folder {
            script.push_str(&format!("cd {} || exit 126; ", quote(folder.as_bytes())));
        }
        script.push_str("exec");
        if !self.environment.is_empty() {
            // By `env`, since a shell would refuse names that it cannot have as variables.
            script.push_str(" env");
            for (name, value) in &self.environment {
                let assignment = [name.as_bytes(), b"=", value.as_bytes()].concat();
                script.push(' ');
                script.push_str(&quote(&assignment));
            }
        }
        for argument in &self.arguments {
            script.push(' ');
            script.push_str(&quote(argument.as_bytes()));
        }
        script
    }

    /// The command as a person would write it, for messages.
    pub(crate) fn display(&self) -> String {
        let words: Vec<String> =
            self.arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }
}

/// What a program in a guest left behind.
#[derive(Debug, Clone, Default)]
pub struct GuestOutput {
    /// Its exit status; 128 + N if signal N ended it, 127 if there is no such program.
    pub status: i32,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// Trouble that the guest's kernel reported meanwhile.
    pub incidents: Vec<Incident>,
    /// How long it took, seen from the host.
    pub elapsed: Duration,
}

impl GuestOutput {
    /// Whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// The standard output as text; bytes that are none are replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The standard error as text; bytes that are none are replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// One of a program's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_one_line() {
        let command = GuestCommand::new("/bin/handoff").args(["measure", "latency", "-i", "10"]);
        assert_eq!(command.script(), "exec /bin/handoff measure latency -i 10");
        let command = GuestCommand::shell("echo a\necho 'b'").current_dir("/a b").env("K", "v w");
        assert_eq!(
            command.script(),
            "cd $'/a b' || exit 126; exec env $'K=v w' sh -c $'echo a\\012echo \\'b\\''"
        );
        assert_eq!(command.display(), "sh -c echo a\necho 'b'");
    }
}
