//! `handoff sched graph`: who wakes whom.

use std::fmt;
use std::path::{Path, PathBuf};

use handoff_trace::model::flips::cache_domain;
use handoff_trace::model::simulate::{Placement, PlacementCounts, simulate};
use handoff_trace::render::{dot, svg};
use handoff_trace::{Graph, Timeline};
use serde::Serialize;

use super::source::{Source, write};
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff sched graph -- hackbench -g 2                of a command
  handoff sched graph -i trace.dat -p 1234             of a recording, one process
  handoff sched graph -i trace.dat --svg wakes.svg --dot wakes.dot
  handoff sched graph -i trace.dat --simulate prev,3.12,4.3,none";

/// Show who wakes whom, how often, how fast and on which CPUs, and which tasks wake many others.
///
/// It also says what the wake-wide rules of Linux 3.12 and of 4.3 and later would decide.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// How many CPUs share the last-level cache, for the wake-wide rule (default: as here).
    #[arg(long, value_name = "CPUS", value_parser = clap::value_parser!(u16).range(1..))]
    llc: Option<u16>,
    /// Where these rules would have placed the recorded wake-ups, by a small model.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    simulate: Vec<Placement>,
    /// Write the graph as a picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the graph for Graphviz.
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

#[derive(Serialize)]
struct GraphResult {
    #[serde(flatten)]
    graph: Graph,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    simulated: Vec<PlacementCounts>,
}

impl fmt::Display for GraphResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.graph)?;
        if self.simulated.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nBy a model (each wake-up placed as if all others stayed as recorded):")?;
        write!(
            f,
            "{:<6} {:>9} {:>10} {:>10} {:>8} {:>9}",
            "rule", "wake-ups", "on waker's", "on former", "idle", "changed"
        )?;
        for of in &self.simulated {
            let rule = of.rule.to_string();
            write!(
                f,
                "\n{rule:<6} {:>9} {:>10} {:>10} {:>8} {:>9}",
                of.wakes, of.waker_cpu, of.previous_cpu, of.idle, of.changed
            )?;
        }
        Ok(())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        self.svg.iter().chain(&self.dot).try_for_each(|file| crate::results::check_writable(file))?;
        let found = self.source.get(output)?;
        let factor = self.llc.map_or_else(|| cache_domain(Path::new("/sys/devices/system/cpu")), usize::from);
        let timeline = Timeline::of(&found.trace);
        let graph = Graph::of(&found.trace, &timeline, factor, |tid| found.wants(tid));
        if let Some(path) = &self.svg {
            write(output, path, svg::svg(&graph).as_bytes())?;
        }
        if let Some(path) = &self.dot {
            write(output, path, dot::dot(&graph).as_bytes())?;
        }
        let simulated = simulate(&timeline, factor, &self.simulate, |tid| found.wants(tid));
        output.result(&GraphResult { graph, simulated })?;
        Ok(self.source.verdict())
    }
}
