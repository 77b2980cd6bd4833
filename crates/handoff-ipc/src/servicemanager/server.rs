//! A manager at a socket.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::process::ProcessObject;
use super::service::Manager;
use crate::engine::Engine;
use crate::shm::ShmEngine;
use crate::{Error, Result};

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

/// A manager that serves at a socket, until this is dropped; then the socket is gone.
pub struct Serving {
    manager: Manager,
    engine: Arc<dyn Engine>,
    socket: SocketFile,
}

impl Manager {
    /// Begins to serve on the `shm` engine. Folders on the way to the socket are made as needed; a
    /// socket that a manager left which was killed is replaced.
    ///
    /// # Errors
    /// If another manager serves there, or the socket cannot be made.
    pub fn serve(self, socket: &Path, access: SocketAccess) -> Result<Serving> {
        let (folder_mode, mode) = access.modes();
        if let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(folder_mode).create(folder);
            made.map_err(|error| Error::io(format!("cannot make the folder {}", folder.display()), error))?;
        }
        let engine = ShmEngine::new(socket)?;
        engine.become_context_manager(self.binder())?;
        let what = || format!("cannot set who may connect to {}", socket.display());
        std::fs::set_permissions(socket, Permissions::from_mode(mode))
            .map_err(|error| Error::io(what(), error))?;
        let socket = SocketFile::at(socket).map_err(|error| Error::io(what(), error))?;
        let engine: Arc<dyn Engine> = Arc::new(engine);
        match self.list_itself(ProcessObject::binder(&engine)) {
            // A policy that keeps its manager from being listed is no reason not to serve.
            Ok(()) | Err(Error::Status(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(Serving { manager: self, engine, socket })
    }
}

impl Serving {
    /// The manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Where it serves.
    pub fn socket(&self) -> &Path {
        &self.socket.path
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("manager", &self.manager).field("socket", &self.socket.path).finish()
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
