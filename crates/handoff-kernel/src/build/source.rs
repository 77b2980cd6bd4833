//! Fetches the distribution's kernel source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::BuildError;
use handoff_guest::{Arch, GuestError, fetch_package, last_lines};

/// Fetches a source package of the distribution (such as `linux-source-6.1`, or
/// `linux-source-7.3/trixie-backports` of another suite) into the cache and unpacks the tree in it to `folder`;
/// gives the tree's folder. Nothing is installed.
///
/// A tree that is there already is given as it is.
pub fn fetch_source(
    package: &str,
    folder: &Path,
    cache: Option<&Path>,
    progress: &dyn Fn(&str),
) -> Result<PathBuf, BuildError> {
    let name = package.split('/').next().unwrap_or(package);
    let tree = folder.join(name);
    if tree.join("Makefile").is_file() {
        return Ok(tree);
    }
    let arch = Arch::host().ok_or_else(|| {
        BuildError::Options(
            "packages are only fetched on x86-64 and arm64: unpack a tree yourself".to_owned(),
        )
    })?;
    std::fs::create_dir_all(folder).map_err(BuildError::io("make", folder))?;
    let deb = fetch_package(cache, arch, package, progress)?;
    progress(&format!("unpacking {name}"));
    let area = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(folder)
        .map_err(BuildError::io("make a folder in", folder))?;
    let member = format!("./usr/src/{name}.tar.xz");
    unpack(&deb, &member, area.path()).map_err(|reason| {
        BuildError::Fetch(GuestError::Unpack { file: deb.clone(), reason: format!("{member}: {reason}") })
    })?;
    let unpacked = area.path().join(name);
    std::fs::rename(&unpacked, &tree).map_err(BuildError::io("move the tree to", &tree))?;
    Ok(tree)
}

/// dpkg-deb | tar (the member) | tar (what is in it).
fn unpack(deb: &Path, member: &str, folder: &Path) -> Result<(), String> {
    let fail = |error: std::io::Error| error.to_string();
    let mut outer = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fail)?;
    let files = outer.stdout.take().ok_or("no pipe")?;
    let mut middle = Command::new("tar")
        .args(["-xO", member])
        .stdin(files)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fail)?;
    let archive = middle.stdout.take().ok_or("no pipe")?;
    // tar itself refuses names that lead out of the folder.
    let inner =
        Command::new("tar").args(["-xJ", "--no-same-owner", "-C"]).arg(folder).stdin(archive).output();
    let statuses = [outer.wait().map_err(fail)?, middle.wait().map_err(fail)?];
    let inner = inner.map_err(fail)?;
    if statuses.iter().all(std::process::ExitStatus::success) && inner.status.success() {
        return Ok(());
    }
    Err(last_lines(&inner.stderr))
}
