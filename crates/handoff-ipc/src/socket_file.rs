//! A listening socket's name in the file system: who may connect there.

use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, chmod, fstat, open};
use rustix::io::Errno;

/// Sets who may connect to a socket that this process has just bound.
///
/// Whoever may write to its folder may have put something else in its place since: a link would lead to any file, which
/// root would then open to everybody. So what is found there is opened first, and looked at.
///
/// # Errors
/// If it is no socket of this process's user any longer; if `/proc` is not mounted.
pub(crate) fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM.into());
    }
    // A descriptor without rights to the file takes no `fchmod`.
    chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), Mode::from_raw_mode(mode))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_is_opened_and_what_was_put_in_its_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| std::fs::symlink_metadata(at(name)).unwrap().mode() & 0o777;
        let _listener = UnixListener::bind(at("socket")).unwrap();
        std::fs::set_permissions(at("socket"), std::fs::Permissions::from_mode(0o600)).unwrap();
        set_mode(&at("socket"), 0o666).unwrap();
        assert_eq!(mode("socket"), 0o666);

        std::fs::write(at("secret"), "").unwrap();
        std::fs::set_permissions(at("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(at("secret"), at("link")).unwrap();
        symlink(at("socket"), at("link to it")).unwrap();
        for other in ["link", "link to it", "secret"] {
            assert!(set_mode(&at(other), 0o666).is_err(), "{other}");
        }
        assert_eq!(mode("secret"), 0o600);
    }
}
