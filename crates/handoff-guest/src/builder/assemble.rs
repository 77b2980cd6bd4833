//! From the description of a guest to what QEMU is given: checks, fetches, packs.

use std::path::{Path, PathBuf};

use super::{Builder, Kernel, Prepared};
use crate::accel::{Decision, Probe};
use crate::cache::Cache;
use crate::initramfs;
use crate::machine::{Machine, find_qemu};
use crate::modules::{Source, TRANSPORT, WELCOME};
use crate::package::{self, KernelPackage};
use crate::topology::check_capacities;
use crate::{Acceleration, Arch, GuestError, Smp};

/// The Linux kernel's limit for names in a Unix socket's address, without room for ours (bytes).
const LONGEST_AREA: usize = 90;
const BINDER_DEVICES: &str = "devices=binder,hwbinder,vndbinder";

pub(super) struct Gathered {
    pub(super) prepared: Prepared,
    modules: Source,
    cache: Cache,
    arch: Arch,
}

impl Builder {
    pub(super) fn assemble(&self) -> Result<(Machine, Decision, String, tempfile::TempDir), GuestError> {
        let smp = self.checked_smp()?;
        let gathered = self.gather()?;
        let Gathered { prepared, modules, arch, .. } = &gathered;
        let mut needed: Vec<String> = TRANSPORT.iter().map(|name| (*name).to_owned()).collect();
        needed.extend(self.modules.iter().map(|(name, _)| name.clone()));
        let load = modules.load_order(&needed, &WELCOME)?;
        let mut parameters = self.modules.clone();
        parameters.push((WELCOME[0].to_owned(), BINDER_DEVICES.to_owned()));
        let content = initramfs::pack(*arch, &prepared.busybox, &load, &parameters, &self.extras)?;
        let acceleration = self.accelerate(&gathered)?;
        let area = area()?;
        let initrd = area.path().join("initrd");
        std::fs::write(&initrd, content).map_err(GuestError::io("write", &initrd))?;
        let machine = Machine {
            arch: *arch,
            qemu: prepared.qemu.clone(),
            kvm: acceleration.kvm,
            smp,
            memory_mib: self.memory_mib,
            kernel: prepared.image.clone(),
            initrd,
            append: self.append.clone(),
            capacities: self.capacities.clone(),
            icount: self.icount,
            quiet: self.quiet,
            extra: self.qemu_arguments.clone(),
        };
        Ok((machine, acceleration, prepared.kernel.clone(), area))
    }

    pub(super) fn gather(&self) -> Result<Gathered, GuestError> {
        let arch = self.arch.or_else(Arch::host).ok_or_else(|| {
            GuestError::Options(
                "no guest can be of this machine's architecture: name one of x86_64, arm64".into(),
            )
        })?;
        let qemu = find_qemu(arch)?;
        let cache = Cache::open(self.cache.as_deref())?;
        let fetch = |name: &str| KernelPackage::fetch(&cache, arch, name, self.refresh, &self.progress);
        let packaged = match &self.kernel {
            Kernel::Distribution => Some(fetch(&format!("linux-image-{}", arch.debian()))?),
            Kernel::RealTime => Some(fetch(&format!("linux-image-rt-{}", arch.debian()))?),
            Kernel::Package(name) => Some(fetch(name)?),
            Kernel::Image { .. } => None,
        };
        let (kernel, image, modules) = match (packaged, &self.kernel) {
            (Some(package), _) => {
                (package.identity.clone(), package.image(), Source::Package(package, cache.clone()))
            }
            (None, Kernel::Image { image, modules }) => {
                check_image(image)?;
                let modules = modules.as_deref().map_or(Ok(Source::None), Source::folder)?;
                (image.display().to_string(), image.clone(), modules)
            }
            (None, _) => return Err(GuestError::Options("no kernel was named".to_owned())),
        };
        let busybox = match &self.busybox {
            Some(file) => file.clone(),
            None => package::busybox(&cache, arch, self.refresh, &self.progress)?,
        };
        Ok(Gathered { prepared: Prepared { kernel, image, busybox, qemu }, modules, cache, arch })
    }

    fn accelerate(&self, gathered: &Gathered) -> Result<Decision, GuestError> {
        let asked = |kvm| Ok(Decision { kvm, reason: "it was asked for".to_owned() });
        match self.acceleration {
            Acceleration::Kvm if self.icount => {
                Err(GuestError::Options("instructions cannot be counted with KVM: use tcg".to_owned()))
            }
            Acceleration::Kvm => asked(true),
            Acceleration::Tcg => asked(false),
            Acceleration::Auto if self.icount => {
                Ok(Decision { kvm: false, reason: "instructions are counted".to_owned() })
            }
            Acceleration::Auto => Probe {
                arch: gathered.arch,
                qemu: &gathered.prepared.qemu,
                kernel: &gathered.prepared.image,
                proven: !matches!(self.kernel, Kernel::Image { .. }),
                initramfs: &initramfs::pack(gathered.arch, &gathered.prepared.busybox, &[], &[], &[])?,
                cache: &gathered.cache,
                progress: &self.progress,
            }
            .decide(),
        }
    }

    fn checked_smp(&self) -> Result<Smp, GuestError> {
        let smp = self.smp.clone().map_or_else(|| Smp::usual(self.capacities.len(), self.icount), Ok)?;
        if !self.capacities.is_empty() {
            if self.arch.or_else(Arch::host) != Some(Arch::Arm64) {
                return Err(GuestError::Options(
                    "CPU capacities are told by a device tree, which only arm64 guests have: add `--arch arm64`"
                        .to_owned(),
                ));
            }
            check_capacities(&self.capacities, smp.cpus())?;
        }
        if self.icount && smp.cpus() != 1 {
            return Err(GuestError::Options("with counted instructions a guest has one CPU".to_owned()));
        }
        if !(128..=1 << 20).contains(&self.memory_mib) {
            let asked = self.memory_mib;
            return Err(GuestError::Options(format!("a guest has 128 MiB of memory or more, not {asked}")));
        }
        if self.append.iter().any(|words| words.contains(['\n', '\0'])) {
            return Err(GuestError::Options("a kernel's command line is one line".to_owned()));
        }
        Ok(smp)
    }
}

fn check_image(image: &Path) -> Result<(), GuestError> {
    let data = std::fs::metadata(image).map_err(GuestError::io("find the kernel image", image))?;
    if data.is_file() && data.len() > 0 {
        return Ok(());
    }
    Err(GuestError::Options(format!(
        "{} is no kernel image: name a bzImage (x86-64) or an Image (arm64)",
        image.display()
    )))
}

/// A folder for the guest's sockets and files, with a name that is short enough for sockets.
fn area() -> Result<tempfile::TempDir, GuestError> {
    let mut folder = std::env::temp_dir();
    if folder.as_os_str().len() > LONGEST_AREA - "/handoff-guest-XXXXXX".len() {
        folder = PathBuf::from("/tmp");
    }
    tempfile::Builder::new()
        .prefix("handoff-guest-")
        .tempdir_in(&folder)
        .map_err(GuestError::io("make a folder in", &folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Guest;

    fn refused(builder: &Builder, part: &str) {
        let error = builder.checked_smp().expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn contradictions_are_refused_before_anything_is_fetched() {
        let two = || "2".parse::<Smp>().expect("two");
        refused(&Guest::builder().arch(Arch::X86_64).cpu_capacities([512, 1024]), "--arch arm64");
        refused(&Guest::builder().arch(Arch::Arm64).cpu_capacities([1024]).smp(two()), "2 CPUs");
        refused(&Guest::builder().counted_instructions(true).smp(two()), "one CPU");
        refused(&Guest::builder().memory_mib(1), "128 MiB");
        refused(&Guest::builder().append("a\nb"), "one line");
    }

    #[test]
    fn capacities_say_how_many_cpus_there_are() {
        let builder = Guest::builder().arch(Arch::Arm64).cpu_capacities([446, 446, 1024]);
        assert_eq!(builder.checked_smp().expect("three").cpus(), 3);
    }

    #[test]
    fn an_image_that_is_none_is_refused() {
        assert!(check_image(Path::new("/no/such/image")).is_err());
        assert!(check_image(Path::new("/")).is_err_and(|why| why.to_string().contains("bzImage")));
    }
}
