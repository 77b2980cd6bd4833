//! `handoff measure`: what a call, a primitive or a load takes, measured once.

use super::{
    add_ints, affinity_study, floors, latency, phases, throughput, transports, workload::Which as Load,
};
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff measure transports                   the ways to another process, side by side
  handoff measure latency -i 1000              calls with a deadline, as libhwbinder_latency
  handoff measure floors                       the bare primitives that a call is compared with
  handoff measure hackbench                    one load, as rt-tests' hackbench
  handoff lab ab COMMAND COMMAND               to compare two of them, use the lab

The commands also work without the word `measure`: `handoff latency -i 1000`.";

/// Measure calls, bare primitives and loads: one of them, once. `handoff lab` compares.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Compare the ways to another process: calls, oneway, queues, shared memory, and other people's
    Transports(transports::Options),
    /// Test calls: deadlines met, CPU kept, priority inherited, as libhwbinder_latency
    Latency(latency::Options),
    /// Measure calls with payloads from 4 B to 1 MiB, as libhwbinder_benchmark
    Throughput(throughput::Options),
    /// Measure the time of one small call, as binderAddInts
    AddInts(add_ints::Options),
    /// Show the points that a transaction passes, one by one, and the time between them
    Phases(phases::Options),
    /// Measure the bare primitives that a call is compared with
    Floors(floors::Options),
    /// Time CPU-bound tasks as the kernel places them, on one slow core, and on a fast core each
    AffinityStudy(affinity_study::Options),
    #[command(flatten)]
    Load(Load),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.what {
            What::Transports(options) => options.run(output),
            What::Latency(options) => options.run(output),
            What::Throughput(options) => options.run(output),
            What::AddInts(options) => options.run(output),
            What::Phases(options) => options.run(output),
            What::Floors(options) => options.run(output),
            What::AffinityStudy(options) => options.run(output),
            What::Load(load) => load.run(output),
        }
    }
}
