//! `handoff guest`: run programs on another kernel, in QEMU.

mod fetch;
mod kernels;
pub(crate) mod machine;
mod program;
mod run;
mod shell;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- measure latency -i 1000
  handoff guest run --raw -- uname -a
  handoff guest run --suite trixie-backports -- doctor
  handoff guest shell";

group! {
    /// Run programs on another kernel, in QEMU: the Binder driver, CPU capacities, PREEMPT_RT
    #[command(after_help = EXAMPLES)]
    {
        Fetch(fetch::Options),
        Kernels(kernels::Options),
        Run(run::Options),
        Shell(shell::Options),
    }
}
