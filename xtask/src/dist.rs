//! `cargo xtask dist`: what people install. The static programs, and with `--all` every package, in one folder.

mod c;
mod deb;
pub(crate) mod debian;
mod files;
mod maven;
mod natives;
mod oci;
mod program;
mod sbom;
mod settings;
mod sums;
mod wheel;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use self::settings::{Arch, Dist, Profile};
use crate::process::target_dir;

/// Build the static programs that are copied to guests and devices; with `--all`, every package.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask dist                     the programs for x86-64 and arm64
  cargo xtask dist --arch x86-64       for one of them
  cargo xtask dist --all               every package, in target/dist
  cargo xtask dist --only deb,oci      some of them
  cargo xtask dist --arch arm64 --profile dev    built in a third of the time, for tests

The other architecture needs its Rust target, or Debian's packages (fetched, never installed). What is missing is
said before anything is built. A release of the wheel and of the libraries is built with Zig's C compiler, which pip has.")]
pub(crate) struct Options {
    /// Every package.
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// These packages.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PACKAGE")]
    only: Vec<Package>,
    /// The architectures to build for [default: both]
    #[arg(long, value_enum)]
    arch: Vec<Arch>,
    /// How to build: optimised, or soon done.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Without what takes long to compile (the feature `full`): for tests of the packages.
    #[arg(long)]
    lean: bool,
}

/// What can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Package {
    /// The static program
    Program,
    /// Debian's package of the program: manual pages, completions, units of systemd
    Deb,
    /// The program as a container image, in OCI's layout
    Oci,
    /// Python's wheel
    Wheel,
    /// Java's archives, in the layout of a Maven repository
    Maven,
    /// The C library: header, shared and static, for pkg-config and CMake
    C,
    /// What all of it is made of, as CycloneDX
    Sbom,
}

impl Package {
    /// As it is typed.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Builds what is asked for and says where it is. The last lines are the files, with their sizes.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let both = vec![Arch::X86_64, Arch::Arm64];
    let folder = match options.profile {
        Profile::Release => target_dir().join("dist"),
        Profile::Dev => target_dir().join("dist/dev"),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let archs = if options.arch.is_empty() { both } else { options.arch.clone() };
    let dist = Dist { profile: options.profile, lean: options.lean, archs, folder };

    // What one package lacks is said before others have compiled for half an hour.
    for package in chosen(options) {
        check(&dist, package).with_context(|| format!("{} cannot be built here", package.name()))?;
    }
    let mut built = Vec::new();
    let mut took = Vec::new();
    for package in chosen(options) {
        let started = Instant::now();
        let name = package.name();
        println!("\n== {name}");
        built.extend(build(&dist, package).with_context(|| format!("{name} was not built"))?);
        took.push(format!("{name} {:.0} s", started.elapsed().as_secs_f64()));
    }
    sums::write(&dist.folder)?;
    println!("\n{}", took.join(", "));
    for file in built {
        println!("{:>8} KiB  {}", std::fs::metadata(&file)?.len() / 1024, file.display());
    }
    Ok(true)
}

/// The packages that are asked for; the program alone unless others are.
fn chosen(options: &Options) -> Vec<Package> {
    match (options.all, options.only.is_empty()) {
        (true, _) => Package::value_variants().to_vec(),
        (false, true) => vec![Package::Program],
        (false, false) => options.only.clone(),
    }
}

/// Fails unless a package can be built here.
fn check(dist: &Dist, package: Package) -> Result<()> {
    let programs = || dist.archs.iter().try_for_each(|arch| program::check(*arch));
    let libraries = || dist.archs.iter().try_for_each(|arch| natives::check(dist, *arch));
    match package {
        Package::Program | Package::Oci => programs(),
        Package::Deb => deb::check().and_then(|()| programs()),
        Package::Maven => maven::check().and_then(|()| libraries()),
        Package::Wheel | Package::C => libraries(),
        Package::Sbom => Ok(()),
    }
}

/// Builds one package; gives its files.
fn build(dist: &Dist, package: Package) -> Result<Vec<PathBuf>> {
    let each = |build: fn(&Dist, Arch) -> Result<PathBuf>| {
        dist.archs.iter().map(|arch| build(dist, *arch)).collect()
    };
    match package {
        Package::Program => each(program::build),
        Package::Deb => each(deb::build),
        Package::Oci => Ok(vec![oci::build(dist)?]),
        Package::Wheel => each(wheel::build),
        Package::Maven => Ok(vec![maven::build(dist)?]),
        Package::C => each(c::build),
        Package::Sbom => Ok(vec![sbom::build(dist)?]),
    }
}
