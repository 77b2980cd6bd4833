//! `handoff completions SHELL`: a script that has the shell ask this program what can be typed.

use anyhow::Context as _;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  handoff completions bash > ~/.local/share/bash-completion/completions/handoff
  handoff completions zsh > ~/.zfunc/_handoff
  handoff completions fish > ~/.config/fish/completions/handoff.fish";

/// Set by the script, to the name of the shell.
const VARIABLE: &str = "HANDOFF_COMPLETE";

/// What zsh needs besides, where it loads the script as a function at the first Tab, which would complete nothing.
const AT_FIRST_TAB: &str = "[[ $funcstack[1] = _handoff ]] && _clap_dynamic_completer_handoff \"$@\"\n";

/// Print the completions for a shell.
///
/// The shell asks this program for them at each Tab, so they include the names of services, the numbers of runs and
/// the machines of --target.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell to complete in.
    shell: Shell,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let (shells, mut script) = (Shells::builtins(), Vec::new());
        let shell = shells.completer(&self.shell.to_string()).context("this shell cannot ask a program")?;
        shell.write_registration(VARIABLE, "handoff", "handoff", "handoff", &mut script)?;
        if self.shell == Shell::Zsh {
            script.extend(AT_FIRST_TAB.as_bytes());
        }
        output.bytes(&script)?;
        Ok(Verdict::Pass)
    }
}

/// Answers a shell that asks what can be typed, and ends; returns if no shell asks.
pub(crate) fn complete() {
    CompleteEnv::with_factory(cli::command).var(VARIABLE).complete();
}
