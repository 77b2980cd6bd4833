//! What a test may need of the machine; each check gives the reason when it is not there.

use std::path::{Path, PathBuf};

/// `CAP_SYS_NICE` in the masks of `/proc/self/status`; see `capabilities(7)`.
const CAP_SYS_NICE: u32 = 23;

/// The effective user is root.
pub fn require_root() -> Result<(), String> {
    match effective_uid(&proc_self("status")?)? {
        0 => Ok(()),
        uid => Err(format!("needs root, runs as uid {uid}")),
    }
}

/// A program is on the search path; gives where.
pub fn require_tool(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_tool(name, std::env::split_paths(&path))
        .ok_or_else(|| format!("needs `{name}`, which is not installed"))
}

/// What it takes to boot a guest of this machine's architecture: QEMU, and the tools that fetch and
/// unpack the distribution's kernel.
pub fn require_guest() -> Result<(), String> {
    require_guest_of(std::env::consts::ARCH)
}

/// As [`require_guest`], of an architecture as Rust names it: `x86_64` or `aarch64`.
pub fn require_guest_of(arch: &str) -> Result<(), String> {
    ["apt-get", "dpkg-deb", &format!("qemu-system-{arch}")]
        .iter()
        .try_for_each(|tool| require_tool(tool).map(drop))
}

/// A file, folder or device exists; gives its path.
pub fn require_file(path: impl Into<PathBuf>) -> Result<PathBuf, String> {
    let path = path.into();
    if path.exists() { Ok(path) } else { Err(format!("needs {}, which is not there", path.display())) }
}

/// At least `wanted` CPUs may be used by this thread.
pub fn require_cpus(wanted: usize) -> Result<(), String> {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    if usable >= wanted { Ok(()) } else { Err(format!("needs {wanted} CPUs, may use {usable}")) }
}

/// This process may take a real-time scheduling policy (`CAP_SYS_NICE` or a nonzero `RLIMIT_RTPRIO`).
pub fn require_realtime() -> Result<(), String> {
    if may_be_realtime(&proc_self("status")?, &proc_self("limits")?) {
        Ok(())
    } else {
        Err("needs CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy".to_owned())
    }
}

/// User namespaces may be made, as root or otherwise.
pub fn require_user_namespaces() -> Result<(), String> {
    let unshare = require_tool("unshare")?;
    let output = std::process::Command::new(unshare)
        .args(["--user", "--map-root-user", "true"])
        .output()
        .map_err(|error| format!("needs user namespaces, cannot run unshare: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("needs user namespaces: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn proc_self(name: &str) -> Result<String, String> {
    let path = Path::new("/proc/self").join(name);
    std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn find_tool(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    folders.map(|folder| folder.join(name)).find(|path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

fn effective_uid(status: &str) -> Result<u32, String> {
    field(status, "Uid:")
        .and_then(|ids| ids.split_whitespace().nth(1))
        .and_then(|uid| uid.parse().ok())
        .ok_or_else(|| "cannot tell the user: no Uid in /proc/self/status".to_owned())
}

fn may_be_realtime(status: &str, limits: &str) -> bool {
    let capable = field(status, "CapEff:")
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_NICE & 1 == 1);
    let limit = field(limits, "Max realtime priority").and_then(|rest| rest.split_whitespace().next());
    capable || limit.is_some_and(|soft| soft != "0")
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_uid_is_the_second() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t0\t1000\t1000\n"), Ok(0));
        assert!(effective_uid("Name:\tx\n").is_err());
    }

    #[test]
    fn real_time_by_capability_or_by_limit() {
        let limits = "Max nice priority         0                    0\n\
                      Max realtime priority     LIMIT                0\n";
        let none = limits.replace("LIMIT", "0");
        assert!(!may_be_realtime("CapEff:\t0000000000000000\n", &none));
        assert!(may_be_realtime("CapEff:\t0000000000800000\n", &none));
        assert!(may_be_realtime("CapEff:\t0\n", &limits.replace("LIMIT", "99")));
        assert!(may_be_realtime("CapEff:\t0\n", &limits.replace("LIMIT", "unlimited")));
        assert!(!may_be_realtime("", ""));
    }

    #[test]
    fn a_tool_is_an_executable_file() {
        let folders = || ["/nowhere", "/usr/bin", "/bin"].map(PathBuf::from).into_iter();
        assert!(find_tool("sh", folders()).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_tool("no-such-tool-as-this", folders()), None);
        // A folder and a file that may not be executed are no tools.
        assert_eq!(find_tool("etc", std::iter::once(PathBuf::from("/"))), None);
        assert_eq!(find_tool("passwd", std::iter::once(PathBuf::from("/etc"))), None);
    }

    #[test]
    fn reasons_name_what_lacks() {
        assert!(require_file("/no/such/file").is_err_and(|reason| reason.contains("/no/such/file")));
        assert!(require_cpus(usize::MAX).is_err_and(|reason| reason.starts_with("needs ")));
        assert!(require_tool("no-such-tool-as-this").is_err_and(|r| r.contains("no-such-tool")));
        assert!(require_guest_of("pdp11").is_err_and(|reason| reason.starts_with("needs `")));
        assert_eq!(require_cpus(1), Ok(()));
    }
}
