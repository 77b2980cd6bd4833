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
    Fetch(fetch::Options),
    Kernels(kernels::Options),
    Run(run::Options),
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
