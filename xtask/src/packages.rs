//! What the tests need from the system, and how to get it.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::{self, find, is_root, succeeds};

/// A program that some tests run.
struct Need {
    program: &'static str,
    /// The Debian package that has it.
    package: &'static str,
    /// What is not tested without it.
    for_what: &'static str,
}

const fn need(program: &'static str, package: &'static str, for_what: &'static str) -> Need {
    Need { program, package, for_what }
}

const NEEDS: &[Need] = &[
    need("cc", "gcc", "linking, and bundled C code"),
    need("gcc", "gcc", "how much of a kernel a workload reaches"),
    need("gcov", "gcc", "how much of a kernel a workload reaches"),
    need("c++", "g++", "the C header in C++"),
    need("g++", "g++", "Android's C++"),
    need("aidl", "aidl", "comparing C++ with Android's compiler"),
    need("pkg-config", "pkg-config", "the C library"),
    need("javac", "default-jdk-headless", "Java and Kotlin"),
    need("jar", "default-jdk-headless", "Java and Kotlin"),
    need("mvn", "maven", "Java and Kotlin"),
    need("python3", "python3-venv", "Python"),
    need("nm", "binutils", "looking into built files"),
    need("make", "make", "building kernels"),
    need("flex", "flex", "building kernels"),
    need("bison", "bison", "building kernels"),
    need("bc", "bc", "building kernels"),
    need("git", "git", "porting patches"),
    need("patch", "patch", "comparing ports with patch's"),
    need("wiggle", "wiggle", "comparing ports with wiggle's"),
    need("unpack_bootimg", "mkbootimg", "taking Android boot images apart"),
    need("mkbootimg", "mkbootimg", "comparing boot images with the reference tools'"),
    need("abootimg", "abootimg", "comparing boot images with the reference tools'"),
    need("qemu-system-x86_64", "qemu-system-x86", "the guest"),
    need("qemu-system-aarch64", "qemu-system-arm", "the arm64 guest"),
    need("busybox", "busybox-static", "the guest's initial file system"),
    need("chromium", "chromium", "reports in a browser"),
    need("ip", "iproute2", "network namespaces"),
    need("tc", "iproute2", "queues that limit a rate"),
    need("perf", "linux-perf", "comparing traces with perf's reading of them"),
    need("valgrind", "valgrind", "counting the instructions of a call"),
    need("flock", "util-linux", "targets that are held by another run"),
    need("ssh", "openssh-client", "targets behind ssh"),
    need("sshd", "openssh-server", "targets behind ssh"),
    need("pg_createcluster", "postgresql", "results in PostgreSQL"),
    need("slurmctld", "slurmctld", "campaigns on Slurm"),
    need("slurmd", "slurmd", "campaigns on Slurm"),
    need("sbatch", "slurm-client", "campaigns on Slurm"),
    need(
        "/usr/lib/python3/dist-packages/lava_common/schemas/__init__.py",
        "lava-common",
        "jobs for LAVA by its own schema",
    ),
    need("munged", "munge", "campaigns on Slurm"),
    need("systemd-socket-activate", "systemd", "socket activation"),
    need("systemd-analyze", "systemd", "units"),
    need("systemd-sysusers", "systemd", "the daemons' users"),
    need("cmake", "cmake", "the C library"),
    need("pip3", "python3-pip", "reading traces with Perfetto's definitions"),
    need("trace-cmd", "trace-cmd", "comparing traces with trace-cmd's reading"),
];

/// The programs that may be missing in a run of the tests.
#[derive(Debug)]
pub(crate) enum Missing {
    /// Any: they are not installed here.
    Any,
    /// Those that the package manager did not give, and those that it is not asked for.
    These(Vec<&'static str>),
}

impl Missing {
    /// Whether a test may be skipped for want of `program`.
    pub(crate) fn allows(&self, program: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(missing) => {
                missing.contains(&program) || NEEDS.iter().all(|need| need.program != program)
            }
        }
    }
}

/// Installs what is missing when that is possible, or says what to install; gives what is missing then.
///
/// Never fails because of a package: the tests that need it are then skipped, and say so.
pub(crate) fn ensure() -> Result<Missing> {
    let missing = || NEEDS.iter().filter(|need| find(need.program).is_none()).collect::<Vec<&Need>>();
    let first = missing();
    if !is_root() || find("apt-get").is_none() {
        if !first.is_empty() {
            println!("Some tests will be skipped. To run them, install what they need:");
            for need in &first {
                println!("  {:<20} for {}", need.program, need.for_what);
            }
            println!("On Debian and Ubuntu: sudo apt-get install {}", packages(&first).join(" "));
        }
        return Ok(Missing::Any);
    }
    // Its lists may be old, or the network away for a moment.
    for attempt in 0..ATTEMPTS {
        let wanted = packages(&missing());
        if wanted.is_empty() || install(&wanted)? {
            break;
        }
        if attempt + 1 < ATTEMPTS {
            std::thread::sleep(Duration::from_secs(10 * attempt));
            succeeds(apt_get().arg("update"))?;
        } else {
            // One that cannot be had must not keep the others out.
            for package in wanted {
                install(&[package])?;
            }
        }
    }
    let left = missing();
    for need in &left {
        println!("cannot install {}: what needs it is not tested ({})", need.package, need.for_what);
    }
    Ok(Missing::These(left.iter().map(|need| need.program).collect()))
}

/// How often packages are asked for.
const ATTEMPTS: u64 = 3;

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = needs.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn install(packages: &[&str]) -> Result<bool> {
    succeeds(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages))
}

/// `apt-get` that asks nothing, waits for another one to end, and prints only what matters.
pub(crate) fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Retries=5"])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .current_dir(process::root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Every system has them, or can do nothing about them.
    const GIVEN: &[&str] = &["sh", "bash", "gzip", "unshare", "flock", "apt-get", "dpkg-deb", "mkfifo"];

    fn tools_that_tests_ask_for(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                tools_that_tests_ask_for(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                let calls = text.split("require_tool(\"").skip(1);
                found.extend(calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }

    #[test]
    fn every_tool_that_a_test_asks_for_can_be_installed() {
        let mut asked = Vec::new();
        for group in ["crates", "bindings"] {
            for entry in std::fs::read_dir(process::root().join(group)).expect("the crates").flatten() {
                if entry.file_name() != "handoff-testkit" {
                    tools_that_tests_ask_for(&entry.path(), &mut asked);
                }
            }
        }
        assert!(!asked.is_empty());
        let known: Vec<&str> = NEEDS.iter().map(|need| need.program).chain(GIVEN.iter().copied()).collect();
        asked.retain(|tool| !known.contains(&tool.as_str()));
        assert!(asked.is_empty(), "tests ask for {asked:?}: name their packages in {}", file!());
    }
}
