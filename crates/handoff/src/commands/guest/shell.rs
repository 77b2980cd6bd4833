//! `handoff guest shell`: a guest to look around in.

use anyhow::ensure;

use super::machine::{GuestArgs, explained};
use crate::output::{Advice as _, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest shell
  handoff guest shell --kernel build/arch/x86/boot/bzImage

Leave with `exit`, or with Ctrl-A X whatever the guest does; Ctrl-C goes to the guest.";

/// Boot a guest with a shell on this terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    machine: GuestArgs,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        use std::io::IsTerminal as _;
        if !std::io::stdin().is_terminal() {
            return Err(anyhow::anyhow!("a shell needs a terminal"))
                .advise("run a script with `handoff guest run --raw -- sh -c SCRIPT`");
        }
        let status = self
            .machine
            .builder()
            .on_progress(|what| crate::output::progress(what))
            .program(std::env::current_exe()?, "/bin/handoff")
            .shell()
            .map_err(explained)?;
        ensure!(status.success(), "QEMU failed ({status})");
        output.note("the guest has ended");
        Ok(Verdict::Pass)
    }
}
