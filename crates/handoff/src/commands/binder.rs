//! `handoff binder`: what the kernel's Binder driver can do, and what it does to processes.

mod conformance;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use handoff_ipc::Context;
use handoff_ipc::binder::{self, Binderfs, find_device};
use serde::Serialize;

pub(crate) use self::conformance::serve_if_agent;
use crate::output::{Output, Verdict};

const EXAMPLES: &str = "\
Examples:
  handoff guest run -- binder features           what the driver of the distribution's kernel can do
  handoff guest run -- binder conformance        whether it does what it promises
  handoff binder features --context hwbinder     of the one that hardware services use
  handoff binder freeze 1234 --timeout-ms 500    hold calls to process 1234 back
  handoff binder frozen 1234                     what reached it meanwhile
  handoff binder thaw 1234
  handoff binder mount /dev/binderfs mine        make a binderfs, with a driver of its own";

/// Look at the kernel's Binder driver: features, freezing processes, devices in binderfs.
///
/// A frozen process is called in vain: synchronous calls fail at once, oneway calls wait until it is thawed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Subcommands,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommands {
    Conformance(conformance::Conformance),
    Features(Features),
    Freeze(Freeze),
    /// What reached a process since it was frozen
    Frozen(Process),
    Mount(Mount),
    /// Let calls reach a process again
    Thaw(Process),
}

impl Options {
    pub(crate) fn run(&self, output: &Output) -> anyhow::Result<Verdict> {
        match &self.what {
            Subcommands::Conformance(options) => return options.run(output),
            Subcommands::Features(options) => options.run(output)?,
            Subcommands::Freeze(options) => options.run(output)?,
            Subcommands::Frozen(options) => options.frozen(output)?,
            Subcommands::Mount(options) => options.run(output)?,
            Subcommands::Thaw(options) => options.thaw(output)?,
        }
        Ok(Verdict::Pass)
    }
}

// Which driver.
#[derive(Debug, clap::Args)]
struct Driver {
    /// The driver's context: binder, hwbinder or vndbinder
    #[arg(long, default_value = "binder", value_name = "CONTEXT")]
    context: Context,
    /// The device itself, wherever it is
    #[arg(long, value_name = "FILE", conflicts_with = "context")]
    device: Option<PathBuf>,
}

impl Driver {
    fn device(&self) -> anyhow::Result<PathBuf> {
        Ok(match &self.device {
            Some(device) => device.clone(),
            None => find_device(self.context)?,
        })
    }
}

/// Say what the driver of this kernel can do.
///
/// The kernel itself is asked: nothing is guessed from its version.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  handoff binder features\n  handoff binder features --format json")]
struct Features {
    #[command(flatten)]
    driver: Driver,
}

#[derive(Serialize)]
struct DriverFeatures {
    device: PathBuf,
    kernel: String,
    /// C, Android, Rust or unknown.
    driver: &'static str,
    protocol: i32,
    features: BTreeMap<&'static str, bool>,
    binderfs: BTreeMap<String, bool>,
}

/// A driver's name in a sentence.
fn driver_text(name: &str) -> String {
    match name {
        "unknown" => "a driver of unknown kind".to_owned(),
        "Android" => "Android's driver in C".to_owned(),
        language => format!("the driver in {language}"),
    }
}

impl fmt::Display for DriverFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, driver) = (self.device.display(), driver_text(self.driver));
        write!(f, "{device}, Linux {}, protocol {}, {driver}", self.kernel, self.protocol)?;
        let word = |has: bool| if has { "yes" } else { "no" };
        for (name, has) in &self.features {
            write!(f, "\n  {name:<24}{}", word(*has))?;
        }
        for (name, has) in &self.binderfs {
            write!(f, "\n  {:<24}{}", format!("features/{name}"), word(*has))?;
        }
        Ok(())
    }
}

impl Features {
    fn run(&self, output: &Output) -> anyhow::Result<()> {
        let found = binder::Features::of(&self.driver.device()?)?;
        output.result(&DriverFeatures {
            features: found.named().into_iter().collect(),
            device: found.device,
            kernel: found.kernel,
            driver: found.implementation.name(),
            protocol: found.protocol,
            binderfs: found.binderfs,
        })
    }
}

/// Refuse synchronous calls to a process, and hold oneway calls back, until it is thawed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  handoff binder freeze 1234\n  handoff binder freeze 1234 --timeout-ms 500"
)]
struct Freeze {
    #[command(flatten)]
    process: Process,
    /// How long calls that are under way may take to end, in milliseconds
    #[arg(long, default_value_t = 100, value_name = "MS", alias = "patience")]
    timeout_ms: u32,
}

impl Freeze {
    fn run(&self, output: &Output) -> anyhow::Result<()> {
        let device = self.process.driver.device()?;
        binder::freeze(&device, self.process.pid, Duration::from_millis(self.timeout_ms.into()))?;
        output.result(&State::new(self.process.pid, true, binder::frozen_info(&device, self.process.pid)?))
    }
}

// One process that uses the driver.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  handoff binder frozen 1234\n  handoff binder thaw 1234")]
struct Process {
    /// Its number
    #[arg(value_name = "PID")]
    pid: u32,
    #[command(flatten)]
    driver: Driver,
}

/// How a process stands.
#[derive(Serialize)]
struct State {
    pid: u32,
    /// Told by `freeze` and `thaw`; the driver does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<bool>,
    refused_calls: bool,
    call_pending: bool,
    held_oneway: bool,
}

impl State {
    fn new(pid: u32, frozen: impl Into<Option<bool>>, info: binder::FrozenInfo) -> Self {
        let binder::FrozenInfo { refused_calls, call_pending, held_oneway } = info;
        State { pid, frozen: frozen.into(), refused_calls, call_pending, held_oneway }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        match self.frozen {
            Some(true) => write!(f, " is frozen")?,
            Some(false) => write!(f, " is thawed")?,
            None => {}
        }
        let reached = [
            (self.refused_calls, "synchronous calls were refused"),
            (self.call_pending, "calls wait"),
            (self.held_oneway, "oneway calls were held back"),
        ];
        let reached: Vec<&str> = reached.into_iter().filter_map(|(has, what)| has.then_some(what)).collect();
        let reached = if reached.is_empty() { "nothing reached it".to_owned() } else { reached.join(", ") };
        write!(f, ": {reached}")
    }
}

impl Process {
    fn frozen(&self, output: &Output) -> anyhow::Result<()> {
        let info = binder::frozen_info(&self.driver.device()?, self.pid)?;
        output.result(&State::new(self.pid, None, info))
    }

    fn thaw(&self, output: &Output) -> anyhow::Result<()> {
        let device = self.driver.device()?;
        // Thawing forgets what reached it.
        let info = binder::frozen_info(&device, self.pid)?;
        binder::thaw(&device, self.pid)?;
        output.result(&State::new(self.pid, false, info))
    }
}

/// Mount a binderfs, and make devices in it.
///
/// A binderfs that is there already is used. It stays mounted. Each device is a driver of its own, with its
/// own service manager. HANDOFF_BINDERFS=FOLDER has every command look there first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  handoff binder mount /dev/binderfs binder hwbinder vndbinder\n  handoff binder mount /tmp/mine test"
)]
struct Mount {
    /// The folder; it is made if it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Devices to make
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
}

/// What is there now.
#[derive(Serialize)]
struct MountResult {
    folder: PathBuf,
    devices: Vec<String>,
}

impl fmt::Display for MountResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.folder.display(), self.devices.join(", "))
    }
}

impl Mount {
    fn run(&self, output: &Output) -> anyhow::Result<()> {
        let binderfs = match Binderfs::at(&self.folder) {
            Ok(there) => there,
            Err(_) => Binderfs::mount(&self.folder)?,
        };
        for device in &self.devices {
            binderfs.create_device(device)?;
        }
        let mounted = MountResult { folder: self.folder.clone(), devices: binderfs.devices()? };
        binderfs.keep();
        output.result(&mounted)
    }
}
