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

group! {
    /// Record the scheduler, explain what was slow, export recordings (Perfetto, HTML).
    ///
    /// `record` writes a file that trace-cmd reads, too. `explain`, `graph` and `phases` read such a file
    /// (`-i FILE`) or record by themselves. `export` writes it for Perfetto or a browser.
    #[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
    {
        Explain(explain::Options),
        Export(export::Export),
        Graph(graph::Options),
        Phases(phases::Options),
        Record(record::Options),
        Restore(export::Restore),
        Top(top::Options),
    }
}
