//! The guest that an experiment file asks for, as plain data: this crate does not know how to boot one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where the arms run, if not on this machine: a kernel in QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guests {
    /// That of the baseline and that of the change.
    pub arms: [GuestPlan; 2],
    /// When it is booted.
    pub boot: Boot,
}

/// When a guest is booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boot {
    /// Once: the replicate is a process in it.
    Once,
    /// For each run of an arm: the replicate is a boot, as it must be where the arms differ in the kernel.
    Each,
}

/// One guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestPlan {
    /// What it boots.
    pub kernel: GuestKernel,
    /// CPUs and their groups, such as `4,sockets=2,cores=2`.
    pub smp: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// How QEMU runs it: `auto`, `kvm` or `tcg`.
    pub accel: Accel,
    /// Each instruction takes a fixed time of the guest's clock.
    pub icount: bool,
    /// Modules to load, with parameters after a colon.
    pub modules: Vec<String>,
    /// Words for the kernel's command line.
    pub append: Vec<String>,
}

/// Which kernel a guest boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestKernel {
    /// The distribution's.
    Distribution,
    /// The distribution's with full preemption.
    RealTime,
    /// A package of the distribution.
    Package(String),
    /// A boot image.
    Image {
        /// The file.
        image: PathBuf,
        /// The folder below which its modules are.
        modules: Option<PathBuf>,
    },
}

/// How QEMU runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// With KVM where that works.
    #[default]
    Auto,
    /// With KVM.
    Kvm,
    /// Translated.
    Tcg,
}

impl Accel {
    /// As QEMU calls it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

impl Default for GuestPlan {
    fn default() -> Self {
        Self {
            kernel: GuestKernel::Distribution,
            smp: "2".to_owned(),
            memory_mib: 1024,
            accel: Accel::default(),
            icount: false,
            modules: Vec::new(),
            append: Vec::new(),
        }
    }
}

impl GuestKernel {
    /// It in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Distribution => "the distribution's kernel".to_owned(),
            Self::RealTime => "the distribution's real-time kernel".to_owned(),
            Self::Package(name) => format!("kernel package {name}"),
            Self::Image { image, .. } => format!("kernel {}", image.display()),
        }
    }
}

impl GuestPlan {
    /// It in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{} on {} CPUs", self.kernel.describe(), self.smp);
        if !self.append.is_empty() {
            text += &format!(", booted with {}", self.append.join(" "));
        }
        text
    }
}
