//! The static program: built for each architecture, with nothing that it needs of the system.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::debian;
use super::files::replace;
use super::settings::{Arch, Dist};
use crate::process::{cargo, find, output, root, run, target_dir};

/// Builds the program for `arch`; gives its file in the folder of packages.
pub(super) fn build(dist: &Dist, arch: Arch) -> Result<PathBuf> {
    let [profile, built_in, variable] = dist.profile.names();
    let mut command = cargo();
    let target = arch.target();
    if arch != Arch::this()? {
        cross_compiler(&mut command, arch)?;
    }
    let folder = target_dir().join("dist-build");
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
    command.args([
        "build",
        "--profile",
        profile,
        "--locked",
        "--package",
        "handoff-cli",
        "--target",
        &target,
    ]);
    if !dist.lean {
        command.args(["--features", "full"]);
    }
    command
        // What the workspace optimises for its own tests is not needed here.
        .args(["--config", "profile.dev.package.handoff-lab.opt-level=0"])
        .env("CARGO_TARGET_DIR", &folder)
        .env(flags, "-C target-feature=+crt-static")
        .env(format!("CARGO_PROFILE_{variable}_STRIP"), "symbols")
        .env(format!("CARGO_PROFILE_{variable}_DEBUG"), "none");
    run(&mut command)?;
    collect(&folder.join(&target).join(built_in).join("handoff"), &dist.folder, arch)
}

/// Fails unless the program can be built for `arch`; fetches what that needs.
pub(super) fn check(arch: Arch) -> Result<()> {
    if arch == Arch::this()? { Ok(()) } else { cross_compiler(&mut cargo(), arch) }
}

/// Lets `command` build for `arch`: with the toolchain's own target if it has it, else with Debian's.
fn cross_compiler(command: &mut Command, arch: Arch) -> Result<()> {
    let target = arch.target();
    let linker = format!("{}-linux-gnu-gcc", arch.name());
    if has_library(arch)? && find(&linker).is_some() {
        tell_linker(command, &target, Path::new(&linker));
        return Ok(());
    }
    let kit = debians(arch).with_context(|| {
        let name = arch.name();
        // The tests' kit knows these words.
        format!(
            "no compiler for this architecture, {name}: run `rustup target add {target}` and install {linker}"
        )
    })?;
    kit.tell(command)?;
    tell_linker(command, &target, &kit.program(&linker)?);
    Ok(())
}

/// Whether the toolchain has Rust's standard library for `arch`.
pub(super) fn has_library(arch: Arch) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", &arch.target()]).current_dir(root());
    let libraries = output(&mut rustc).context("no Rust compiler answers")?;
    Ok(Path::new(libraries.trim()).is_dir())
}

/// Debian's compilers for `arch`, which are fetched and never installed.
pub(super) fn debians(arch: Arch) -> Result<debian::Kit> {
    ensure!(
        find("apt-get").is_some() && arch == Arch::Arm64 && Arch::this()? == Arch::X86_64,
        "on this machine none can be fetched from Debian"
    );
    debian::Kit::unpacked(&target_dir().join("dist-tools"), &debian::ARM64)
        .context("Debian's cannot be fetched")
}

/// The linker of `target`, which is its C compiler and finds its archiver too.
fn tell_linker(command: &mut Command, target: &str, compiler: &Path) {
    let upper = target.to_uppercase().replace('-', "_");
    let lower = target.replace('-', "_");
    let archiver = compiler.to_string_lossy().replace("-gcc", "-ar");
    command.env(format!("CARGO_TARGET_{upper}_LINKER"), compiler);
    command.env(format!("CC_{lower}"), compiler).env(format!("AR_{lower}"), archiver);
}

/// Copies what was built to `folder`, after making sure that it needs no file of the system.
fn collect(program: &Path, folder: &Path, arch: Arch) -> Result<PathBuf> {
    let bytes = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} is not static", program.display());
    let file = folder.join(format!("handoff-{}", arch.name()));
    replace(&file, 0o755, |to| Ok(to.write_all(&bytes)?))?;
    Ok(file)
}

/// Whether a 64-bit little-endian ELF file asks for a dynamic loader (a program header of type
/// `PT_INTERP`; System V ABI, chapter 5).
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, size: usize| -> Result<u64> {
        let bytes =
            at.checked_add(size).and_then(|end| elf.get(at..end)).context("the ELF file is cut off")?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "it is not a 64-bit little-endian ELF file");
    let (table, entry, entries) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for index in 0..entries {
        let at = table.checked_add(index * entry).context("the ELF file is cut off")?;
        if number(usize::try_from(at)?, 4)? == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_recognised() {
        let own = std::fs::read("/proc/self/exe").expect("a test is a file");
        assert!(has_interpreter(&own).expect("it is an ELF file"), "tests are linked dynamically");
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert!(has_interpreter(b"#!/bin/sh\n").is_err());
        assert!(has_interpreter(b"\x7fELF\x02\x01").is_err());
        let mut cut = std::fs::read("/proc/self/exe").expect("a test is a file");
        cut.truncate(0x40);
        assert!(has_interpreter(&cut).is_err());
    }
}
