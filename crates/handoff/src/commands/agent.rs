//! `handoff agent`: what runs on a machine for a lab, a study or a campaign elsewhere.

use std::path::PathBuf;

use anyhow::Context as _;
use handoff_lab::experiment::agent::{Host, answer};
use handoff_targets::agent::serve;

use crate::interrupt;
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
        let host = Host { program, state: state::folder(), stop: interrupt::flag() };
        serve(
            std::io::stdin(),
            std::io::stdout(),
            env!("CARGO_PKG_VERSION"),
            host.stop,
            &mut |request, _| {
                answer(request, &host)
                    .unwrap_or_else(|| Err(format!("this agent has no service {:?}", request.ask)))
            },
        )
        .context("cannot read the requests")?;
        Ok(Verdict::Pass)
    }
}
