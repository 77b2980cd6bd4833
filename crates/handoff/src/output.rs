//! What a command says: results on standard output as text or JSON, everything else on standard error.
//!
//! Colours come through [`anstream`], which drops them where the stream is not a terminal or `NO_COLOR`
//! is set: a command writes styled text and need not ask. The styles are in [`style`].

use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Context as _;
use handoff_targets::{Sink, Stream};
use serde::Serialize;

use crate::printable::{escaped, printable};
use crate::{interrupt, progress, width};

/// The styles of everything that is printed, so that the same thing looks the same everywhere.
pub(crate) mod style {
    use anstyle::{AnsiColor, Style};

    /// The title of a table or a section.
    pub(crate) const HEADING: Style = Style::new().bold();
    /// A test that passed, a figure within its limit.
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    /// A test that failed, a figure beyond its limit.
    pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
    /// What could spoil a figure.
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
    /// What most readers may skip.
    pub(crate) const DIM: Style = Style::new().dimmed();

    /// `text` in `style`, for `format!`.
    pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> impl std::fmt::Display {
        format!("{style}{text}{style:#}")
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON value
    Json,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Even into a pipe or a file
    Always,
    /// Never
    Never,
}

/// How much is told beside the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// Warnings and errors only: no notes and no progress.
    Quiet,
    Usual,
    /// Also which programs are started, and which files and sockets are used.
    Verbose,
}

/// How a command that could be carried out has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It worked; a test has passed. Exit status 0.
    Pass,
    /// A test was run and has failed. Exit status 1. What failed has been printed.
    Fail,
    /// It worked, with doubts that a person should look at. Exit status 3.
    Doubt,
    /// It ran until somebody ended it, as it should. Exit status 0, after Ctrl-C too.
    Ended,
    /// What another program ended with, or what a shell says of one that cannot be started.
    Status(u8),
}

impl Verdict {
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::Pass } else { Self::Fail }
    }
}

/// Where a command prints.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    amount: Amount,
}

impl Output {
    /// Sets the colours of the process, and remembers the rest.
    pub(crate) fn new(format: Format, color: Color, amount: Amount) -> Self {
        if amount == Amount::Quiet {
            progress::set_quiet();
        }
        match color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
        Self { format, amount }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether notes and progress are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.amount == Amount::Quiet
    }

    /// Whether the output of programs that are started is shown, too.
    pub(crate) fn is_verbose(&self) -> bool {
        self.amount == Amount::Verbose
    }

    /// Prints a result in the format that was asked for: its `Display` (which ends without a newline)
    /// or its JSON.
    pub(crate) fn result<T: Display + Serialize>(&self, result: &T) -> anyhow::Result<()> {
        match self.format {
            Format::Text => self.line(format_args!("{result}")),
            Format::Json => self.json(result),
        }
    }

    /// Prints a line of text on standard output, whatever the format.
    pub(crate) fn line(&self, text: fmt::Arguments<'_>) -> anyhow::Result<()> {
        let text = width::fitted(printable(&text.to_string()), &io::stdout());
        // Long text takes its time until it is there.
        interrupt::note_printed();
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).context(CANNOT_PRINT)
    }

    /// Prints a value as indented JSON on standard output, whatever the format.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value).context("the result cannot be written as JSON")?;
        self.bytes((escaped(&text) + "\n").as_bytes())
    }

    /// Prints text that has colours in it, whatever the format.
    pub(crate) fn styled(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context(CANNOT_PRINT)
    }

    /// Writes bytes to standard output as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> anyhow::Result<()> {
        interrupt::note_printed();
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).context(CANNOT_PRINT)
    }

    /// Prints what `run` is handed of a program elsewhere, as it comes: its standard output on ours, and so its
    /// standard error.
    pub(crate) fn forward<T>(&self, run: impl FnOnce(&mut Sink<'_>) -> T) -> anyhow::Result<T> {
        let mut printed = Ok(());
        let result = run(&mut |stream, bytes| match stream {
            Stream::Stdout if printed.is_ok() => printed = self.bytes(bytes),
            Stream::Stdout => {}
            Stream::Stderr => drop(io::stderr().write_all(bytes)),
        });
        printed.map(|()| result)
    }

    /// Says on standard error what the command is doing. It must not be needed to read the result.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.is_quiet() {
            say(&text.to_string());
        }
    }

    /// Warns on standard error of something that could spoil the result.
    pub(crate) fn warn(&self, text: impl Display) {
        let label = style::paint(style::WARNING, "warning:");
        say(&format!("{label} {text}"));
    }

    /// Says on standard error what went wrong, why, and what to do.
    pub(crate) fn complain(&self, error: &anyhow::Error) {
        say(explain(error).trim_end());
    }

    /// Says what went wrong, if anything did, and gives the exit status.
    pub(crate) fn conclude(&self, outcome: anyhow::Result<Verdict>) -> ExitCode {
        match outcome {
            Err(error) if reader_is_gone(&error) => return ExitCode::from(READER_GONE),
            Err(error) => self.complain(&error),
            Ok(Verdict::Ended) => return ExitCode::SUCCESS,
            Ok(Verdict::Status(status)) => return ExitCode::from(status),
            Ok(_) if interrupt::was_interrupted() => {}
            Ok(Verdict::Pass) => return ExitCode::SUCCESS,
            Ok(Verdict::Fail) => return ExitCode::FAILURE,
            Ok(Verdict::Doubt) => return ExitCode::from(3),
        }
        if interrupt::was_interrupted() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::from(2) }
    }
}

/// Says on standard error what goes on, as [`Output::note`], where no output is at hand. `eprintln` would end the
/// program where nobody reads any more.
pub(crate) fn progress(text: impl Display) {
    if !progress::is_quiet() {
        say(&text.to_string());
    }
}

/// `1 error`, `2 errors`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A line on standard error; nothing depends on its being read.
pub(crate) fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{}", width::fitted(printable(text), &io::stderr())));
}

const CANNOT_PRINT: &str = "cannot write to standard output";

/// What a shell reports of a program that died of SIGPIPE (128 + 13): `handoff doctor | head -1`.
const READER_GONE: u8 = 141;

/// Starts the part of an error that says what to do: see [`Advice`].
const HELP: &str = "help: ";

/// Adds what to do to an error. It is printed last, whatever context is added afterwards.
pub(crate) trait Advice<T> {
    /// `advice` is a sentence in the imperative, such as "run as root, or pass --no-fifo".
    fn advise(self, advice: impl Display) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Advice<T> for Result<T, E> {
    fn advise(self, advice: impl Display) -> anyhow::Result<T> {
        self.map_err(|error| error.into().context(format!("{HELP}{advice}")))
    }
}

/// What happened, why, and what to do, each on its own line.
fn explain(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(told).collect();
    let (help, story): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.starts_with(HELP));
    let mut text = String::new();
    let mut said = String::new();
    for part in story {
        if said.contains(part.as_str()) {
            continue; // A library that has put the cause into its own message gives it as a source, too.
        }
        let label = if said.is_empty() {
            style::paint(style::BAD, "error:").to_string()
        } else {
            style::paint(style::DIM, "  because:").to_string()
        };
        text.push_str(&format!("{label} {}\n", part.trim_end().replace('\n', "\n    ")));
        said.push_str(part);
    }
    for part in help {
        let label = style::paint(style::GOOD, "  help:");
        text.push_str(&format!("{label} {}\n", part[HELP.len()..].trim_end().replace('\n', "\n    ")));
    }
    text
}

/// Whether some command has a long option of this name: `main` says where that is known, since the command line
/// itself is built on this file.
pub(crate) static HAS_OPTION: OnceLock<fn(&str) -> bool> = OnceLock::new();

/// A cause in words. The parameter of a workload is spelled as the option that it came from.
fn told(cause: &(dyn std::error::Error + 'static)) -> String {
    match cause.downcast_ref() {
        Some(handoff_workloads::Error::Parameter { parameter, problem }) => {
            let option = parameter.replace('_', "-");
            let is_option = HAS_OPTION.get().is_some_and(|has_option| has_option(&option));
            let dashes = match option.len() {
                1 => "-",
                _ if is_option => "--",
                _ => "",
            };
            format!("{dashes}{option}: {problem}")
        }
        _ => cause.to_string(),
    }
}

/// Whether the error is that nobody reads our output any more.
fn reader_is_gone(error: &anyhow::Error) -> bool {
    error.chain().next().is_some_and(|first| first.to_string() == CANNOT_PRINT)
        && error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    /// Without colours, as a pipe would see it.
    fn plain(error: &anyhow::Error) -> String {
        anstream::adapter::strip_str(&explain(error)).to_string()
    }

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let error = Err::<(), _>(anyhow!("Operation not permitted (os error 1)"))
            .advise("run as root")
            .context("cannot set SCHED_FIFO 99")
            .context("cannot start the caller")
            .unwrap_err();
        assert_eq!(
            plain(&error),
            "error: cannot start the caller\n  because: cannot set SCHED_FIFO 99\n  \
             because: Operation not permitted (os error 1)\n  help: run as root\n"
        );
    }

    #[test]
    fn a_parameter_is_spelled_as_its_option() {
        HAS_OPTION.get_or_init(|| crate::cli::has_option);
        let wrong = |parameter: &str| {
            let (parameter, problem) = (parameter.to_owned(), "0; 1 to 9".to_owned());
            plain(&handoff_workloads::Error::Parameter { parameter, problem }.into())
        };
        assert_eq!(wrong("pair"), "error: --pair: 0; 1 to 9\n");
        assert_eq!(wrong("benchmark_filter"), "error: --benchmark-filter: 0; 1 to 9\n");
        assert_eq!(wrong("no such"), "error: no such: 0; 1 to 9\n");
        assert_eq!(wrong("n"), "error: -n: 0; 1 to 9\n");
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let error = anyhow!("no such file").context("cannot open a.toml: no such file");
        assert_eq!(plain(&error), "error: cannot open a.toml: no such file\n");
    }

    #[test]
    fn lines_after_the_first_are_indented() {
        let error = anyhow!("bad key\n3 | kye = 1\n    ^^^");
        assert_eq!(plain(&error), "error: bad key\n    3 | kye = 1\n        ^^^\n");
    }

    #[test]
    fn a_broken_pipe_matters_only_for_our_own_output() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(reader_is_gone(&anyhow::Error::from(broken()).context(CANNOT_PRINT)));
        assert!(!reader_is_gone(&anyhow::Error::from(broken()).context("the manager has gone")));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!reader_is_gone(&anyhow::Error::from(full).context(CANNOT_PRINT)));
    }
}
