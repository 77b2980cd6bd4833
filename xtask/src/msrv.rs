//! `cargo xtask msrv`: whether the libraries compile with the oldest Rust that their manifests promise.
//!
//! Packages whose `rust-version` is lower than the chores' own are checked by the compiler of that very version:
//! rustup's if it is installed, else Debian's, which is fetched and never installed. Cargo is today's: it reads the
//! lock file, and refuses a dependency that needs a newer compiler.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::dist::debian::{Contents, Kit};
use crate::process::{cargo, find, succeeds, target_dir};
use crate::tools;

/// Check that the libraries compile with the oldest Rust that they promise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask msrv                     with the compiler of rustup, or of Debian's packages")]
pub(crate) struct Options {}

/// Releases of Debian that have an old compiler, each for the others that are no older.
const DEBIAN: [(&str, Contents); 2] = [
    (
        "1.85",
        Contents {
            name: "debian-rust-web-1.85",
            packages: &["rustc-web=1.85*", "libstd-rust-web-dev=1.85*"],
            foreign: None,
        },
    ),
    (
        "1.85",
        Contents {
            name: "debian-rust-1.85",
            packages: &["rustc=1.85*", "libstd-rust-dev=1.85*"],
            foreign: None,
        },
    ),
];

/// A compiler, and the packages that it has to compile.
#[derive(Debug)]
pub(crate) struct Check {
    compiler: Compiler,
    packages: Vec<String>,
}

#[derive(Debug)]
enum Compiler {
    Rustup(PathBuf),
    Debian(Kit),
}

/// Checks the packages; false if one does not compile.
pub(crate) fn run(_: &Options) -> Result<bool> {
    passes(&checks()?)
}

/// What has to be checked, with the compiler at hand.
pub(crate) fn checks() -> Result<Check> {
    let own = env!("CARGO_PKG_RUST_VERSION");
    let mut older = tools::workspace()?;
    older.retain(|package| package.rust_version.as_deref().is_some_and(|version| version != own));
    let version = older.first().and_then(|package| package.rust_version.clone());
    let version = version.context("no package promises to compile with an older Rust")?;
    ensure!(
        older.iter().all(|package| package.rust_version.as_ref() == Some(&version)),
        "packages promise different versions of Rust: {older:?}"
    );
    let packages = older.into_iter().map(|package| package.name).collect();
    Ok(Check { compiler: compiler(&version)?, packages })
}

/// Whether the packages compile, with every feature.
pub(crate) fn passes(check: &Check) -> Result<bool> {
    let mut command = cargo();
    match &check.compiler {
        Compiler::Rustup(compiler) => {
            command.env("RUSTC", compiler);
        }
        Compiler::Debian(kit) => kit.tell(&mut command)?,
    }
    command.args(["check", "--locked", "--all-features"]).env("CARGO_TARGET_DIR", target_dir().join("msrv"));
    for package in &check.packages {
        command.args(["--package", package]);
    }
    succeeds(&mut command)
}

fn compiler(version: &str) -> Result<Compiler> {
    if let Some(compiler) = of_rustup(version) {
        return Ok(Compiler::Rustup(compiler));
    }
    let advice = || format!("no compiler of Rust {version}: `rustup toolchain install {version}` gets one");
    ensure!(find("apt-get").is_some(), advice());
    let mut last = None;
    for (_, contents) in DEBIAN.iter().filter(|(known, _)| *known == version) {
        match Kit::unpacked(&target_dir().join("dist-tools"), contents) {
            Ok(kit) => return Ok(Compiler::Debian(kit)),
            Err(error) => last = Some(error),
        }
    }
    let error = last.with_context(advice)?;
    Err(error.context(advice()))
}

/// The path of a toolchain's compiler; `None` if rustup is not here, or has no such toolchain.
fn of_rustup(version: &str) -> Option<PathBuf> {
    let mut rustup = Command::new("rustup");
    rustup.args(["which", "rustc", "--toolchain", version]).stderr(Stdio::null());
    let said = rustup.env("RUSTUP_AUTO_INSTALL", "0").output().ok().filter(|said| said.status.success())?;
    Some(PathBuf::from(String::from_utf8(said.stdout).ok()?.trim())).filter(|compiler| compiler.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_promise_one_version_that_can_be_had() {
        let own = env!("CARGO_PKG_RUST_VERSION");
        let promised: Vec<_> = tools::workspace()
            .expect("cargo knows the workspace")
            .into_iter()
            .filter(|package| package.rust_version.as_deref() != Some(own))
            .map(|package| (package.name, package.rust_version.expect("a manifest says its version")))
            .collect();
        assert!(promised.iter().any(|(name, _)| name == "handoff-placement"), "{promised:?}");
        for (name, version) in promised {
            assert!(DEBIAN.iter().any(|(known, _)| *known == version), "{name} promises {version}");
        }
    }

    #[test]
    fn a_toolchain_that_is_not_installed_is_not_found() {
        assert_eq!(of_rustup("1.2.3"), None);
    }
}
