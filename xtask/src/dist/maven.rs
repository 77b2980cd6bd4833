//! Java's archives as Maven puts them into a repository: classes, sources, documentation, and a JAR with the library
//! for each architecture, by its classifier.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use super::files::{Tree, epoch, source};
use super::natives;
use super::settings::{Dist, VERSION};
use crate::process::{find, run};

/// Fails unless archives can be made here.
pub(super) fn check() -> Result<()> {
    ensure!(find("mvn").is_some(), "needs mvn: install Debian's packages `maven` and `default-jdk-headless`");
    Ok(())
}

/// Builds the repository, packed: unpacked, `file:///FOLDER` is one.
pub(super) fn build(dist: &Dist) -> Result<PathBuf> {
    let tree = Tree::new()?;
    for arch in &dist.archs {
        let built = natives::build(dist, *arch, &["handoff-java"])?;
        let path = format!(
            "natives/linux-{}/dev/handoff/natives/linux-{}/libhandoff_java.so",
            arch.name(),
            arch.name()
        );
        tree.copy(built.join("libhandoff_java.so"), &path, 0o755)?;
    }
    let repository = tree.path().join("repository");
    let mut command = Command::new("mvn");
    command.current_dir(source("bindings/java")).args([
        "--batch-mode",
        "--quiet",
        "-Ppackages",
        "-Dmaven.test.skip=true",
    ]);
    for arch in &dist.archs {
        command.arg(format!("-Pnatives-{}", arch.name()));
    }
    command
        .args(["-Dhandoff.library=none", "-Dmaven.install.skip=true"])
        .arg(format!("-Dhandoff.target={}", tree.path().join("target").display()))
        .arg(format!("-Dhandoff.natives.jars={}", tree.path().join("natives").display()))
        .arg(format!("-Dproject.build.outputTimestamp={}", epoch()))
        .arg(format!("-DaltDeploymentRepository=packed::file://{}", repository.display()))
        .arg("deploy");
    run(&mut command)?;

    let packed = Tree::new()?;
    std::fs::rename(&repository, packed.path().join("repository"))?;
    let file = dist.folder.join(format!("handoff-{VERSION}-maven.tar.gz"));
    packed.tar_gz("", &file)?;
    Ok(file)
}
