//! Debian's package: installed by dpkg into a root of its own, used there, and removed again.
//!
//! The root has a shell, the list of users and dpkg's database. The package depends on nothing, so nothing else of a
//! Debian is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use handoff_testkit::{require, require_root, require_tool};

use super::built::{Manager, dist, run};

/// A root with a shell for the package's scripts.
fn empty_root(busybox: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let at = |path: &str| root.path().join(path);
    for folder in ["bin", "etc", "run", "tmp", "usr/bin", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(at(folder)).expect("made");
    }
    fs::copy(busybox, at("bin/busybox")).expect("copied");
    // What scripts and units call.
    for name in ["sh", "kill"] {
        std::os::unix::fs::symlink("busybox", at("bin").join(name)).expect("linked");
    }
    for (file, text) in [
        ("var/lib/dpkg/status", ""),
        ("var/lib/dpkg/available", ""),
        ("etc/passwd", "root:x:0:0::/:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
    ] {
        fs::write(at(file), text).expect("written");
    }
    root
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    // dpkg removes folders that are left empty.
    if !folder.exists() {
        return;
    }
    for entry in fs::read_dir(folder).expect("listed").flatten() {
        if entry.file_type().expect("a type").is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn debians_package_is_installed_used_and_removed() {
    require!(require_root());
    let busybox = require!(require_tool("busybox"));
    require!(require_tool("dpkg-deb"));
    let files = dist("program,deb");
    let root = empty_root(&busybox);
    let dpkg = |arguments: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", root.path().display())).args(arguments);
        command
    };
    run(dpkg(&["--install"]).arg(&files[1]));
    let at = |path: &str| root.path().join(path);
    let status = run(&mut dpkg(&["--status", "handoff"]));
    assert!(status.contains("Status: install ok installed") && status.contains("Maintainer: "), "{status}");

    // The program, as a process that sees nothing but the root.
    let here = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(root.path()).arg("/usr/bin/handoff").args(arguments).env_remove("HANDOFF_SOCKET");
        command
    };
    assert!(run(&mut here(&["--version"])).contains(env!("CARGO_PKG_VERSION")));
    let policy = "/usr/share/doc/handoff/examples/services.toml";
    run(&mut here(&["servicemanager", "--policy", policy, "--check"]));
    // These are checked against the machine, which has no /sys in that root.
    for policy in ["desktop.toml", "vehicle.toml"] {
        let checked = Command::new(at("usr/bin/handoff"))
            .args(["policy", "check"])
            .arg(at("usr/share/doc/handoff/examples").join(policy))
            .output();
        // What this machine lacks (a battery, classes of cores) is a doubt; a mistake in the file would be 2.
        assert!(matches!(checked.expect("it runs").status.code(), Some(0 | 3)), "{policy}");
    }
    let manager = Manager::start(&at("usr/bin/handoff"));
    let list = run(Command::new(at("usr/bin/handoff"))
        .args(["service", "list"])
        .env("HANDOFF_SOCKET", manager.socket()));
    assert!(list.contains("android.os.IServiceManager"), "{list}");
    drop(manager);

    // What comes with it is what the tools that read it take.
    let page = run(Command::new("gzip").arg("-dc").arg(at("usr/share/man/man1/handoff-servicemanager.1.gz")));
    assert!(page.contains(".TH") && page.contains(r"kill \-HUP"), "{page}");
    run(Command::new("bash").arg("-n").arg(at("usr/share/bash-completion/completions/handoff")));
    let unit =
        fs::read_to_string(at("usr/lib/systemd/system/handoff-servicemanager.service")).expect("the unit");
    assert!(unit.contains("ExecStart=/usr/bin/handoff servicemanager"), "{unit}");

    run(&mut dpkg(&["--remove", "handoff"]));
    let mut left = Vec::new();
    files_below(&at("usr"), &mut left);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_units_are_what_systemd_takes() {
    require!(require_root());
    let busybox = require!(require_tool("busybox"));
    let analyze = require!(require_tool("systemd-analyze"));
    let sysusers = require!(require_tool("systemd-sysusers"));
    let files = dist("program,deb");
    let root = empty_root(&busybox);
    run(Command::new("dpkg-deb").arg("-x").arg(&files[1]).arg(root.path()));
    run(Command::new(sysusers).arg(format!("--root={}", root.path().display())).arg("handoff.conf"));
    let users = fs::read_to_string(root.path().join("etc/passwd")).expect("the users");
    assert!(users.lines().any(|line| line.starts_with("handoff:")), "{users}");

    // Of systemd itself, what the units name.
    for folder in ["system", "user"] {
        let below = format!("usr/lib/systemd/{folder}");
        for entry in fs::read_dir(Path::new("/").join(&below)).expect("systemd's units").flatten() {
            let to = root.path().join(&below).join(entry.file_name());
            if entry.path().is_file() && !to.exists() {
                fs::copy(entry.path(), to).expect("copied");
            }
        }
    }
    for unit in ["handoff-servicemanager.socket", "handoff-servicemanager.service", "handoff-policy.service"]
    {
        let mut verify = Command::new(&analyze);
        verify.args(["verify", "--man=no", "--recursive-errors=no"]);
        verify.arg(format!("--root={}", root.path().display())).arg(unit);
        let output = verify.output().expect("systemd-analyze runs");
        let said = super::built::said(&output);
        assert!(output.status.success() && !said.contains("handoff"), "{unit}: {said}");
    }
}
