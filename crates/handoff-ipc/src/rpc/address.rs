//! Where a server of Binder RPC listens.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::accessor;
use crate::identity::CallingIdentity;
use crate::object::Binder;
use crate::{Error, Result, shm};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// After so long without a word a machine at the other end of a TCP connection is asked whether it is there.
const SILENT: Duration = Duration::from_secs(60);
/// How often it is asked; without an answer six times the connection ends.
const ASKED_AGAIN: Duration = Duration::from_secs(10);
/// Milliseconds after which a TCP connection ends whose other end does not take what was sent (`TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: u32 = 120_000;

/// Where a server listens: [`RpcServer`](super::RpcServer) and [`RpcSession`](super::RpcSession).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RpcAddress {
    /// A Unix socket in the file system: who may write to it may connect.
    Path(PathBuf),
    /// A Unix socket with a name of the network namespace, which has no permissions.
    Abstract(Vec<u8>),
    /// A TCP socket. Nobody is known, and without TLS nothing is encrypted: for machines that trust their network.
    Inet(SocketAddr),
    /// A port of a virtual machine or its host (vsock(7)), as Microdroid's services have. Nobody is known but the machine.
    Vsock {
        /// The machine: 2 is the host, 1 whoever asks, `u32::MAX` any, to listen at.
        cid: u32,
        /// The port; `u32::MAX` to listen at any that is free.
        port: u32,
    },
    /// Wherever an object of `android.os.IAccessor` connects to, such as [`RpcServer::accessor`](super::RpcServer::accessor):
    /// a service that the service manager knows, and that is called by RPC. Nobody can listen there.
    Accessor(Binder),
}

impl From<Binder> for RpcAddress {
    fn from(accessor: Binder) -> Self {
        RpcAddress::Accessor(accessor)
    }
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
            RpcAddress::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            RpcAddress::Accessor(_) => f.write_str("whom an accessor connects to"),
        }
    }
}

impl RpcAddress {
    /// A name of the network namespace, without the zero in front of it.
    pub fn abstract_name(name: impl Into<Vec<u8>>) -> Self {
        RpcAddress::Abstract(name.into())
    }

    /// Whether the kernel does not know who connects.
    pub(super) fn is_network(&self) -> bool {
        matches!(self, RpcAddress::Inet(_) | RpcAddress::Vsock { .. })
    }

    fn unix(&self) -> Result<Option<SocketAddrUnix>> {
        let address = match self {
            RpcAddress::Path(path) => SocketAddrUnix::new(path),
            RpcAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
            RpcAddress::Inet(_) | RpcAddress::Vsock { .. } | RpcAddress::Accessor(_) => return Ok(None),
        };
        address.map(Some).map_err(|error| Error::io(format!("{self} cannot be a socket"), error))
    }

    /// Connects to whoever listens there. Where nobody accepts, that takes so long and no longer. Descriptors as for
    /// [`new_socket`].
    pub(super) fn connect(&self, timeout: Duration, descriptors: bool) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| Error::io(format!("no RPC server answers at {self}"), error);
        // None at all would be one without end.
        let timeout = timeout.max(Duration::from_millis(1));
        if let RpcAddress::Inet(address) = self {
            let stream = TcpStream::connect_timeout(address, timeout).map_err(failed)?.into();
            set_up_tcp(&stream);
            return Ok(stream);
        }
        if let RpcAddress::Vsock { cid, port } = self {
            let socket = new_vsock().map_err(failed)?;
            socket.connect_timeout(&SockAddr::vsock(*cid, *port), timeout).map_err(failed)?;
            return Ok(socket.into());
        }
        if let RpcAddress::Accessor(accessor) = self {
            return accessor::connection_of(accessor, timeout, descriptors);
        }
        let Some(address) = self.unix()? else { return Err(Error::Dead) };
        let socket = new_socket(descriptors)?;
        // While the listener's queue is full, connecting waits for as long as sending may (unix(7)).
        let set = |timeout| sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, timeout);
        set(Some(timeout))
            .and_then(|()| connect(&socket, &address))
            .and_then(|()| set(None))
            .map_err(|error| failed(error.into()))?;
        Ok(socket)
    }

    /// Listens there; in place of a socket file that nobody listens at, if there is one. Descriptors as for
    /// [`new_socket`].
    pub(super) fn listen(&self, descriptors: bool) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| Error::io(format!("cannot listen at {self}"), error);
        if let RpcAddress::Inet(address) = self {
            return Ok(TcpListener::bind(address).map_err(failed)?.into());
        }
        if let RpcAddress::Vsock { cid, port } = self {
            let listener = new_vsock().map_err(failed)?;
            listener.bind(&SockAddr::vsock(*cid, *port)).map_err(failed)?;
            listener.listen(BACKLOG).map_err(failed)?;
            return Ok(listener.into());
        }
        let Some(address) = self.unix()? else {
            return Err(Error::Unsupported { engine: "rpc", what: format!("listen at {self}") });
        };
        let listener = new_socket(descriptors)?;
        if let Err(error) = bind(&listener, &address) {
            let RpcAddress::Path(path) = self else { return Err(failed(error.into())) };
            let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
            if error != rustix::io::Errno::ADDRINUSE || !is_socket || !is_dead(&address)? {
                return Err(failed(error.into()));
            }
            std::fs::remove_file(path).map_err(failed)?;
            bind(&listener, &address).map_err(|error| failed(error.into()))?;
        }
        listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
        Ok(listener)
    }

    /// Where a listener listens that was bound here: any port that is free became one.
    pub(super) fn bound(&self, listener: &OwnedFd) -> Self {
        let address = SockRef::from(listener).local_addr();
        let of = |address: SockAddr| match self {
            RpcAddress::Inet(_) => address.as_socket().map(RpcAddress::Inet),
            RpcAddress::Vsock { .. } => {
                address.as_vsock_address().map(|(cid, port)| RpcAddress::Vsock { cid, port })
            }
            RpcAddress::Path(_) | RpcAddress::Abstract(_) | RpcAddress::Accessor(_) => None,
        };
        address.ok().and_then(of).unwrap_or_else(|| self.clone())
    }
}

fn new_vsock() -> std::io::Result<Socket> {
    Socket::new(Domain::VSOCK, Type::STREAM, None)
}

/// Whether nobody listens at a socket file. One whose queue is full is there, and may be full for ever.
fn is_dead(address: &SocketAddrUnix) -> Result<bool> {
    let probe = new_socket(true)?;
    let soon = Some(Duration::from_millis(1));
    sockopt::set_socket_timeout(&probe, sockopt::Timeout::Send, soon)
        .map_err(|error| Error::io("cannot limit how long connecting takes", error))?;
    Ok(connect(probe, address) == Err(rustix::io::Errno::CONNREFUSED))
}

/// Unless descriptors are to travel, the kernel refuses those that are sent to it where it can.
fn new_socket(descriptors: bool) -> Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::io("cannot make a socket", error))?;
    if !descriptors {
        shm::refuse_descriptors(socket.as_fd());
    }
    Ok(socket)
}

/// Waits until somebody connects, or the listener was shut down.
pub(super) fn await_newcomer(listener: &OwnedFd) {
    // Where it cannot wait, accepting says why.
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], None);
}

/// Takes the next connection, and has a TCP one notice that its peer vanished.
pub(super) fn accept(listener: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC)?;
    set_up_tcp(&socket);
    Ok(socket)
}

fn set_up_tcp(socket: &OwnedFd) {
    // A call is one message, which is not to wait for another one. Fails on a Unix socket, which delays nothing.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    // A machine that vanished says nothing, and what is held for it would be held for ever.
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, SILENT);
    let _ = sockopt::set_tcp_keepintvl(socket, ASKED_AGAIN);
    let _ = sockopt::set_tcp_keepcnt(socket, 6);
    // Nobody is asked while something is unacknowledged, as a call on its way is.
    let _ = sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED);
}

/// Whether descriptors can travel over a socket.
pub(super) fn passes_descriptors(socket: &OwnedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// For whom a connection counts: who made it at the other end, where the kernel knows it. All machines together have one
/// user's share; each is in it what a process is, so that the next one finds something.
pub(super) fn peer(socket: &OwnedFd) -> Result<CallingIdentity> {
    match sockopt::socket_domain(socket) {
        Ok(AddressFamily::UNIX) => shm::peer_of(socket.as_fd()),
        _ => Ok(CallingIdentity::of_machine(machine(socket))),
    }
}

/// A number for the machine of a peer. Nobody can choose an address that has another one's number, as the key is random.
fn machine(socket: &OwnedFd) -> u32 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let address = SockRef::from(socket).peer_addr().ok();
    let ip = address.as_ref().and_then(SockAddr::as_socket).map(|address| counted_as(address.ip()));
    // Of a virtual machine, its number.
    let cid = address.and_then(|address| address.as_vsock_address()).map(|(cid, _)| cid);
    KEY.hash_one((ip, cid)) as u32
}

/// The address that all of a machine's count as, as far as they show it: one of version 6 chooses the second half of its own,
/// so all of a network of 64 bits is one; but link-local ones have the same first half everywhere. A process of this machine
/// has all of 127.0.0.0/8.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        own if own.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(wide) if !wide.is_unicast_link_local() => {
            Ipv6Addr::from_bits(wide.to_bits() & !u128::from(u64::MAX)).into()
        }
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_socket_of_a_dead_server_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rpc.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = RpcAddress::Path(path.clone()).listen(true).unwrap_err();
        assert!(error.to_string().contains("cannot listen"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        drop(RpcAddress::Path(path.clone()).listen(true).unwrap());
        let again = RpcAddress::Path(path.clone()).listen(true).unwrap();
        assert!(RpcAddress::Path(path.clone()).listen(true).is_err(), "somebody listens there");
        drop(again);
    }

    #[test]
    fn a_server_whose_queue_is_full_is_not_waited_for_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rpc.sock");
        let address = SocketAddrUnix::new(&path).unwrap();
        let listener = new_socket(true).unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 0).unwrap();
        // Nobody accepts them.
        let mut waiting = Vec::new();
        loop {
            let socket = new_socket(true).unwrap();
            rustix::io::ioctl_fionbio(&socket, true).unwrap();
            if connect(&socket, &address).is_err() {
                break;
            }
            waiting.push(socket);
        }
        let (send, outcome) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(RpcAddress::Path(path).listen(true)));
        let outcome = outcome.recv_timeout(Duration::from_secs(60)).expect("it is not waited for");
        assert!(outcome.unwrap_err().to_string().contains("cannot listen"));
        assert!(folder.path().join("rpc.sock").exists());
        drop((waiting, listener));
    }

    #[test]
    fn addresses_that_one_machine_can_have_are_one() {
        let is_one =
            |left: &str, right: &str| counted_as(left.parse().unwrap()) == counted_as(right.parse().unwrap());
        for (left, right) in [
            ("127.0.0.1", "127.255.3.2"),
            ("127.0.0.1", "::1"),
            ("::ffff:127.0.0.2", "::1"),
            ("192.0.2.1", "::ffff:192.0.2.1"),
            ("2001:db8::1", "2001:db8::ffff:0:0:2"),
        ] {
            assert!(is_one(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("192.0.2.1", "192.0.2.2"),
            ("192.0.2.1", "127.0.0.1"),
            ("2001:db8::1", "2001:db8:0:1::1"),
            ("fe80::1", "fe80::2"),
            ("::1", "::2"),
        ] {
            assert!(!is_one(left, right), "{left} {right}");
        }
    }

    #[test]
    fn a_machine_that_vanished_is_noticed() {
        let listener = RpcAddress::Inet(([127, 0, 0, 1], 0).into()).listen(true).unwrap();
        let address = RpcAddress::Inet(([127, 0, 0, 1], 0).into()).bound(&listener);
        let ends = [address.connect(Duration::from_secs(60), true).unwrap(), accept(&listener).unwrap()];
        for end in ends {
            assert!(sockopt::socket_keepalive(&end).unwrap() && sockopt::tcp_nodelay(&end).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&end).unwrap(), SILENT);
            assert_eq!(sockopt::tcp_user_timeout(&end).unwrap(), UNACKNOWLEDGED);
        }
    }
}
