//! The options that every command takes.

use clap::{CommandFactory as _, Parser};

use crate::commands::Command;
use crate::config::{self, Config};
use crate::output::{Color, Format};

/// How each command ends, for `handoff --help`.
const AFTER_HELP: &str = "\
Exit status:
  0    it worked; a test that was run has passed
  1    a test that was run has failed
  2    it could not be done: wrong options, a missing privilege, an error
  130  it was interrupted (Ctrl-C, SIGTERM) and has put back what it changed

Examples:
  handoff measure latency --help       what one command does, with examples
  handoff completions bash             completions for your shell
  handoff man ./man                    a manual page for each command";

/// Fast, priority-aware IPC for Linux and Android, and the lab that proves it.
#[derive(Debug, Parser)]
#[command(
    name = "handoff",
    version,
    after_help = AFTER_HELP,
    max_term_width = 100,
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

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All that can be typed.
pub(crate) fn command() -> clap::Command {
    let command = with_negative_numbers(crate::elsewhere::with_targets(Cli::command()));
    let template = help_template(&command);
    command.help_template(template)
}

/// The same, with the defaults of the configuration file; or why it could not be read, which `--help` need not know.
pub(crate) fn configured() -> (anyhow::Result<()>, clap::Command) {
    match Config::load() {
        Ok(config) => (Ok(()), config::with_defaults(command(), config::keep(config))),
        Err(error) => (Err(error), command()),
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
        let takes_one = arg.get_action().takes_values() && !arg.is_positional();
        if takes_one { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(numbers).mut_subcommands(with_negative_numbers)
}

/// What the parsers of the standard library say, and what a person needs to know.
const PARSERS: [(&str, &str); 5] = [
    ("invalid digit found in string", "a whole number is needed"),
    ("invalid float literal", "a number is needed"),
    ("cannot parse integer from empty string", "a whole number is needed"),
    ("cannot parse float from empty string", "a number is needed"),
    ("number too large to fit in target type", "the number is too large"),
];

/// Says what is wrong with a command line, and ends.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit(); // That is --help or --version.
    }
    let styled = error.render().ansi().to_string();
    let text = PARSERS.iter().fold(styled, |text, (said, meant)| text.replace(said, meant));
    anstream::eprint!("{text}");
    std::process::exit(error.exit_code())
}

/// The commands as `handoff --help` lists them: by what a person wants, not by the alphabet.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Start here", &["run", "doctor"]),
    ("Services", &["service", "servicemanager", "aidl"]),
    ("Measure", &["measure"]),
    ("Compare", &["lab", "campaign"]),
    ("Understand", &["sched"]),
    ("Place", &["cores", "exec", "pin", "policy"]),
    ("Machines", &["target", "guest"]),
    ("Kernel", &["kernel", "binder"]),
    ("About", &["version", "config", "completions", "man"]),
];

/// Clap lists subcommands in one block; its template takes the groups as text.
fn help_template(command: &clap::Command) -> String {
    let mut list = String::new();
    for (group, names) in GROUPS {
        list.push_str(&format!("{group}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
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
    use super::*;

    #[test]
    fn a_negative_number_is_a_value() {
        let error = command()
            .try_get_matches_from(["handoff", "measure", "latency", "-i", "-5"])
            .expect_err("refused");
        let text = error.to_string();
        assert!(text.contains("invalid value '-5' for '--iterations <N>'"), "{text}");
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
}
