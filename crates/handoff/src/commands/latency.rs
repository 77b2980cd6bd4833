//! `handoff latency`: deadlines, placement and inherited priority of calls.

use handoff_workloads::inversion;
use handoff_workloads::latency::{self, Parameters};
use handoff_workloads::rpc::Engine;

use super::throughput::Mode;
use crate::output::{Format, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff latency -i 5000 -pair 3               as libhwbinder_latency
  handoff latency -i 1 -v                       where each side runs, and how urgently
  handoff latency -deadline_us 1000 -raw_data   every transaction, against another deadline
  handoff latency --inversion                   a real priority inversion, with inheritance off and on
  handoff latency --no-inherit                  what the test says when inheritance is broken

Exit status 0 if every transaction was served at its caller's priority, 1 if not.";

/// Test calls of normal and of urgent callers: deadlines met, CPU kept, priority inherited.
///
/// Each iteration is two transactions: one from a new SCHED_FIFO thread, one from a normal one.
/// Needs root, or `ulimit -r 99`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Iterations, of two transactions each.
    #[arg(short = 'i', long, default_value_t = 100, value_name = "N")]
    iterations: u32,
    /// Pairs of processes, which run at the same time (-pair, -w).
    #[arg(short = 'w', long, default_value_t = 1, value_name = "N")]
    pair: usize,
    /// A transaction that takes longer has missed (-deadline_us).
    #[arg(long, default_value_t = 2500, value_name = "US")]
    deadline_us: u64,
    /// Say where each transaction ran, and how urgently.
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Stop the running kernel trace, and the test, at the first urgent miss (-trace).
    #[arg(long, conflicts_with = "inversion")]
    trace: bool,
    /// Print every transaction (-raw_data).
    #[arg(long)]
    raw_data: bool,
    /// As libhwbinder_latency has it: BINDERIZE is shm, PASSTHROUGH is local.
    #[arg(short = 'm', value_name = "MODE", conflicts_with = "engine", ignore_case = true)]
    mode: Option<Mode>,
    /// What carries the calls: local, shm or binder.
    #[arg(long, default_value_t = Engine::Shm)]
    engine: Engine,
    /// The service does not take over its caller's priority.
    #[arg(long, conflicts_with = "inversion")]
    no_inherit: bool,
    /// Let the scheduler place the callee: no call is served beside its caller.
    #[arg(long)]
    no_follow: bool,
    /// Show a priority inversion: an urgent client, a busy server and CPU hogs on one CPU.
    #[arg(long)]
    inversion: bool,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let engine = self.mode.map_or(self.engine, Engine::from);
        if self.inversion {
            return self.run_inversion(engine, output);
        }
        let parameters = Parameters {
            engine,
            pairs: self.pair,
            iterations: self.iterations,
            deadline_us: self.deadline_us,
            inherit: !self.no_inherit,
            follow: !self.no_follow,
            verbose: self.verbose,
            trace: self.trace,
        };
        if let Some(overload) = parameters.overload() {
            output.warn(overload);
        }
        let report = latency::run(&parameters)?;
        for line in report.verbose() {
            match output.format() {
                Format::Text => output.line(format_args!("{line}"))?,
                Format::Json => output.note(line),
            }
        }
        if let Some(trace) = report.halted() {
            output.line(format_args!("deadline triggered: halt & stop trace\nlog:{}", trace.display()))?;
            return Ok(Verdict::Fail);
        }
        let report = if self.raw_data { report.with_raw_data() } else { report };
        output.result(&report)?;
        for mismatch in report.mismatches() {
            output.warn(mismatch);
        }
        Ok(Verdict::of(report.passed()))
    }

    fn run_inversion(&self, engine: Engine, output: &Output) -> anyhow::Result<Verdict> {
        let parameters = inversion::Parameters {
            engine,
            iterations: self.iterations,
            deadline_us: self.deadline_us,
            ..inversion::Parameters::default()
        };
        let report = inversion::run(&parameters)?;
        output.result(&report)?;
        Ok(Verdict::of(report.passed()))
    }
}
