//! The guest that an experiment file asks for, as plain data.

use std::sync::LazyLock;

use handoff_guest::GuestSpec;
use serde::{Deserialize, Serialize};

/// Where the arms run, if not on this machine: a kernel in QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guests {
    /// That of the baseline and that of the change.
    pub arms: [GuestSpec; 2],
    pub boot: Boot,
}

impl Guests {
    /// Whether the clock of both counts instructions: then nothing that their host does is in the figures.
    #[must_use]
    pub fn count_instructions(&self) -> bool {
        self.arms.iter().all(|arm| arm.icount)
    }

    /// The guest of `--target guest`: the distribution's kernel, booted once.
    #[must_use]
    pub fn usual() -> &'static Self {
        static USUAL: LazyLock<Guests> =
            LazyLock::new(|| Guests { arms: [GuestSpec::default(), GuestSpec::default()], boot: Boot::Once });
        &USUAL
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boot {
    /// Once: the replicate is a process in it.
    Once,
    /// For each run of an arm: the replicate is a boot, as it must be where the arms differ in the kernel.
    Each,
}
