//! The architectures that kernels are built for.

use std::fmt;
use std::str::FromStr;

/// An architecture that kernels are built for, natively or with Debian's cross compilers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelArch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Arm64,
    /// 32-bit Arm with hardware floating point.
    Arm,
}

impl KernelArch {
    const ALL: [Self; 3] = [Self::X86_64, Self::Arm64, Self::Arm];

    /// The architecture of this machine, if it is one of these.
    #[must_use]
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Arm64),
            "arm" => Some(Self::Arm),
            _ => None,
        }
    }

    /// The kernel's name of it, make's `ARCH`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
        }
    }

    /// The folder of the architecture's own source, below `arch`.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::X86_64 => "x86",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
        }
    }

    /// Begins the names of the cross compiler's programs; nothing where no cross compiler is needed.
    pub(crate) fn cross_prefix(self) -> &'static str {
        if Self::host() == Some(self) {
            return "";
        }
        match self {
            Self::X86_64 => "x86_64-linux-gnu-",
            Self::Arm64 => "aarch64-linux-gnu-",
            Self::Arm => "arm-linux-gnueabihf-",
        }
    }

    /// Debian's package with the compiler.
    pub(crate) fn compiler_package(self) -> String {
        match self.cross_prefix().trim_end_matches('-') {
            "" => "gcc".to_owned(),
            prefix => format!("gcc-{}", prefix.replace('_', "-")),
        }
    }

    /// make's target for the boot image.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "bzImage",
            Self::Arm64 => "Image",
            Self::Arm => "zImage",
        }
    }

    /// The boot image in a build folder.
    #[must_use]
    pub const fn image(self) -> &'static str {
        match self {
            Self::X86_64 => "arch/x86/boot/bzImage",
            Self::Arm64 => "arch/arm64/boot/Image",
            Self::Arm => "arch/arm/boot/zImage",
        }
    }
}

impl fmt::Display for KernelArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KernelArch {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let usual = match name {
            "x86-64" | "amd64" | "x86" => "x86_64",
            "aarch64" => "arm64",
            "armhf" => "arm",
            other => other,
        };
        Self::ALL
            .into_iter()
            .find(|arch| arch.name() == usual)
            .ok_or_else(|| format!("kernels are built for x86_64, arm64 and arm, not for `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for arch in KernelArch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        assert_eq!("aarch64".parse(), Ok(KernelArch::Arm64));
        assert!("mips".parse::<KernelArch>().is_err_and(|why| why.contains("mips")));
    }

    #[test]
    fn a_foreign_compiler_has_a_prefix_and_a_package() {
        let foreign =
            if KernelArch::host() == Some(KernelArch::Arm) { KernelArch::Arm64 } else { KernelArch::Arm };
        assert!(foreign.cross_prefix().ends_with('-'));
        assert!(foreign.compiler_package().starts_with("gcc-"));
        assert!(KernelArch::host().is_none_or(|host| host.compiler_package() == "gcc"));
    }
}
