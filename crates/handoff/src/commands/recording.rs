//! Options of every command that can record what led to a missed deadline.

use std::path::PathBuf;

use anyhow::Context as _;
use handoff_workloads::deadline;

use crate::output::Advice as _;
use crate::results;

// How misses are kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Recording of misses")]
pub(super) struct Recording {
    /// Where the recordings, time lines and Perfetto files go; it is made if it is not there [default: `misses` in
    /// the folder for results, HANDOFF_RESULTS]
    #[arg(long, value_name = "FOLDER")]
    trace_dir: Option<PathBuf>,
    /// The recorder's memory for each CPU, in KiB; 4096 hold about 70,000 events.
    #[arg(long, value_name = "KIB", default_value_t = 8192)]
    trace_kib: usize,
}

impl Recording {
    /// What to record and where, in a folder that is there.
    pub(super) fn get(&self) -> anyhow::Result<deadline::Recording> {
        let folder = match &self.trace_dir {
            Some(folder) => folder.clone(),
            None => results::made()?.join("misses"),
        };
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))
            .advise("name another one with --trace-dir")?;
        Ok(deadline::Recording { folder, buffer_kib: self.trace_kib })
    }
}

// A deadline for a workload that has none by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Watch {
    /// Record the whole system, and explain the first hand-off that takes longer. Needs root.
    #[arg(long, value_name = "US", help_heading = "Recording of misses")]
    deadline_us: Option<u64>,
    #[command(flatten)]
    recording: Recording,
}

impl Watch {
    pub(super) fn get(&self) -> anyhow::Result<Option<deadline::Watch>> {
        let watch = |deadline_us| Ok(deadline::Watch { deadline_us, recording: self.recording.get()? });
        self.deadline_us.map(watch).transpose()
    }
}
