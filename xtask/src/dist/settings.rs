//! What every package is told: how to build, for which architectures, where to.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

/// How the compiler works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Profile {
    Release,
    Dev,
}

impl Profile {
    /// Cargo's name of the profile, of the folder that it builds in, and of its part in variables.
    pub(super) fn names(self) -> [&'static str; 3] {
        match self {
            Self::Release => ["release", "release", "RELEASE"],
            Self::Dev => ["dev", "debug", "DEV"],
        }
    }
}

/// What a package runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Arch {
    #[value(name = "x86-64", aliases = ["x86_64", "amd64"])]
    X86_64,
    #[value(name = "arm64", alias = "aarch64")]
    Arm64,
}

impl Arch {
    pub(super) fn this() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("Handoff runs on x86-64 and arm64, and this is {other}"),
        }
    }

    /// As in the names of files and targets.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// As Debian and the Open Container Initiative call it.
    pub(super) fn debian_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }
}

/// What every package is told.
#[derive(Debug)]
pub(super) struct Dist {
    pub(super) profile: Profile,
    pub(super) lean: bool,
    pub(super) archs: Vec<Arch>,
    /// Where packages are put.
    pub(super) folder: PathBuf,
}

/// The version of every package.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
