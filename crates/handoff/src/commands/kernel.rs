//! `handoff kernel`: understand kernel patches, bring them to another tree, build it and boot it.

mod analyse;
mod boot;
mod build;
mod flash;
mod image;
mod port;
mod prove;
mod source;
mod study;

use clap::Subcommand;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff kernel analyse autocorking.patch --tree linux --html autocorking.html
  handoff kernel port autocorking.patch --onto linux-3.4 --dry-run
  handoff kernel port v3.13..v3.14 --source linux --onto linux-3.4
  handoff kernel source linux-source-6.1 --into ~/src
  handoff kernel build ~/src/linux-source-6.1 --out build
  handoff kernel boot build
  handoff kernel prove build --probe 'function:tcp_push, >= 10' -- workload tcp-rr
  handoff kernel study experiments/wake-wide-study.toml";

/// Understand kernel patches, bring them to another tree, build it and boot it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Kernel,
}

#[derive(Debug, Subcommand)]
enum Kernel {
    Analyse(analyse::Options),
    Boot(boot::Options),
    Build(build::Options),
    Flash(flash::Options),
    Image(image::Options),
    Port(port::Options),
    Prove(prove::Options),
    Source(source::Options),
    Study(study::Options),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.command {
            Kernel::Analyse(options) => options.run(output),
            Kernel::Boot(options) => options.run(output),
            Kernel::Build(options) => options.run(output),
            Kernel::Flash(options) => options.run(output),
            Kernel::Image(options) => options.run(output),
            Kernel::Port(options) => options.run(output),
            Kernel::Prove(options) => options.run(output),
            Kernel::Source(options) => options.run(output),
            Kernel::Study(options) => options.run(output),
        }
    }
}
