//! The shared and static libraries that the bindings load.
//!
//! Those of a release are linked by Zig's C compiler against the oldest C library that Rust's standard library takes,
//! so that they load on any distribution since 2014. Those for tests are linked as everything else here.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::program;
use super::settings::{Arch, Dist, Profile};
use crate::process::{cargo, root, run, target_dir};
use crate::tools;

/// The C library that releases need, as Zig and the wheels' tags write it.
pub(super) const C_LIBRARY: (u32, u32) = (2, 17);

/// What releases are built with.
const TOOLS: [&str; 3] = ["cargo-zigbuild>=0.20,<1", "maturin>=1.7,<2", "ziglang>=0.13,<1"];
/// What builds for tests.
const TOOLS_FOR_TESTS: [&str; 1] = ["maturin>=1.7,<2"];

/// The folder of the programs that build for other C libraries, from Python's package index.
pub(super) fn tools(profile: Profile) -> Result<PathBuf> {
    match profile {
        Profile::Release => tools::python_environment("zig", &TOOLS),
        Profile::Dev => tools::python_environment("maturin", &TOOLS_FOR_TESTS),
    }
}

/// Builds the libraries of these packages for `arch`; gives the folder that they are in.
pub(super) fn build(dist: &Dist, arch: Arch, packages: &[&str]) -> Result<PathBuf> {
    let select = |command: &mut Command| {
        command.args(["--locked", "--lib"]).args(packages.iter().flat_map(|package| ["--package", package]));
    };
    match dist.profile {
        Profile::Release => {
            let (major, minor) = C_LIBRARY;
            let folder = target_dir().join("dist-build");
            let mut command = Command::new(tools(dist.profile)?.join("cargo-zigbuild"));
            command.current_dir(root()).args(["zigbuild", "--release", "--target"]);
            command.arg(format!("{}.{major}.{minor}", arch.target()));
            select(&mut command);
            tell_compiler(&mut command, dist, arch)?;
            command.env("PATH", search_path(dist.profile)?).env("CARGO_TARGET_DIR", &folder);
            run(command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo"))?;
            Ok(folder.join(arch.target()).join("release"))
        }
        Profile::Dev => {
            let mut command = cargo();
            command.arg("build");
            select(&mut command);
            tell_compiler(&mut command, dist, arch)?;
            run(&mut command)?;
            Ok(target_dir().join("debug"))
        }
    }
}

/// The search path with the tools first: they look for Zig as a module of the first Python on it.
pub(super) fn search_path(profile: Profile) -> Result<String> {
    Ok(format!("{}:{}", tools(profile)?.display(), std::env::var("PATH").unwrap_or_default()))
}

/// Lets `command` build libraries for `arch`: with the toolchain's own target if it has it, else with Debian's compiler.
pub(super) fn tell_compiler(command: &mut Command, dist: &Dist, arch: Arch) -> Result<()> {
    if dist.profile == Profile::Dev {
        ensure!(
            arch == Arch::this()?,
            "libraries with --profile dev are for this machine only: add `--arch {}`",
            Arch::this()?.debian_name()
        );
        return Ok(());
    }
    if program::has_library(arch)? {
        return Ok(());
    }
    let target = arch.target();
    let kit = program::debians(arch).with_context(|| {
        format!("Rust's standard library for {target} is not here: run `rustup target add {target}`, or choose with --arch")
    })?;
    kit.tell(command)
}

/// Fails unless libraries can be built for `arch`; fetches what that needs.
pub(super) fn check(dist: &Dist, arch: Arch) -> Result<()> {
    tell_compiler(&mut cargo(), dist, arch)?;
    tools(dist.profile).map(drop)
}
