//! The folder of a runtime that has a service manager of its own: made with it, removed with it, and
//! removed by the next one where a process was killed before it could.

use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, open, statat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{Error, Result};

/// Folders are called so, with sixteen hexadecimal digits that nobody can guess.
const PREFIX: &str = "handoff-";
const DIGITS: usize = 16;

/// How often another number is tried, where a folder that was just made was taken for a dead one.
const ATTEMPTS: usize = 16;

/// A folder that only this user can look into, removed with what is in it.
///
/// The lock says that its process lives: the kernel drops it with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Folder {
    /// Makes one in the user's runtime directory, or in that for temporary files.
    pub(crate) fn new() -> Result<Self> {
        let place = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        Folder::new_in(&place)
    }

    fn new_in(place: &Path) -> Result<Self> {
        sweep(place);
        for _ in 0..ATTEMPTS {
            let mut number = [0; 8];
            getrandom(&mut number, GetRandomFlags::empty())
                .map_err(|error| Error::io("cannot get random numbers", error))?;
            let path = place.join(format!("{PREFIX}{:0DIGITS$x}", u64::from_ne_bytes(number)));
            let failed = |error: std::io::Error| {
                Error::io(format!("cannot make the folder {}", path.display()), error)
            };
            // Fails where it exists already, a link of somebody else's included.
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            match lock(&path) {
                Ok(lock) => return Ok(Folder { path, _lock: lock }),
                // Another process saw it before it was locked.
                Err(Errno::NOENT | Errno::WOULDBLOCK) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(Error::io(format!("cannot keep a folder in {}", place.display()), Errno::AGAIN))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one that is made beside it.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// Locks a folder that is still there under its name.
///
/// Gives `WOULDBLOCK` where a living process has it, `NOENT` where it went meanwhile, `PERM` where it is
/// another user's.
fn lock(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty())?;
    let opened = fstat(&folder)?;
    if opened.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let named = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino) {
        return Err(Errno::NOENT);
    }
    Ok(folder)
}

/// Removes what processes of this user left in `place` that were killed.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = number.is_some_and(|number| {
            number.len() == DIGITS && number.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        if is_ours {
            if let Ok(_lock) = lock(&entry.path()) {
                drop(std::fs::remove_dir_all(entry.path()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(place: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new_in(place.path()).unwrap();
        std::fs::write(folder.path().join("servicemanager.sock"), "").unwrap();
        assert_eq!(entries(place.path()), [folder.path()]);
        drop(folder);
        assert!(entries(place.path()).is_empty());
    }

    #[test]
    fn what_the_killed_left_is_removed_and_what_lives_is_not() {
        let place = tempfile::tempdir().unwrap();
        let dead = place.path().join("handoff-00112233aabbccdd");
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("servicemanager.sock"), "").unwrap();
        let others = ["handoff-user", "handoff-0011", "handoff-00112233aabbccddee"];
        for other in others {
            std::fs::create_dir(place.path().join(other)).unwrap();
        }
        let target = place.path().join("target");
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, place.path().join("handoff-ffffffffffffffff")).unwrap();

        let first = Folder::new_in(place.path()).unwrap();
        assert!(!dead.exists());
        let second = Folder::new_in(place.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        assert!(others.iter().all(|other| place.path().join(other).exists()));
        assert!(target.exists() && place.path().join("handoff-ffffffffffffffff").is_symlink());
    }

    #[test]
    fn many_at_once_each_have_their_own() {
        let place = tempfile::tempdir().unwrap();
        let folders: Vec<Folder> = std::thread::scope(|scope| {
            let make = || (0..50).map(|_| Folder::new_in(place.path()).unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(folders.iter().all(|folder| folder.path().is_dir()));
        assert_eq!(entries(place.path()).len(), 200);
    }
}
