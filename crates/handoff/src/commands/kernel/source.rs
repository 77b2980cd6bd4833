//! `handoff kernel source`: the distribution's kernel source, unpacked.

use std::path::PathBuf;

use handoff_kernel::build::fetch_source;

use crate::output::{Advice as _, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff kernel source linux-source-6.1 --into ~/src
  handoff kernel build ~/src/linux-source-6.1 --out build   afterwards";

/// Fetch the distribution's kernel source and unpack it; nothing is installed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The package, such as linux-source-6.1, or linux-source-7.3/trixie-backports of another suite
    #[arg(value_name = "PACKAGE")]
    package: String,

    /// Unpack it into this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,

    /// Keep the package here [default: HANDOFF_CACHE_DIR, or handoff in the XDG cache folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let tree = fetch_source(&self.package, &self.into, self.cache.as_deref(), &|what| {
            crate::output::progress(what)
        })
        .advise("`apt-cache search linux-source` lists such packages")?;
        output.line(format_args!("{}", tree.display()))?;
        Ok(Verdict::Pass)
    }
}
