//! Describes a guest, and gathers what it is made of.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::accel::{Decision, Probe};
use super::boot::{self, Plan};
use super::cache::Cache;
use super::initramfs::{self, Extra};
use super::link::ConsoleWatcher;
use super::machine::{Machine, Wiring, find_qemu};
use super::modules::{Source, TRANSPORT, WELCOME};
use super::package::{self, KernelPackage};
use super::topology::check_capacities;
use super::{Acceleration, Arch, Guest, GuestError, Smp, Stopper};

/// The Linux kernel's limit for names in a Unix socket's address, without room for ours (bytes).
const LONGEST_AREA: usize = 90;
const BINDER_DEVICES: &str = "devices=binder,hwbinder,vndbinder";

/// Which kernel a guest boots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kernel {
    /// The distribution's newest.
    #[default]
    Distribution,
    /// The distribution's newest with full preemption (PREEMPT_RT).
    RealTime,
    /// A package of the distribution by name, such as `linux-image-6.1.0-56-amd64`.
    Package(String),
    /// A boot image (`bzImage` or `Image`).
    Image {
        /// The file.
        image: PathBuf,
        /// A folder below which its modules are; none if all it needs is built in.
        modules: Option<PathBuf>,
    },
}

/// Describes a guest; see [`Guest::builder`].
pub struct Builder {
    arch: Option<Arch>,
    kernel: Kernel,
    smp: Option<Smp>,
    memory_mib: u32,
    acceleration: Acceleration,
    capacities: Vec<u32>,
    icount: bool,
    modules: Vec<(String, String)>,
    extras: Vec<Extra>,
    append: Vec<String>,
    qemu_arguments: Vec<OsString>,
    busybox: Option<PathBuf>,
    cache: Option<PathBuf>,
    refresh: bool,
    limit: Duration,
    answer_limit: Duration,
    quiet: bool,
    stopper: Stopper,
    progress: Box<dyn Fn(&str) + Send>,
    watcher: Option<ConsoleWatcher>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            arch: None,
            kernel: Kernel::default(),
            smp: None,
            memory_mib: 1024,
            acceleration: Acceleration::default(),
            capacities: Vec::new(),
            icount: false,
            modules: Vec::new(),
            extras: Vec::new(),
            append: Vec::new(),
            qemu_arguments: Vec::new(),
            busybox: None,
            cache: None,
            refresh: false,
            limit: Duration::from_secs(180),
            answer_limit: super::ANSWER_LIMIT,
            quiet: true,
            stopper: Stopper::new(),
            progress: Box::new(|_| {}),
            watcher: None,
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("arch", &self.arch)
            .field("kernel", &self.kernel)
            .field("smp", &self.smp)
            .field("memory_mib", &self.memory_mib)
            .field("capacities", &self.capacities)
            .field("modules", &self.modules)
            .field("extras", &self.extras)
            .field("append", &self.append)
            .finish_non_exhaustive()
    }
}

/// What a guest is made of, fetched and found, before it is booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Where the kernel comes from: a package and its version, or a file.
    pub kernel: String,
    /// The boot image.
    pub image: PathBuf,
    /// The static busybox.
    pub busybox: PathBuf,
    /// QEMU's emulator.
    pub qemu: PathBuf,
}

struct Gathered {
    prepared: Prepared,
    modules: Source,
    cache: Cache,
    arch: Arch,
}

impl Builder {
    /// Sets the instruction set; the host's otherwise.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = Some(arch);
        self
    }

    /// Sets the kernel; the distribution's otherwise.
    #[must_use]
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Sets the CPUs; 2 otherwise, or as many as there are capacities.
    #[must_use]
    pub fn smp(mut self, smp: Smp) -> Self {
        self.smp = Some(smp);
        self
    }

    /// Sets the memory in MiB; 1024 otherwise.
    #[must_use]
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Sets how QEMU runs the guest; with KVM where that works otherwise.
    #[must_use]
    pub fn acceleration(mut self, acceleration: Acceleration) -> Self {
        self.acceleration = acceleration;
        self
    }

    /// Tells an arm64 kernel how fast each CPU is, 1024 for the fastest.
    ///
    /// This moves the scheduler's decisions only: QEMU runs all CPUs at the same speed.
    #[must_use]
    pub fn cpu_capacities(mut self, capacities: impl Into<Vec<u32>>) -> Self {
        self.capacities = capacities.into();
        self
    }

    /// Lets each instruction take a fixed time of the guest's clock, which makes a guest of one CPU
    /// nearly free of what else the host does, and slow.
    #[must_use]
    pub fn counted_instructions(mut self, counted: bool) -> Self {
        self.icount = counted;
        self
    }

    /// Loads a kernel module, after those it depends on.
    #[must_use]
    pub fn module(self, name: impl Into<String>) -> Self {
        self.module_with(name, "")
    }

    /// Loads a kernel module with parameters, such as `numdummies=2`.
    #[must_use]
    pub fn module_with(mut self, name: impl Into<String>, parameters: impl Into<String>) -> Self {
        self.modules.push((super::elf::module_name(&name.into()), parameters.into()));
        self
    }

    /// Copies a program of the host to a path in the guest, with its libraries if it is not static.
    #[must_use]
    pub fn program(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.extras.push(Extra { host: host.into(), guest: guest.into(), is_program: true });
        self
    }

    /// Copies a file of the host to a path in the guest.
    #[must_use]
    pub fn file(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.extras.push(Extra { host: host.into(), guest: guest.into(), is_program: false });
        self
    }

    /// Adds words to the kernel's command line.
    #[must_use]
    pub fn append(mut self, words: impl Into<String>) -> Self {
        self.append.push(words.into());
        self
    }

    /// Adds an argument to QEMU's command line.
    #[must_use]
    pub fn qemu_arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.qemu_arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Uses this static busybox; the distribution's otherwise.
    #[must_use]
    pub fn busybox(mut self, file: impl Into<PathBuf>) -> Self {
        self.busybox = Some(file.into());
        self
    }

    /// Keeps fetched packages in this folder; see [`CACHE_DIR`](super::CACHE_DIR) for the default.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Asks the package manager whether there is anything newer than in the cache.
    #[must_use]
    pub fn refresh(mut self, refresh: bool) -> Self {
        self.refresh = refresh;
        self
    }

    /// Sets how long the boot may take; 180 s otherwise.
    #[must_use]
    pub fn boot_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how long the guest may take to answer when a command's time is up, before it is said to
    /// hang; 20 s otherwise.
    #[must_use]
    pub fn answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = limit;
        self
    }

    /// Has the kernel print all its messages to the console.
    #[must_use]
    pub fn verbose_console(mut self, verbose: bool) -> Self {
        self.quiet = !verbose;
        self
    }

    /// Lets this stopper end the guest, from now on.
    #[must_use]
    pub fn stopper(mut self, stopper: &Stopper) -> Self {
        self.stopper = stopper.clone();
        self
    }

    /// Tells what is being done when it takes a while, such as a download.
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(&str) + Send + 'static) -> Self {
        self.progress = Box::new(tell);
        self
    }

    /// Is called with each line of the kernel's console as it comes, on a thread of its own.
    #[must_use]
    pub fn on_console(mut self, watch: impl FnMut(&str) + Send + 'static) -> Self {
        self.watcher = Some(Box::new(watch));
        self
    }

    /// Fetches what the guest is made of, without booting it.
    ///
    /// # Errors
    ///
    /// If QEMU or the package manager is missing, or a package cannot be had.
    pub fn prepare(&self) -> Result<Prepared, GuestError> {
        Ok(self.gather()?.prepared)
    }

    /// Boots the guest and waits until it takes commands.
    ///
    /// # Errors
    ///
    /// If what it is made of cannot be had, if the options contradict each other, or if the kernel
    /// does not come up.
    pub fn boot(mut self) -> Result<Guest, GuestError> {
        let watcher = self.watcher.take();
        let (machine, acceleration, kernel, area) = self.assemble()?;
        (self.progress)(&format!("booting {kernel}"));
        boot::boot(Plan {
            machine,
            area,
            kernel,
            acceleration: acceleration.reason,
            limit: self.limit,
            answer_limit: self.answer_limit,
            stopper: self.stopper,
            watcher,
        })
    }

    /// Boots the guest with a shell on this terminal and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`boot`](Self::boot).
    pub fn shell(self) -> Result<ExitStatus, GuestError> {
        let (machine, _, kernel, area) = self.assemble()?;
        (self.progress)(&format!("booting {kernel}"));
        let mut command = machine.command(&Wiring::Terminal, area.path())?;
        command.status().map_err(GuestError::io("run", &machine.qemu))
    }

    fn assemble(&self) -> Result<(Machine, Decision, String, tempfile::TempDir), GuestError> {
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

    fn gather(&self) -> Result<Gathered, GuestError> {
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
        let default = match self.capacities.len() {
            0 if self.icount => 1,
            0 => 2,
            count => u32::try_from(count).unwrap_or(u32::MAX),
        };
        let smp = self.smp.clone().map_or_else(|| Smp::new(default), Ok)?;
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
