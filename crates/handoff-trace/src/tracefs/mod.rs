//! The kernel's tracing files: where they are, and reading and writing them.
//!
//! Reference: `Documentation/trace/ftrace.rst` of the kernel.

pub mod instance;
mod restore;

pub use instance::Instance;
pub use restore::{Leftover, leftovers, restore};

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Result, TraceError};

/// Where tracefs is mounted, first the usual place, then Android's and older kernels' one.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The root of a tracefs.
#[derive(Debug, Clone)]
pub struct TraceFs {
    root: PathBuf,
    /// A mount of our own that no other program sees, and that ends with this descriptor.
    _mount: Option<Arc<OwnedFd>>,
}

impl TraceFs {
    /// Finds the mounted tracefs, or mounts one that only this process sees.
    pub fn find() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if let Some(root) = mounted(&mounts) {
            return Ok(Self { root, _mount: None });
        }
        match mount_detached() {
            Ok(fd) => {
                let root = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
                Ok(Self { root, _mount: Some(Arc::new(fd)) })
            }
            // Asked for last: only looking at the second of these mounts it where debugfs is mounted.
            Err(why) => USUAL
                .iter()
                .find(|root| Path::new(root).join("events/header_page").exists())
                .map(|root| Self { root: root.into(), _mount: None })
                .ok_or_else(|| TraceError::NoTraceFs { tried: USUAL.join(", "), why }),
        }
    }

    /// A tracefs at a place of your choice, such as a recorded tree for a test.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), _mount: None }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Where the list of mounts (`/proc/self/mounts`, see proc(5)) has a tracefs.
fn mounted(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        // A place with a space or a backslash is written with escapes; nobody mounts tracefs there.
        (kind == "tracefs" && !place.contains('\\')).then(|| place.into())
    })
}

/// Mounts tracefs nowhere: a mount that is reached through its descriptor only (Linux 5.2).
fn mount_detached() -> io::Result<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

/// Reads a control file. `std::fs::read_to_string` will not do: it begins with a read of 32 bytes,
/// and some of these files (`header_page` among them) give their text to the first read only.
pub(crate) fn read(path: &Path) -> Result<String> {
    use std::io::Read as _;
    let fail = |source| TraceError::control("read", path, source);
    let mut file = fs::File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(start + READ, 0);
        let count = match file.read(&mut bytes[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                bytes.truncate(start);
                continue;
            }
            other => other.map_err(fail)?,
        };
        bytes.truncate(start + count);
        if count == 0 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// More than any control file that is not a list gives.
const READ: usize = 64 << 10;

/// Writes a control file in one `write`, as the kernel wants it.
pub(crate) fn write(path: &Path, value: &str) -> Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| TraceError::control(format!("write \"{}\" to", value.trim_end()), path, source))
}

/// Adds a line to a control file that keeps what it had.
pub(crate) fn append(path: &Path, value: &str) -> Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| TraceError::control(format!("add \"{}\" to", value.trim_end()), path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};

    #[test]
    fn it_is_found_or_mounted_for_us_alone() {
        require!(require_root());
        // Not all mounts: other programs of the machine have theirs come and go.
        let tracefs_mounts = || {
            let mounts = fs::read_to_string("/proc/self/mounts").expect("readable");
            mounts.lines().filter(|line| line.contains("tracefs")).map(str::to_owned).collect::<Vec<_>>()
        };
        let mounts = tracefs_mounts();
        let tracefs = TraceFs::find().expect("root can always trace");
        assert!(read(&tracefs.root().join("events/header_page")).expect("readable").contains("commit"));
        let detached = mount_detached().expect("root may mount");
        let path = PathBuf::from(format!("/proc/self/fd/{}/trace_clock", detached.as_raw_fd()));
        assert!(read(&path).expect("readable").contains("mono"));
        assert_eq!(tracefs_mounts(), mounts, "nobody sees it");
    }

    #[test]
    fn a_mounted_one_is_used() {
        let mounts = "proc /proc proc rw 0 0\nnodev /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(mounted(mounts), Some("/sys/kernel/tracing".into()));
        assert_eq!(mounted("tracefs /x\\040y tracefs rw 0 0\n"), None);
        assert_eq!(mounted("proc /proc proc rw 0 0\n\nodd"), None);
    }

    #[test]
    fn a_missing_control_file_is_an_error_that_names_it() {
        let error = read(Path::new("/nowhere/tracing_on")).expect_err("no such file");
        assert!(error.to_string().contains("/nowhere/tracing_on"), "{error}");
    }
}
