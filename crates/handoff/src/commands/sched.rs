//! `handoff sched`: record the scheduler, and read what hand-offs did.

mod explain;
mod export;
mod graph;
mod phases;
mod record;
mod source;
mod top;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff sched record -- hackbench -g 2              record while a command runs
  handoff sched explain -- ls                         say why its slowest wake-ups took so long
  handoff sched graph -- make                         who wakes whom, how often, how fast
  handoff sched top                                   live
  handoff sched export trace.dat --html page.html     a time line to zoom and search, offline
  handoff sched restore                               after a recording was killed";

/// Record who ran, who waited and who woke whom; explain it, draw it, export it.
///
/// `record` writes a file that trace-cmd reads, too. `explain`, `graph` and `phases` read such a file
/// (`-i FILE`) or record by themselves. `export` writes it for Perfetto or a browser.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say why the slowest wake-ups, or one transaction, took so long
    Explain(explain::Options),
    /// Turn a recording into a Perfetto file or a time line for the browser
    Export(export::Export),
    /// Show who wakes whom: counts, CPUs, latencies, hubs and flips
    Graph(graph::Options),
    /// Split requests into running, waiting and sleeping, for caller and callee
    Phases(phases::Options),
    /// Record scheduling events into a file
    Record(record::Options),
    /// Remove the trace buffers that killed recordings left behind
    Restore(export::Restore),
    /// Show live who runs, waits and wakes
    Top(top::Options),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.what {
            What::Explain(options) => options.run(output),
            What::Export(options) => options.run(output),
            What::Graph(options) => options.run(output),
            What::Phases(options) => options.run(output),
            What::Record(options) => options.run(output),
            What::Restore(options) => options.run(output),
            What::Top(options) => options.run(output),
        }
    }
}
