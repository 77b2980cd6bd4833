//! `cargo xtask kernels`: one kernel, built with each of mainline's Binder drivers, for the guests of the tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::packages;
use crate::process::{cargo, root, run as run_command, target_dir};

/// The Rust driver first: the one in C is then a build of a few files more.
const DRIVERS: [&str; 2] = ["rust", "c"];

/// Build a kernel with the Binder driver in Rust and one with the driver in C, in target/kernels.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask kernels
  handoff guest run --kernel target/kernels/bzImage-rust -- binder features

Source and Rust tool-chain are packages of Debian's suites, fetched into the cache; nothing is installed. The first
build takes about 17 minutes of CPU time and 3.5 GB. A kernel that is there is not built again.")]
pub(crate) struct Options {
    /// The source's package and its suite.
    #[arg(long, default_value = "linux-source-7.3/trixie-backports")]
    source: String,
}

/// Builds what is not there yet.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let kept = target_dir().join("kernels");
    let image = |driver: &str| kept.join(format!("bzImage-{driver}"));
    if DRIVERS.iter().any(|driver| !image(driver).exists()) {
        packages::ensure()?;
        std::fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
        run_command(cargo().args(["build", "--package", "handoff-cli"]))?;
        let name = options.source.split('/').next().unwrap_or_default();
        run_command(handoff().args(["kernel", "source", &options.source, "--into"]).arg(&kept))?;
        // One folder: what both kernels have in common is compiled once.
        let (tree, folder) = (kept.join(name), kept.join("build"));
        for driver in DRIVERS.iter().filter(|driver| !image(driver).exists()) {
            run_command(&mut build(&tree, &folder, driver))?;
            keep(&folder, &image(driver))?;
        }
    }
    for driver in DRIVERS {
        println!("{driver:5} {}", image(driver).display());
    }
    Ok(true)
}

fn build(tree: &Path, folder: &Path, driver: &str) -> Command {
    let mut command = handoff();
    command.args(["kernel", "build"]).arg(tree).arg("--out").arg(folder);
    command.args(["--fragment", "guest", "--fragment", &format!("binder-{driver}"), "--fetch-toolchain"]);
    command
}

/// Copies the boot image out of the build folder, whole or not at all.
fn keep(folder: &Path, to: &Path) -> Result<()> {
    let images = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image"];
    let from = images.iter().map(|image| folder.join(image)).find(|image| image.exists());
    let from = from.with_context(|| format!("the build left no boot image in {}", folder.display()))?;
    let part = to.with_extension("part");
    std::fs::copy(&from, &part).with_context(|| format!("cannot copy {}", from.display()))?;
    std::fs::rename(&part, to).with_context(|| format!("cannot keep {}", to.display()))
}

fn handoff() -> Command {
    let mut command = Command::new(target_dir().join("debug/handoff"));
    command.current_dir(root());
    command
}
