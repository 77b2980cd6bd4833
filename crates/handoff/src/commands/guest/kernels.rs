//! `handoff guest kernels`: which kernels of the distribution can be booted.

use std::fmt;
use std::path::PathBuf;

use handoff_guest::{Arch, kernel_package_names};
use serde::Serialize;

use super::machine::explained;
use crate::output::{Advice as _, Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest kernels
  handoff guest kernels --suite trixie-backports
  handoff guest kernels --suite trixie-backports --arch arm64
  handoff guest run --suite trixie-backports --kernel-package linux-image-rt-amd64 -- doctor";

/// Say which kernels of the distribution can be booted.
///
/// Nothing of this system is changed.
///
/// The names are those that `--kernel-package` takes. A name without a version is the newest of its flavour.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The suite of Debian's packages, such as trixie-backports [default: this system's]
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,

    /// The architecture: x86_64 or arm64 [default: this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,

    /// Keep fetched package lists here [default: HANDOFF_CACHE_DIR, or handoff in the XDG cache folder]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Kernels(Vec<String>);

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let Some(arch) = self.arch.or_else(Arch::host) else {
            anyhow::bail!("no guest can be of this machine's architecture: name one of x86_64, arm64");
        };
        let names = kernel_package_names(self.cache.as_deref(), arch, self.suite.as_deref(), &|what| {
            output.note(what)
        })
        .map_err(explained)?;
        if names.is_empty() {
            let suite = self.suite.as_deref().unwrap_or("this system's suite");
            return Err(anyhow::anyhow!("{suite} has no kernels for {arch}"))
                .advise("is it the name of one of Debian's suites, such as bookworm or trixie-backports?");
        }
        output.result(&Kernels(names))?;
        Ok(Verdict::Pass)
    }
}
