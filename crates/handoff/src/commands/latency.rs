//! `handoff measure latency`: deadlines, placement and inherited priority of calls.

use std::path::PathBuf;

use handoff_workloads::deadline::OnMiss;
use handoff_workloads::inversion;
use handoff_workloads::latency::{self, Fault, Parameters};
use handoff_workloads::rpc::{Context, EngineKind};

use super::recording::Recording;
use super::throughput::Mode;
use crate::output::{Format, Output, Verdict};
use crate::{interrupt, progress};

const EXAMPLES: &str = "\
Examples:
  handoff measure latency -i 5000 -pair 3               as libhwbinder_latency
  handoff measure latency -i 1 -v                       where each side runs, and how urgently
  handoff measure latency -deadline_us 1000 -raw_data   every transaction, against another deadline
  handoff measure latency -trace -deadline_us 1000      what led to the first miss, and why
  handoff measure latency -trace --fault hog            the same, with a cause that is known
  handoff measure latency --inversion                   a real priority inversion, with inheritance off and on
  handoff measure latency --engine binder               the kernel's driver: on mainline, inheritance FAIL
  handoff measure latency --engine binder --inherit user    and the runtime's own inheritance over it
  handoff measure latency --no-inherit                  what the test says when inheritance is broken

Exit status 0 if every transaction was served at its caller's priority, 1 if not, or if a recorded
deadline was missed.";

/// Test calls: deadlines met, CPU kept, priority inherited, as libhwbinder_latency.
///
/// Each iteration is two transactions: one from a new SCHED_FIFO thread, one from a normal one. Needs root,
/// or `ulimit -r 99`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Iterations, of two transactions each.
    #[arg(short = 'i', long, default_value_t = 100, value_name = "N", value_parser = iterations())]
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
    /// Record the whole system; keep and explain the first miss, and end there (-trace). With
    /// --inversion, the first miss without inheritance and the first with it.
    #[arg(long)]
    trace: bool,
    /// Go on after a miss until so many were kept.
    #[arg(
        long,
        value_name = "MISSES",
        default_value_t = 1,
        help_heading = "Recording of misses",
        conflicts_with = "inversion"
    )]
    keep_going: u32,
    #[command(flatten)]
    recording: Recording,
    /// End the test and halt a trace that others record (atrace, trace-cmd) at the first urgent miss, as
    /// the original's -trace does. It is the system's, or that of this folder of tracefs.
    #[arg(long, value_name = "INSTANCE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["trace", "inversion"])]
    halt_trace: Option<Option<PathBuf>>,
    /// Inject a cause of lateness, to see what is made of it: hog, callee or lock, with its milliseconds.
    #[arg(long, alias = "plant", value_name = "CAUSE[:MS]", conflicts_with = "inversion")]
    fault: Option<Fault>,
    /// Print every transaction (-raw_data).
    #[arg(long)]
    raw_data: bool,
    /// As libhwbinder_latency has it: BINDERIZE is shm, PASSTHROUGH is local.
    #[arg(short = 'm', value_name = "MODE", conflicts_with = "engine", ignore_case = true)]
    mode: Option<Mode>,
    /// What carries the calls: local, shm or binder.
    #[arg(long, default_value_t = EngineKind::Shm, value_parser = super::engine(), hide_possible_values = true)]
    engine: EngineKind,
    /// The service's context: binder, hwbinder or vndbinder [default: binder on the driver, hwbinder elsewhere]
    #[arg(long, value_parser = super::context(), hide_possible_values = true)]
    context: Option<Context>,
    /// What passes the caller's priority on to the service: the engine, or over the kernel's driver the runtime (user)
    #[arg(long, value_name = "BY", value_enum, default_value_t)]
    inherit: Inherit,
    /// The service does not take over its caller's priority.
    #[arg(long, conflicts_with_all = ["inversion", "inherit"])]
    no_inherit: bool,
    /// Let the scheduler place the callee: no call is served beside its caller.
    #[arg(long)]
    no_follow: bool,
    /// Show a priority inversion: an urgent client, a busy server and CPU hogs on one CPU.
    #[arg(long)]
    inversion: bool,
}

/// What passes priorities on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Inherit {
    /// The engine, as it can: the kernel's driver, on mainline, the nice value only (in C) or nothing (in Rust).
    #[default]
    Engine,
    /// The runtime, over the kernel's driver: the serving thread raises itself.
    User,
}

/// As many as the workload runs, so that zero and a negative number are refused in the same words.
fn iterations() -> impl clap::builder::TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(1..=i64::from(latency::MAX_ITERATIONS))
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let engine = self.mode.map_or(self.engine, EngineKind::from);
        if self.inversion {
            return self.run_inversion(engine, output);
        }
        let parameters = Parameters {
            engine,
            context: self.context,
            pairs: self.pair,
            iterations: self.iterations,
            deadline_us: self.deadline_us,
            inherit: !self.no_inherit,
            inherit_user: self.inherit == Inherit::User,
            follow: !self.no_follow,
            verbose: self.verbose,
            on_miss: self.on_miss()?,
            fault: self.fault,
        };
        if let Some(overload) = parameters.overload() {
            output.warn(overload);
        }
        let bar = progress::spinner(format!("{} iterations of {} pair(s)", self.iterations, self.pair));
        let report = latency::run_until(&parameters, interrupt::flag());
        bar.finish_and_clear();
        let report = report?;
        for line in report.verbose() {
            match output.format() {
                Format::Text => output.line(format_args!("{line}"))?,
                Format::Json => output.note(line),
            }
        }
        if interrupt::interrupted() {
            output.warn("stopped early: the figures are of the iterations that were made");
        }
        let ended_early = report.ended_early();
        if output.format() == Format::Text {
            if let Some(trace) = report.halted() {
                output
                    .line(format_args!("deadline triggered: halt & stop trace\nlog:{}", trace.display()))?;
            }
            for miss in report.misses() {
                output.line(format_args!("{miss}\n"))?;
            }
            if ended_early {
                return Ok(Verdict::Fail);
            }
        }
        let report = if self.raw_data { report.with_raw_data() } else { report };
        output.result(&report)?;
        if let Some(why) = report.why_worst() {
            output.note(why);
        }
        for mismatch in report.mismatches() {
            output.warn(mismatch);
        }
        if let Some(reason) = report.why_not_inherited() {
            output.note(reason);
        }
        Ok(Verdict::of(report.passed() && report.misses().is_empty() && !ended_early))
    }

    fn on_miss(&self) -> anyhow::Result<OnMiss> {
        Ok(match &self.halt_trace {
            Some(folder) => OnMiss::Halt(folder.clone()),
            None if self.trace => OnMiss::Record { recording: self.recording.get()?, keep: self.keep_going },
            None => OnMiss::Count,
        })
    }

    fn run_inversion(&self, engine: EngineKind, output: &Output) -> anyhow::Result<Verdict> {
        let parameters = inversion::Parameters {
            engine,
            context: self.context,
            inherit_user: self.inherit == Inherit::User,
            iterations: self.iterations,
            deadline_us: self.deadline_us,
            recording: self.trace.then(|| self.recording.get()).transpose()?,
            ..inversion::Parameters::default()
        };
        let report = inversion::run(&parameters)?;
        output.result(&report)?;
        Ok(Verdict::of(report.passed()))
    }
}
