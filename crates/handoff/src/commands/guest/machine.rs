//! The options that describe a guest.

use std::path::PathBuf;
use std::time::Duration;

use handoff_guest::{Acceleration, Arch, Builder, GuestError, GuestSpec, Kernel, Smp};

// Which kernel on which machine.
#[derive(Debug, clap::Args)]
pub(crate) struct GuestArgs {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    hardware: Hardware,
}

// Which kernel.
#[derive(Debug, clap::Args)]
struct Choice {
    /// The architecture: x86_64 or arm64 [default: this machine's]
    #[arg(long, value_name = "ARCH", help_heading = "Guest")]
    arch: Option<Arch>,

    /// Boot this kernel image (bzImage or Image) instead of the distribution's
    #[arg(long, value_name = "IMAGE", help_heading = "Guest", conflicts_with_all = ["rt", "kernel_package"])]
    kernel: Option<PathBuf>,

    /// The folder below which the modules of --kernel are
    #[arg(long, value_name = "DIR", help_heading = "Guest", requires = "kernel")]
    modules: Option<PathBuf>,

    /// Boot the kernel of this package of the distribution
    #[arg(long, value_name = "NAME", help_heading = "Guest", conflicts_with = "rt")]
    kernel_package: Option<String>,

    /// Boot the distribution's fully preemptible kernel (PREEMPT_RT)
    #[arg(long, help_heading = "Guest")]
    rt: bool,

    /// Take the kernel from this suite of Debian's packages, such as trixie-backports; nothing is installed
    #[arg(long, value_name = "SUITE", help_heading = "Guest", conflicts_with = "kernel")]
    suite: Option<String>,
}

// The machine that a kernel is booted on.
#[derive(Debug, clap::Args)]
pub(crate) struct Hardware {
    /// CPUs, grouped if need be: 4, or 4,sockets=2,cores=2 [default: 2, or 1 with --icount]
    #[arg(long, value_name = "CPUS", help_heading = "Guest")]
    smp: Option<Smp>,

    /// Memory in MiB, or with the unit: 512, 2G
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = memory, help_heading = "Guest")]
    memory: u32,

    /// The capacity of each CPU, 1024 for the fastest (arm64 only): 446,446,871,1024
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Guest")]
    cpu_capacity: Vec<u32>,

    /// How QEMU runs the guest: auto tries KVM first, tcg translates, tcg-in-turn does so with all CPUs in one thread:
    /// for a QEMU before 8.1, where traced guests may hang
    #[arg(long, value_name = "auto|kvm|tcg|tcg-in-turn", default_value = "auto", help_heading = "Guest")]
    accel: Acceleration,

    /// Let each instruction take a fixed time, on one CPU: slow, but hardly disturbed by the host
    #[arg(long, help_heading = "Guest")]
    icount: bool,

    /// Load this kernel module, with parameters after a colon: dummy:numdummies=2 (repeatable)
    #[arg(long, value_name = "NAME[:PARAMS]", help_heading = "Guest")]
    module: Vec<String>,

    /// Add words to the kernel's command line (repeatable)
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true, help_heading = "Guest")]
    append: Vec<String>,

    /// Add an argument to QEMU's command line (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = "Guest")]
    qemu_arg: Vec<String>,

    /// Use this static busybox instead of the distribution's
    #[arg(long, value_name = "FILE", help_heading = "Guest")]
    busybox: Option<PathBuf>,

    /// Keep fetched packages here [default: HANDOFF_CACHE_DIR, or handoff in the XDG cache folder]
    #[arg(long, value_name = "DIR", help_heading = "Guest")]
    cache: Option<PathBuf>,

    /// Give the boot this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 180, help_heading = "Guest")]
    boot_timeout: u64,
}

impl GuestArgs {
    /// The guest that the options describe.
    pub(crate) fn builder(&self) -> Builder {
        let spec = GuestSpec { arch: self.choice.arch, kernel: self.choice.kernel(), ..self.hardware.spec() };
        self.hardware.with_host_side(spec.builder())
    }

    /// The architecture of the guest.
    pub(crate) fn arch(&self) -> Option<Arch> {
        self.choice.arch.or_else(Arch::host)
    }
}

impl Choice {
    fn kernel(&self) -> Kernel {
        if let Some(suite) = &self.suite {
            let arch = self.arch.or_else(Arch::host).map_or("amd64", Arch::debian);
            let name = match &self.kernel_package {
                Some(name) => name.clone(),
                None if self.rt => format!("linux-image-rt-{arch}"),
                None => format!("linux-image-{arch}"),
            };
            return Kernel::Package(format!("{name}/{suite}"));
        }
        match (&self.kernel, &self.kernel_package) {
            (Some(image), _) => Kernel::Image { image: image.clone(), modules: self.modules.clone() },
            (None, Some(name)) => Kernel::Package(name.clone()),
            (None, None) if self.rt => Kernel::RealTime,
            (None, None) => Kernel::Distribution,
        }
    }
}

impl Hardware {
    /// A guest on this machine, with the distribution's kernel.
    pub(crate) fn builder(&self) -> Builder {
        self.with_host_side(self.spec().builder())
    }

    fn spec(&self) -> GuestSpec {
        GuestSpec {
            smp: self.smp.clone(),
            memory_mib: self.memory,
            cpu_capacity: self.cpu_capacity.clone(),
            accel: self.accel,
            icount: self.icount,
            modules: self.module.clone(),
            append: self.append.clone(),
            qemu_args: self.qemu_arg.clone(),
            ..GuestSpec::default()
        }
    }

    /// What is of this machine and not of the guest: where files are, and how long a boot may take.
    fn with_host_side(&self, builder: Builder) -> Builder {
        let mut builder = builder.boot_limit(Duration::from_secs(self.boot_timeout));
        if let Some(busybox) = &self.busybox {
            builder = builder.busybox(busybox);
        }
        if let Some(cache) = &self.cache {
            builder = builder.cache_dir(cache);
        }
        builder
    }
}

/// Reads a size in MiB.
fn memory(text: &str) -> Result<u32, String> {
    let (digits, scale) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
    };
    let size = digits.parse::<u32>().ok().and_then(|size| size.checked_mul(scale));
    size.ok_or_else(|| format!("`{text}` is no size of memory: write 512, 512M or 2G"))
}

/// An error of a guest with what to do about it, where that depends on the options.
pub(crate) fn explained(error: GuestError) -> anyhow::Error {
    use crate::output::Advice as _;
    let advice = match &error {
        GuestError::BootTimeout { .. } => {
            "boot again with --console to see how far it gets, or give it longer with --boot-timeout"
        }
        GuestError::Package { .. } => {
            "check the name and the system's package sources, or name a kernel image with --kernel"
        }
        GuestError::Qemu { .. } => {
            "check --qemu-arg and --accel, and that --kernel names the image of a kernel"
        }
        GuestError::CommandTimeout { .. } => "give it longer with --timeout, or 0 for no limit",
        GuestError::Hang { .. } => {
            "run it again: an emulated kernel gets stuck at times, and --accel tcg-in-turn helps with a QEMU before 8.1; one that is just slow needs a longer --timeout"
        }
        _ => return error.into(),
    };
    match Err::<(), _>(error).advise(advice) {
        Err(error) => error,
        Ok(()) => anyhow::anyhow!(advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_units() {
        assert_eq!([memory("512"), memory("512M"), memory("2G")], [Ok(512), Ok(512), Ok(2048)]);
        for bad in ["", "G", "x", "-1", "4294967295G"] {
            assert!(memory(bad).is_err(), "{bad}");
        }
    }
}
