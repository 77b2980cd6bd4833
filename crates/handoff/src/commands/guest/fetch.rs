//! `handoff guest fetch`: what guests are made of, ahead of time.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::machine::{GuestArgs, explained};
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest fetch
  handoff guest fetch --refresh --rt
  handoff guest fetch --arch arm64";

/// Fetch what guests are made of, so that later boots need no network.
///
/// Packages go into a cache and are never installed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Look for newer packages than those in the cache
    #[arg(long)]
    refresh: bool,

    #[command(flatten)]
    machine: GuestArgs,
}

/// What is there now.
#[derive(Debug, Serialize)]
struct FetchResult {
    kernel: String,
    image: PathBuf,
    busybox: PathBuf,
    qemu: PathBuf,
}

impl fmt::Display for FetchResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel   {}", self.kernel)?;
        writeln!(f, "image    {}", self.image.display())?;
        writeln!(f, "busybox  {}", self.busybox.display())?;
        write!(f, "qemu     {}", self.qemu.display())
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let builder =
            self.machine.builder().refresh(self.refresh).on_progress(|what| crate::output::progress(what));
        let prepared = builder.prepare().map_err(explained)?;
        output.result(&FetchResult {
            kernel: prepared.kernel,
            image: prepared.image,
            busybox: prepared.busybox,
            qemu: prepared.qemu,
        })?;
        Ok(Verdict::Pass)
    }
}
