//! `handoff kernel build`: a boot image from a tree and fragments.

use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use handoff_guest::Stopper;
use handoff_kernel::build::{Base, Built, KernelArch, KernelBuild, Toolchain};
use serde::Serialize;

use crate::interrupt::until_interrupted;
use crate::output::{Output, Verdict, style};

const EXAMPLES: &str = "\
Examples:
  handoff kernel build linux-6.1 --out build              a kernel for guests, with Binder
  handoff kernel build linux-6.1 --out build --fragment guest --fragment mine.config --set PSI=n
  handoff kernel build linux-6.1 --out build --visible kernel/sched/fair.c
  handoff kernel build linux-6.1 --out build-arm64 --arch arm64
  handoff kernel build linux-7.3 --out build --fragment guest --fragment binder-rust --fetch-toolchain
  handoff kernel boot build                               afterwards

The build folder may not be inside the tree, and stays where it was made: objects hold its path.";

/// Build a kernel in a folder of its own, and check that it has what was asked for.
///
/// The configuration is the base with the fragments over it. The build stops if a symbol that was asked
/// for did not survive, with the dependency that was off; and if it does not compile, with the first error
/// first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The kernel's source; it stays as it is
    #[arg(value_name = "TREE")]
    tree: PathBuf,

    /// The build folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// The architecture: x86_64, arm64 or arm [default: this machine's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<KernelArch>,

    /// Begin with tinyconfig, defconfig or a configuration file
    #[arg(long, value_name = "tiny|def|FILE", default_value = "tiny")]
    base: String,

    /// Lay this fragment over it: what guests of handoff need, which Binder driver they have (binder-c unless
    /// named), nothing, or a file (repeatable)
    #[arg(long, value_name = "guest|binder-c|binder-rust|none|FILE", default_value = "guest")]
    fragment: Vec<String>,

    /// Build with a Rust compiler and bindgen of Debian's, fetched into the cache; nothing is installed
    #[arg(long)]
    fetch_toolchain: bool,

    /// Set a symbol, after all fragments: --set PSI=y (repeatable)
    #[arg(long, value_name = "SYMBOL=VALUE")]
    set: Vec<String>,

    /// Keep the small static functions of this file out of line, so that tracers see them (repeatable)
    #[arg(long, value_name = "FILE.c")]
    visible: Vec<PathBuf>,

    /// Count which branches of this file are taken, with gcov (repeatable)
    #[arg(long, value_name = "FILE.c")]
    count_branches: Vec<PathBuf>,

    /// Build modules too
    #[arg(long)]
    modules: bool,

    /// Do not use ccache, even where it is installed
    #[arg(long)]
    no_ccache: bool,

    /// Jobs at once [default: one a CPU]
    #[arg(long, short, value_name = "N")]
    jobs: Option<usize>,
}

/// What was built, for people and for programs.
#[derive(Debug, Serialize)]
struct BuildReport {
    image: PathBuf,
    image_bytes: u64,
    release: String,
    config: PathBuf,
    log: PathBuf,
    compiled: usize,
    seconds: f64,
    ccache: bool,
    warnings: usize,
    notes: Vec<String>,
}

impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "image     {} ({:.1} MB)", self.image.display(), self.image_bytes as f64 / 1e6)?;
        writeln!(f, "release   {}", self.release)?;
        writeln!(f, "config    {}", self.config.display())?;
        writeln!(f, "log       {}", self.log.display())?;
        let ccache = if self.ccache { ", through ccache" } else { "" };
        write!(f, "compiled  {} files in {:.1} s{ccache}", self.compiled, self.seconds)
    }
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        let stopper = Stopper::new();
        let build = self.build(output)?.stopper(&stopper);
        output.note(style::paint(style::DIM, format_args!("building {}", self.tree.display())));
        let mut watch = |line: &str| {
            if output.is_verbose() {
                crate::output::say(line);
            }
        };
        let built = until_interrupted(&stopper, || Ok(build.run_watched(&mut watch)?))?;
        for one in &built.overridden {
            output.warn(format_args!(
                "{}={} was overridden with {} by {}",
                one.symbol, one.before, one.now, one.origin
            ));
        }
        built.notes.iter().for_each(|note| output.warn(note));
        if let Some(first) = built.warnings.first() {
            output.warn(format_args!("the compiler warns {} times, first: {first}", built.warnings.len()));
        }
        output.result(&report(built)?)?;
        Ok(Verdict::Pass)
    }

    fn build(&self, output: &Output) -> anyhow::Result<KernelBuild> {
        let mut build = KernelBuild::new(&self.tree, &self.out)
            .base(match self.base.as_str() {
                "tiny" => Base::Tiny,
                "def" => Base::Default,
                file => Base::File(file.into()),
            })
            .modules(self.modules)
            .ccache(!self.no_ccache);
        if let Some(arch) = self.arch {
            build = build.arch(arch);
        }
        if let Some(jobs) = self.jobs {
            build = build.jobs(jobs);
        }
        build = build.fragments(&self.fragment)?;
        if self.fetch_toolchain {
            build = build.toolchain(Toolchain::fetch(None, &|what| output.note(what))?);
        }
        for setting in &self.set {
            let line =
                if setting.starts_with("CONFIG_") { setting.clone() } else { format!("CONFIG_{setting}") };
            build = build.fragment("--set", &line)?;
        }
        let build = self.visible.iter().fold(build, |build, file| build.visible(file));
        Ok(self.count_branches.iter().fold(build, |build, file| build.count_branches(file)))
    }
}

fn report(built: Built) -> anyhow::Result<BuildReport> {
    let size = std::fs::metadata(&built.image)
        .with_context(|| format!("cannot look at {}", built.image.display()))?
        .len();
    Ok(BuildReport {
        image: built.image,
        image_bytes: size,
        release: built.release,
        config: built.config,
        log: built.log,
        compiled: built.compiled,
        seconds: built.elapsed.as_secs_f64(),
        ccache: built.ccache,
        warnings: built.warnings.len(),
        notes: built.notes,
    })
}
