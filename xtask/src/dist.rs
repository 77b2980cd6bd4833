//! `cargo xtask dist`: the static binaries that are copied to guests, hosts and devices.

pub(crate) mod debian;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::process::{cargo, find, output, run as run_command, target_dir};

/// Build the static binaries that are copied to guests and devices.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask dist                     for x86-64 and arm64
  cargo xtask dist --arch x86-64       for one of them
  cargo xtask dist --arch arm64 --profile dev    built in a third of the time, for tests

The other architecture needs its Rust target, or Debian's packages (fetched, never installed).")]
pub(crate) struct Options {
    /// The architectures to build for [default: both]
    #[arg(long, value_enum)]
    arch: Vec<Arch>,
    /// How to build: optimised, or soon done.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

/// How the compiler works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    /// Cargo's name of the profile, of the folder that it builds in, and of its part in variables.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Release => ["release", "release", "RELEASE"],
            Self::Dev => ["dev", "debug", "DEV"],
        }
    }
}

/// What the static binary runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Arch {
    #[value(name = "x86-64", aliases = ["x86_64", "amd64"])]
    X86_64,
    #[value(name = "arm64", alias = "aarch64")]
    Arm64,
}

impl Arch {
    fn this() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("Handoff runs on x86-64 and arm64, and this is {other}"),
        }
    }

    /// As in the names of files and targets.
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }
}

/// Builds for each architecture and says where the binaries are.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let this = Arch::this()?;
    let wanted = if options.arch.is_empty() { vec![Arch::X86_64, Arch::Arm64] } else { options.arch.clone() };
    let [profile, built_in, variable] = options.profile.names();
    let mut built = Vec::new();
    for arch in wanted {
        let mut command = cargo();
        let target = arch.target();
        if arch != this {
            cross_compiler(&mut command, arch)?;
        }
        let folder = target_dir().join("dist-build");
        let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
        command
            .args(["build", "--profile", profile, "--locked", "--package", "handoff-cli"])
            .args(["--features", "full", "--target", &target])
            // What the workspace optimises for its own tests is not needed here.
            .args(["--config", "profile.dev.package.handoff-lab.opt-level=0"])
            .env("CARGO_TARGET_DIR", &folder)
            .env(flags, "-C target-feature=+crt-static")
            .env(format!("CARGO_PROFILE_{variable}_STRIP"), "symbols")
            .env(format!("CARGO_PROFILE_{variable}_DEBUG"), "none");
        run_command(&mut command)?;
        let program = folder.join(&target).join(built_in).join("handoff");
        let dist = match options.profile {
            Profile::Release => target_dir().join("dist"),
            Profile::Dev => target_dir().join("dist/dev"),
        };
        built.push((arch, collect(&program, &dist, arch)?));
    }
    println!();
    for (arch, file) in built {
        let size = std::fs::metadata(&file)?.len() / 1024;
        println!("{:<8} {size:>6} KiB  {}", arch.name(), file.display());
    }
    Ok(true)
}

/// Lets `command` build for `arch`: with the toolchain's own target if it has it, else with Debian's.
fn cross_compiler(command: &mut Command, arch: Arch) -> Result<()> {
    let target = arch.target();
    let libraries = output(cargo_rustc().args(["--print", "target-libdir", "--target", &target]))?;
    let own_target = Path::new(libraries.trim()).is_dir();
    let linker = format!("{}-linux-gnu-gcc", arch.name());
    if own_target && find(&linker).is_some() {
        tell_linker(command, &target, Path::new(&linker));
        return Ok(());
    }
    ensure!(
        find("apt-get").is_some() && arch == Arch::Arm64 && Arch::this()? == Arch::X86_64,
        "no compiler for this architecture, {}: run `rustup target add {target}` and install {linker}",
        arch.name(),
    );
    let kit = debian::Kit::unpacked(&target_dir().join("dist-tools"), &debian::ARM64).with_context(|| {
        format!("no compiler for this architecture, {}: cannot get Debian's", arch.name())
    })?;
    kit.tell(command)?;
    tell_linker(command, &target, &kit.program(&linker)?);
    Ok(())
}

/// The linker of `target`, which is its C compiler and finds its archiver too.
fn tell_linker(command: &mut Command, target: &str, compiler: &Path) {
    let upper = target.to_uppercase().replace('-', "_");
    let lower = target.replace('-', "_");
    let archiver = compiler.to_string_lossy().replace("-gcc", "-ar");
    command.env(format!("CARGO_TARGET_{upper}_LINKER"), compiler);
    command.env(format!("CC_{lower}"), compiler).env(format!("AR_{lower}"), archiver);
}

fn cargo_rustc() -> Command {
    let mut command = Command::new("rustc");
    command.current_dir(crate::process::root());
    command
}

/// Copies what was built to `folder`, after making sure that it needs no file of the system.
fn collect(program: &Path, folder: &Path, arch: Arch) -> Result<PathBuf> {
    let bytes = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} is not static", program.display());
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("handoff-{}", arch.name()));
    replace(&file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Puts a whole program in the place of the one that is there: whoever reads it meanwhile, a guest that is
/// being packed or a host that it is sent to, has the one or the other and never half of either.
fn replace(file: &Path, program: &[u8]) -> Result<()> {
    let folder = file.parent().context("a file is in a folder")?;
    let mut new = tempfile::Builder::new()
        .prefix(".handoff-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempfile_in(folder)?;
    new.write_all(program)?;
    new.persist(file)?;
    Ok(())
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
    fn whoever_has_a_program_open_keeps_it_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("handoff");
        replace(&file, b"the former").expect("written");
        let mut reader = std::fs::File::open(&file).expect("opened");
        replace(&file, b"new").expect("replaced");
        let mut read = String::new();
        std::io::Read::read_to_string(&mut reader, &mut read).expect("read");
        assert_eq!(read, "the former");
        assert_eq!(std::fs::read(&file).expect("read"), b"new");
        assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
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
