//! Describes a guest.

mod assemble;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::boot::{self, BootPlan};
use super::initramfs::Extra;
use super::link::ConsoleWatcher;
use super::machine::Wiring;
use super::spec::KernelForm;
use super::{Acceleration, Arch, Guest, GuestError, GuestSpec, Smp, Stopper};

/// Which kernel a guest boots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "KernelForm", into = "KernelForm")]
#[non_exhaustive]
pub enum Kernel {
    #[default]
    Distribution,
    /// The distribution's newest with full preemption (PREEMPT_RT).
    RealTime,
    /// A package of the distribution by name, such as `linux-image-6.1.0-56-amd64`; of another suite than the system's
    /// with its name behind it, as apt has it: `linux-image-amd64/trixie-backports`.
    Package(String),
    /// A boot image (`bzImage` or `Image`).
    Image {
        image: PathBuf,
        /// A folder below which its modules are; none if all it needs is built in.
        modules: Option<PathBuf>,
    },
}

/// What the host needs to boot a [`GuestSpec`]; see [`Guest::builder`] and [`GuestSpec::builder`].
pub struct Builder {
    spec: GuestSpec,
    extras: Vec<Extra>,
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

impl From<GuestSpec> for Builder {
    fn from(spec: GuestSpec) -> Self {
        Self {
            spec,
            extras: Vec::new(),
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
            .field("spec", &self.spec)
            .field("extras", &self.extras)
            .finish_non_exhaustive()
    }
}

/// What a guest is made of, fetched and found, before it is booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Where the kernel comes from: a package and its version, or a file.
    pub kernel: String,
    pub image: PathBuf,
    pub busybox: PathBuf,
    pub qemu: PathBuf,
}

impl Builder {
    /// Sets the instruction set; the host's otherwise.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.spec.arch = Some(arch);
        self
    }

    /// Sets the kernel; the distribution's otherwise.
    #[must_use]
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.spec.kernel = kernel;
        self
    }

    /// Sets the CPUs; 2 otherwise, or as many as there are capacities.
    #[must_use]
    pub fn smp(mut self, smp: Smp) -> Self {
        self.spec.smp = Some(smp);
        self
    }

    /// Sets the memory in MiB; 1024 otherwise.
    #[must_use]
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.spec.memory_mib = mib;
        self
    }

    /// Sets how QEMU runs the guest; with KVM where that works otherwise.
    #[must_use]
    pub fn acceleration(mut self, acceleration: Acceleration) -> Self {
        self.spec.accel = acceleration;
        self
    }

    /// Tells an arm64 kernel how fast each CPU is, 1024 for the fastest.
    ///
    /// This moves the scheduler's decisions only: QEMU runs all CPUs at the same speed.
    #[must_use]
    pub fn cpu_capacities(mut self, capacities: impl Into<Vec<u32>>) -> Self {
        self.spec.cpu_capacity = capacities.into();
        self
    }

    /// Loads a kernel module, after those it depends on; parameters stand behind a colon: `dummy:numdummies=2`.
    #[must_use]
    pub fn module(mut self, module: impl Into<String>) -> Self {
        self.spec.modules.push(module.into());
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
        self.spec.append.push(words.into());
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
        boot::boot(BootPlan {
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
    pub fn shell(self) -> Result<ExitStatus, GuestError> {
        let (machine, _, kernel, area) = self.assemble()?;
        (self.progress)(&format!("booting {kernel}"));
        let mut command = machine.command(&Wiring::Terminal, area.path())?;
        command.status().map_err(GuestError::io("run", &machine.qemu))
    }
}
