//! `handoff`: the command line. It parses, calls the library behind a command, and prints.
//!
//! Each command is one file in [`commands`]. What all of them share is here: [`cli`] has the options
//! that every command takes, [`output`] writes text or JSON and turns errors into advice,
//! [`remote_command`] runs a command on another machine, [`interrupt`] hears Ctrl-C, and [`legacy`] accepts the spellings of the tools that Handoff follows.

mod activation;
mod candidates;
mod cli;
mod commands;
mod config;
mod interrupt;
mod legacy;
mod output;
mod printable;
mod progress;
mod remote_command;
mod results;
#[cfg(test)]
mod shown;
mod state;
mod width;

use std::process::ExitCode;

use clap::FromArgMatches as _;

fn main() -> ExitCode {
    handoff_ipc::log::to_stderr();
    // The second process of a workload is this program, started again: it plays its role and ends here.
    handoff_workloads::play_if_peer();
    #[cfg(feature = "peers")]
    handoff_peers::play_if_peer();
    commands::serve_if_agent();
    output::HAS_OPTION.get_or_init(|| cli::has_option);
    commands::complete();
    let args = legacy::rewrite(std::env::args_os());
    let (configured, command) = cli::configured();
    let parsed = command.try_get_matches_from(&args);
    let parsed = parsed.and_then(|matches| Ok((cli::Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return cli::conclude(error),
    };
    let output = output::Output::new(cli.format, cli.color, cli.amount());
    if output.is_verbose() {
        handoff_ipc::log::verbosely();
        config::loaded().log();
    }
    if let Err(error) = configured.and_then(|()| cli::check_format(&matches)) {
        return output.conclude(Err(error));
    }
    interrupt::watch();
    match remote_command::RemoteCommand::asked(&args, &matches) {
        Ok(None) => {}
        Ok(Some(command)) => {
            return command.run(&output).unwrap_or_else(|error| output.conclude(Err(error)));
        }
        Err(error) => return output.conclude(Err(error)),
    }
    let outcome = cli.command.run(&output);
    output.conclude(outcome)
}
