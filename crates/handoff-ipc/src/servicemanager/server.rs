//! A manager at a socket.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};

use super::process::ProcessObject;
use super::service::Manager;
use crate::engine::Engine;
use crate::shm::ShmEngine;
use crate::{Error, Result, socket_file};

/// Who may connect to a manager's socket at all, by the file's permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketAccess {
    /// Processes of the manager's own user, and of root.
    Owner,
    /// Every process of the machine; the policy says what each may do.
    Everybody,
}

impl SocketAccess {
    fn modes(self) -> (u32, u32) {
        match self {
            SocketAccess::Owner => (0o700, 0o600),
            SocketAccess::Everybody => (0o755, 0o666),
        }
    }
}

/// A manager that serves at a socket, until this is dropped; then the socket is gone, if it was made for this.
pub struct ManagerServer {
    manager: Manager,
    engine: Arc<dyn Engine>,
    path: PathBuf,
    _own: Option<SocketFile>,
}

impl Manager {
    /// Begins to serve on the `shm` engine. Folders on the way to the socket are made as needed; a
    /// socket that a manager left which was killed is replaced.
    ///
    /// # Errors
    /// If another manager serves there, or the socket cannot be made.
    pub fn serve(self, socket: &Path, access: SocketAccess) -> Result<ManagerServer> {
        let (folder_mode, mode) = access.modes();
        if let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(folder_mode).create(folder);
            made.map_err(|error| Error::io(format!("cannot make the folder {}", folder.display()), error))?;
        }
        let engine = ShmEngine::new(socket)?;
        engine.become_context_manager(self.binder())?;
        let what = || format!("cannot set who may connect to {}", socket.display());
        socket_file::set_mode(socket, mode).map_err(|error| Error::io(what(), error))?;
        let own = SocketFile::at(socket).map_err(|error| Error::io(what(), error))?;
        self.begin(Arc::new(engine), socket.to_owned(), Some(own))
    }

    /// Begins to serve, on the `shm` engine, at a socket that listens already: systemd makes one before it starts
    /// its service, and so does whoever else starts a manager when the first client comes (sd_listen_fds(3)).
    /// Who may connect was decided by who made the socket, and its file stays when this is dropped.
    ///
    /// ```
    /// use handoff_ipc::servicemanager::{Manager, Policy};
    /// use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("names.sock");
    /// let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    /// bind(&listener, &SocketAddrUnix::new(&path)?)?;
    /// listen(&listener, 16)?;
    /// let serving = Manager::new(Policy::open()).serve_at(listener)?;
    /// assert_eq!(serving.socket(), path);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it is no Unix socket of packets that listens at a path.
    pub fn serve_at(self, listener: OwnedFd) -> Result<ManagerServer> {
        let path = path_of(&listener)?;
        let engine = ShmEngine::new(&path)?;
        engine.manage_at(listener, self.binder())?;
        self.begin(Arc::new(engine), path, None)
    }

    fn begin(self, engine: Arc<dyn Engine>, path: PathBuf, own: Option<SocketFile>) -> Result<ManagerServer> {
        match self.list_itself(ProcessObject::binder(&engine)) {
            // A policy that keeps its manager from being listed is no reason not to serve.
            Ok(()) | Err(Error::Status(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(ManagerServer { manager: self, engine, path, _own: own })
    }
}

/// Where a socket listens.
fn path_of(listener: &OwnedFd) -> Result<PathBuf> {
    let wrong = |what: &str| {
        let what =
            format!("the inherited socket {what}: a unit of systemd says ListenSequentialPacket=/PATH");
        Error::io(what, std::io::Error::from(std::io::ErrorKind::InvalidInput))
    };
    let is_packets = sockopt::socket_domain(listener).is_ok_and(|domain| domain == AddressFamily::UNIX)
        && sockopt::socket_type(listener).is_ok_and(|kind| kind == SocketType::SEQPACKET);
    if !is_packets {
        return Err(wrong("is no Unix socket of packets"));
    }
    if !sockopt::socket_acceptconn(listener).is_ok_and(|listens| listens) {
        return Err(wrong("does not listen"));
    }
    let address =
        getsockname(listener).map_err(|error| Error::io("cannot learn where a socket is", error))?;
    let address = SocketAddrUnix::try_from(address).map_err(|_| wrong("has no address"))?;
    let path = address.path_bytes().filter(|path| !path.is_empty()).ok_or_else(|| wrong("has no path"))?;
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}

impl ManagerServer {
    /// The manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Where it serves.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}

impl std::fmt::Debug for ManagerServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerServer").field("manager", &self.manager).field("socket", &self.path).finish()
    }
}

/// The socket's name in the file system, removed on drop if it is still the same file.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

impl SocketFile {
    fn at(path: &Path) -> std::io::Result<Self> {
        Ok(SocketFile { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // One that somebody else removes at this moment is gone as wanted.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
