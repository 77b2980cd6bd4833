//! `handoff version`: what a bug report needs.

use std::fmt;

use serde::Serialize;

use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff version
  handoff version --format json     for programs";

/// Print the version, and what this build has.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    architecture: &'static str,
    system: &'static str,
    features: Vec<&'static str>,
    optimised: bool,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        let build = if self.optimised { "release" } else { "debug: figures of it mean little" };
        write!(
            f,
            "handoff {}\nsystem    {} on {}\nfeatures  {features}\nbuild     {build}",
            self.version, self.system, self.architecture
        )
    }
}

impl Options {
    #[expect(clippy::unused_self, reason = "every command has options")]
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let features = [("full", cfg!(feature = "full")), ("peers", cfg!(feature = "peers"))];
        output.result(&Version {
            version: env!("CARGO_PKG_VERSION"),
            architecture: std::env::consts::ARCH,
            system: std::env::consts::OS,
            features: features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
            optimised: !cfg!(debug_assertions),
        })?;
        Ok(Verdict::Pass)
    }
}
