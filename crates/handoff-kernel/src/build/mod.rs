//! Builds kernels: a tree, a base configuration and fragments become a boot image in a folder of its
//! own, and the tree stays as it was.
//!
//! ```no_run
//! use handoff_kernel::build::KernelBuild;
//!
//! # fn main() -> Result<(), handoff_kernel::build::BuildError> {
//! let built = KernelBuild::new("linux-6.1", "build")
//!     .fragments(&["guest".to_owned()])?
//!     .visible("kernel/sched/fair.c")
//!     .run()?;
//! println!("{} in {:.0?}", built.image.display(), built.elapsed);
//! # Ok(())
//! # }
//! ```
//!
//! A build folder stays where it was made: objects hold its path, and moving it costs a full build.

mod arch;
mod config;
mod error;
mod fragment;
mod kconfig;
mod log;
mod make;
mod source;
mod toolchain;
mod tree;

pub use arch::KernelArch;
pub use config::{BadLine, Overridden, RequestedConfig, Unmet, Value};
pub use error::BuildError;
pub(crate) use fragment::is_built_in as is_built_in_fragment;
pub use log::{BuildLog, Diagnostic, Severity};
pub use source::fetch_source;
pub use toolchain::Toolchain;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use handoff_guest::Stopper;
use make::Make;

/// Keeps a file's small static functions out of line, so that tracers see them (GCC).
const VISIBLE_FLAGS: &str = "-fno-inline-functions-called-once -fno-inline-small-functions";
/// Remembers what the configuration was made of.
pub(crate) const RECIPE: &str = ".handoff-config";
const LOG: &str = "build.log";

/// What the configuration begins with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Base {
    /// `tinyconfig`: as little as possible.
    #[default]
    Tiny,
    /// `defconfig`: what the architecture's maintainers think sensible.
    Default,
    /// A configuration file, such as a distribution's `/boot/config-*`.
    File(PathBuf),
}

/// A kernel that is to be built.
#[derive(Debug, Clone)]
pub struct KernelBuild {
    tree: PathBuf,
    folder: PathBuf,
    arch: Option<KernelArch>,
    base: Base,
    asked: RequestedConfig,
    visible: Vec<PathBuf>,
    counted: Vec<PathBuf>,
    modules: bool,
    ccache: bool,
    jobs: usize,
    toolchain: Option<Toolchain>,
    stopper: Stopper,
}

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Built {
    pub image: PathBuf,
    /// The kernel's release, as `uname -r` will say.
    pub release: String,
    pub config: PathBuf,
    pub log: PathBuf,
    /// Objects that were compiled this time, those that ccache had included.
    pub compiled: usize,
    /// How long it took, from the configuration to the image.
    pub elapsed: Duration,
    /// What the compiler warned of.
    pub warnings: Vec<Diagnostic>,
    /// Symbols that were asked for twice, differently.
    pub overridden: Vec<Overridden>,
    /// Whether ccache was used.
    pub ccache: bool,
    /// What else a reader should know of this build, such as other files that a switch reached.
    pub notes: Vec<String>,
}

impl KernelBuild {
    /// A build of the kernel in `tree`, in `folder`, with the tiny configuration.
    pub fn new(tree: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            tree: tree.into(),
            folder: folder.into(),
            arch: None,
            base: Base::default(),
            asked: RequestedConfig::default(),
            visible: Vec::new(),
            counted: Vec::new(),
            modules: false,
            ccache: true,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            toolchain: None,
            stopper: Stopper::new(),
        }
    }

    /// Sets the architecture; the host's otherwise.
    #[must_use]
    pub fn arch(mut self, arch: KernelArch) -> Self {
        self.arch = Some(arch);
        self
    }

    /// Sets what the configuration begins with.
    #[must_use]
    pub fn base(mut self, base: Base) -> Self {
        self.base = base;
        self
    }

    /// Asks for the settings of a fragment, by its text and a name for messages.
    pub fn fragment(mut self, name: &str, text: &str) -> Result<Self, BuildError> {
        self.asked.add(text, name)?;
        Ok(self)
    }

    /// Asks for the settings of fragments by their names: `guest` (what guests of handoff need), `binder-c` and
    /// `binder-rust` (which driver), `none`, or files. The architecture must be set before.
    pub fn fragments(mut self, names: &[String]) -> Result<Self, BuildError> {
        let arch = self.arch.or_else(KernelArch::host);
        for (name, text) in fragment::named(names, arch, &self.tree)? {
            self = self.fragment(&name, &text)?;
        }
        Ok(self)
    }

    /// Takes the Rust tool-chain that [`Toolchain::fetch`] gave, before the system's.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Keeps the small static functions of this file of the tree out of line, so that they can be
    /// traced.
    #[must_use]
    pub fn visible(mut self, file: impl Into<PathBuf>) -> Self {
        self.visible.push(file.into());
        self
    }

    /// Counts the branches that are taken in this file of the tree (gcov; asks for what that needs).
    #[must_use]
    pub fn count_branches(mut self, file: impl Into<PathBuf>) -> Self {
        self.counted.push(file.into());
        self
    }

    /// Builds modules too, where the configuration has any.
    #[must_use]
    pub fn modules(mut self, modules: bool) -> Self {
        self.modules = modules;
        self
    }

    /// Uses ccache where it is installed, as is the default, or not.
    #[must_use]
    pub fn ccache(mut self, ccache: bool) -> Self {
        self.ccache = ccache;
        self
    }

    /// Sets how many jobs run at once; as many as CPUs otherwise.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Lets this stopper end the build.
    #[must_use]
    pub fn stopper(mut self, stopper: &Stopper) -> Self {
        self.stopper = stopper.clone();
        self
    }

    /// Configures and builds.
    ///
    /// # Errors
    ///
    /// If the tree is no kernel's, tools are missing, an asked symbol does not survive, or it does
    /// not compile.
    pub fn run(&self) -> Result<Built, BuildError> {
        self.run_watched(&mut |_| {})
    }

    /// Configures and builds, and tells each line of make's output.
    pub fn run_watched(&self, watch: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
        let started = Instant::now();
        let arch = self.arch.or_else(KernelArch::host).ok_or_else(|| {
            BuildError::Options("no kernel can be built for this machine's architecture: name one".to_owned())
        })?;
        tree::check(&self.tree)?;
        let ccache = self.ccache && make::on_path("ccache");
        let make = Make::new(&self.tree, &self.folder, arch, ccache, self.jobs, &self.stopper)?
            .with_toolchain(self.toolchain.as_ref());
        tree::check_age(&self.tree, || make.gcc_version(), matches!(self.base, Base::Tiny))?;
        let asked = self.asked()?;
        if asked.is_set("CONFIG_RUST") {
            make.check_rust()?;
        }
        let config = self.configure(&make, &asked, arch)?;
        let (switches, notes) = self.switches()?;
        let mut targets = vec![arch.target().to_owned()];
        if self.modules && config.lines().any(|line| line.ends_with("=m")) {
            targets.push("modules".to_owned());
        }
        let (text, success) = make.build(&targets, &switches, watch)?;
        let log_file = self.folder.join(LOG);
        let log = BuildLog::parse(&text);
        let ordered = if success { text } else { log.with_first_error_first(&text) };
        std::fs::write(&log_file, ordered).map_err(BuildError::io("write", &log_file))?;
        if !success {
            return Err(failure(log, log_file));
        }
        let image = self.folder.join(arch.image());
        if !image.is_file() {
            return Err(BuildError::NoImage { image, log: log_file });
        }
        Ok(Built {
            image,
            release: self.read("include/config/kernel.release")?.trim().to_owned(),
            config: self.folder.join(".config"),
            log: log_file,
            compiled: log.compiled,
            elapsed: started.elapsed(),
            warnings: log.warnings,
            overridden: asked.overridden().to_vec(),
            ccache,
            notes,
        })
    }

    /// Makes the configuration, unless the one that is there came of the same recipe, and gives it.
    fn configure(
        &self,
        make: &Make<'_>,
        asked: &RequestedConfig,
        arch: KernelArch,
    ) -> Result<String, BuildError> {
        let base = self.base_text()?;
        let recipe = format!("{}\n{base}\n{}", make.identity(), asked.to_text());
        let recipe_file = self.folder.join(RECIPE);
        let config_file = self.folder.join(".config");
        let same = std::fs::read_to_string(&recipe_file).is_ok_and(|last| last == recipe);
        if !(same && config_file.is_file()) {
            drop(std::fs::remove_file(&recipe_file));
            match &self.base {
                Base::File(_) => {
                    std::fs::write(&config_file, &base).map_err(BuildError::io("write", &config_file))?;
                }
                Base::Tiny | Base::Default => make.configure(&base)?,
            }
            let mut config = self.read(".config")?;
            config.push('\n');
            config.push_str(&asked.to_text());
            std::fs::write(&config_file, config).map_err(BuildError::io("write", &config_file))?;
            make.configure("olddefconfig")?;
        }
        let config = self.read(".config")?;
        let unmet = asked.unmet(&config, &self.tree, arch);
        if !unmet.is_empty() {
            return Err(BuildError::Unmet { unmet });
        }
        std::fs::write(&recipe_file, recipe).map_err(BuildError::io("write", &recipe_file))?;
        Ok(config)
    }

    /// All settings that are asked for.
    fn asked(&self) -> Result<RequestedConfig, BuildError> {
        let mut asked = self.asked.clone();
        if !self.counted.is_empty() {
            asked.add("CONFIG_DEBUG_FS=y\nCONFIG_GCOV_KERNEL=y\n", "counting branches")?;
        }
        Ok(asked)
    }

    /// The target that makes what the configuration begins with, or its text.
    fn base_text(&self) -> Result<String, BuildError> {
        match &self.base {
            Base::Tiny => Ok("tinyconfig".to_owned()),
            Base::Default => Ok("defconfig".to_owned()),
            Base::File(file) => std::fs::read_to_string(file).map_err(BuildError::io("read", file)),
        }
    }

    /// Whether a recipe that a build left asks for the configuration that this one asks for, wherever the
    /// tree was.
    pub(crate) fn is_made_of(&self, recipe: &str) -> Result<bool, BuildError> {
        let own = format!("{}\n{}", self.base_text()?, self.asked()?.to_text());
        Ok(recipe.split_once('\n').is_some_and(|(_, made)| made == own))
    }

    /// make's variables for single files, and what to know of them.
    fn switches(&self) -> Result<(Vec<String>, Vec<String>), BuildError> {
        let (mut switches, mut notes) = (Vec::new(), Vec::new());
        for file in &self.visible {
            let object = tree::object(&self.tree, file)?;
            let variable = format!("CFLAGS_{object}");
            let own = tree::own_flags(&self.tree, file, &variable)?;
            switches.push(format!("{variable}={}", [own.as_str(), VISIBLE_FLAGS].join(" ").trim_start()));
            notes.extend(also_reached(&self.tree, file));
        }
        for file in &self.counted {
            let object = tree::object(&self.tree, file)?;
            switches.push(format!("GCOV_PROFILE_{object}=y"));
            notes.extend(also_reached(&self.tree, file));
        }
        Ok((switches, notes))
    }

    fn read(&self, name: &str) -> Result<String, BuildError> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).map_err(BuildError::io("read", &path))
    }
}

/// Kbuild knows a file in such a switch by its last name only.
fn also_reached(tree: &Path, file: &Path) -> Option<String> {
    let others = tree::namesakes(tree, file);
    (!others.is_empty()).then(|| {
        format!("the switch for {} reaches its namesakes too: {}", file.display(), others.join(", "))
    })
}

fn failure(log: BuildLog, file: PathBuf) -> BuildError {
    let more = log.errors.len().saturating_sub(1);
    let first = log.errors.into_iter().next().unwrap_or_else(|| Diagnostic {
        severity: Severity::Error,
        file: String::new(),
        line: 0,
        column: 0,
        message: "make failed without saying why".to_owned(),
        context: Vec::new(),
    });
    let hint = make::missing_header(&first.message)
        .map(|package| format!("on Debian and Ubuntu run `apt-get install {package}`"));
    BuildError::Compile { first: Box::new(first), more, hint, log: file }
}
