//! Python's wheel: one for every CPython from 3.9 on (abi3), built by maturin.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::files::{only_file, replace};
use super::natives::{C_LIBRARY, search_path, tell_compiler, tools};
use super::settings::{Arch, Dist, Profile};
use crate::process::{root, run, target_dir};

/// Builds the wheel for `arch`.
pub(super) fn build(dist: &Dist, arch: Arch) -> Result<PathBuf> {
    let programs = tools(dist.profile)?;
    let wheels = tempfile::tempdir()?;
    let mut command = Command::new(programs.join("maturin"));
    command.current_dir(root()).args(["build", "--locked", "--manifest-path", "bindings/python/Cargo.toml"]);
    command.arg("--out").arg(wheels.path());
    match dist.profile {
        Profile::Release => {
            let (major, minor) = C_LIBRARY;
            command.args(["--release", "--strip", "--zig", "--target", &arch.target(), "--compatibility"]);
            command.arg(format!("manylinux_{major}_{minor}"));
            command.env("CARGO_TARGET_DIR", target_dir().join("dist-build"));
        }
        // Linked with this machine's C library: good for this machine, and its name says so.
        Profile::Dev => {
            command.args(["--profile", "dev", "--auditwheel", "skip", "--interpreter"]);
            command.arg(programs.join("python")).env("CARGO_TARGET_DIR", target_dir());
        }
    }
    tell_compiler(&mut command, dist, arch)?;
    run(command.env("PATH", search_path(dist.profile)?))?;
    let built = only_file(wheels.path(), "whl")?;
    let file = dist.folder.join(built.file_name().context("a file has a name")?);
    replace(&file, 0o644, |to| {
        std::io::copy(&mut std::fs::File::open(&built)?, to)?;
        Ok(())
    })?;
    Ok(file)
}
