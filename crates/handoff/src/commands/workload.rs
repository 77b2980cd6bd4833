//! `handoff workload`: one workload, once, by itself. `handoff lab` compares.

mod load;
mod page;
mod tcp;

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_workloads::Workload;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff workload hackbench                                      as rt-tests' hackbench
  handoff workload hackbench --writers 5 --readers 50             one waker, many wakees
  handoff workload tcp-stream --path namespaces --seconds 5       small writes through a queue
  handoff workload spin --tasks 2 --cpus 0                        two tasks on one CPU
  handoff workload spec run.json --format json                    what an experiment describes";

/// Run one workload once and print what it measured.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Groups of tasks that all send to all, to load the scheduler
    Hackbench(load::Hackbench),
    /// Two processes that hand a token back and forth through pipes
    SchedPipe(load::SchedPipe),
    /// Run a workload that is described in JSON
    Spec(Spec),
    /// Tasks that only compute
    Spin(load::Spin),
    /// A request and a response over TCP, again and again
    TcpRr(tcp::Rr),
    /// Small writes over TCP, as fast as it takes them
    TcpStream(tcp::Stream),
    /// One waker and many wakees: how long from being woken to running
    WakeFanout(load::WakeFanout),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let workload = match &self.which {
            Which::Hackbench(options) => options.workload(),
            Which::SchedPipe(options) => options.workload()?,
            Which::Spec(spec) => spec.workload()?,
            Which::Spin(options) => options.workload(),
            Which::TcpRr(options) => options.workload()?,
            Which::TcpStream(options) => options.workload()?,
            Which::WakeFanout(options) => options.workload()?,
        };
        let outcome = workload.run()?;
        output.result(&page::Page(outcome))?;
        Ok(Verdict::Pass)
    }
}

const SPEC_EXAMPLES: &str = "\
Examples:
  handoff workload spec run.json
  echo '{\"workload\": \"spin\", \"parameters\": {\"tasks\": 2}}' | handoff workload spec - --format json";

/// Run a workload that is described in JSON: {\"workload\": NAME, \"parameters\": {...}}.
#[derive(Debug, clap::Args)]
#[command(after_help = SPEC_EXAMPLES)]
struct Spec {
    /// The file; `-` for standard input.
    file: PathBuf,
}

impl Spec {
    fn workload(&self) -> anyhow::Result<Workload> {
        let mut text = String::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        } else {
            text = std::fs::read_to_string(&self.file)
                .with_context(|| format!("cannot read {}", self.file.display()))?;
        }
        serde_json::from_str(&text)
            .with_context(|| format!("{} does not describe a workload", self.file.display()))
    }
}
