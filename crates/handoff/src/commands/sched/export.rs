//! `handoff sched export` and `restore`: recordings in other tools' formats, and what recordings may leave behind.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use handoff_trace::render::html::{View, html};
use handoff_trace::tracefs::{leftovers, restore};
use handoff_trace::{Tid, Timeline, TraceFs, file, perfetto};
use serde::Serialize;

use crate::output::{Output, Verdict};
use crate::results;

const EXPORT_EXAMPLES: &str = "\
Examples:
  handoff sched export trace.dat --perfetto trace.pftrace   for ui.perfetto.dev and trace_processor
  handoff sched export trace.dat --html timeline.html       to look at, zoom and search, offline
  handoff sched export systrace.html --html timeline.html   of Android, as text or as a Perfetto file
  handoff sched export trace.dat --html t.html --task 1240 --task 1250 --from 8812345678 --to 8813345678";

/// Turn a recording into a Perfetto file or a time line for the browser.
///
/// The recording is one of `handoff sched record`, `trace-cmd record` (version 6), Perfetto or Android, or a
/// trace as text (`atrace`, systrace, `trace-cmd report`).
#[derive(Debug, clap::Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct Export {
    /// The recording.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Write a Perfetto trace.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Leave the arrows from waker to woken out of it: half the size.
    #[arg(long, requires = "perfetto")]
    no_arrows: bool,
    /// Write a time line as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// In the time line, a row for this task (default: the busiest 40).
    #[arg(long, value_name = "TID", requires = "html")]
    task: Vec<Tid>,
    /// The time line starts here, in nanoseconds of the trace's clock.
    #[arg(long, value_name = "NS", requires = "html")]
    from: Option<u64>,
    /// And ends here.
    #[arg(long, value_name = "NS", requires = "html")]
    to: Option<u64>,
}

#[derive(Serialize)]
struct ExportResult {
    events: usize,
    lost: u64,
    files: Vec<PathBuf>,
}

impl fmt::Display for ExportResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        write!(f, "{} events ({} lost) written to {}", self.events, self.lost, files.join(" and "))
    }
}

impl Export {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        ensure!(
            self.perfetto.is_some() || self.html.is_some(),
            "nothing is asked for: name a file with --perfetto or --html"
        );
        let trace = file::load(&self.input)?;
        let timeline = Timeline::of(&trace);
        for task in &self.task {
            let is_there = timeline.tasks.contains_key(task);
            ensure!(is_there, "the recording {} has no task {task}", self.input.display());
        }
        let mut files = Vec::new();
        let mut write = |path: &Path, bytes: &[u8]| {
            files.push(path.to_owned());
            results::write(path, bytes)
        };
        if let Some(path) = &self.perfetto {
            let options = perfetto::Options { arrows: !self.no_arrows, ..Default::default() };
            write(path, &perfetto::to_bytes(&trace, &timeline, options))?;
        }
        if let Some(path) = &self.html {
            let (first, last) = timeline.span;
            let window = (self.from.unwrap_or(first), self.to.unwrap_or(last));
            ensure!(
                window.0 < window.1 && window.0 <= last && window.1 >= first,
                "nothing was recorded from {} to {} ns: the recording has {first} to {last}",
                window.0,
                window.1
            );
            let title =
                self.input.file_name().unwrap_or(self.input.as_os_str()).to_string_lossy().into_owned();
            let view =
                View { title: &title, window: Some(window), tasks: self.task.clone(), diagnosis: None };
            write(path, html(&trace, &timeline, &view).as_bytes())?;
        }
        output.result(&ExportResult { events: trace.events().len(), lost: trace.lost(), files })?;
        Ok(Verdict::Pass)
    }
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  handoff sched restore             after a recording was killed
  handoff sched restore --dry-run   only list what would be removed";

/// Remove the trace buffers that killed recordings left behind.
///
/// Those in use are left alone. Each new recording does this, too.
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(super) struct Restore {
    /// Only list them.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct RestoreResult {
    dry_run: bool,
    removed: Vec<PathBuf>,
    /// Made in another pid namespace (a container), where alone it can be told whether they are in use.
    left_alone: Vec<PathBuf>,
}

impl fmt::Display for RestoreResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |paths: &[PathBuf]| -> String {
            paths
                .iter()
                .filter_map(|path| path.file_name()?.to_str())
                .map(|name| format!("\n  {name}"))
                .collect()
        };
        let done = if self.dry_run { "would be removed" } else { "removed" };
        match self.removed.len() {
            0 => write!(f, "nothing was left behind")?,
            count => write!(f, "{count} {done}:{}", names(&self.removed))?,
        }
        if !self.left_alone.is_empty() {
            let (count, names) = (self.left_alone.len(), names(&self.left_alone));
            write!(f, "\n{count} of another pid namespace left alone (run this there):{names}")?;
        }
        Ok(())
    }
}

impl Restore {
    pub(super) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let tracefs = TraceFs::find()?;
        let (elsewhere, dead): (Vec<_>, Vec<_>) =
            leftovers(&tracefs)?.into_iter().partition(|left| left.elsewhere);
        let removed = if self.dry_run { dead } else { restore(&tracefs)? };
        let paths =
            |list: Vec<handoff_trace::tracefs::Leftover>| list.into_iter().map(|left| left.path).collect();
        output.result(&RestoreResult {
            dry_run: self.dry_run,
            removed: paths(removed),
            left_alone: paths(elsewhere),
        })?;
        Ok(Verdict::Pass)
    }
}
