//! Debian's package of the program, with what an administrator expects beside it.
//!
//! `dpkg-deb` packs it: it is on every Debian, and cargo-deb would compile two hundred crates to do the same, from
//! a list of files that cannot name what the program itself prints (its manual pages and completions).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::files::{Tree, epoch, gzip, replace, source};
use super::program;
use super::settings::{Arch, Dist, VERSION};
use crate::process::{find, output, run};

/// Each shell, and where the distribution's packages put completions for it.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/handoff"),
    ("zsh", "usr/share/zsh/vendor-completions/_handoff"),
    ("fish", "usr/share/fish/vendor_completions.d/handoff.fish"),
];

/// The files of `contrib`, and where they are installed.
const FILES: [(&str, &str); 9] = [
    ("systemd/system/handoff-servicemanager.service", "usr/lib/systemd/system"),
    ("systemd/system/handoff-servicemanager.socket", "usr/lib/systemd/system"),
    ("systemd/system/handoff-policy.service", "usr/lib/systemd/system"),
    ("systemd/user/handoff-servicemanager.service", "usr/lib/systemd/user"),
    ("systemd/user/handoff-servicemanager.socket", "usr/lib/systemd/user"),
    ("systemd/sysusers.d/handoff.conf", "usr/lib/sysusers.d"),
    ("servicemanager/services.toml", "usr/share/doc/handoff/examples"),
    ("policies/desktop.toml", "usr/share/doc/handoff/examples"),
    ("policies/vehicle.toml", "usr/share/doc/handoff/examples"),
];

/// What `dpkg` runs after it has unpacked the files. Nothing is started: an administrator enables what is wanted.
const AFTER_INSTALLATION: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
    # The user of the service manager; without systemd's tool, only the units want it.
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers handoff.conf
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
    fi
fi
";

/// What it runs before files go: nothing of ours may run from a file that is gone.
const BEFORE_REMOVAL: &str = "#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now handoff-servicemanager.socket handoff-servicemanager.service \\
        handoff-policy.service || true
fi
";

/// Fails unless packages can be packed here.
pub(super) fn check() -> Result<()> {
    ensure!(find("dpkg-deb").is_some(), "needs dpkg-deb: install Debian's package `dpkg`");
    Ok(())
}

/// Builds the package for `arch`.
pub(super) fn build(dist: &Dist, arch: Arch) -> Result<PathBuf> {
    let tree = Tree::new()?;
    tree.copy(program::build(dist, arch)?, "usr/bin/handoff", 0o755)?;
    // The pages and completions of another architecture's program are those of this one's.
    let here = if arch == Arch::this()? {
        tree.path().join("usr/bin/handoff")
    } else {
        program::build(dist, Arch::this()?)?
    };
    add_documentation(&tree, &here)?;
    for (from, folder) in FILES {
        let name = Path::new(from).file_name().and_then(|name| name.to_str()).context("a file has a name")?;
        let text = std::fs::read_to_string(source("contrib").join(from))
            .with_context(|| format!("cannot read contrib/{from}"))?;
        // The units in the sources are for a program that was installed by hand.
        let text = text.replace("/usr/local/bin/handoff", "/usr/bin/handoff");
        let text = text.replace("%h/.cargo/bin/handoff", "/usr/bin/handoff");
        tree.write(&format!("{folder}/{name}"), text, 0o644)?;
    }
    let size = size_of(tree.path())? / 1024;
    tree.write("DEBIAN/control", control(arch, size), 0o644)?;
    tree.write("DEBIAN/postinst", AFTER_INSTALLATION, 0o755)?;
    tree.write("DEBIAN/prerm", BEFORE_REMOVAL, 0o755)?;

    let file = dist.folder.join(format!("handoff_{VERSION}_{}.deb", arch.debian_name()));
    replace(&file, 0o644, |to| {
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree.path());
        pack.arg(format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(to)));
        run(pack.env("SOURCE_DATE_EPOCH", epoch().to_string()))
    })?;
    Ok(file)
}

/// What the program tells of itself: manual pages, completions; and the licences.
fn add_documentation(tree: &Tree, program: &Path) -> Result<()> {
    let pages = tempfile::tempdir()?;
    run(Command::new(program).arg("man").arg(pages.path()))?;
    for page in std::fs::read_dir(pages.path())? {
        let page = page?;
        let name = page.file_name().into_string().ok().context("names of pages are text")?;
        tree.write(&format!("usr/share/man/man1/{name}.gz"), gzip(&std::fs::read(page.path())?)?, 0o644)?;
    }
    for (shell, path) in COMPLETIONS {
        tree.write(path, output(Command::new(program).args(["completions", shell]))?, 0o644)?;
    }
    let licences = "Handoff is licensed as either of Apache-2.0 and MIT, at your choice.\n\
                    Apache-2.0: /usr/share/common-licenses/Apache-2.0\n\n";
    let mit = std::fs::read_to_string(source("LICENSE-MIT"))?;
    tree.write("usr/share/doc/handoff/copyright", format!("{licences}MIT:\n\n{mit}"), 0o644)?;
    tree.write("usr/share/doc/handoff/changelog.gz", gzip(&std::fs::read(source("CHANGELOG.md"))?)?, 0o644)
}

/// What the package says of itself (deb-control(5)). It is static, so it depends on nothing.
fn control(arch: Arch, kibibytes: u64) -> String {
    format!(
        "Package: handoff
Version: {VERSION}
Architecture: {}
Maintainer: The Handoff authors <handoff@localhost>
Installed-Size: {kibibytes}
Section: utils
Priority: optional
Description: fast, priority-aware IPC, and the lab that proves it
 Measures what a call between processes costs here and where the time goes,
 compares programs, settings and kernels with a verdict, shows who wakes whom,
 and places processes on cores. Also the service manager by which programs that
 use the Handoff libraries find each other.
",
        arch.debian_name()
    )
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        size += if entry.file_type()?.is_dir() { size_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(size)
}
