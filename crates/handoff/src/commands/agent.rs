//! `handoff agent`: what runs on a machine for a lab, a study or a campaign elsewhere.

use std::path::PathBuf;

use anyhow::Context as _;
use handoff_campaign::device::{EXPERIMENT, answer};
use handoff_lab::experiment::machine::MachineOptions;
use handoff_targets::agent::serve;

use crate::interrupt::{self, until_interrupted};
use crate::output::{Output, Verdict};
use crate::state;

/// Answer requests on standard input, a line of JSON each, until it ends: what is started on other machines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff agent < requests.jsonl      what `handoff lab run --target ssh://lab-7` starts there")]
pub(crate) struct Options {
    /// The folder that it works in, so that a list of processes tells one agent from another.
    folder: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, _: &Output) -> anyhow::Result<Verdict> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let stop = interrupt::flag();
        let machine = MachineOptions { stop: Some(stop), ..MachineOptions::local(program, &state::folder()) };
        let (input, out) = (std::io::stdin(), std::io::stdout());
        serve(input, out, env!("CARGO_PKG_VERSION"), stop, &mut |request, teller| {
            // Only an experiment may boot guests; nothing beside the run of an arm is to wake this machine up.
            if request.ask != EXPERIMENT {
                return answer(request, teller, &machine);
            }
            until_interrupted(&machine.stopper, || Ok(answer(request, teller, &machine)))
                .unwrap_or_else(|error| Err(format!("{error:#}")))
        })
        .context("cannot read the requests")?;
        Ok(Verdict::Pass)
    }
}
