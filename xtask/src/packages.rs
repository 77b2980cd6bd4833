//! What the tests need from the system, and how to get it.

use std::process::Command;

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
    Need { program: "pip3", package: "python3-pip", for_what: "reading traces with Perfetto's definitions" },
    Need {
        program: "trace-cmd",
        package: "trace-cmd",
        for_what: "comparing traces with trace-cmd's reading",
    },
];

/// Installs what is missing when that is possible, or says what to install.
///
/// Never fails because of a package: the tests that need it are then skipped, and say so.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| find(need.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.dedup();
    if !is_root() || find("apt-get").is_none() {
        println!("Some tests will be skipped. To run them, install what they need:");
        for need in missing {
            println!("  {:<20} for {}", need.program, need.for_what);
        }
        println!("On Debian and Ubuntu: sudo apt-get install {}", packages.join(" "));
        return Ok(());
    }
    if !install(&packages)? {
        succeeds(apt_get().arg("update"))?;
        if !install(&packages)? {
            println!("cannot install {}: the tests that need them will be skipped", packages.join(", "));
        }
    }
    Ok(())
}

fn install(packages: &[&str]) -> Result<bool> {
    succeeds(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages))
}

/// `apt-get` that asks nothing, waits for another one to end, and prints only what matters.
pub(crate) fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .current_dir(process::root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Every system has them, or can do nothing about them.
    const GIVEN: &[&str] = &["sh", "bash", "gzip", "unshare", "flock", "apt-get", "dpkg-deb"];

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
