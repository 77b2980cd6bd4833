//! The engine as applications see it.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::core::Core;
use super::link::{Link, PEER_TIMEOUT};
use super::remote::RemoteNode;
use crate::engine::{Engine, EngineStats};
use crate::engine_kind::EngineKind;
use crate::object::{Binder, LocalNode, Reference};
use crate::{Error, Result, ledger, pool, stats};

/// The shared-memory engine of this process.
pub struct ShmEngine {
    core: Arc<Core>,
    manager: PathBuf,
}

impl ShmEngine {
    /// An engine whose service manager listens at `manager`. Nothing is connected yet.
    ///
    /// # Errors
    /// If the process cannot have another thread or descriptor.
    pub fn new(manager: impl Into<PathBuf>) -> Result<Self> {
        Ok(ShmEngine { core: Core::start()?, manager: manager.into() })
    }

    /// Whether callers look for the best way to wait (see the book on following the caller): those that call other
    /// processes from now on. Off, each blocked call sleeps at once and the scheduler places both sides.
    pub fn follow_callers(&self, on: bool) {
        self.core.follow_callers(on);
    }

    /// Where the service manager listens.
    pub fn manager_socket(&self) -> &Path {
        &self.manager
    }

    /// Makes an object of this process the service manager at a socket that listens already.
    pub(crate) fn manage_at(&self, listener: OwnedFd, manager: Binder) -> Result<()> {
        let node = own_node(manager)?;
        let what = |error| Error::io("cannot take the inherited socket over", error);
        let flags = fcntl_getfl(&listener).map_err(what)?;
        fcntl_setfl(&listener, flags | OFlags::NONBLOCK).map_err(what)?;
        fcntl_setfd(&listener, FdFlags::CLOEXEC).map_err(what)?;
        // Once more, so that `SO_PEERCRED` of who connects names this process, and not the one that made the socket.
        listen(&listener, BACKLOG).map_err(what)?;
        self.core.listen(listener, node)
    }

    fn address(&self) -> Result<SocketAddrUnix> {
        SocketAddrUnix::new(&self.manager)
            .map_err(|error| Error::io(format!("{} cannot be a socket", self.manager.display()), error))
    }

    /// `connect` gives ECONNREFUSED for a file that is no socket as for one that nobody listens at, and EPROTOTYPE for a
    /// socket of streams.
    fn why_nobody_answers(&self, error: Errno) -> String {
        let path = self.manager.display();
        match std::fs::metadata(&self.manager) {
            Ok(found) if found.is_dir() => {
                format!("{path} is a folder: name the socket in it, such as {path}/servicemanager.sock")
            }
            Ok(found) if !found.file_type().is_socket() => format!("{path} is no socket"),
            Ok(_) if error == Errno::PROTOTYPE => format!("{path} is the socket of something else"),
            _ => format!("no service manager answers at {path} (`handoff servicemanager` starts one)"),
        }
    }
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

fn own_node(manager: Binder) -> Result<Arc<LocalNode>> {
    match manager {
        Binder(Reference::Local(node)) => Ok(node),
        Binder(_) => Err(Error::Unsupported {
            engine: "shm",
            what: "make an object of another process the service manager".into(),
        }),
    }
}

fn new_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|error| Error::io("cannot make a socket", error))
}

/// Connects. While the listener has as many connections to accept as it may keep, this waits for its turn in the kernel:
/// who would only try again now and then finds the queue full for as long as others wait in it.
fn connect_within(address: &SocketAddrUnix, wait: Duration) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
    let end = Instant::now() + wait;
    while let Err(error) = connect(&socket, address) {
        if error != Errno::INTR || Instant::now() >= end {
            return Err(error);
        }
    }
    fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
    Ok(socket)
}

impl Engine for ShmEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Shm
    }

    fn context_object(&self) -> Result<Binder> {
        let socket = connect_within(&self.address()?, PEER_TIMEOUT)
            .map_err(|error| Error::io(self.why_nobody_answers(error), error))?;
        let manager = self.core.connect(socket)?;
        if let Reference::Remote(remote) = &manager.0 {
            if let Some(node) = remote.as_any().downcast_ref::<RemoteNode>() {
                node.link.goes_to_manager();
            }
        }
        Ok(manager)
    }

    fn holders(&self, object: &Binder) -> Option<usize> {
        let Binder(Reference::Local(node)) = object else { return None };
        let holds = |link: &&Arc<Link>| !link.is_to_manager() && link.exported(node.id()).is_some();
        // First: who comes meanwhile is counted twice rather than not at all.
        let to_come = node.to_come();
        Some(to_come + self.core.links().iter().filter(holds).count())
    }

    fn become_context_manager(&self, manager: Binder) -> Result<()> {
        let node = own_node(manager)?;
        let address = self.address()?;
        let listener = new_socket()?;
        if let Err(error) = bind(&listener, &address) {
            // A socket file that nobody listens at is left of one that was killed.
            // A file or a link that somebody named by mistake is not ours to remove.
            let is_socket =
                std::fs::symlink_metadata(&self.manager).is_ok_and(|found| found.file_type().is_socket());
            // One whose queue is full takes no connection either, and is there.
            let taken = is_socket && connect(new_socket()?, &address) != Err(Errno::CONNREFUSED);
            if error != Errno::ADDRINUSE || taken || !is_socket {
                let what = if taken {
                    format!("another service manager serves at {}", self.manager.display())
                } else if error == Errno::ADDRINUSE {
                    format!("cannot listen at {}: it is there, and no socket", self.manager.display())
                } else {
                    format!("cannot listen at {}", self.manager.display())
                };
                return Err(Error::io(what, error));
            }
            let what = || format!("cannot replace the dead socket {}", self.manager.display());
            std::fs::remove_file(&self.manager).map_err(|error| Error::io(what(), error))?;
            bind(&listener, &address).map_err(|error| Error::io(what(), error))?;
        }
        listen(&listener, BACKLOG).map_err(|error| Error::io("cannot listen", error))?;
        self.core.listen(listener, node)
    }

    fn set_max_threads(&self, threads: usize) {
        pool::set_max(threads);
    }

    fn stats(&self) -> EngineStats {
        let (([calls, spun, slept, beside], served), links) = self.core.tallies();
        self.core.forget_read();
        EngineStats {
            calls,
            served,
            served_oneway: stats::SERVED_ONEWAY.get(),
            spun,
            slept,
            beside,
            priority_changes: stats::PRIORITY_CHANGES.get(),
            raised: stats::RAISED.get(),
            inherit_denied: stats::INHERIT_DENIED.get(),
            threads: pool::threads() as u64,
            links: links as u64,
            refused: stats::REFUSED.get(),
            messages: stats::MESSAGES.get(),
            held: ledger::held(),
            ..EngineStats::default()
        }
    }
}

impl Drop for ShmEngine {
    fn drop(&mut self) {
        self.core.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_whose_queue_is_full_is_not_taken_for_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = SocketAddrUnix::new(&path).unwrap();
        let listener = new_socket().unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 0).unwrap();
        // Nobody accepts them.
        let mut waiting = Vec::new();
        while let Some(socket) =
            Some(new_socket().unwrap()).filter(|socket| connect(socket, &address).is_ok())
        {
            waiting.push(socket);
        }
        let engine = ShmEngine::new(&path).unwrap();
        let nothing = Binder::new(crate::ParcelService::new("test.INothing", |_, _| Ok(None)));
        let error = engine.become_context_manager(nothing.clone()).unwrap_err().to_string();
        assert!(error.contains("another service manager"), "{error}");
        drop((waiting, listener));
        engine.become_context_manager(nothing).unwrap();
    }
}
