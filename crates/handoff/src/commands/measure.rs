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

group! {
    /// Measure calls, bare primitives and loads, each by itself.
    ///
    /// One of them is measured, once. `handoff lab` compares two.
    #[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
    {
        Transports(transports::Options),
        Latency(latency::Options),
        Throughput(throughput::Options),
        AddInts(add_ints::Options),
        Phases(phases::Options),
        Floors(floors::Options),
        AffinityStudy(affinity_study::Options),
        #[command(flatten)]
        Load(Load),
    }
}
