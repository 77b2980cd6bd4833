//! A compiler for arm64 from Debian's packages, unpacked into a folder: nothing is installed, no
//! architecture is added to the system, and no root is needed.
//!
//! Debian has the Rust compiler of its browsers (`rustc-web`) and its libraries for every
//! architecture. `apt-get` gets them, and the C cross compiler, with lists and caches of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::{find, run};

/// What is needed of this machine's architecture. What those depend on is found by `apt-get`.
const PACKAGES: [&str; 4] =
    ["rustc-web", "libstd-rust-web-dev", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// What is needed of the other architecture. It depends on nothing that is needed to build.
const FOREIGN: &str = "libstd-rust-web-dev:arm64";

/// The sources of the standard library, for targets that Debian has no libraries of.
const SOURCES: &str = "rust-web-src";

/// The packages, unpacked.
#[derive(Debug)]
pub(crate) struct Kit {
    folder: PathBuf,
}

impl Kit {
    /// Gets and unpacks the packages below `tools`, unless that was done before.
    pub(crate) fn unpacked(tools: &Path) -> Result<Self> {
        let folder = tools.join("debian-arm64");
        let done = folder.join("complete");
        if !done.is_file() {
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?; // From a time that was interrupted.
            }
            for archive in download(&folder)? {
                run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&folder))?;
                std::fs::remove_file(archive)?;
            }
            std::fs::write(&done, "")?;
        }
        Ok(Self { folder })
    }

    /// The kit with the sources of its standard library, where cargo's `-Zbuild-std` looks for them.
    pub(crate) fn with_sources(self) -> Result<Self> {
        if !self.folder.join("usr/lib/rustlib/src/rust/library/Cargo.lock").is_file() {
            let archives = archives(&self.folder);
            run(apt_get(&self.folder).args(["download", SOURCES]).current_dir(&archives))?;
            for archive in packages(&archives)? {
                run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&self.folder))?;
                std::fs::remove_file(archive)?;
            }
        }
        Ok(self)
    }

    /// The path of a program of the kit, or of the system: what was installed already was not fetched.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let unpacked = self.folder.join("usr/bin").join(name);
        if unpacked.is_file() {
            return Ok(unpacked);
        }
        find(name).with_context(|| {
            format!(
                "{name} is neither installed nor in {}: remove that folder to have it fetched",
                self.folder.display()
            )
        })
    }

    /// Makes cargo use the kit's compiler.
    pub(crate) fn tell(&self, cargo: &mut Command) -> Result<()> {
        let mut libraries = OsString::from(self.folder.join("usr/lib/x86_64-linux-gnu"));
        if let Some(others) = std::env::var_os("LD_LIBRARY_PATH") {
            libraries.push(":");
            libraries.push(others);
        }
        cargo.env("RUSTC", self.program("rustc")?).env("LD_LIBRARY_PATH", libraries);
        Ok(())
    }
}

/// Downloads the packages, and whatever they need that is not installed here.
fn download(folder: &Path) -> Result<Vec<PathBuf>> {
    ensure!(find("dpkg-deb").is_some(), "dpkg-deb is not here to unpack packages with");
    let archives = archives(folder);
    for needed in [folder.join("apt/state/lists/partial"), archives.join("partial")] {
        std::fs::create_dir_all(&needed).with_context(|| format!("cannot make {}", needed.display()))?;
    }
    run(apt_get(folder).arg("update"))?;
    run(apt_get(folder)
        .args(["install", "--download-only", "-y", "--no-install-recommends"])
        .args(PACKAGES))?;
    run(apt_get(folder).args(["download", FOREIGN]).current_dir(&archives))?;
    packages(&archives)
}

fn archives(folder: &Path) -> PathBuf {
    folder.join("apt/cache/archives")
}

/// `apt-get` with lists and caches of its own.
fn apt_get(folder: &Path) -> Command {
    let mut command = Command::new("apt-get");
    let option = |name: &str, value: &Path| format!("{name}={}", value.display());
    command.arg("-qq");
    for option in [
        option("Dir::State", &folder.join("apt/state")),
        option("Dir::State::status", Path::new("/var/lib/dpkg/status")),
        option("Dir::Cache", &folder.join("apt/cache")),
        "APT::Architectures::=amd64".into(),
        "APT::Architectures::=arm64".into(),
        "APT::Sandbox::User=".into(),
        "Debug::NoLocking=1".into(),
    ] {
        command.arg("-o").arg(option);
    }
    command
}

/// The packages in a folder.
fn packages(archives: &Path) -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(archives)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(files
        .into_iter()
        .map(|file| file.path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "deb"))
        .collect())
}
