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

group! {
    /// Understand kernel patches, bring them to another tree, build it and boot it
    #[command(after_help = EXAMPLES)]
    {
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
}
