//! From the description of a guest to what QEMU is given: checks, fetches, packs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Builder, Kernel, Prepared};
use crate::accel::{Decision, Probe};
use crate::cache::Cache;
use crate::initramfs;
use crate::machine::{GuestMachine, find_qemu};
use crate::modules::{Source, TRANSPORT, WELCOME};
use crate::package::{self, KernelPackage};
use crate::topology::check_capacities;
use crate::{Acceleration, Arch, GuestError, GuestSpec, Smp};

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
    pub(super) fn assemble(&self) -> Result<(GuestMachine, Decision, String, tempfile::TempDir), GuestError> {
        let spec = &self.spec;
        let smp = checked_smp(spec)?;
        let gathered = self.gather()?;
        let Gathered { prepared, modules, arch, .. } = &gathered;
        let mut needed: Vec<String> = TRANSPORT.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters: Vec<_> = spec.modules.iter().map(|module| with_parameters(module)).collect();
        needed.extend(parameters.iter().map(|(name, _)| name.clone()));
        let load = modules.load_order(&needed, &WELCOME)?;
        parameters.push((WELCOME[0].to_owned(), BINDER_DEVICES.to_owned()));
        let content = initramfs::pack(*arch, &prepared.busybox, &load, &parameters, &self.extras)?;
        let acceleration = self.accelerate(&gathered)?;
        let area = area()?;
        let initrd = area.path().join("initrd");
        std::fs::write(&initrd, content).map_err(GuestError::io("write", &initrd))?;
        let machine = GuestMachine {
            arch: *arch,
            qemu: prepared.qemu.clone(),
            kvm: acceleration.kvm,
            smp,
            memory_mib: spec.memory_mib,
            kernel: prepared.image.clone(),
            initrd,
            append: spec.append.clone(),
            capacities: spec.cpu_capacity.clone(),
            icount: spec.icount,
            in_turn: spec.accel == Acceleration::TcgInTurn,
            quiet: self.quiet,
            extra: spec.qemu_args.iter().map(OsString::from).collect(),
        };
        Ok((machine, acceleration, prepared.kernel.clone(), area))
    }

    pub(super) fn gather(&self) -> Result<Gathered, GuestError> {
        let arch = self.spec.arch.or_else(Arch::host).ok_or_else(|| {
            GuestError::Options(
                "no guest can be of this machine's architecture: name one of x86_64, arm64".into(),
            )
        })?;
        let qemu = find_qemu(arch)?;
        let cache = Cache::open(self.cache.as_deref())?;
        let fetch = |name: &str| KernelPackage::fetch(&cache, arch, name, self.refresh, &self.progress);
        let packaged = match &self.spec.kernel {
            Kernel::Distribution => Some(fetch(&format!("linux-image-{}", arch.debian()))?),
            Kernel::RealTime => Some(fetch(&format!("linux-image-rt-{}", arch.debian()))?),
            Kernel::Package(name) => Some(fetch(name)?),
            Kernel::Image { .. } => None,
        };
        let (kernel, image, modules) = match (packaged, &self.spec.kernel) {
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
        match self.spec.accel {
            Acceleration::Kvm if self.spec.icount => {
                Err(GuestError::Options("instructions cannot be counted with KVM: use tcg".to_owned()))
            }
            Acceleration::Kvm => asked(true),
            Acceleration::Tcg | Acceleration::TcgInTurn => asked(false),
            Acceleration::Auto if self.spec.icount => {
                Ok(Decision { kvm: false, reason: "instructions are counted".to_owned() })
            }
            Acceleration::Auto => Probe {
                arch: gathered.arch,
                qemu: &gathered.prepared.qemu,
                kernel: &gathered.prepared.image,
                proven: !matches!(self.spec.kernel, Kernel::Image { .. }),
                initramfs: &initramfs::pack(gathered.arch, &gathered.prepared.busybox, &[], &[], &[])?,
                cache: &gathered.cache,
                progress: &self.progress,
            }
            .decide(),
        }
    }
}

/// The name of a module as the kernel has it, and its parameters.
fn with_parameters(module: &str) -> (String, String) {
    let (name, parameters) = module.split_once(':').unwrap_or((module, ""));
    (crate::elf::module_name(name), parameters.to_owned())
}

/// What QEMU and the kernel would refuse late or in silence is refused here.
fn checked_smp(spec: &GuestSpec) -> Result<Smp, GuestError> {
    let smp = spec.smp.clone().map_or_else(|| Smp::usual(spec.cpu_capacity.len(), spec.icount), Ok)?;
    if !spec.cpu_capacity.is_empty() {
        if spec.arch.or_else(Arch::host) != Some(Arch::Arm64) {
            return Err(GuestError::Options(
                "CPU capacities are told by a device tree, which only arm64 guests have: add `--arch arm64`"
                    .to_owned(),
            ));
        }
        check_capacities(&spec.cpu_capacity, smp.cpus())?;
    }
    if spec.icount && smp.cpus() != 1 {
        return Err(GuestError::Options("with counted instructions a guest has one CPU".to_owned()));
    }
    if !(128..=1 << 20).contains(&spec.memory_mib) {
        let asked = spec.memory_mib;
        return Err(GuestError::Options(format!("a guest has 128 MiB of memory or more, not {asked}")));
    }
    if spec.append.iter().any(|words| words.contains(['\n', '\0'])) {
        return Err(GuestError::Options("a kernel's command line is one line".to_owned()));
    }
    Ok(smp)
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

    #[test]
    fn contradictions_are_refused_before_anything_is_fetched() {
        for (spec, reason) in [
            (r#"{ "arch": "x86_64", "cpu_capacity": [512, 1024] }"#, "--arch arm64"),
            (r#"{ "arch": "arm64", "cpu_capacity": [1024], "smp": "2" }"#, "2 CPUs"),
            (r#"{ "icount": true, "smp": "2" }"#, "one CPU"),
            (r#"{ "memory_mib": 1 }"#, "128 MiB"),
            (r#"{ "append": ["a\nb"] }"#, "one line"),
        ] {
            let error = checked_smp(&serde_json::from_str(spec).expect(spec)).expect_err(spec).to_string();
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }

    #[test]
    fn capacities_say_how_many_cpus_there_are() {
        let spec = r#"{ "arch": "arm64", "cpu_capacity": [446, 446, 1024] }"#;
        assert_eq!(checked_smp(&serde_json::from_str(spec).expect(spec)).expect("three").cpus(), 3);
    }

    #[test]
    fn a_module_has_its_parameters_behind_a_colon() {
        assert_eq!(with_parameters("dummy:numdummies=2"), ("dummy".into(), "numdummies=2".into()));
        assert_eq!(with_parameters("sch_tbf"), ("sch_tbf".into(), String::new()));
    }

    #[test]
    fn an_image_that_is_none_is_refused() {
        assert!(check_image(Path::new("/no/such/image")).is_err());
        assert!(check_image(Path::new("/")).is_err_and(|why| why.to_string().contains("bzImage")));
    }
}
