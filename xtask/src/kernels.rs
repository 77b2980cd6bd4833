//! `cargo xtask kernels`: one kernel, built with each of mainline's Binder drivers, for the guests of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use sha2::{Digest as _, Sha256};

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
build takes about 17 minutes of CPU time and 3.5 GB. The kernels are kept in the cache, too, and are not built again
until the source or the configuration is another one.")]
pub(crate) struct Options {
    /// The source's package and its suite.
    #[arg(long, default_value = SOURCE)]
    source: String,
}

const SOURCE: &str = "linux-source-7.3/trixie-backports";

/// Builds what neither this folder nor the cache has.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let kernels = Kernels::ready(&options.source)?;
    for driver in DRIVERS {
        println!("{driver:5} {}", kernels.image(driver).display());
    }
    Ok(true)
}

/// The folder with both kernels, which are built if need be.
pub(crate) fn ensure() -> Result<PathBuf> {
    Ok(Kernels::ready(SOURCE)?.folder)
}

/// Has the kernels in target/kernels if they are in the cache: what needs them is skipped otherwise.
pub(crate) fn take_from_cache() -> Result<bool> {
    Kernels::of(SOURCE)?.take_from_cache()
}

/// Where the kernels of one source and one configuration are.
struct Kernels {
    folder: PathBuf,
    cache: Option<PathBuf>,
}

impl Kernels {
    /// With both images in the folder.
    fn ready(source: &str) -> Result<Self> {
        let kernels = Self::of(source)?;
        if !kernels.take_from_cache()? {
            kernels.build(source)?;
        }
        Ok(kernels)
    }

    fn of(source: &str) -> Result<Self> {
        let mut hash = Sha256::new_with_prefix(source);
        let data = root().join("crates/handoff-kernel/data");
        let list = std::fs::read_dir(&data).with_context(|| format!("cannot list {}", data.display()))?;
        let mut fragments: Vec<PathBuf> = list.filter_map(|entry| Some(entry.ok()?.path())).collect();
        fragments.sort();
        for fragment in fragments.iter().filter(|file| file.extension().is_some_and(|end| end == "config")) {
            let text =
                std::fs::read(fragment).with_context(|| format!("cannot read {}", fragment.display()))?;
            hash.update(text);
        }
        let key: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            folder: target_dir().join("kernels"),
            cache: cache_root().map(|root| root.join("kernels").join(key)),
        })
    }

    fn image(&self, driver: &str) -> PathBuf {
        self.folder.join(format!("bzImage-{driver}"))
    }

    /// Copies both out of the cache; says whether it has both.
    fn take_from_cache(&self) -> Result<bool> {
        let Some(cache) = &self.cache else { return Ok(false) };
        let kept = DRIVERS.map(|driver| (cache.join(driver), self.image(driver)));
        if !kept.iter().all(|(image, _)| image.exists()) {
            return Ok(false);
        }
        kept.iter().try_for_each(|(image, to)| copy(image, to))?;
        Ok(true)
    }

    fn build(&self, source: &str) -> Result<()> {
        run_command(cargo().args(["build", "--package", "handoff-cli"]))?;
        let name = source.split('/').next().unwrap_or_default();
        run_command(handoff().args(["kernel", "source", source, "--into"]).arg(&self.folder))?;
        // One folder: what both kernels have in common is compiled once.
        let (tree, folder) = (self.folder.join(name), self.folder.join("build"));
        for driver in DRIVERS {
            run_command(&mut build(&tree, &folder, driver))?;
            let images = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image"];
            let built = images.iter().map(|image| folder.join(image)).find(|image| image.exists());
            let built =
                built.with_context(|| format!("the build left no boot image in {}", folder.display()))?;
            copy(&built, &self.image(driver))?;
            self.cache.as_ref().map_or(Ok(()), |cache| copy(&built, &cache.join(driver)))?;
        }
        Ok(())
    }
}

/// The folder that `handoff` keeps what can be made again in.
fn cache_root() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("HANDOFF_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|path| path.join("handoff")))
        .or_else(|| set("HOME").map(|path| path.join(".cache/handoff")))
}

fn build(tree: &Path, folder: &Path, driver: &str) -> Command {
    let mut command = handoff();
    command.args(["kernel", "build"]).arg(tree).arg("--out").arg(folder);
    command.args(["--fragment", "guest", "--fragment", &format!("binder-{driver}"), "--fetch-toolchain"]);
    command
}

/// Copies a file, whole or not at all.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let part = to.with_extension("part");
    std::fs::copy(from, &part).with_context(|| format!("cannot copy {}", from.display()))?;
    std::fs::rename(&part, to).with_context(|| format!("cannot keep {}", to.display()))
}

fn handoff() -> Command {
    let mut command = Command::new(target_dir().join("debug/handoff"));
    command.current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_taken_out_of_the_cache_both_or_none() {
        let area = tempfile::tempdir().expect("a folder");
        let cache = area.path().join("cache");
        let kernels = Kernels { folder: area.path().join("target/kernels"), cache: Some(cache.clone()) };
        let taken = || kernels.take_from_cache().expect("it can be read");
        assert!(!taken());
        let built = area.path().join("built");
        std::fs::write(&built, "an image").expect("written");
        for (driver, has_both) in DRIVERS.into_iter().zip([false, true]) {
            copy(&built, &cache.join(driver)).expect("kept");
            assert_eq!(taken(), has_both);
            assert_eq!(DRIVERS.map(|driver| kernels.image(driver).exists()), [has_both; 2]);
        }
        let [one, other] = ["a/s", "b/s"].map(|source| Kernels::of(source).expect("fragments").cache);
        assert!(one.is_none() || one != other, "kernels of two sources are in one place: {one:?}");
    }
}
