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

/// Compare two arms in randomised rounds, and give an honest verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    which: Which,
    /// The folder of the journals.
    #[arg(long, global = true, value_name = "FOLDER", hide = true)]
    state: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Compare a command with itself: this machine's noise
    Aa(pair::Aa),
    /// Compare two commands
    Ab(pair::Ab),
    /// Say what a published table of runs supports
    Analyse(analyse::Options),
    /// Find the commit that began a regression, each step a verdict
    Bisect(bisect::Bisect),
    /// Check an experiment file and print its plan
    Check(experiment::Check),
    /// Compare two results that were measured apart from each other
    Compare(compare::Compare),
    /// List the runs in the store, or draw a metric over them and say what changed it
    History(history::History),
    /// Keep results of other programs in the store
    Import(import::Import),
    /// Put back what a killed run left changed
    Restore(kept::Restore),
    /// Remove runs from the store
    Rm(kept::Remove),
    /// Run an experiment file
    Run(experiment::Run),
    /// Show a run again, or export it
    Show(kept::Show),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.state.clone().into_iter().for_each(state::set);
        match &self.which {
            Which::Aa(options) => options.run(output),
            Which::Ab(options) => options.run(output),
            Which::Analyse(options) => options.run(output),
            Which::Bisect(options) => options.run(output),
            Which::Check(options) => options.run(output),
            Which::Compare(options) => options.run(output),
            Which::Import(options) => options.run(output),
            Which::History(options) => options.run(output),
            Which::Restore(options) => options.run(output),
            Which::Rm(options) => options.run(output),
            Which::Run(options) => options.run(output),
            Which::Show(options) => options.run(output),
        }
    }
}
