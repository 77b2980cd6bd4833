//! Where a server of Binder RPC listens.

use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};

use crate::identity::CallingIdentity;
use crate::{Error, Result, shm};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Whose connections are those whose other end the kernel does not know (the overflow uid): all of them together have
/// one user's share.
pub(super) const UNKNOWN: CallingIdentity = CallingIdentity { pid: 0, uid: 65_534, gid: 65_534 };

/// Where a server listens: [`RpcServer`](super::RpcServer) and [`RpcSession`](super::RpcSession).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RpcAddress {
    /// A Unix socket in the file system: who may write to it may connect.
    Path(PathBuf),
    /// A Unix socket with a name of the network namespace, which has no permissions.
    Abstract(Vec<u8>),
    /// A TCP socket. Nothing is encrypted, nobody is known: for machines that trust their network.
    Inet(SocketAddr),
}

impl From<PathBuf> for RpcAddress {
    fn from(path: PathBuf) -> Self {
        RpcAddress::Path(path)
    }
}

impl From<&Path> for RpcAddress {
    fn from(path: &Path) -> Self {
        RpcAddress::Path(path.to_owned())
    }
}

impl From<SocketAddr> for RpcAddress {
    fn from(address: SocketAddr) -> Self {
        RpcAddress::Inet(address)
    }
}

impl fmt::Display for RpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RpcAddress::Path(path) => path.display().fmt(f),
            RpcAddress::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            RpcAddress::Inet(address) => address.fmt(f),
        }
    }
}

impl RpcAddress {
    /// A name of the network namespace, without the zero in front of it.
    pub fn abstract_name(name: impl Into<Vec<u8>>) -> Self {
        RpcAddress::Abstract(name.into())
    }

    /// Whether descriptors can travel there.
    pub(super) fn passes_descriptors(&self) -> bool {
        !matches!(self, RpcAddress::Inet(_))
    }

    fn unix(&self) -> Result<Option<SocketAddrUnix>> {
        let address = match self {
            RpcAddress::Path(path) => SocketAddrUnix::new(path),
            RpcAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
            RpcAddress::Inet(_) => return Ok(None),
        };
        address.map(Some).map_err(|error| Error::io(format!("{self} cannot be a socket"), error))
    }

    /// Connects to whoever listens there.
    pub(super) fn connect(&self) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| Error::io(format!("no RPC server answers at {self}"), error);
        if let RpcAddress::Inet(address) = self {
            let stream = TcpStream::connect(address).map_err(failed)?;
            // A call is one message, which is not to wait for another one.
            stream.set_nodelay(true).map_err(failed)?;
            return Ok(stream.into());
        }
        let Some(address) = self.unix()? else { return Err(Error::Dead) };
        let socket = new_socket()?;
        connect(&socket, &address).map_err(|error| failed(error.into()))?;
        Ok(socket)
    }

    /// Listens there; in place of a socket file that nobody listens at, if there is one.
    pub(super) fn listen(&self) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| Error::io(format!("cannot listen at {self}"), error);
        if let RpcAddress::Inet(address) = self {
            return Ok(TcpListener::bind(address).map_err(failed)?.into());
        }
        let Some(address) = self.unix()? else { return Err(Error::Dead) };
        let listener = new_socket()?;
        if let Err(error) = bind(&listener, &address) {
            let RpcAddress::Path(path) = self else { return Err(failed(error.into())) };
            if error != rustix::io::Errno::ADDRINUSE || connect(new_socket()?, &address).is_ok() {
                return Err(failed(error.into()));
            }
            std::fs::remove_file(path).map_err(failed)?;
            bind(&listener, &address).map_err(|error| failed(error.into()))?;
        }
        listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
        Ok(listener)
    }

    /// Where a listener listens that was bound here: port 0 became one.
    pub(super) fn bound(&self, listener: &OwnedFd) -> Self {
        let port = |listener: &OwnedFd| {
            let listener = TcpListener::from(listener.try_clone().ok()?);
            listener.local_addr().ok()
        };
        match self {
            RpcAddress::Inet(address) => RpcAddress::Inet(port(listener).unwrap_or(*address)),
            other => other.clone(),
        }
    }
}

fn new_socket() -> Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::io("cannot make a socket", error))
}

/// Waits for the next connection.
pub(super) fn accept(listener: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC)?;
    // Fails on a Unix socket, which delays nothing.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    Ok(socket)
}

/// Who made the connection at the other end, where the kernel knows it.
pub(super) fn peer(socket: &OwnedFd) -> Result<CallingIdentity> {
    match sockopt::socket_domain(socket) {
        Ok(AddressFamily::UNIX) => shm::peer_of(socket.as_fd()),
        _ => Ok(UNKNOWN),
    }
}
