//! The machine types that a guest can be.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The instruction set of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86, QEMU's `pc` machine.
    X86_64,
    /// 64-bit Arm, QEMU's `virt` machine.
    Arm64,
}

impl Arch {
    /// The architecture that this program runs on, if a guest can be of it.
    #[must_use]
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Debian's name of the architecture.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// QEMU's system emulator for it.
    pub const fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    /// Debian's package with that emulator.
    pub const fn qemu_package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Arm64 => "qemu-system-arm",
        }
    }

    /// Rust's name of the target whose static programs run in such a guest.
    pub const fn rust_target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The serial device that is the kernel's console.
    pub(crate) const fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }

    /// The dynamic loader of glibc's programs.
    pub(crate) const fn loader(self) -> &'static str {
        match self {
            Self::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Self::Arm64 => "/lib/ld-linux-aarch64.so.1",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86-64",
            Self::Arm64 => "arm64",
        })
    }
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "x86_64" | "x86-64" | "amd64" => Ok(Self::X86_64),
            "arm64" | "aarch64" => Ok(Self::Arm64),
            _ => Err(format!("`{name}` is no guest architecture: use x86_64 or arm64")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usual_name_is_understood() {
        for name in ["x86_64", "x86-64", "amd64"] {
            assert_eq!(name.parse(), Ok(Arch::X86_64));
        }
        for name in ["arm64", "aarch64"] {
            assert_eq!(name.parse(), Ok(Arch::Arm64));
        }
        assert!("riscv64".parse::<Arch>().is_err_and(|why| why.contains("riscv64")));
    }

    #[test]
    fn the_display_name_parses_back() {
        for arch in [Arch::X86_64, Arch::Arm64] {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
    }
}
