//! `handoff sched phases`: how caller and callee spent each request.

use handoff_trace::model::requests::pairs;
use handoff_trace::render::requests::Requests;
use handoff_trace::{Tid, Timeline};

use super::source::Source;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff sched phases -- my-client --once             every request that a command makes or serves
  handoff sched phases -i trace.dat -p 1234            of a recording, one process
  handoff sched phases -i trace.dat --caller 1240      those of one thread, whoever serves them";

/// Split requests into running, waiting for a CPU and sleeping, for caller and callee.
///
/// Binder's transactions are known by their own events; requests over shared memory, sockets and pipes
/// by who wakes whom and back. A callee that was awake already is not seen.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Only requests of this thread.
    #[arg(long, value_name = "TID")]
    caller: Option<Tid>,
    /// Only requests that this thread served.
    #[arg(long, value_name = "TID")]
    callee: Option<Tid>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let found = self.source.get(output)?;
        let timeline = Timeline::of(&found.trace);
        let is = |wanted: Option<Tid>, tid: Tid| wanted.is_none_or(|wanted| wanted == tid);
        let pairs = pairs(&found.trace, &timeline, |request| {
            (found.wants(request.caller) || found.wants(request.callee))
                && is(self.caller, request.caller)
                && is(self.callee, request.callee)
        });
        output.result(&Requests(pairs))?;
        Ok(self.source.verdict())
    }
}
