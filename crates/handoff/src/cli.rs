//! The options that every command takes.

use clap::{CommandFactory as _, Parser};

use crate::commands::Command;
use crate::output::{Color, Format};

/// How each command ends, for `handoff --help`.
const AFTER_HELP: &str = "\
Exit status:
  0    it worked; a test that was run has passed
  1    a test that was run has failed
  2    it could not be done: wrong options, a missing privilege, an error
  130  it was interrupted (Ctrl-C, SIGTERM) and has put back what it changed

Examples:
  handoff latency --help               what one command does, with examples
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
        help_heading = "Everywhere"
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
        help_heading = "Everywhere"
    )]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All that can be typed.
pub(crate) fn command() -> clap::Command {
    crate::elsewhere::with_targets(Cli::command())
}
