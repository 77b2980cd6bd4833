//! `handoff sched`: record the scheduler, and read what hand-offs did.

mod explain;
mod graph;
mod phases;
mod record;
mod source;
mod top;

use crate::output::{Output, Verdict};

/// Record who ran, who waited and who woke whom, and explain it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say why the slowest wake-ups, or one transaction, took so long
    Explain(explain::Options),
    /// Show who wakes whom: counts, CPUs, latencies, hubs and flips
    Graph(graph::Options),
    /// Split requests into running, waiting and sleeping, for caller and callee
    Phases(phases::Options),
    /// Record scheduling events into a file
    Record(record::Options),
    /// Show live who runs, waits and wakes
    Top(top::Options),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.what {
            What::Explain(options) => options.run(output),
            What::Graph(options) => options.run(output),
            What::Phases(options) => options.run(output),
            What::Record(options) => options.run(output),
            What::Top(options) => options.run(output),
        }
    }
}
