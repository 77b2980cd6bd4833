//! `--target`: a measuring command on another machine.
//!
//! The option is added here to every command that measures, so that they need not know of it: this
//! program is put there (once, by its hash) and runs with the same arguments; what it prints is printed
//! here as it comes, and its exit status is ours.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, arg, value_parser};
use handoff_guest::{Guest, Stopper};
use handoff_targets::agent::Agent;
use handoff_targets::{Address, GUEST_PROGRAM, Session};

use crate::candidates;
use crate::config;
use crate::interrupt::until_interrupted;
use crate::output::{Output, style};

/// The commands that can run on another machine.
const MEASURING: [&str; 4] = ["cores", "doctor", "measure", "run"];

/// Clocks that differ by more are told of: time stamps of the two machines cannot be compared.
const CLOCKS_DIFFER_S: i64 = 2;

/// Adds `--target` to the commands that measure.
pub(crate) fn with_targets(command: Command) -> Command {
    let options = |command: Command| {
        command
            .arg(
                arg!(--target <ADDRESS> "Run it there: local, guest, ssh://[user@]host[:port], adb://SERIAL")
                    .value_parser(value_parser!(Address))
                    .add(candidates::machines())
                    .global(true)
                    .help_heading("Remote target"),
            )
            .arg(
                arg!(--"target-program" <FILE> "Run this handoff there, built for that machine, not the one that runs here")
                    .value_parser(value_parser!(PathBuf))
                    .requires("target")
                    .global(true)
                    .help_heading("Remote target"),
            )
    };
    MEASURING.into_iter().fold(command, |command, name| command.mut_subcommand(name, options))
}

/// A command that is to run on another machine.
pub(crate) struct RemoteCommand {
    address: Address,
    program: Option<PathBuf>,
    args: Vec<String>,
    /// Nobody typed the address: the configuration names it.
    is_configured: bool,
}

impl RemoteCommand {
    /// From what was typed (`args`, with the program's name) and what it was understood as.
    pub(crate) fn asked(args: &[OsString], matches: &ArgMatches) -> anyhow::Result<Option<Self>> {
        let Some((name, mut inner)) = matches.subcommand() else { return Ok(None) };
        if !MEASURING.contains(&name) {
            return Ok(None);
        }
        while let Some((_, deeper)) = inner.subcommand() {
            inner = deeper;
        }
        let Some(address) = inner.get_one::<Address>("target").cloned() else { return Ok(None) };
        let program = inner.get_one::<PathBuf>("target-program").cloned();
        let is_configured = inner.value_source("target") == Some(ValueSource::DefaultValue);
        // The configuration of this machine goes along as options; there is none there.
        let (before, after) = args.split_at(end_of_command(args, matches));
        let mut kept = without_target(&before[1..])?;
        kept.extend(config::as_options(inner));
        kept.extend(without_target(after)?);
        Ok(Some(Self { address, program, args: kept, is_configured }))
    }

    /// These arguments of ours, there.
    pub(crate) fn of(address: Address, args: Vec<String>) -> Self {
        Self { address, program: None, args, is_configured: false }
    }

    /// Runs it there; its exit status is ours.
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<ExitCode> {
        Ok(ExitCode::from(u8::try_from(self.status(output)?).unwrap_or(2)))
    }

    /// Runs it there, and gives its exit status.
    pub(crate) fn status(&self, output: &Output) -> anyhow::Result<i32> {
        self.then(output, |_| Ok(()))
    }

    /// [`Self::status`]; `after` is done with the machine, while it is still there, when the command passed.
    pub(crate) fn then(
        &self,
        output: &Output,
        after: impl FnOnce(&mut Session) -> anyhow::Result<()>,
    ) -> anyhow::Result<i32> {
        if self.is_configured {
            output.note(format_args!(
                "on {}, as the configuration says; --target local runs it here",
                self.address
            ));
        }
        let own = std::env::current_exe().context("cannot tell which program this is")?;
        let program = self.program.as_ref().unwrap_or(&own);
        if self.address != Address::Guest {
            return self.on(Agent::reach(&self.address, program)?, output, after);
        }
        let stopper = Stopper::new();
        until_interrupted(&stopper, || self.on(booted(program, &stopper, output)?, output, after))
    }

    fn on(
        &self,
        mut agent: Agent,
        output: &Output,
        after: impl FnOnce(&mut Session) -> anyhow::Result<()>,
    ) -> anyhow::Result<i32> {
        let ahead = agent.session().facts().clock_ahead_s;
        if ahead.abs() > CLOCKS_DIFFER_S {
            output.warn(format_args!("the clock of {} is {ahead} s ahead of ours", self.address));
        }
        let done = output.forward(|sink| agent.run(&self.args, sink))??;
        for incident in &done.incidents {
            output.warn(format_args!("the guest's kernel reports a {incident}"));
        }
        match done.status {
            0 => after(agent.session_mut())?,
            126 | 127 => output.warn(
                "the program did not start there; one that is linked statically (`cargo xtask dist`) starts anywhere: \
                 --target-program",
            ),
            _ => {}
        }
        Ok(done.status)
    }
}

/// The usual guest with `program` in it, which ends with `stopper`.
fn booted(program: &Path, stopper: &Stopper, output: &Output) -> anyhow::Result<Agent> {
    let (stopper, inside) = (stopper.clone(), program.to_owned());
    let boot = move || {
        let builder = Guest::builder().program(&inside, GUEST_PROGRAM).stopper(&stopper);
        Ok(builder.on_progress(|what| crate::output::progress(what)).boot()?)
    };
    let mut session = Session::in_guest(program, boot)?;
    if let Some(guest) = session.guest().transpose()? {
        let facts = guest.facts();
        output.note(style::paint(
            style::DIM,
            format_args!("{} on {} CPUs, {}", facts.release, facts.cpus, facts.acceleration),
        ));
    }
    Ok(Agent::on(session, program)?)
}

/// Behind the last word that names a command: `handoff measure latency`.
fn end_of_command(args: &[OsString], matches: &ArgMatches) -> usize {
    let (mut end, mut matches) = (1, matches);
    while let Some((name, inner)) = matches.subcommand() {
        end += args[end..].iter().position(|arg| arg == name).map_or(0, |at| at + 1);
        matches = inner;
    }
    end
}

/// The arguments for the other side: the same, but for these two options.
fn without_target(args: &[OsString]) -> anyhow::Result<Vec<String>> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    let mut ours = true;
    while let Some(arg) = args.next() {
        let text = arg.to_str().with_context(|| format!("{} is no text", arg.display()))?;
        ours &= text != "--";
        match text {
            "--target" | "--target-program" if ours => drop(args.next()),
            _ if ours && (text.starts_with("--target=") || text.starts_with("--target-program=")) => {}
            _ => kept.push(text.to_owned()),
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<(String, String)> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let matches = crate::cli::command().try_get_matches_from(&args).expect("sound");
        let command = RemoteCommand::asked(&args, &matches).expect("text")?;
        Some((command.address.to_string(), command.args.join(" ")))
    }

    #[test]
    fn the_option_is_taken_out_and_the_rest_stays() {
        let there = |address: &str, args: &str| Some((address.to_owned(), args.to_owned()));
        assert_eq!(asked("handoff measure latency -i 5"), None);
        assert_eq!(
            asked("handoff measure latency --target ssh://lab -i 5"),
            there("ssh://lab", "measure latency -i 5")
        );
        assert_eq!(
            asked("handoff --format json measure spin --target=guest --tasks 2"),
            there("guest", "--format json measure spin --tasks 2")
        );
        assert_eq!(
            asked("handoff measure --target adb://x --target-program /p spin"),
            there("adb://x", "measure spin")
        );
    }

    #[test]
    fn a_command_that_does_not_measure_has_no_target() {
        assert!(
            crate::cli::command().try_get_matches_from(["handoff", "man", "--target", "guest", "x"]).is_err()
        );
    }
}
