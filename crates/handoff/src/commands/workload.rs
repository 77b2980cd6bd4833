//! The loads of `handoff measure`: one workload, once, by itself.

mod load;
mod page;
mod tcp;

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_workloads::Workload;

use crate::output::{Output, Verdict};
use crate::results;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Which {
    Hackbench(load::Hackbench),
    SchedPipe(load::SchedPipe),
    Spec(Spec),
    Spin(load::Spin),
    TcpRr(tcp::Rr),
    TcpStream(tcp::Stream),
    WakeFanout(load::WakeFanout),
}

impl Which {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let workload = match self {
            Self::Hackbench(options) => options.workload(),
            Self::SchedPipe(options) => options.workload()?,
            Self::Spec(spec) => spec.workload()?,
            Self::Spin(options) => options.workload(),
            Self::TcpRr(options) => options.workload()?,
            Self::TcpStream(options) => options.workload()?,
            Self::WakeFanout(options) => options.workload()?,
        };
        let outcome = workload.run()?;
        output.result(&page::Page(outcome))?;
        Ok(Verdict::Pass)
    }
}

const SPEC_EXAMPLES: &str = "\
Examples:
  handoff measure spec run.json
  echo '{\"workload\": \"spin\", \"parameters\": {\"tasks\": 2}}' | handoff measure spec - --format json";

/// Run a workload that is described in JSON.
///
/// The description is {"workload": NAME, "parameters": {...}}.
#[derive(Debug, clap::Args)]
#[command(after_help = SPEC_EXAMPLES)]
pub(in crate::commands) struct Spec {
    /// The file; `-` for standard input.
    file: PathBuf,
}

impl Spec {
    fn workload(&self) -> anyhow::Result<Workload> {
        let mut text = String::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        } else {
            text = results::read(&self.file)?;
        }
        serde_json::from_str(&text)
            .with_context(|| format!("{} does not describe a workload", self.file.display()))
    }
}
