//! The options that every command takes.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, Parser};
use handoff_placement::suggest::nearest;

use crate::candidates;
use crate::commands::Command;
use crate::config::{self, Config};
use crate::output::{Advice as _, Amount, Color, Format, Output, Verdict};
use crate::{legacy, width};

/// How each command ends, for `handoff --help`.
const AFTER_HELP: &str = "\
Exit status:
  0    it worked; a test that was run has passed
  1    a test or a check that was run has failed
  2    it could not be done: wrong options, an unreadable file, a missing privilege, another error
  130  it was interrupted (Ctrl-C, SIGTERM) and has put back what it changed

Examples:
  handoff measure latency --help       what one command does, with examples
  handoff completions bash             completions for your shell
  handoff man ./man                    a manual page for each command";

/// Fast, priority-aware IPC for Linux and Android, and a lab that measures what a change brings.
#[derive(Debug, Parser)]
#[command(
    name = "handoff",
    version,
    after_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print results as text for people or as one JSON value for programs.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "text|json",
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub(crate) format: Format,

    /// Colour the output; `auto` does on a terminal where NO_COLOR is not set.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "auto|always|never",
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub(crate) color: Color,

    /// Print no progress and no notes: results, warnings and errors only.
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,

    /// Print on standard error which programs are started, and which files and sockets are used.
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "quiet",
        overrides_with = "verbose",
        help_heading = "Global options"
    )]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// How much is told beside the result.
    pub(crate) fn amount(&self) -> Amount {
        // The configuration may set `quiet`, and then `--verbose` is stronger.
        match (self.verbose, self.quiet) {
            (true, _) => Amount::Verbose,
            (_, true) => Amount::Quiet,
            _ => Amount::Usual,
        }
    }
}

/// All that can be typed.
pub(crate) fn command() -> clap::Command {
    let command = legacy::with_underscores(candidates::with_words(Cli::command()));
    let command = with_negative_numbers(crate::remote_command::with_targets(command));
    let template = help_template(&command);
    // Clap would take zero columns of the environment for a width.
    command.help_template(template).term_width(width::columns())
}

/// The same, with the defaults of the configuration file; or why it could not be read, which `--help` need not know.
pub(crate) fn configured() -> (anyhow::Result<()>, clap::Command) {
    match Config::load() {
        Ok(config) => (Ok(()), fitted(config::with_defaults(command(), config::keep(config)))),
        Err(error) => {
            let advice = format!("mend the file, or go without it: {}= handoff ...", config::VARIABLE);
            (Err(error).advise(advice), fitted(command()))
        }
    }
}

/// Has the examples below each help fit the terminal.
fn fitted(command: clap::Command) -> clap::Command {
    // They are plain. `to_string` would look for styles in each byte of them, whenever the program starts.
    let examples = command.get_after_help().map(|text| text.ansi().to_string());
    let fitted = examples.map(|text| width::annotated(&text, width::columns()));
    let command = command.mut_subcommands(self::fitted);
    match fitted {
        Some(text) => command.after_help(text),
        None => command,
    }
}

/// The commands that print nothing a program could read as JSON, and what they do instead.
const WITHOUT_JSON: [(&str, &str); 3] = [
    ("completions", "prints a script for a shell"),
    ("exec", "leaves what is printed to its command"),
    ("man", "writes manual pages"),
];

/// Refuses `--format json` where it was typed and cannot be heeded. As a default of the configuration file it is no fault.
pub(crate) fn check_format(matches: &ArgMatches) -> anyhow::Result<()> {
    let asked = matches.value_source("format") == Some(ValueSource::CommandLine)
        && matches.get_one::<Format>("format") == Some(&Format::Json);
    match WITHOUT_JSON.iter().find(|(name, _)| matches.subcommand_name() == Some(name)) {
        Some((name, does)) if asked => {
            Err(anyhow!("`handoff {name}` {does}: it has no JSON")).advise("leave --format json out")
        }
        _ => Ok(()),
    }
}

/// Whether some command takes `--name`.
pub(crate) fn has_option(name: &str) -> bool {
    fn takes(command: &clap::Command, name: &str) -> bool {
        command.get_arguments().any(|arg| arg.get_long() == Some(name))
            || command.get_subcommands().any(|inner| takes(inner, name))
    }
    takes(&Cli::command(), name)
}

/// Has `-i -5` refused because of its value, and not as an option `-5` that does not exist.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let numbers = |arg: clap::Arg| {
        let takes_one =
            arg.get_action().takes_values() && !arg.is_trailing_var_arg_set() && !arg.is_last_set();
        if takes_one { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(numbers).mut_subcommands(with_negative_numbers)
}

/// What the parsers of the standard library say, and what a person needs to know.
const PARSERS: [(&str, &str); 5] = [
    ("invalid digit found in string", "a whole number is needed, without a unit"),
    ("invalid float literal", "a number is needed, without a unit"),
    ("cannot parse integer from empty string", "a whole number is needed"),
    ("cannot parse float from empty string", "a number is needed"),
    ("number too large to fit in target type", "the number is too large"),
];

/// Prints the help or the version that was asked for, or says what is wrong with a command line; gives the exit status.
pub(crate) fn conclude(error: clap::Error) -> ExitCode {
    if error.use_stderr() {
        return ExitCode::from(refuse(error));
    }
    // A result, of which it is an error that it cannot be printed.
    let output = Output::new(Format::Text, Color::Auto, Amount::Usual);
    let printed = output.styled(&error.render().ansi().to_string());
    output.conclude(printed.map(|()| Verdict::Pass))
}

/// Says what is wrong with a command line, and with which status to end.
#[must_use]
pub(crate) fn refuse(mut error: clap::Error) -> u8 {
    if let (Some(ContextValue::String(word)), None) =
        (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        let found = similar(word);
        if !found.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
        }
    }
    let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if let Some(argument) = unknown.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        match tip_for(&argument) {
            Some(tip) => {
                error.remove(ContextKind::SuggestedArg);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            // Clap takes a mistyped option for a value that begins with a hyphen, which hardly anybody means.
            None if argument.starts_with('-') => {
                error.remove(ContextKind::Suggested);
            }
            None => {}
        }
    }
    let styled = error.render().ansi().to_string();
    let text = PARSERS.iter().fold(styled, |text, (said, meant)| text.replace(said, meant));
    let text = in_words(&text);
    drop(anstream::stderr().write_all(text.as_bytes()));
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// What other programs call it, and what it is called here.
fn tip_for(argument: &str) -> Option<String> {
    match argument {
        "--json" => Some("JSON is printed with --format json".to_owned()),
        file if std::env::args().any(|word| word == "sched" || word == "trace")
            && Path::new(file).is_file() =>
        {
            Some(format!("a recording is read with `-i {file}`"))
        }
        "-i" if std::env::args().any(|word| word == "export") => {
            Some("`handoff sched export` takes the recording without an option before it".to_owned())
        }
        option => takers(option),
    }
}

/// Which other commands take a long option.
fn takers(option: &str) -> Option<String> {
    fn collect(command: &clap::Command, path: &str, name: &str, found: &mut Vec<String>) {
        let is_it = |arg: &clap::Arg| arg.get_long() == Some(name) && !arg.is_hide_set();
        if command.get_arguments().any(is_it) {
            found.push(format!("`{path}`"));
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            collect(inner, &format!("{path} {}", inner.get_name()), name, found);
        }
    }
    let name = option.strip_prefix("--")?.split('=').next()?.replace('_', "-");
    let mut found = Vec::new();
    collect(&command(), "handoff", &name, &mut found);
    let more = if found.len() > 3 { " and others" } else { "" };
    found.truncate(3);
    (!found.is_empty()).then(|| format!("--{name} is an option of {}{more}", found.join(", ")))
}

/// A range as people write it: clap has that of Rust.
fn in_words(text: &str) -> String {
    let line = |line: &str| {
        let (before, range) = line.rsplit_once(" is not in ")?;
        let (first, last) = range.trim_end().split_once("..")?;
        let last = last.trim_start_matches('=');
        let last = if last.is_empty() { "more".to_owned() } else { last.to_owned() };
        first.parse::<i64>().ok()?;
        Some(format!("{before} is not from {first} to {last}\n"))
    };
    text.split_inclusive('\n').map(|part| line(part).unwrap_or_else(|| part.to_owned())).collect()
}

/// The commands of the nearest name, wherever they stand: clap looks only among those of one group.
fn similar(word: &str) -> Vec<String> {
    fn collect(command: &clap::Command, above: &str, found: &mut Vec<(String, String)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{above} {}", inner.get_name());
            collect(inner, &path, found);
            found.push((inner.get_name().to_owned(), path));
        }
    }
    let mut all = Vec::new();
    collect(&command(), "handoff", &mut all);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let near = nearest(word, &names);
    let same = all.iter().filter(|(name, _)| near == Some(name)).map(|(_, path)| path.clone());
    same.collect()
}

/// The commands as `handoff --help` lists them: by what a person wants, not by the alphabet.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Start here", &["run", "doctor"]),
    ("Services", &["new", "service", "servicemanager", "aidl"]),
    ("Measure", &["measure"]),
    ("Compare", &["lab", "campaign"]),
    ("Understand", &["sched"]),
    ("Place", &["cores", "exec", "pin", "policy"]),
    ("Machines", &["target", "guest"]),
    ("Kernel", &["kernel", "binder"]),
    ("About", &["version", "config", "completions", "man"]),
];

/// The column in which the list says what a command is for.
const ABOUT_FROM: usize = 18;

/// Clap lists subcommands in one block; its template takes the groups as text.
fn help_template(command: &clap::Command) -> String {
    let (mut list, columns) = (String::new(), width::columns());
    for (group, names) in GROUPS {
        list.push_str(&format!("{group}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = width::wrapped(&about, ABOUT_FROM, ABOUT_FROM, columns);
            list.push_str(&format!("  {name:<14}  {about}\n"));
        }
        list.push('\n');
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use handoff_targets::Address;
    use handoff_workloads::rpc::EngineKind;

    use super::*;
    use crate::config::Setting;

    #[test]
    fn a_negative_number_is_a_value() {
        let error = command()
            .try_get_matches_from(["handoff", "measure", "latency", "-i", "-5"])
            .expect_err("refused");
        let text = error.to_string();
        assert!(text.contains("invalid value '-5' for '--iterations <N>'"), "{text}");
    }

    #[test]
    fn json_is_refused_where_there_is_none() {
        let refused = |line: &str| {
            let config = Config {
                file: None,
                settings: vec![Setting { key: "format", value: "json".to_owned(), line: 1 }],
            };
            let command = config::with_defaults(command(), &config);
            check_format(&command.try_get_matches_from(line.split(' ')).expect("sound")).is_err()
        };
        for (name, rest) in [("completions", "bash"), ("exec", "-- true"), ("man", "./man")] {
            assert!(refused(&format!("handoff --format json {name} {rest}")), "{name}");
            assert!(!refused(&format!("handoff {name} {rest}")), "a default is no fault of {name}");
        }
        assert!(refused("handoff completions --format json bash"));
        assert!(!refused("handoff --format json cores"));
    }

    #[test]
    fn every_command_stands_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        let command = command();
        let visible = command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
        let mut commands: Vec<&str> = visible.map(clap::Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(grouped, commands);
    }

    #[test]
    fn each_key_is_a_default_of_an_option_somewhere() {
        for key in config::KEYS.iter().filter(|key| key.name != "results") {
            let long = key.option.trim_start_matches('-');
            assert!(has_option(long) || long == "target", "no command takes {}", key.option);
        }
    }

    #[test]
    fn a_default_gives_way_to_an_option() {
        let set = |key: &'static str, value: &str| Setting { key, value: value.to_owned(), line: 1 };
        let config = Config {
            file: None,
            settings: vec![
                set("format", "json"),
                set("quiet", "true"),
                set("engine", "local"),
                set("target", "ssh://lab-7"),
            ],
        };
        let parsed = |line: &str| {
            let command = config::with_defaults(command(), &config);
            command.try_get_matches_from(line.split(' ')).expect("sound")
        };
        let leaf = |line: &str| {
            let matches = parsed(line);
            let (_, measure) = matches.subcommand().expect("measure");
            measure.subcommand().expect("what to measure").1.clone()
        };
        let matches = leaf("handoff measure latency");
        assert_eq!(matches.get_one::<EngineKind>("engine"), Some(&EngineKind::Local));
        assert_eq!(
            matches.get_one::<Address>("target").map(ToString::to_string).as_deref(),
            Some("ssh://lab-7")
        );
        assert_eq!(matches.get_one::<Format>("format"), Some(&Format::Json));
        let matches = leaf("handoff measure latency --engine shm --target local --format text");
        assert_eq!(matches.get_one::<EngineKind>("engine"), Some(&EngineKind::Shm));
        assert_eq!(matches.get_one::<Address>("target").map(ToString::to_string).as_deref(), Some("local"));
        assert_eq!(matches.get_one::<Format>("format"), Some(&Format::Text));
        // A mode of libhwbinder_latency is another way to name the engine, and no conflict with a default.
        leaf("handoff measure latency -m PASSTHROUGH");
        config::with_defaults(command(), &config).debug_assert();
    }
}
