//! `handoff sched record`: scheduling events into a file.

use std::path::PathBuf;

use handoff_trace::dat;
use serde::Serialize;

use super::source::{Recording, warn_of_loss};
use crate::output::{Output, Verdict};
use crate::results;

const EXAMPLES: &str = "\
Examples:
  handoff sched record -- hackbench -g 2       while the command runs; says which file it wrote
  handoff sched record -s 5 -o busy.dat        the whole system for five seconds
  handoff sched record -p 1234 --only -s 5     one process, its threads and what it starts
  trace-cmd report -i trace.dat                the file is one that other tools read, too";

/// Record scheduling events, interrupts and idle states into a trace.dat file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The file [default: a new trace.dat in the folder for results, HANDOFF_RESULTS].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    recording: Recording,
}

#[derive(Serialize)]
struct Summary {
    file: PathBuf,
    events: usize,
    bytes: usize,
    lost: u64,
    span_ns: u64,
    processes: Vec<i32>,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.span_ns as f64 / 1e9;
        write!(f, "{} events of {seconds:.3} s, {} lost, in {}", self.events, self.lost, self.file.display())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let file = match &self.output {
            Some(file) => file.clone(),
            None => {
                let folder = results::made()?;
                folder.join(format!("{}.dat", results::free(&folder, "trace", &["dat"])))
            }
        };
        results::check_writable(&file)?;
        let (raw, processes) = self.recording.record(output)?;
        results::write(&file, dat::to_bytes(&raw))?;
        let trace = raw.decode()?;
        warn_of_loss(output, &trace);
        let (start, end) = trace.span().unwrap_or_default();
        output.result(&Summary {
            file,
            events: trace.events().len(),
            bytes: raw.bytes(),
            lost: trace.lost(),
            span_ns: end - start,
            processes,
        })?;
        Ok(self.recording.verdict())
    }
}
