//! `handoff exec`: run a command where and how it should run.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command};

use anyhow::Context as _;
use handoff_placement::{Scope, Tid, Topology};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::placing::{Grouping, PlacementOptions, journal, warn_of_shortfall};
use crate::interrupt;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff exec --cpus big --policy fifo:10 -- ./controller
  handoff exec --cpus little --nice 10 --io idle -- make -j8
  handoff exec --cpus 'llc:0&one-per-core' -- ./solver
  handoff exec --quota 0.5 --weight 10 -- ./indexer     a control group of its own, gone afterwards
  handoff exec --deadline 2000/10000 -- ./sampler       2 ms of each 10 ms

The exit status is that of the command; 127 if there is no such command, 126 if it cannot be run, 2 if it cannot be
placed as asked.";

/// Run a command on chosen CPUs, at a priority, in a control group: taskset, chrt, nice and cgexec in one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    placing: PlacementOptions,
    #[command(flatten)]
    grouping: Grouping,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let machine = Topology::read()?;
        let placement = self.placing.placement()?;
        // Without a group of its own, all that is changed is the command's and ends with it.
        let mut journal = if self.grouping.makes_group() { journal(output) } else { None };
        let group = self.grouping.group(&machine, journal.as_mut())?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        let failed = || format!("cannot run `{}`", self.command[0].to_string_lossy());
        let me = Tid::current();
        if let Some(group) = &group {
            group.take(me)?;
        }
        self.placing.check_cpus(me, &placement, &machine)?;
        let mut applied = placement.apply(Scope::Thread, me, &machine)?;
        if let Some(pin) = applied.pin() {
            warn_of_shortfall(output, pin);
        }
        match group.filter(|_| self.grouping.cgroup.is_none()) {
            None => Ok(not_started(&command.exec(), &failed(), output)),
            Some(group) => {
                // A group of our own must outlive the command, so somebody must stay to remove it.
                let child = command.spawn();
                applied.restore();
                let verdict = match child {
                    Ok(child) => Verdict::Status(wait(child)?),
                    Err(error) => not_started(&error, &failed(), output),
                };
                drop(group);
                if let Some(journal) = journal {
                    journal.close()?;
                }
                Ok(verdict)
            }
        }
    }
}

/// Says why the command was not started, with the status that `env`, `nice` and shells end with.
fn not_started(error: &std::io::Error, what: &str, output: &Output) -> Verdict {
    output.complain(&anyhow::anyhow!("{error}").context(what.to_owned()));
    Verdict::Status(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Waits for the command, passes on what asks it to end, and gives its exit status as a shell would.
///
/// Ctrl-C reaches it through the terminal; here it must only not end us before the group is removed.
fn wait(mut child: Child) -> anyhow::Result<u8> {
    interrupt::leave_alone();
    let pid = Pid::from_child(&child);
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
        .context("signals cannot be passed on to the command")?;
    let handle = signals.handle();
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            for signal in signals.forever().filter(|signal| ![SIGINT, SIGQUIT].contains(signal)) {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(pid, signal); // It may have ended just now.
                }
            }
        });
        let status = child.wait();
        handle.close();
        status
    });
    let status = status.context("the command cannot be waited for")?;
    let status = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(status.and_then(|status| u8::try_from(status).ok()).unwrap_or(2))
}
