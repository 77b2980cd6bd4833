//! Options of the workloads that load CPUs and the scheduler.

use handoff_workloads::hackbench::{self, Tasks, Transport};
use handoff_workloads::{Placement, Workload, sched_pipe, spin, wake_fanout};

use crate::commands::recording::Watch;

const HACKBENCH: &str = "\
Examples:
  handoff measure hackbench                                  20 to 20 in 10 groups, as rt-tests'
  handoff measure hackbench --writers 5 --readers 50         5 to 50: one waker, many wakees
  handoff measure hackbench -g 2 -l 1000 -p -T               threads and pipes";

/// Measure how long groups of tasks take to send all their messages to each other.
#[derive(Debug, clap::Args)]
#[command(after_help = HACKBENCH)]
pub(in crate::commands) struct Hackbench {
    /// Groups, which have nothing to do with each other.
    #[arg(short, long, default_value_t = 10)]
    groups: usize,
    /// Tasks of a group that send; as many as readers unless given.
    #[arg(long)]
    writers: Option<usize>,
    /// Tasks of a group that receive; as many as writers unless given, 20 if neither is.
    #[arg(long)]
    readers: Option<usize>,
    /// Messages that each writer sends to each reader.
    #[arg(short, long, default_value_t = 100)]
    loops: usize,
    /// Bytes of a message.
    #[arg(short = 's', long, visible_alias = "datasize", default_value_t = 100)]
    size: usize,
    /// Pipes instead of sockets.
    #[arg(short, long, visible_alias = "pipe")]
    pipes: bool,
    /// Threads instead of processes.
    #[arg(short = 'T', long)]
    threads: bool,
}

impl Hackbench {
    pub(super) fn workload(&self) -> Workload {
        let (writers, readers) = match (self.writers, self.readers) {
            (Some(writers), Some(readers)) => (writers, readers),
            (Some(both), None) | (None, Some(both)) => (both, both),
            (None, None) => (20, 20),
        };
        Workload::Hackbench(hackbench::Parameters {
            groups: self.groups,
            writers,
            readers,
            loops: self.loops,
            size: self.size,
            transport: if self.pipes { Transport::Pipes } else { Transport::Sockets },
            tasks: if self.threads { Tasks::Threads } else { Tasks::Processes },
        })
    }
}

const SCHED_PIPE: &str = "\
Examples:
  handoff measure sched-pipe                          as `perf bench sched pipe`
  handoff measure sched-pipe --placement same-cpu     without a wake-up on another CPU";

/// Measure two processes that hand a token back and forth through two pipes.
#[derive(Debug, clap::Args)]
#[command(after_help = SCHED_PIPE)]
pub(in crate::commands) struct SchedPipe {
    /// Round trips.
    #[arg(short, long, default_value_t = 100_000)]
    loops: u32,
    /// Bytes of the token.
    #[arg(short, long, default_value_t = 4)]
    size: usize,
    /// Where the two processes run: `same-cpu[:N]`, `two-cpus[:N,M]` or `unpinned`.
    #[arg(long, default_value_t = Placement::Unpinned, value_name = "WHERE")]
    placement: Placement,
    #[command(flatten)]
    watch: Watch,
}

impl SchedPipe {
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let Self { loops, size, placement, ref watch } = *self;
        Ok(Workload::SchedPipe(sched_pipe::Parameters { loops, size, placement, watch: watch.get()? }))
    }
}

const SPIN: &str = "\
Examples:
  handoff measure spin --tasks 2               two tasks, wherever the scheduler puts them
  handoff measure spin --tasks 2 --cpus 0      both on CPU 0
  handoff measure spin --tasks 2 --cpus 0,1    a CPU for each";

/// Measure tasks that only compute: what placement and other tasks do to them.
#[derive(Debug, clap::Args)]
#[command(after_help = SPIN)]
pub(in crate::commands) struct Spin {
    /// Processes that compute.
    #[arg(short, long, default_value_t = 1)]
    tasks: usize,
    /// Items that each works through.
    #[arg(short, long, default_value_t = 1000)]
    items: usize,
    /// Steps of an item; 1000 take about 1.5 us.
    #[arg(short, long, default_value_t = 100_000)]
    steps: u64,
    /// CPUs to pin the tasks to, in turn; not pinned unless given.
    #[arg(long, value_delimiter = ',', value_name = "CPU,...")]
    cpus: Vec<usize>,
}

impl Spin {
    pub(super) fn workload(&self) -> Workload {
        let Self { tasks, items, steps, ref cpus } = *self;
        Workload::Spin(spin::Parameters { tasks, items, steps, cpus: cpus.clone() })
    }
}

const WAKE_FANOUT: &str = "\
Examples:
  handoff measure wake-fanout --wakees 50
  handoff measure wake-fanout --wakees 8 --work 100000    wakees that work 150 us each time";

/// Measure how long tasks take from being woken to running, when one task wakes many.
#[derive(Debug, clap::Args)]
#[command(after_help = WAKE_FANOUT)]
pub(in crate::commands) struct WakeFanout {
    /// Processes that are woken.
    #[arg(short = 'n', long, default_value_t = 8)]
    wakees: usize,
    /// Times that all of them are woken.
    #[arg(short, long, default_value_t = 2000)]
    rounds: usize,
    /// Steps that a wakee computes each time; 1000 take about 1.5 us.
    #[arg(short, long, default_value_t = 1000)]
    work: u64,
    #[command(flatten)]
    watch: Watch,
}

impl WakeFanout {
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let Self { wakees, rounds, work, ref watch } = *self;
        Ok(Workload::WakeFanout(wake_fanout::Parameters { wakees, rounds, work, watch: watch.get()? }))
    }
}
