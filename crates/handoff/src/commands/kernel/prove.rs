//! `handoff kernel prove`: is a feature executed in a kernel, and has it an effect?

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use handoff_guest::GuestCommand;
use handoff_kernel::prove::{Probe, prove};
use handoff_targets::GUEST_PROGRAM;

use super::boot::BuiltKernel;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff kernel prove build --probe 'function:wake_wide, >= 100' --probe returns:wake_wide -- workload hackbench
  handoff kernel prove build-off --probe 'function:wake_wide, zero' -- workload hackbench
  handoff kernel prove build --probe 'branches:kernel/sched/fair.c:wake_wide' -- workload hackbench
  handoff kernel prove bzImage --probe 'counter:TcpExtTCPAutoCorking, >= 20/s' --raw -- sh load.sh

Probes, with what the count must be after a comma: zero, increases (the default), >= 20, or >= 20/s:
  function:NAME                        calls, by the function profiler or a kprobe
  returns:NAME[:TYPE] [!= 0]           calls that return such a value (TYPE: s32, u8, ...): the effect
  probe:PLACE                          passes of a place such as tcp_push+0x10
  tracepoint:SYSTEM:EVENT [if FILTER]  events
  counter:NAME or counter:/PATH        growth of a counter of the network, the scheduler (ttwu_move_affine), or a file
  result:NAME                          a counter in the JSON that the load prints
  branches:FILE.c:FUNCTION             calls and branches by gcov; for kernels built with --count-branches

Exit status: 0 if every probe holds, 1 if one does not or the kernel reported trouble.";

/// Boot a kernel in a guest, run a load, and prove that a feature is executed and has an effect
///
/// A call proves little: name what the feature is for, too, such as a counter or a return value.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    kernel: BuiltKernel,

    /// What to count, and what the count must be (repeatable)
    #[arg(long, value_name = "PROBE", required = true)]
    probe: Vec<Probe>,

    /// The load is any program of the guest, not a command of handoff
    #[arg(long)]
    raw: bool,

    /// Run this handoff in the guest instead of the one that runs here
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    handoff: Option<PathBuf>,

    /// Kill the load after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,

    /// The load
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let program = match &self.handoff {
            Some(file) => file.clone(),
            None => std::env::current_exe().context("cannot find this program to copy it")?,
        };
        let load = if self.raw {
            GuestCommand::new(&self.command[0]).args(&self.command[1..])
        } else {
            GuestCommand::new(GUEST_PROGRAM).args(&self.command)
        };
        let load = load.timeout(Duration::from_secs(self.timeout));
        let build = Some(self.kernel.kernel.as_path()).filter(|path| path.is_dir());
        let proof = self.kernel.booted(
            |builder| if self.raw { builder } else { builder.program(program, GUEST_PROGRAM) },
            |guest| Ok(prove(guest, &load, &self.probe, build)?),
        )?;
        if proof.status != 0 {
            output.warn(format_args!("the load says:\n{}", proof.output.trim_end()));
        }
        output.result(&proof)?;
        Ok(Verdict::of(proof.holds()))
    }
}
