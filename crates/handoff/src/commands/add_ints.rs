//! `handoff measure add-ints`: the time of one small call, as `binderAddInts` tells it.

use handoff_workloads::add_ints::{self, Parameters};
use handoff_workloads::rpc::{Context, EngineKind};

use super::recording::Watch;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff measure add-ints                    1000 calls, 1 ms apart
  handoff measure add-ints -n 10000 -d 0      without a pause
  handoff measure add-ints -s 1 -c 0          server on CPU 1, client on CPU 0
  handoff measure add-ints --engine local     a virtual call, to compare with";

/// Measure the time of one small call, with a pause before each, as binderAddInts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// CPU to bind the server to; a server that is found on another is an error.
    #[arg(short = 's', value_name = "CPU")]
    server_cpu: Option<usize>,
    /// CPU to bind the client to.
    #[arg(short = 'c', value_name = "CPU")]
    client_cpu: Option<usize>,
    /// Calls.
    #[arg(short = 'n', default_value_t = 1000, value_name = "ITERATIONS")]
    iterations: u32,
    /// Pause before each call, in seconds: a spin, not a sleep.
    #[arg(short = 'd', default_value_t = 1e-3, value_name = "SECONDS")]
    delay: f64,
    /// What carries the calls: local, shm or binder.
    #[arg(long, default_value_t = EngineKind::Shm, value_parser = super::engine(), hide_possible_values = true)]
    engine: EngineKind,
    /// The service's context: binder, hwbinder or vndbinder [default: binder on the driver, hwbinder elsewhere]
    #[arg(long, value_parser = super::context(), hide_possible_values = true)]
    context: Option<Context>,
    #[command(flatten)]
    watch: Watch,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let Self { server_cpu, client_cpu, iterations, delay, engine, context, ref watch } = *self;
        let watch = watch.get()?;
        let parameters = Parameters { engine, context, iterations, delay, server_cpu, client_cpu, watch };
        let report = add_ints::run(&parameters)?;
        output.result(&report)?;
        report.outcome().notes.iter().for_each(|note| output.note(note));
        Ok(Verdict::Pass)
    }
}
