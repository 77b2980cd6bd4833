//! `handoff kernel port`: bring patches to another tree.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use handoff_kernel::patch::{Input, Limits, load};
use handoff_kernel::port::{Options as PortOptions, port};

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff kernel port autocorking.patch --onto linux-3.4 --dry-run
  handoff kernel port patches/ --onto linux-3.4              a folder, a quilt series or a mailbox
  handoff kernel port v3.12..v3.13 --source linux --onto linux-3.4
  handoff kernel port fix.patch --onto . --confidence 0.8 --format json

Exit status:
  0  every hunk has its place; read those that are fuzzy
  1  at least one is in conflict: its markers stand in the file, or it is in a .rej file";

/// Bring patches to another tree: every hunk says where it went, or what it needs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A patch, a mailbox, a folder of patches, a quilt series file, or a range of commits.
    #[arg(value_name = "SERIES")]
    series: String,
    /// The tree that is changed.
    #[arg(long, value_name = "DIR")]
    onto: PathBuf,
    /// The tree or repository that the patches were made for: git merges with it where it can.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Leave conflicts out instead of writing markers and .rej files.
    #[arg(long)]
    no_markers: bool,
    /// Take placements that are less certain than this (0 to 1) for conflicts.
    #[arg(long, value_name = "SHARE", default_value_t = PortOptions::default().confidence)]
    confidence: f64,
    /// Leading folders that a plain diff's paths have too many, as for `patch -p`.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().strip)]
    strip: usize,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        ensure!((0.0..=1.0).contains(&self.confidence), "--confidence is a share from 0 to 1");
        let repository = self.source.as_deref().unwrap_or(Path::new("."));
        let limits = Limits { strip: self.strip, ..Limits::default() };
        let series = load(&Input::guess(&self.series, repository), &limits)?;
        let options = PortOptions {
            dry_run: self.dry_run,
            markers: !self.no_markers,
            source: self.source.clone(),
            confidence: self.confidence,
        };
        let report = port(&series, &self.onto, &options)?;
        output.result(&report)?;
        Ok(Verdict::of(report.is_clean()))
    }
}
