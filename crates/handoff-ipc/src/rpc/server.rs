//! The side that listens: takes connections in, makes sessions of them, and has a thread serve each.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::rand::{GetRandomFlags, getrandom};

use super::accessor::Accessor;
use super::address::{self, RpcAddress};
use super::calls;
use super::connection::{Connection, Wait};
use super::session::{Session, Side, Terms};
use super::tls::ServerTls;
use super::wire::{self, ConnectionHeader, Descriptors, ID, INIT, NEWEST};
use crate::identity::CallingIdentity;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::object::Binder;
use crate::servicemanager::SocketAccess;
use crate::{Error, Result, shm, socket_file};

/// Connections of one session for calls, unless the server says otherwise.
const DEFAULT_THREADS: usize = 16;
/// How long a connection may take until it is set up.
const SETUP: Duration = Duration::from_secs(5);
/// How long the listening thread waits when the process can take no connection in.
const SHORTAGE: Duration = Duration::from_millis(50);

/// How a server serves: [`RpcServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "options alone serve nothing: end with `serve`"]
pub struct RpcServerBuilder {
    address: RpcAddress,
    threads: usize,
    version: u32,
    descriptors: bool,
    access: SocketAccess,
    tls: Option<ServerTls>,
}

impl RpcServerBuilder {
    /// Connections that one session may have for calls, each with a thread here; 16 unless told otherwise. The ledger
    /// bounds those of one user and of one process besides.
    pub fn max_threads(self, threads: usize) -> Self {
        RpcServerBuilder { threads: threads.max(1), ..self }
    }

    /// The newest version of the protocol to speak: 0 (Android 13), 1 (14 and 15) or 2 (16), which it is unless told
    /// otherwise.
    pub fn max_version(self, version: u32) -> Self {
        RpcServerBuilder { version: version.min(NEWEST), ..self }
    }

    /// Whether clients may send descriptors and get some, as they may on Unix sockets unless told otherwise.
    /// Without them, the kernel lets none come (Linux 6.16), and a call takes about 0.5 us less.
    pub fn descriptors(self, descriptors: bool) -> Self {
        RpcServerBuilder { descriptors, ..self }
    }

    /// Has connections encrypted by TLS, over which no descriptor can travel, with these keys and this provider of ciphers. The
    /// configuration may ask for clients' certificates and refuse some; services do not see them.
    #[cfg(feature = "tls")]
    pub fn tls(self, config: Arc<rustls::ServerConfig>) -> Self {
        RpcServerBuilder { tls: Some(ServerTls(config)), ..self }
    }

    /// Whether descriptors may travel: TLS has no place for them.
    fn allows_descriptors(&self) -> bool {
        self.descriptors && self.tls.is_none()
    }

    /// Who may connect to a Unix socket: this user and root, unless told otherwise.
    pub fn access(self, access: SocketAccess) -> Self {
        RpcServerBuilder { access, ..self }
    }

    /// Whether somebody may connect. Over a network nobody is known. On a Unix socket everybody is: also a process out of
    /// sight, of a user without a number here, for whom the kernel has the same numbers as this engine has for those.
    fn lets_in(&self, peer: CallingIdentity) -> bool {
        let is_owner = peer.uid == CallingIdentity::own().uid || peer.uid == 0;
        self.address.is_network() || is_owner || self.access != SocketAccess::Owner
    }

    /// Listens, and gives `root` to each who asks for it.
    ///
    /// # Errors
    /// If the address is taken, or `root` is an object of another process.
    pub fn serve(self, root: Binder) -> Result<RpcServer> {
        if !root.is_local() {
            return Err(Error::Unsupported {
                engine: "rpc",
                what: "serve an object of another process".into(),
            });
        }
        let listener = Arc::new(self.address.listen(self.allows_descriptors())?);
        let address = self.address.bound(&listener);
        // A connection may be gone again before it is accepted.
        rustix::io::ioctl_fionbio(&*listener, true)
            .map_err(|error| Error::io(format!("cannot listen at {address}"), error))?;
        if let RpcAddress::Path(path) = &address {
            let mode = if self.access == SocketAccess::Owner { 0o600 } else { 0o666 };
            socket_file::set_mode(path, mode)
                .map_err(|error| Error::io(format!("cannot set who may connect to {address}"), error))?;
        }
        let shared = Arc::new(ServerState {
            root,
            options: self,
            sessions: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let (listening, shared_too) = (Arc::clone(&listener), Arc::clone(&shared));
        std::thread::Builder::new()
            .name("handoff-rpc-in".into())
            .spawn(move || shared_too.accept_all(&listening))
            .map_err(|error| Error::io("cannot start a thread that takes connections in", error))?;
        Ok(RpcServer { shared, listener, address })
    }
}

/// A server of Binder RPC, until it is dropped: then its sessions end.
///
/// ```
/// use handoff_ipc::rpc::{RpcAddress, RpcServer, RpcSession};
/// use handoff_ipc::{Binder, ParcelService};
///
/// let echo = Binder::new(ParcelService::new("sample.IEcho", |_, request| Ok(Some(request))));
/// let name = format!("handoff-sample-{}", std::process::id());
/// let server = RpcServer::builder(RpcAddress::abstract_name(name)).serve(echo)?;
///
/// let session = RpcSession::connect(server.address().clone())?;
/// let echo: i32 = session.root()?.transaction(1).call(|data| data.write(&7), |reply| reply.read())?;
/// assert_eq!(echo, 7);
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
pub struct RpcServer {
    shared: Arc<ServerState>,
    listener: Arc<OwnedFd>,
    address: RpcAddress,
}

pub(super) struct ServerState {
    root: Binder,
    options: RpcServerBuilder,
    sessions: Mutex<HashMap<[u8; ID], Arc<Session>>>,
    stopped: AtomicBool,
}

impl RpcServer {
    /// A server at an address, with options.
    pub fn builder(address: impl Into<RpcAddress>) -> RpcServerBuilder {
        RpcServerBuilder {
            address: address.into(),
            threads: DEFAULT_THREADS,
            version: NEWEST,
            descriptors: true,
            access: SocketAccess::Owner,
            tls: None,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &RpcAddress {
        &self.address
    }

    /// An `android.os.IAccessor` to register with a service manager: who finds it connects to this server through it, by
    /// [`RpcAddress::Accessor`], and is known to the server as who called it.
    pub fn accessor(&self, instance: impl Into<String>) -> Binder {
        Binder::new(Accessor { server: Arc::downgrade(&self.shared), instance: instance.into() })
    }

    /// Sessions, now.
    pub fn sessions(&self) -> usize {
        lock(&self.shared.sessions).len()
    }

    /// Connections of all sessions, now.
    pub fn connections(&self) -> usize {
        self.all().iter().map(|session| session.connections()).sum()
    }

    /// Objects that sessions know, of both sides.
    pub fn objects(&self) -> usize {
        self.all().iter().map(|session| session.nodes().len()).sum()
    }

    fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.shared.sessions).values().cloned().collect()
    }
}

impl std::fmt::Debug for RpcServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RpcServer({})", self.address)
    }
}

impl Drop for RpcServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // The thread that waits for connections sees it.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let RpcAddress::Path(path) = &self.address {
            // Somebody may have taken it away.
            drop(std::fs::remove_file(path));
        }
        let sessions = std::mem::take(&mut *lock(&self.shared.sessions));
        sessions.into_values().for_each(|session| session.end());
    }
}

impl ServerState {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn accept_all(self: &Arc<Self>, listener: &OwnedFd) {
        while !self.is_stopped() {
            // First: a listener that nobody connects to keeps no room from others.
            address::await_newcomer(listener);
            let Ok(room) = ledger::room_to_refuse() else {
                std::thread::sleep(ledger::ROOM_AGAIN);
                continue;
            };
            match address::accept(listener) {
                Ok(socket) => self.admit(socket, room),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                // No descriptor is left, or no memory; or the listener was shut down.
                Err(_) => std::thread::sleep(SHORTAGE),
            }
        }
    }

    /// Gives a connection a thread, or refuses it. Nothing is read from it, and nothing closed, that may take long.
    fn admit(self: &Arc<Self>, socket: OwnedFd, room: Charge) {
        let peer = address::peer(&socket).unwrap_or(CallingIdentity::UNKNOWN);
        let refused = match self.charge(peer) {
            Ok(charges) => self.begin(socket, peer, charges),
            Err(error) => {
                shm::turn_down(socket, room, |_| ());
                Err(error)
            }
        };
        if let Err(error) = refused {
            tracing::debug!("an RPC connection was refused: {error}");
        }
    }

    /// Has a connection counted for who made it, if that one may make it.
    fn charge(&self, peer: CallingIdentity) -> Result<Vec<Charge>> {
        if !self.options.lets_in(peer) {
            return Err(Error::PermissionDenied(format!("user {} may not connect", peer.uid)));
        }
        Ok(vec![ledger::charge(peer, Resource::Threads, 1)?, ledger::charge(peer, Resource::Descriptors, 1)?])
    }

    /// Takes a connection in that somebody is given who may connect.
    pub(super) fn connect(self: &Arc<Self>, socket: OwnedFd, who: CallingIdentity) -> Result<()> {
        if self.is_stopped() {
            return Err(Error::Dead);
        }
        let charges = self.charge(who)?;
        self.begin(socket, who, charges)
    }

    fn begin(self: &Arc<Self>, socket: OwnedFd, peer: CallingIdentity, charges: Vec<Charge>) -> Result<()> {
        let passes = self.options.allows_descriptors() && address::passes_descriptors(&socket);
        let connection = Connection::new(socket, peer, passes, charges);
        let shared = Arc::clone(self);
        let serve = move || {
            if let Err(error) = shared.establish(connection, peer) {
                tracing::debug!("an RPC connection of process {} was given up: {error}", peer.told().pid);
            }
        };
        let thread = std::thread::Builder::new().name("handoff-rpc".into());
        thread
            .spawn(serve)
            .map(drop)
            .map_err(|error| Error::io("cannot start a thread for an RPC connection", error))
    }

    /// Learns what a connection is for, and serves it.
    fn establish(&self, mut connection: Connection, peer: CallingIdentity) -> Result<()> {
        let soon = Wait::Until(Instant::now() + SETUP);
        if let Some(tls) = &self.options.tls {
            connection.secure(tls.begin()?, soon)?;
        }
        let header = ConnectionHeader::decode(&connection.receive_raw(soon)?)?;
        let session = if header.joins {
            let id: [u8; ID] = connection.receive_raw(soon)?;
            let session = lock(&self.sessions).get(&id).cloned();
            // The id is a secret, and no more than one user's.
            session.filter(|session| session.peer().uid == peer.uid).ok_or(Error::UnknownObject(0))?
        } else {
            self.open(&header, peer, &mut connection, soon)?
        };
        if header.incoming {
            // First, as the client goes on when it is told. Who calls it meanwhile waits for the connection.
            let mut taken = session.add_outgoing(connection)?;
            let sent = taken.connection.send_raw(&INIT, soon);
            let socket = Arc::clone(taken.connection.socket());
            drop(taken);
            return sent.inspect_err(|_| session.remove_outgoing(&socket));
        }
        let served = connection.receive_raw(soon).and_then(|init: [u8; INIT.len()]| {
            if init[..4] != INIT[..4] {
                return Err(Error::Protocol("a connection that does not begin as one".into()));
            }
            session.add_incoming(connection.socket())
        });
        let outcome =
            served.and_then(|()| calls::serve_connection(&Arc::downgrade(&session), &mut connection));
        if let Err(error @ Error::Protocol(_)) = &outcome {
            session.broke(error);
        }
        if session.remove_incoming(connection.socket()) == 0 {
            let gone = lock(&self.sessions).remove(&session.terms().id);
            session.end();
            drop(gone);
        }
        match outcome {
            Err(Error::Dead) => Ok(()),
            other => other,
        }
    }

    fn open(
        &self,
        header: &ConnectionHeader,
        peer: CallingIdentity,
        connection: &mut Connection,
        soon: Wait,
    ) -> Result<Arc<Session>> {
        let wanted = header.descriptors == Descriptors::Unix;
        let passes = connection.socket().passes_descriptors();
        let version = header.version.min(self.options.version);
        connection.send_raw(&wire::encode_response(version), soon)?;
        if wanted && !passes {
            return Err(Error::Protocol("it wants to send descriptors, which cannot be had here".into()));
        }
        let mut id = [0; ID];
        let count = getrandom(&mut id, GetRandomFlags::empty())
            .map_err(|error| Error::io("cannot make a session's id (getrandom)", error))?;
        if count < ID {
            return Err(Error::Dead);
        }
        let terms = Terms { id, version, descriptors: wanted, peer };
        let threads = self.options.threads;
        let session = Session::new(terms, Side::Server { root: self.root.clone() }, threads, threads)?;
        let mut sessions = lock(&self.sessions);
        if self.is_stopped() {
            return Err(Error::Dead);
        }
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::RpcSession;
    use super::*;

    #[test]
    fn servers_that_nobody_connects_to_keep_nobody_out() {
        let root = || Binder::new(crate::ParcelService::new("test.INothing", |_, _| Ok(None)));
        let serve = |address| RpcServer::builder(address).serve(root()).unwrap();
        let name =
            |number| RpcAddress::abstract_name(format!("handoff-idle-{}-{number}", std::process::id()));
        let mut servers: Vec<RpcServer> = (0..30).map(|number| serve(name(number))).collect();
        servers.push(serve(RpcAddress::Inet(([127, 0, 0, 1], 0).into())));
        for server in &servers {
            let session = RpcSession::builder(server.address().clone()).incoming_threads(0);
            assert!(session.setup_timeout(Duration::from_secs(60)).connect().unwrap().root().is_ok());
        }
        // Their threads end.
        let served: Vec<_> = servers.iter().map(|server| Arc::downgrade(&server.shared)).collect();
        drop(servers);
        let end = Instant::now() + Duration::from_secs(60);
        while served.iter().any(|shared| shared.strong_count() > 0) {
            assert!(Instant::now() < end, "a thread waits for connections to a server that is gone");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_has_no_number_here_is_no_owner() {
        let of = |address: RpcAddress| RpcServer::builder(address);
        let here = of(RpcAddress::abstract_name("handoff-test"));
        let (own, root) = (CallingIdentity::own(), CallingIdentity { uid: 0, ..CallingIdentity::UNKNOWN });
        assert!(here.lets_in(own) && here.lets_in(root));
        let strangers = [CallingIdentity::UNKNOWN, CallingIdentity { uid: own.uid ^ 0x4000_0000, ..own }];
        let lets_in = |builder: &RpcServerBuilder| strangers.iter().any(|peer| builder.lets_in(*peer));
        assert!(!lets_in(&here));
        assert!(lets_in(&here.access(SocketAccess::Everybody)));
        assert!(of(RpcAddress::Inet(([127, 0, 0, 1], 0).into())).lets_in(CallingIdentity::UNKNOWN));
    }
}
