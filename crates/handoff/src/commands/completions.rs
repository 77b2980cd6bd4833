//! `handoff completions SHELL`: what a shell needs to complete our options.

use clap_complete::Shell;

use crate::cli;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  handoff completions bash > ~/.local/share/bash-completion/completions/handoff
  handoff completions zsh > ~/.zfunc/_handoff
  handoff completions fish > ~/.config/fish/completions/handoff.fish";

/// Print the completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell to complete in.
    shell: Shell,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command(), "handoff", &mut script);
        output.bytes(&script)?;
        Ok(Verdict::Pass)
    }
}
