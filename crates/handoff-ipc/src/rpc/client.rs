//! The side that connects.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::{self, RpcAddress};
use super::calls;
use super::connection::{Attempt, Connection, Wait};
use super::inbound::{Came, Frame};
use super::session::{Session, Side, Terms};
use super::tls::ClientTls;
use super::wire::{
    self, Address, ConnectionHeader, DecStrong, Descriptors, ID, INIT, NEWEST, Reply, special,
};
use crate::call::OutCall;
use crate::object::Binder;
use crate::parcel::{Reader, SharedBytes};
use crate::{Error, Result};

/// Connections for own calls at the most, as libbinder's clients have.
const DEFAULT_OUTGOING: usize = 10;
/// How long a server may take to answer a connection.
const SETUP: Duration = Duration::from_secs(10);

/// How a session is set up: [`RpcSession::builder`].
#[derive(Debug, Clone)]
#[must_use = "options alone connect to nothing: end with `connect`"]
pub struct RpcSessionBuilder {
    address: RpcAddress,
    outgoing: usize,
    incoming: usize,
    version: u32,
    descriptors: bool,
    setup: Duration,
    tls: Option<ClientTls>,
}

impl RpcSessionBuilder {
    /// Calls at one time: so many connections are made, when they are needed, of those that the server allows; 10
    /// unless told otherwise.
    pub fn max_outgoing(self, connections: usize) -> Self {
        RpcSessionBuilder { outgoing: connections.max(1), ..self }
    }

    /// Calls of the server to this process at one time that are not nested in a call of this process: so many
    /// connections are made at once, each with a thread; one unless told otherwise.
    pub fn incoming_threads(self, threads: usize) -> Self {
        RpcSessionBuilder { incoming: threads, ..self }
    }

    /// The newest version of the protocol to speak, as
    /// [`RpcServerBuilder::max_version`](super::RpcServerBuilder::max_version).
    pub fn max_version(self, version: u32) -> Self {
        RpcSessionBuilder { version: version.min(NEWEST), ..self }
    }

    /// Whether descriptors are to travel, as they do on Unix sockets unless told otherwise. A server of libbinder
    /// refuses the session if it was not told to allow them. Without them, the kernel lets none come (Linux 6.16), and a
    /// call takes about 0.5 us less.
    pub fn descriptors(self, descriptors: bool) -> Self {
        RpcSessionBuilder { descriptors, ..self }
    }

    /// Has connections encrypted by TLS, over which no descriptor can travel, with this provider of ciphers, and connects to
    /// the server of that name only.
    #[cfg(feature = "tls")]
    pub fn tls(
        self,
        config: Arc<rustls::ClientConfig>,
        server: rustls::pki_types::ServerName<'static>,
    ) -> Self {
        RpcSessionBuilder { tls: Some(ClientTls(config, server)), ..self }
    }

    /// Whether descriptors are to travel: TLS has no place for them.
    fn wants_descriptors(&self) -> bool {
        self.descriptors && self.tls.is_none()
    }

    /// How long the server may take to answer while the session is set up; ten seconds unless told otherwise.
    pub fn setup_timeout(self, timeout: Duration) -> Self {
        RpcSessionBuilder { setup: timeout, ..self }
    }

    /// Connects.
    ///
    /// # Errors
    /// If nobody answers there, or it is no server of Binder RPC.
    pub fn connect(self) -> Result<RpcSession> {
        let soon = Wait::Until(Instant::now() + self.setup);
        let socket = self.address.connect(self.setup, self.wants_descriptors())?;
        let passes = self.wants_descriptors() && address::passes_descriptors(&socket);
        let setup = self.open(socket, passes, soon);
        let (connection, terms, allowed) = setup.map_err(|error| match error {
            Error::Dead => Error::Protocol(format!(
                "the server at {} ended the session while it was set up: it may not be one of Binder RPC, not let this \
                 user in, want TLS or have none{}",
                self.address,
                if passes { ", or allow no descriptors (connect with `descriptors(false)`)" } else { "" }
            )),
            other => other,
        })?;
        let again = self.clone();
        let open = move |session: &Session| again.join(session, false);
        let side = Side::Client { open: Box::new(open) };
        let session = Session::new(terms, side, self.incoming, self.outgoing.min(allowed))?;
        drop(session.add_outgoing(connection)?);
        for _ in 0..self.incoming {
            self.serve_one(&session)?;
        }
        Ok(RpcSession { session, address: self.address, allowed })
    }

    /// Opens a session on a connection: agrees on a version, and asks for the session's id and for how many
    /// connections it may have.
    fn open(&self, socket: OwnedFd, passes: bool, soon: Wait) -> Result<(Connection, Terms, usize)> {
        let peer = address::peer(&socket)?;
        let mut connection = self.begin(socket, passes, soon)?;
        let descriptors = if passes { Descriptors::Unix } else { Descriptors::No };
        let header = ConnectionHeader { version: self.version, incoming: false, descriptors, joins: false };
        connection.send_raw(&[&header.encode()[..], &INIT].concat(), soon)?;
        let version = wire::decode_response(&connection.receive_raw(soon)?, self.version)?;
        let nobody_s = &mut |_| ();
        let allowed = ask(&mut connection, version, special::MAX_THREADS, soon, nobody_s)?;
        let allowed = read(&allowed, |reply| reply.read_i32())?;
        let id = ask(&mut connection, version, special::SESSION_ID, soon, nobody_s)?;
        let id = read(&id, |reply| Ok(reply.read_bytes()?.to_vec()))?;
        let (Ok(id), Ok(allowed @ 1..)) = (<[u8; ID]>::try_from(id), usize::try_from(allowed)) else {
            return Err(Error::Protocol(
                "the session's id or its number of connections makes no sense".into(),
            ));
        };
        Ok((connection, Terms { id, version, descriptors: passes, peer }, allowed))
    }

    /// A connection over which nothing was said.
    fn begin(&self, socket: OwnedFd, passes: bool, soon: Wait) -> Result<Connection> {
        let peer = address::peer(&socket)?;
        let mut connection = Connection::new(socket, peer, passes, Vec::new());
        if let Some(tls) = &self.tls {
            connection.secure(tls.begin()?, soon)?;
        }
        Ok(connection)
    }

    /// One connection more.
    fn join(&self, session: &Session, incoming: bool) -> Result<Connection> {
        let terms = session.terms();
        let soon = Wait::Until(Instant::now() + self.setup);
        let socket = self.address.connect(self.setup, terms.descriptors)?;
        let mut connection = self.begin(socket, terms.descriptors, soon)?;
        let descriptors = if terms.descriptors { Descriptors::Unix } else { Descriptors::No };
        let header = ConnectionHeader { version: terms.version, incoming, descriptors, joins: true };
        let init: &[u8] = if incoming { &[] } else { &INIT };
        connection.send_raw(&[&header.encode()[..], &terms.id, init].concat(), soon)?;
        if !incoming {
            // The wire has no answer to it. Without one, what is sent would be lost if the server takes no further
            // connection, or has not taken this one when the session ends.
            // References may be given back before it comes.
            let acknowledge = &mut |dec| session.acknowledge(dec);
            ask(&mut connection, terms.version, special::MAX_THREADS, soon, acknowledge)?;
        }
        Ok(connection)
    }

    /// Makes a connection for the server's calls, with a thread that serves it.
    fn serve_one(&self, session: &Arc<Session>) -> Result<()> {
        let mut connection = self.join(session, true)?;
        session.add_incoming(connection.socket())?;
        let init: [u8; INIT.len()] = connection.receive_raw(Wait::Until(Instant::now() + self.setup))?;
        if init[..4] != INIT[..4] {
            return Err(Error::Protocol("the server does not begin its connection as one".into()));
        }
        let session = Arc::downgrade(session);
        let serve = move || {
            let outcome = calls::serve_connection(&session, &mut connection);
            if let Some(session) = session.upgrade() {
                session.remove_incoming(connection.socket());
                match outcome {
                    Err(error @ Error::Protocol(_)) => session.broke(&error),
                    _ => session.end(),
                }
            }
        };
        let thread = std::thread::Builder::new().name("handoff-rpc".into());
        thread
            .spawn(serve)
            .map(drop)
            .map_err(|error| Error::io("cannot start a thread for an RPC connection", error))
    }
}

/// Asks the session itself on a new connection; gives the parcel of the reply. References that are given back are handed
/// to `meanwhile`.
fn ask(
    connection: &mut Connection,
    version: u32,
    code: u32,
    soon: Wait,
    meanwhile: &mut dyn FnMut(DecStrong),
) -> Result<Vec<u8>> {
    let mut call = [0; wire::Transaction::HEAD];
    wire::Transaction::write_head(&mut call, Address::SESSION, code, 0, 0, 0)?;
    connection.send_raw(&call, soon)?;
    let mut frame = Frame::default();
    loop {
        match connection.receive(soon, &mut frame)? {
            Attempt::Done(Came::Reply) => break,
            Attempt::Done(Came::References(dec)) => meanwhile(dec),
            Attempt::Done(Came::Call) => {
                return Err(Error::Protocol("the server calls before the connection is set up".into()));
            }
            Attempt::Late => {
                return Err(Error::Protocol("the server does not finish setting the session up".into()));
            }
        }
        if soon.is_over() {
            return Err(Error::Protocol("the server says everything but what it is asked for".into()));
        }
    }
    let reply = Reply::decode(version, frame.body())?;
    match reply.status {
        0 => Ok(reply.body.data.to_vec()),
        status => Err(Error::from_status_t(status, "an RPC session", code)),
    }
}

fn read<T>(parcel: &[u8], values: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
    values(&mut Reader::new(SharedBytes::from_slice(parcel)))
}

/// A session with a server of Binder RPC. It lasts as long as this, a clone or a proxy of the server's objects is held,
/// and the server lives.
#[derive(Clone)]
pub struct RpcSession {
    session: Arc<Session>,
    address: RpcAddress,
    allowed: usize,
}

impl RpcSession {
    /// A session, with options.
    pub fn builder(address: impl Into<RpcAddress>) -> RpcSessionBuilder {
        RpcSessionBuilder {
            address: address.into(),
            outgoing: DEFAULT_OUTGOING,
            incoming: 1,
            version: NEWEST,
            descriptors: true,
            setup: SETUP,
            tls: None,
        }
    }

    /// Connects to the server at an address.
    ///
    /// # Errors
    /// As [`RpcSessionBuilder::connect`].
    pub fn connect(address: impl Into<RpcAddress>) -> Result<Self> {
        Self::builder(address).connect()
    }

    /// The object that the server gives to all who come.
    ///
    /// # Errors
    /// If the server has none, or is gone.
    pub fn root(&self) -> Result<Binder> {
        let mut root = None;
        let mut read = |reply: &mut Reader<'_>| {
            root = reply.read_binder()?;
            Ok(())
        };
        let call = OutCall { deadline: Some(SETUP), ..OutCall::of(special::ROOT) };
        calls::transact(&self.session, Address::SESSION, &call, None, &mut |_| Ok(()), &mut read)?;
        root.ok_or_else(|| Error::NoSuchService(format!("the root object of {}", self.address)))
    }

    /// The version of the protocol that both sides speak.
    pub fn version(&self) -> u32 {
        self.session.terms().version
    }

    /// Calls at one time that the server allows.
    pub fn max_threads(&self) -> usize {
        self.allowed
    }

    /// Connections, now.
    pub fn connections(&self) -> usize {
        self.session.connections()
    }

    /// False once the server is known to be gone.
    pub fn is_alive(&self) -> bool {
        !self.session.is_over()
    }
}

impl std::fmt::Debug for RpcSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RpcSession({}, version {})", self.address, self.version())
    }
}
