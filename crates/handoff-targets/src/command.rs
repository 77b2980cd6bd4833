//! A program on a target, with all that it is started with, as a script.

use std::fmt::Write as _;
use std::time::Duration;

/// What a program may use at most (`ulimit`); nothing is limited by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of CPU time.
    pub cpu_seconds: Option<u64>,
    /// KiB of address space.
    pub memory_kib: Option<u64>,
    pub files: Option<u64>,
}

/// A program to run on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    folder: Option<String>,
    limits: Limits,
    pub(crate) deadline: Option<Duration>,
}

impl Command {
    /// A program by its path there, or by its name.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Command { program: program.into(), ..Command::default() }
    }

    /// Adds arguments. They arrive as they are: no shell looks into them.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts it in this folder there.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<String>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Limits what it may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Kills it when it takes longer.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The script that becomes it.
    pub(crate) fn script(&self) -> String {
        let mut script = String::new();
        // Writing to a String cannot fail.
        let mut line = |text: std::fmt::Arguments<'_>| {
            let _ = script.write_fmt(text);
        };
        if let Some(folder) = &self.folder {
            line(format_args!("cd {} || exit 126\n", quoted(folder)));
        }
        for (letter, limit) in
            [("t", self.limits.cpu_seconds), ("v", self.limits.memory_kib), ("n", self.limits.files)]
        {
            if let Some(limit) = limit {
                line(format_args!("ulimit -{letter} {limit} || exit 126\n"));
            }
        }
        line(format_args!("exec "));
        if let Some(limit) = self.deadline {
            // Also kills it where the link is lost, and nobody on this side can.
            line(format_args!("timeout -s KILL {} ", limit.as_secs().max(1) + 1));
        }
        line(format_args!("env "));
        for (name, value) in &self.env {
            line(format_args!("{} ", quoted(&format!("{name}={value}"))));
        }
        line(format_args!("{}", quoted(&self.program)));
        for arg in &self.args {
            line(format_args!(" {}", quoted(arg)));
        }
        script
    }
}

/// A word that the shell takes as it is, whatever is in it.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_script_has_all_that_was_asked() {
        let limits = Limits { files: Some(64), ..Limits::default() };
        let command =
            Command::new("/tmp/x").args(["-i", "it's"]).env("A", "b c").current_dir("/tmp").limits(limits);
        assert_eq!(
            command.deadline(Duration::from_secs(5)).script(),
            "cd '/tmp' || exit 126\nulimit -n 64 || exit 126\nexec timeout -s KILL 6 env 'A=b c' '/tmp/x' '-i' 'it'\\''s'"
        );
    }

    proptest! {
        #[test]
        fn arguments_arrive_as_they_are(args in proptest::collection::vec("[^\0]{0,12}", 0..4)) {
            let command = Command::new("printf").args(["%s\\0"]).args(args.clone());
            let output = std::process::Command::new("sh").args(["-c", &command.script()]).output().expect("sh runs");
            let text = String::from_utf8(output.stdout).expect("as it was");
            let mut expected: String = args.iter().map(|arg| format!("{arg}\0")).collect();
            if args.is_empty() {
                expected.push('\0');
            }
            prop_assert_eq!(text, expected);
        }
    }
}
