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

const NEEDS: &[Need] = &[
    Need { program: "cc", package: "gcc", for_what: "linking, and bundled C code" },
    Need { program: "gcc", package: "gcc", for_what: "how much of a kernel a workload reaches" },
    Need { program: "gcov", package: "gcc", for_what: "how much of a kernel a workload reaches" },
    Need { program: "c++", package: "g++", for_what: "the C header in C++" },
    Need { program: "g++", package: "g++", for_what: "Android's C++" },
    Need { program: "aidl", package: "aidl", for_what: "comparing C++ with Android's compiler" },
    Need { program: "pkg-config", package: "pkg-config", for_what: "the C library" },
    Need { program: "javac", package: "default-jdk-headless", for_what: "Java and Kotlin" },
    Need { program: "jar", package: "default-jdk-headless", for_what: "Java and Kotlin" },
    Need { program: "mvn", package: "maven", for_what: "Java and Kotlin" },
    Need { program: "python3", package: "python3-venv", for_what: "Python" },
    Need { program: "nm", package: "binutils", for_what: "looking into built files" },
    Need { program: "make", package: "make", for_what: "building kernels" },
    Need { program: "flex", package: "flex", for_what: "building kernels" },
    Need { program: "bison", package: "bison", for_what: "building kernels" },
    Need { program: "bc", package: "bc", for_what: "building kernels" },
    Need { program: "git", package: "git", for_what: "porting patches" },
    Need { program: "patch", package: "patch", for_what: "comparing ports with patch's" },
    Need { program: "wiggle", package: "wiggle", for_what: "comparing ports with wiggle's" },
    Need { program: "unpack_bootimg", package: "mkbootimg", for_what: "taking Android boot images apart" },
    Need {
        program: "mkbootimg",
        package: "mkbootimg",
        for_what: "comparing boot images with the reference tools'",
    },
    Need {
        program: "abootimg",
        package: "abootimg",
        for_what: "comparing boot images with the reference tools'",
    },
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86", for_what: "the guest" },
    Need { program: "qemu-system-aarch64", package: "qemu-system-arm", for_what: "the arm64 guest" },
    Need { program: "busybox", package: "busybox-static", for_what: "the guest's initial file system" },
    Need { program: "chromium", package: "chromium", for_what: "reports in a browser" },
    Need { program: "ip", package: "iproute2", for_what: "network namespaces" },
    Need { program: "tc", package: "iproute2", for_what: "queues that limit a rate" },
    Need { program: "perf", package: "linux-perf", for_what: "comparing traces with perf's reading of them" },
    Need { program: "valgrind", package: "valgrind", for_what: "counting the instructions of a call" },
    Need { program: "flock", package: "util-linux", for_what: "targets that are held by another run" },
    Need { program: "ssh", package: "openssh-client", for_what: "targets behind ssh" },
    Need { program: "sshd", package: "openssh-server", for_what: "targets behind ssh" },
    Need { program: "pg_createcluster", package: "postgresql", for_what: "results in PostgreSQL" },
    Need { program: "slurmctld", package: "slurmctld", for_what: "campaigns on Slurm" },
    Need { program: "slurmd", package: "slurmd", for_what: "campaigns on Slurm" },
    Need { program: "sbatch", package: "slurm-client", for_what: "campaigns on Slurm" },
    Need {
        program: "/usr/lib/python3/dist-packages/lava_common/schemas/__init__.py",
        package: "lava-common",
        for_what: "jobs for LAVA by its own schema",
    },
    Need { program: "munged", package: "munge", for_what: "campaigns on Slurm" },
    Need { program: "systemd-socket-activate", package: "systemd", for_what: "socket activation" },
    Need { program: "systemd-analyze", package: "systemd", for_what: "units" },
    Need { program: "systemd-sysusers", package: "systemd", for_what: "the daemons' users" },
    Need { program: "cmake", package: "cmake", for_what: "the C library" },
    Need { program: "pip3", package: "python3-pip", for_what: "reading traces with Perfetto's definitions" },
    Need {
        program: "trace-cmd",
        package: "trace-cmd",
        for_what: "comparing traces with trace-cmd's reading",
    },
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
