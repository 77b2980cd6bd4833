//! A folder that nobody but this user and root can have written to: journals and sockets are kept in such.
//!
//! The path is walked part by part with `openat(O_NOFOLLOW)`, so that what was checked is what is used: a folder
//! of another user on the way, or one that others may write to, is refused. Files are opened below the folder's
//! descriptor only.

use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// Android's `system` user, which owns `/data`.
const ANDROID_SYSTEM: u32 = 1000;

/// An open folder whose owner and mode were checked, and those of every folder above it.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl PrivateFolder {
    /// Opens the folder, and makes it with this mode if it is not there.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` with the folder that is not to be trusted; what the kernel says.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        Self::walk(path, Some(Mode::from_raw_mode(mode)), rustix::process::geteuid().as_raw())
    }

    /// Opens a folder that is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::walk(path, None, rustix::process::geteuid().as_raw())
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn walk(path: &Path, make: Option<Mode>, user: u32) -> io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let top = fs::open("/", flags | OFlags::DIRECTORY, Mode::empty())?;
        // What is behind each folder on the way, so that `..` needs no look at the disk.
        let mut above: Vec<(OwnedFd, PathBuf)> = vec![(top, PathBuf::from("/"))];
        let mut parts = names(&absolute);
        let mut links = 0;
        while let Some(part) = parts.pop_front() {
            let Some((folder, at)) = above.last() else { break };
            check_parent(&fs::fstat(folder)?, at, user)?;
            if part == ".." {
                above.truncate((above.len() - 1).max(1));
                continue;
            }
            let here = at.join(&part);
            let opened = match fs::openat(folder, &part, flags, Mode::empty()) {
                Err(Errno::NOENT) if make.is_some() => {
                    // Its parents may be read by others, as if `mkdir -p` had made them.
                    let wanted = if parts.is_empty() { make } else { None };
                    match fs::mkdirat(folder, &part, wanted.unwrap_or(Mode::from_raw_mode(0o755))) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    fs::openat(folder, &part, flags, Mode::empty())?
                }
                opened => opened?,
            };
            let stat = fs::fstat(&opened)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => above.push((opened, here)),
                FileType::Symlink => {
                    links += 1;
                    if links > MOST_LINKS || !is_trusted(stat.st_uid, user) {
                        return Err(refused(&here, "is a link that another user made"));
                    }
                    let target = fs::readlinkat(&opened, "", Vec::new())?;
                    let target = Path::new(OsStr::from_bytes(target.as_bytes())).to_owned();
                    if target.is_absolute() {
                        above.truncate(1);
                    }
                    for name in names(&target).into_iter().rev() {
                        parts.push_front(name);
                    }
                }
                _ => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        let Some((folder, at)) = above.pop() else { return Err(io::ErrorKind::NotFound.into()) };
        let stat = fs::fstat(&folder)?;
        if stat.st_uid != user {
            return Err(refused(&at, &format!("belongs to user {} and not to user {user}", stat.st_uid)));
        }
        let by_group = stat.st_mode & 0o020 != 0;
        if stat.st_mode & 0o002 != 0 || by_group && !is_own_group(&stat) {
            return Err(refused(&at, "may be written to by others"));
        }
        let descriptor = fs::openat(&folder, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if by_group {
            fs::fchmod(&descriptor, Mode::from_raw_mode(stat.st_mode & 0o755))?;
        }
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// Opens a file of the folder, which must be a plain one of this user that others cannot write to. New ones
    /// are for this user alone.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if it is not to be trusted; what the kernel says.
    pub fn file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        let name = plain(name.as_ref())?;
        // Without O_NONBLOCK, a fifo would be waited for before it could be refused.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fs::fstat(&file)?;
        let path = self.path.join(name);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused(&path, "is not a plain file"));
        }
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user {
            return Err(refused(&path, &format!("belongs to user {} and not to user {user}", stat.st_uid)));
        }
        if stat.st_mode & 0o002 != 0 || stat.st_mode & 0o020 != 0 && !is_own_group(&stat) {
            return Err(refused(&path, "may be written to by others"));
        }
        Ok(File::from(file))
    }

    /// The names in the folder.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(self.descriptor.as_fd())? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes a file of the folder.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(fs::unlinkat(&self.descriptor, plain(name.as_ref())?, AtFlags::empty())?)
    }

    /// Keeps everybody else who asks waiting until the result is dropped.
    pub fn lock(&self) -> io::Result<OwnedFd> {
        // A description of its own: the lock belongs to that.
        let lock = fs::openat(&self.descriptor, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        fs::flock(&lock, fs::FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Root could write anywhere in any case.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == 0 || owner == user || (owner == ANDROID_SYSTEM && Path::new("/system/build.prop").exists())
}

/// By convention, the group with a user's number has that user only.
fn is_own_group(stat: &Stat) -> bool {
    stat.st_uid != 0 && stat.st_gid == stat.st_uid
}

/// Whether a name in this folder stays what it is while we go on.
fn check_parent(stat: &Stat, path: &Path, user: u32) -> io::Result<()> {
    if !is_trusted(stat.st_uid, user) {
        return Err(refused(path, &format!("belongs to user {} and not to user {user}", stat.st_uid)));
    }
    // In a folder with the sticky bit only owners rename and remove, and owners are checked at the next step.
    let is_sticky = stat.st_mode & 0o1000 != 0;
    let others = stat.st_mode & 0o002 != 0 || (stat.st_mode & 0o020 != 0 && !is_own_group(stat));
    if others && !is_sticky {
        return Err(refused(path, "may be written to by others"));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_root};
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn why(path: &Path) -> String {
        PrivateFolder::create(path, 0o700).unwrap_err().to_string()
    }

    #[test]
    fn it_is_made_for_its_user_alone_and_its_files_too() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        assert_eq!(PrivateFolder::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let folder = PrivateFolder::create(&path, 0o700).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        let mut file = folder.file("x", OFlags::WRONLY | OFlags::CREATE).unwrap();
        file.write_all(b"1").unwrap();
        assert_eq!(path.join("x").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(folder.names().unwrap(), ["x"]);
        folder.remove("x").unwrap();
        assert!(folder.names().unwrap().is_empty());
        for name in ["..", ".", "a/b", "/etc/passwd", ""] {
            assert!(folder.file(name, OFlags::RDONLY).is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_others_may_write_to_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        std::fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        assert!(why(&open).contains("may be written to by others"));
        assert!(why(&open.join("below")).contains("may be written to by others"));
        set_mode(&open, 0o1777);
        let folder = PrivateFolder::create(&open.join("below"), 0o700).unwrap();
        std::fs::write(open.join("below/file"), "").unwrap();
        set_mode(&open.join("below/file"), 0o666);
        assert!(folder.file("file", OFlags::RDONLY).unwrap_err().to_string().contains("by others"));
    }

    #[test]
    fn links_and_fifos_are_not_opened_as_files() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("secret"), "").unwrap();
        let folder = PrivateFolder::create(&top.path().join("f"), 0o700).unwrap();
        symlink(top.path().join("secret"), top.path().join("f/link")).unwrap();
        assert!(folder.file("link", OFlags::RDONLY).is_err());
        let fifo = top.path().join("f/fifo");
        fs::mknodat(fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(folder.file("fifo", OFlags::RDONLY).unwrap_err().to_string().contains("plain file"));
    }

    #[test]
    fn folders_files_and_links_of_another_user_are_refused() {
        require!(require_root());
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("theirs");
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(path.join("ours")).unwrap();
        chown(&path, Some(1001), Some(1001)).unwrap();
        assert!(why(&path).contains("belongs to user 1001"));
        assert!(why(&path.join("ours")).contains("belongs to user 1001"), "they can replace it");
        assert!(why(&path.join("new")).contains("belongs to user 1001"));
        assert!(!path.join("new").exists());

        let ours = top.path().join("ours");
        let folder = PrivateFolder::create(&ours, 0o700).unwrap();
        symlink(&ours, top.path().join("link")).unwrap();
        assert!(PrivateFolder::open(&top.path().join("link")).is_ok(), "our own link");
        rustix::fs::chownat(
            fs::CWD,
            top.path().join("link"),
            Some(rustix::fs::Uid::from_raw(1001)),
            None,
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        assert!(why(&top.path().join("link")).contains("a link that another user made"));
        std::fs::write(ours.join("planted"), "").unwrap();
        chown(ours.join("planted"), Some(1001), None).unwrap();
        let refused = folder.file("planted", OFlags::RDONLY).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 1001"), "{refused}");
    }
}
