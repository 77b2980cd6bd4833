//! The options that describe a guest.

use std::path::PathBuf;
use std::time::Duration;

use handoff_guest::{Acceleration, Arch, Builder, Guest, GuestError, Kernel, Smp};

/// Which kernel on which machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Machine {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    hardware: Hardware,
}

/// Which kernel.
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
}

/// The machine that a kernel is booted on.
#[derive(Debug, clap::Args)]
pub(crate) struct Hardware {
    /// CPUs, grouped if need be: 4, or 4,sockets=2,cores=2 [default: 2]
    #[arg(long, value_name = "CPUS", help_heading = "Guest")]
    smp: Option<Smp>,

    /// Memory in MiB, or with the unit: 512, 2G
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = memory, help_heading = "Guest")]
    memory: u32,

    /// The capacity of each CPU, 1024 for the fastest (arm64 only): 446,446,871,1024
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Guest")]
    cpu_capacity: Vec<u32>,

    /// How QEMU runs the guest: auto tries KVM first, tcg translates
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto", help_heading = "Guest")]
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

impl Machine {
    /// The guest that the options describe.
    pub(crate) fn builder(&self) -> Builder {
        let builder = self.hardware.builder().kernel(self.choice.kernel());
        match self.choice.arch {
            Some(arch) => builder.arch(arch),
            None => builder,
        }
    }

    /// The architecture of the guest.
    pub(crate) fn arch(&self) -> Option<Arch> {
        self.choice.arch.or_else(Arch::host)
    }
}

impl Choice {
    fn kernel(&self) -> Kernel {
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
        let mut builder = Guest::builder()
            .memory_mib(self.memory)
            .acceleration(self.accel)
            .cpu_capacities(self.cpu_capacity.clone())
            .counted_instructions(self.icount)
            .boot_limit(Duration::from_secs(self.boot_timeout));
        if let Some(smp) = &self.smp {
            builder = builder.smp(smp.clone());
        }
        if let Some(busybox) = &self.busybox {
            builder = builder.busybox(busybox);
        }
        if let Some(cache) = &self.cache {
            builder = builder.cache_dir(cache);
        }
        for module in &self.module {
            let (name, parameters) = module.split_once(':').unwrap_or((module, ""));
            builder = builder.module_with(name, parameters);
        }
        let builder = self.append.iter().fold(builder, |builder, words| builder.append(words));
        self.qemu_arg.iter().fold(builder, |builder, argument| builder.qemu_arg(argument))
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
        GuestError::Qemu { .. } => "check --qemu-arg, --kernel and --accel",
        GuestError::CommandTimeout { .. } => "give it longer with --timeout, or 0 for no limit",
        GuestError::Hang { .. } => {
            "run it again: an emulated kernel gets stuck at times, less often with --smp 1; one that is just slow needs a longer --timeout"
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
