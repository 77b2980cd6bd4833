//! `handoff man DIR`: the manual pages, from the same text as `--help`.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::cli;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff man ./man && man ./man/handoff.1
  sudo handoff man /usr/local/share/man/man1";

/// Write a manual page for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The folder to write to; it is made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot make the folder {folder}"))?;
        clap_mangen::generate_to(cli::command(), &self.folder)
            .with_context(|| format!("cannot write the manual pages to {folder}"))?;
        output.line(format_args!("The manual pages are in {folder}"))?;
        Ok(Verdict::Pass)
    }
}
