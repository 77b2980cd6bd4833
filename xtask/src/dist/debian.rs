//! Compilers from Debian's packages, unpacked into a folder: nothing is installed, no architecture is added to
//! the system, and no root is needed.
//!
//! Debian has the Rust compiler of its browsers (`rustc-web`) and its libraries for every
//! architecture. `apt-get` gets them, and the C cross compiler, with lists and caches of its own.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::{find, run};

/// The packages of one kit.
#[derive(Debug)]
pub(crate) struct Contents {
    /// The folder that they are unpacked into.
    pub(crate) name: &'static str,
    /// Packages of this machine's architecture. What those depend on is found by `apt-get`.
    pub(crate) packages: &'static [&'static str],
    /// One of another architecture. It depends on nothing that is needed to build.
    pub(crate) foreign: Option<&'static str>,
}

pub(crate) const ARM64: Contents = Contents {
    name: "debian-arm64",
    packages: &["rustc-web", "libstd-rust-web-dev", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
    foreign: Some("libstd-rust-web-dev:arm64"),
};

/// The sources of the standard library, for targets that Debian has no libraries of.
const SOURCES: &str = "rust-web-src";

#[derive(Debug)]
pub(crate) struct Kit {
    folder: PathBuf,
}

impl Kit {
    /// Gets and unpacks the packages below `tools`, unless that was done before. They are unpacked beside and
    /// renamed when they are whole; who comes meanwhile waits.
    pub(crate) fn unpacked(tools: &Path, contents: &Contents) -> Result<Self> {
        let folder = tools.join(contents.name);
        let _lock = lock(tools)?;
        if !folder.join("complete").is_file() {
            let unfinished = format!(".{}-", contents.name);
            remove_left_overs(tools, &unfinished);
            let new = tempfile::Builder::new().prefix(&unfinished).tempdir_in(tools)?;
            for archive in download(new.path(), contents)? {
                run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(new.path()))?;
                std::fs::remove_file(archive)?;
            }
            std::fs::write(new.path().join("complete"), "")?;
            if folder.exists() {
                // A folder into which something still writes can be renamed, but not removed.
                std::fs::rename(&folder, tools.join(format!("{unfinished}{}", std::process::id())))?;
            }
            std::fs::rename(new.keep(), &folder)?;
        }
        Ok(Self { folder })
    }

    /// The kit with the sources of its standard library, where cargo's `-Zbuild-std` looks for them.
    pub(crate) fn with_sources(self) -> Result<Self> {
        let _lock = lock(self.folder.parent().unwrap_or(&self.folder))?;
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

/// Held for as long as the returned file is open.
fn lock(tools: &Path) -> Result<File> {
    std::fs::create_dir_all(tools).with_context(|| format!("cannot make {}", tools.display()))?;
    let lock = File::create(tools.join("debian.lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Removes the folders whose names begin so: runs that were killed have left them.
fn remove_left_overs(tools: &Path, unfinished: &str) {
    for entry in std::fs::read_dir(tools).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(unfinished) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Downloads the packages, and whatever they need that is not installed here.
fn download(folder: &Path, contents: &Contents) -> Result<Vec<PathBuf>> {
    ensure!(find("dpkg-deb").is_some(), "dpkg-deb is not here to unpack packages with");
    let archives = archives(folder);
    for needed in [folder.join("apt/state/lists/partial"), archives.join("partial")] {
        std::fs::create_dir_all(&needed).with_context(|| format!("cannot make {}", needed.display()))?;
    }
    run(apt_get(folder).arg("update"))?;
    run(apt_get(folder)
        .args(["install", "--download-only", "-y", "--no-install-recommends"])
        .args(contents.packages))?;
    if let Some(foreign) = contents.foreign {
        run(apt_get(folder).args(["download", foreign]).current_dir(&archives))?;
    }
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
        "Acquire::Retries=5".into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let tools = tempfile::tempdir().expect("a folder");
        for name in [".debian-arm64-x/apt", "debian-arm64/usr", "other"] {
            std::fs::create_dir_all(tools.path().join(name)).expect("made");
        }
        remove_left_overs(tools.path(), ".debian-arm64-");
        let left = |name: &str| tools.path().join(name).exists();
        assert_eq!([left(".debian-arm64-x"), left("debian-arm64/usr"), left("other")], [false, true, true]);
    }

    #[test]
    fn the_second_waits_for_the_lock() {
        let tools = tempfile::tempdir().expect("a folder");
        let held = lock(tools.path()).expect("locked");
        let second = File::open(tools.path().join("debian.lock")).expect("there");
        assert!(second.try_lock().is_err());
        drop(held);
        assert!(second.try_lock().is_ok());
    }
}
