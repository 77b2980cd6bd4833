//! `handoff lab`: did a change help, by how much, how sure is that, and was it on at all?

mod analyse;
mod bisect;
mod compare;
mod experiment;
mod history;
mod import;
mod kept;
mod labels;
mod pair;
mod place;

use std::path::PathBuf;

use crate::output::{Output, Verdict};
use crate::state;

const EXAMPLES: &str = "\
Examples:
  handoff lab run experiments/autocorking.toml    an experiment file, to its verdict
  handoff lab ab 'sleep 0.1' 'sleep 0.11'         any two commands
  handoff lab aa 'sleep 0.1'                      how much this machine differs from itself
  handoff lab analyse data.csv --before old --after new
  handoff lab compare old.json new.json           results of hyperfine, Google Benchmark, perf stat -j
  handoff lab bisect v1.0 main --build make -- ./bench
  handoff lab history --metric wall               a metric over commits, and what changed it";

/// Compare two commands, settings or kernels in randomised rounds, and say how sure the answer is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    which: Which,
    /// The folder of the journals.
    #[arg(long, global = true, value_name = "FOLDER", hide = true)]
    state: Option<PathBuf>,
}

commands! {
    enum Which {
        Aa(pair::Aa),
        Ab(pair::Ab),
        Analyse(analyse::Options),
        Bisect(bisect::Bisect),
        Check(experiment::Check),
        Compare(compare::Compare),
        History(history::History),
        Import(import::Import),
        Restore(kept::Restore),
        Rm(kept::Remove),
        Run(experiment::Run),
        Show(kept::Show),
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.state.clone().into_iter().for_each(state::set);
        self.which.run(output)
    }
}
