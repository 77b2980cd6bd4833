//! `handoff measure phases`: the points that a transaction passes, and the time between them.

use std::path::PathBuf;

use handoff_ipc::binder::BinderEngine;
use handoff_workloads::Placement;
use handoff_workloads::phases::{self, Parameters};
use handoff_workloads::rpc::{Context, EngineKind};

use crate::output::{Advice as _, Output, Verdict};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- measure phases -n 3            the fifteen points on the kernel's Binder driver
  handoff measure phases --engine shm -n 3            the points of the shm engine, on this machine
  handoff measure phases --html phases.html           with a waterfall chart
  handoff measure phases --placement two-cpus         each side on a CPU of its own
  handoff guest run --get phases.html -- measure phases --html phases.html";

/// Show the points that each call passes on its way, and the time between them.
///
/// It also says what looking costs. On the binder engine the points come from the kernel's tracepoints, which
/// takes root.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Transactions to print; the summary is of at least 100.
    #[arg(short = 'n', default_value_t = 10, value_name = "N")]
    calls: u32,
    /// What carries the calls: local, shm or binder [default: binder where this machine has its driver]
    #[arg(long, value_parser = super::engine(), hide_possible_values = true)]
    engine: Option<EngineKind>,
    /// The service's context: binder, hwbinder or vndbinder [default: binder on the driver, hwbinder elsewhere]
    #[arg(long, value_parser = super::context(), hide_possible_values = true)]
    context: Option<Context>,
    /// Bytes that travel each way.
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    payload: usize,
    /// Where client and server run: `same-cpu[:N]`, `two-cpus[:N,M]` or `unpinned`.
    #[arg(long, default_value = "same-cpu", value_name = "WHERE")]
    placement: Placement,
    /// Also write a page with a waterfall chart.
    #[arg(long, value_name = "FILE", alias = "report")]
    html: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.html.as_deref().map_or(Ok(()), results::check_writable)?;
        let usual = if BinderEngine::is_available() { EngineKind::Binder } else { EngineKind::Shm };
        let Self { context, calls, payload, placement, .. } = *self;
        let engine = self.engine.unwrap_or(usual);
        let found = phases::run(&Parameters { engine, context, calls, payload, placement })?;
        output.result(&found)?;
        if let Some(file) = &self.html {
            results::write(file, handoff_lab::report::phases::html(&found)?)
                .advise("name another file with --html")?;
            output.note(format_args!("report: {}", file.display()));
        }
        Ok(Verdict::Pass)
    }
}
