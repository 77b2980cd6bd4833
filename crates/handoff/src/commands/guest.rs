//! `handoff guest`: run programs on another kernel, in QEMU.

mod fetch;
mod kernels;
pub(crate) mod machine;
mod program;
pub(crate) mod run;
mod shell;

use clap::Subcommand;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- measure latency -i 1000
  handoff guest run --raw -- uname -a
  handoff guest run --suite trixie-backports -- doctor
  handoff guest shell";

/// Run programs on another kernel, in QEMU: the Binder driver, CPU capacities, PREEMPT_RT
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Guest,
}

#[derive(Debug, Subcommand)]
enum Guest {
    /// Fetch what guests are made of, so that later boots need no network
    Fetch(fetch::Options),
    /// Say which kernels of the distribution can be booted
    Kernels(kernels::Options),
    /// Boot a guest, run a command in it, and bring back its output, files and exit status
    Run(run::Options),
    /// Boot a guest with a shell on this terminal
    Shell(shell::Options),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.command {
            Guest::Fetch(options) => options.run(output),
            Guest::Kernels(options) => options.run(output),
            Guest::Run(options) => options.run(output),
            Guest::Shell(options) => options.run(output),
        }
    }
}
