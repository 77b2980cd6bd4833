//! `cargo xtask android`: whether what is linked into Android programs compiles for Android.
//!
//! The toolchain here has no libraries of Android, and Google's NDK is not to be had from Debian: so the
//! standard library is checked from its sources, together with ours, by the compiler that it belongs to.
//! Nothing is linked; `cargo ndk` does that where an NDK is.

use anyhow::{Context as _, Result};
use clap::Args;

use crate::dist::debian::{ARM64, Kit};
use crate::process::{cargo, succeeds, target_dir};

/// What Android programs link: the rest are tools, which run there as static programs (`cargo xtask dist`).
const PACKAGES: [&str; 5] = ["handoff-sync", "handoff-placement", "handoff-ipc", "handoff-c", "handoff-java"];

const TARGET: &str = "aarch64-linux-android";

/// Check that the libraries and bindings compile for Android.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask android                  needs no NDK; Debian's compiler is fetched, never installed")]
pub(crate) struct Options {}

/// Checks the packages; false if one does not compile.
pub(crate) fn run(_: &Options) -> Result<bool> {
    check(&kit()?)
}

/// What checks them, fetched unless that was done before.
pub(crate) fn kit() -> Result<Kit> {
    Kit::unpacked(&target_dir().join("dist-tools"), &ARM64)
        .and_then(Kit::with_sources)
        .context("cannot get Debian's compiler and the sources of its standard library")
}

/// Checks the packages; false if one does not compile.
pub(crate) fn check(kit: &Kit) -> Result<bool> {
    let mut command = cargo();
    kit.tell(&mut command)?;
    command
        .args(["check", "--locked", "-Zbuild-std=std,panic_abort", "--target", TARGET])
        // A stable compiler takes that option from its own build system only.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", target_dir().join("android"));
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    succeeds(&mut command)
}
