//! What cargo knows of the workspace, and the cargo tools that chores need.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::process::{cargo, find, output, run, target_dir};

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Where its manifest is.
    pub(crate) folder: PathBuf,
    /// The oldest Rust that compiles it, as its manifest says.
    pub(crate) rust_version: Option<String>,
    /// The names of the packages that it depends on, of every kind and for every target.
    pub(crate) dependencies: Vec<String>,
    /// Each `[[bin]]`, `[[bench]]` and so on, with its kind.
    pub(crate) targets: Vec<Target>,
}

/// What cargo builds from a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    /// The features of its package without which it is not built.
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    manifest_path: PathBuf,
    rust_version: Option<String>,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

pub(crate) fn workspace() -> Result<Vec<Package>> {
    packages(&mut cargo())
}

/// The packages of the workspace that `manifest` is part of.
pub(crate) fn packages_of(manifest: &std::path::Path) -> Result<Vec<Package>> {
    let mut command = cargo();
    command.current_dir(manifest.parent().unwrap_or(manifest));
    packages(&mut command)
}

fn packages(cargo: &mut std::process::Command) -> Result<Vec<Package>> {
    let json = output(cargo.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Metadata = serde_json::from_str(&json).context("cargo's metadata is not as documented")?;
    Ok(metadata
        .packages
        .into_iter()
        .map(|raw| Package {
            name: raw.name,
            folder: raw.manifest_path.parent().unwrap_or(&raw.manifest_path).to_owned(),
            rust_version: raw.rust_version,
            dependencies: raw.dependencies.into_iter().map(|dependency| dependency.name).collect(),
            targets: raw.targets,
        })
        .collect())
}

/// The path of a program that was installed below the target folder, or that the machine has.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let own = target_dir().join("tools/bin").join(program);
    if own.is_file() { Some(own) } else { find(program) }
}

/// The path of a program that crates.io has, installed below the target folder if it is not found.
///
/// Nothing is installed outside the target folder. `options` are for `cargo install`.
pub(crate) fn installed(program: &str, package: &str, options: &[&str]) -> Result<PathBuf> {
    if let Some(found) = found(program) {
        return Ok(found);
    }
    let tools = target_dir().join("tools");
    println!("`{program}` is not here: installing it into {}", tools.display());
    let mut install = cargo();
    install.args(["install", "--locked", "--root"]).arg(&tools).args(options).arg(package);
    run(install.env("CARGO_TARGET_DIR", target_dir().join("tools-build")))
        .with_context(|| format!("cannot install {package}; `cargo install {package}` may say why"))?;
    Ok(tools.join("bin").join(program))
}

/// A Python environment with these packages of its index, as `pip install` takes them, below the target folder; gives the
/// folder of its programs.
///
/// It is made once, and anew when the list changes. Runs that come meanwhile wait.
pub(crate) fn python_environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let tools = target_dir().join("tools");
    std::fs::create_dir_all(&tools)?;
    let lock = File::create(tools.join(format!("{name}.lock")))?;
    lock.lock()?;
    let folder = tools.join(format!("python-{name}"));
    let (programs, mark, list) = (folder.join("bin"), folder.join("complete"), packages.join("\n"));
    if std::fs::read_to_string(&mark).is_ok_and(|have| have == list) {
        return Ok(programs);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    println!("installing `{name}` from Python's package index into {}", folder.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("needs Python with virtual environments (Debian's `python3-venv`)")?;
    run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(packages))
        .context("needs Python's package index")?;
    std::fs::write(mark, list)?;
    Ok(programs)
}
