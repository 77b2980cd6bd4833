//! `handoff lab arm`: one run of an arm, for a lab that runs on another machine.

use std::io::Read as _;

use anyhow::Context as _;
use handoff_lab::experiment::remote::Answer;
use handoff_lab::experiment::target::{Here, Order};

use crate::interrupt;
use crate::output::{Advice as _, Output, Verdict};
use crate::state;

/// Carry out one run of an arm: an order in JSON on standard input, what came of it on standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  handoff lab arm < order.json      what `handoff lab run` does on another machine, for each run of an arm")]
pub(super) struct Arm {}

impl Arm {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the order")?;
        let order: Order = serde_json::from_str(&text)
            .context("standard input is no order")
            .advise("`handoff lab run` writes it, with the same version of handoff on both sides")?;
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let mut here = Here::new(program, &state::folder(), Some(interrupt::flag()))?;
        output.json(&Answer::to(&order, &mut here))?;
        Ok(Verdict::Pass)
    }
}
