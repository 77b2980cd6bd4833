//! binderfs: a file system whose files are drivers, as many as wanted.
//! <https://docs.kernel.org/admin-guide/binderfs.html>
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    mount, unmount,
};

use super::uapi::BINDER_CTL_ADD;
use crate::{Error, Result};

/// Its type in `mount` and `/proc/filesystems`.
const TYPE: &str = "binder";
/// The file through which devices are made.
const CONTROL: &str = "binder-control";
/// `BINDERFS_MAX_NAME`.
const MAX_NAME: usize = 255;

/// A binderfs: a folder of Binder drivers, each a context of its own with its own context manager.
///
/// ```no_run
/// use handoff_ipc::binder::{Binderfs, BinderEngine};
///
/// let binderfs = Binderfs::private()?;
/// let device = binderfs.create_device("mine")?;
/// let engine = BinderEngine::open(device)?;
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug)]
pub struct Binderfs {
    folder: PathBuf,
    hold: MountOwner,
}

#[derive(Debug)]
enum MountOwner {
    /// Somebody else's.
    Found,
    /// To be unmounted.
    Mounted,
    /// In no mount namespace; gone when this and every open device are closed.
    Detached { _mount: OwnedFd },
}

impl Binderfs {
    /// Whether this kernel has binderfs.
    pub fn is_supported() -> bool {
        let known = read_to_string("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.split_whitespace().last() == Some(TYPE))
    }

    /// Where binderfs is mounted already.
    pub fn mounted() -> Vec<PathBuf> {
        mounted_in(&read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    /// The one that is mounted at `folder`.
    ///
    /// # Errors
    /// If none is.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let found = std::fs::metadata(folder.join(CONTROL));
        found.map_err(|error| {
            Error::io(
                format!("{} is no binderfs: it has no {CONTROL}; mount one there first", folder.display()),
                error,
            )
        })?;
        Ok(Binderfs { folder, hold: MountOwner::Found })
    }

    /// Mounts a new one at `folder`, which is made if need be, in this process's mount namespace. It is
    /// unmounted on drop; [`Binderfs::keep`] leaves it.
    ///
    /// # Errors
    /// If the kernel has no binderfs, or this user may not mount it.
    pub fn mount(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::io(format!("cannot make the folder {}", folder.display()), error))?;
        mount(TYPE, &folder, TYPE, MountFlags::NOSUID | MountFlags::NOEXEC, None)
            .map_err(|error| cannot_mount(&format!("at {}", folder.display()), error))?;
        Ok(Binderfs { folder, hold: MountOwner::Mounted })
    }

    /// A new one that is in nobody's mount namespace: this process reaches it, and those to which it
    /// tells [`Binderfs::folder`] and which may look into its `/proc` entry. It ends with this value.
    ///
    /// # Errors
    /// As [`Binderfs::mount`], and before Linux 5.2.
    pub fn private() -> Result<Self> {
        let make = || {
            let context = fsopen(TYPE, FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(
                &context,
                FsMountFlags::FSMOUNT_CLOEXEC,
                MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            )
        };
        let mount = make().map_err(|error| cannot_mount("for this process alone", error))?;
        let folder = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()));
        Ok(Binderfs { folder, hold: MountOwner::Detached { _mount: mount } })
    }

    /// Where its devices are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves it mounted.
    pub fn keep(mut self) {
        self.hold = MountOwner::Found;
    }

    /// Makes a driver, and gives its device. One that is there already is left as it is.
    ///
    /// # Errors
    /// If the name cannot be one, the kernel's limit of devices is reached, or this user may not.
    pub fn create_device(&self, name: &str) -> Result<PathBuf> {
        #[repr(C)]
        struct Device {
            name: [u8; MAX_NAME + 1],
            major: u32,
            minor: u32,
        }
        let device = self.folder.join(name);
        let cannot =
            |error: io::Error| Error::io(format!("cannot make the device {}", device.display()), error);
        if name.is_empty() || name.len() > MAX_NAME || name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(cannot(io::Error::new(io::ErrorKind::InvalidInput, "that is no name for a device")));
        }
        let control = open(self.folder.join(CONTROL), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| cannot(error.into()))?;
        let mut request = Device { name: [0; MAX_NAME + 1], major: 0, minor: 0 };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the structure is `struct binderfs_device`; the kernel reads its name, which ends in
        // a zero, and writes the two numbers.
        let answer = unsafe { libc::ioctl(control.as_raw_fd(), BINDER_CTL_ADD as _, &raw mut request) };
        if answer == 0 {
            return Ok(device);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::AlreadyExists && name != CONTROL => Ok(device),
            error => Err(cannot(error)),
        }
    }

    /// Removes a driver. Those who have it open keep it.
    ///
    /// # Errors
    /// If it is not there, or is `binder-control`.
    pub fn remove_device(&self, name: &str) -> Result<()> {
        let device = self.folder.join(name);
        std::fs::remove_file(&device)
            .map_err(|error| Error::io(format!("cannot remove the device {}", device.display()), error))
    }

    /// The names of its drivers, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn devices(&self) -> Result<Vec<String>> {
        let is_device = |entry: &std::fs::DirEntry| {
            entry.file_type().is_ok_and(|kind| !kind.is_dir()) && entry.file_name() != CONTROL
        };
        self.names_in(&self.folder, is_device)
    }

    /// What the driver can do, by the names of the files in `features/`; none before Linux 5.15.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn features(&self) -> Result<BTreeMap<String, bool>> {
        let folder = self.folder.join("features");
        if !folder.is_dir() {
            return Ok(BTreeMap::new());
        }
        let names = self.names_in(&folder, |_| true)?;
        let is_on = |name: String| {
            let file = folder.join(&name);
            let text = read_to_string(&file)
                .map_err(|error| Error::io(format!("cannot read {}", file.display()), error))?;
            Ok((name, text.trim() == "1"))
        };
        names.into_iter().map(is_on).collect()
    }

    fn names_in(&self, folder: &Path, wanted: impl Fn(&std::fs::DirEntry) -> bool) -> Result<Vec<String>> {
        let cannot = |error| Error::io(format!("cannot list {}", folder.display()), error);
        let mut names = Vec::new();
        for entry in read_dir(folder).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if wanted(&entry) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

fn cannot_mount(how: &str, error: rustix::io::Errno) -> Error {
    let why = match error {
        rustix::io::Errno::NODEV => {
            " (this kernel is built without it, CONFIG_ANDROID_BINDERFS; `handoff kernel build` builds one that has \
             it, and `handoff guest run` boots one that has /dev/binder)"
        }
        rustix::io::Errno::PERM => " (that takes root, or a user namespace of one's own)",
        _ => "",
    };
    Error::io(format!("cannot mount a binderfs {how}{why}"), error)
}

/// Mount points of binderfs in a `/proc/mounts`, where spaces stand as `\040`.
fn mounted_in(mounts: &str) -> Vec<PathBuf> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, kind) = (fields.next()?, fields.next()?);
            (kind == TYPE).then(|| PathBuf::from(place.replace("\\040", " ")))
        })
        .collect()
}

impl Drop for Binderfs {
    fn drop(&mut self) {
        if matches!(self.hold, MountOwner::Mounted) {
            // Those who have a device open keep it; the mount goes with the last of them.
            let _ = unmount(&self.folder, UnmountFlags::DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_by_their_type() {
        let mounts = "proc /proc proc rw 0 0\nbinder /dev/binderfs binder rw,max=1048576 0 0\n\
                      x /a\\040b binder rw 0 0\nbinder /c tmpfs rw 0 0\nhalf";
        assert_eq!(mounted_in(mounts), [PathBuf::from("/dev/binderfs"), PathBuf::from("/a b")]);
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Binderfs::at(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is no binderfs"), "{error}");
        // What looks like one answers nothing.
        std::fs::write(folder.path().join(CONTROL), "").unwrap();
        let fake = Binderfs::at(folder.path()).unwrap();
        assert!(fake.create_device("x").is_err());
        for name in ["", "a/b", "..", "\0", &"x".repeat(256)] {
            let error = fake.create_device(name).unwrap_err().to_string();
            assert!(error.contains("no name"), "{name:?}: {error}");
        }
        assert_eq!(fake.features().unwrap(), BTreeMap::new());
        assert_eq!(fake.devices().unwrap(), Vec::<String>::new());
    }
}
