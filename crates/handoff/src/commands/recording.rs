//! Options of every command that can record what led to a missed deadline.

use std::path::PathBuf;

use handoff_workloads::deadline;

/// How misses are kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Recording of misses")]
pub(super) struct Recording {
    /// Where the recordings, time lines and Perfetto files go.
    #[arg(long, value_name = "DIR", default_value = ".")]
    trace_dir: PathBuf,
    /// The recorder's memory for each CPU, in KiB; 4096 hold about 70,000 events.
    #[arg(long, value_name = "KIB", default_value_t = 8192)]
    trace_kib: usize,
}

impl Recording {
    pub(super) fn get(&self) -> deadline::Recording {
        deadline::Recording { folder: self.trace_dir.clone(), buffer_kib: self.trace_kib }
    }
}

/// A deadline for a workload that has none by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Watch {
    /// Record the whole system, and explain the first hand-off that takes longer. Needs root.
    #[arg(long, value_name = "US", help_heading = "Recording of misses")]
    deadline_us: Option<u64>,
    #[command(flatten)]
    recording: Recording,
}

impl Watch {
    pub(super) fn get(&self) -> Option<deadline::Watch> {
        let recording = self.recording.get();
        self.deadline_us.map(|deadline_us| deadline::Watch { deadline_us, recording })
    }
}
