//! Writes to files of the kernel, and to nothing else: whatever a path leads to, the file's own file system says
//! whether the kernel made it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstatfs, open, openat};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// `f_type` of `statfs(2)`; see `linux/magic.h`.
const CGROUP: u64 = 0x0027_e0eb;
const CGROUP2: u64 = 0x6367_7270;
const SETTINGS: [u64; 6] = [0x6265_6572, 0x9fa0, 0x7472_6163, 0x6462_6720, CGROUP, CGROUP2];

/// Writes to a file of sysfs, procfs, tracefs, debugfs or a control group that is there, in one go. A link at the
/// path's end is not followed, and nothing is made or cut.
///
/// # Errors
///
/// `PermissionDenied` if the file is of another file system; what the kernel says.
pub fn write_setting(path: &Path, value: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty())?;
    check(&file, &SETTINGS, "a file of sysfs, procfs, tracefs, debugfs or a control group")?;
    File::from(file).write_all(value.as_bytes())
}

/// Writes to a file of a control group; the folder must be one.
pub(crate) fn write_in_group(folder: &Path, name: &str, value: &str) -> io::Result<()> {
    let group = open_group(folder)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(&group, name, flags, Mode::empty())?).write_all(value.as_bytes())
}

/// The descriptor of a control group's folder.
pub(crate) fn open_group(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let group = open(folder, flags, Mode::empty())?;
    check(&group, &[CGROUP, CGROUP2], "a control group")?;
    Ok(group)
}

fn check(file: impl AsFd, kinds: &[u64], what: &str) -> io::Result<()> {
    // Signed and of 32 bits on some machines: the number has 32.
    let kind = fstatfs(file)?.f_type as u64 & 0xffff_ffff;
    if kinds.contains(&kind) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is not {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_of_the_kernel_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(write_setting(&path, "x").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine", "it is not cut either");
        assert!(write_setting(&folder.path().join("new"), "x").is_err());
        assert!(!folder.path().join("new").exists());
        let link = folder.path().join("link");
        symlink("/proc/self/comm", &link).unwrap();
        assert!(write_setting(&link, "x").is_err());
        let before = std::fs::read_to_string("/proc/self/comm").unwrap();
        write_setting(Path::new("/proc/self/comm"), before.trim()).unwrap();
    }

    #[test]
    fn a_folder_that_looks_like_a_group_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let procs = folder.path().join("cgroup.procs");
        std::fs::write(&procs, "mine").unwrap();
        assert!(write_in_group(folder.path(), "cgroup.procs", "1").is_err());
        assert_eq!(std::fs::read_to_string(procs).unwrap(), "mine");
    }
}
