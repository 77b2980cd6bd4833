//! TLS over a connection: what goes over the socket is sealed, and what comes is opened.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::{Error, Result};

/// Bytes of one read: a record and its frame.
const READ: usize = 17 << 10;

/// What a server's connections are secured with.
#[derive(Debug, Clone)]
pub(super) struct ServerTls(pub(super) Arc<ServerConfig>);

/// The same of a client's, which is to find the server of that name.
#[derive(Debug, Clone)]
pub(super) struct ClientTls(pub(super) Arc<ClientConfig>, pub(super) ServerName<'static>);

impl ServerTls {
    pub(super) fn begin(&self) -> Result<Tls> {
        Ok(Tls::of(ServerConnection::new(Arc::clone(&self.0)).map_err(failed)?.into()))
    }
}

impl ClientTls {
    pub(super) fn begin(&self) -> Result<Tls> {
        Ok(Tls::of(ClientConnection::new(Arc::clone(&self.0), self.1.clone()).map_err(failed)?.into()))
    }
}

/// The TLS session of one connection.
pub(super) struct Tls {
    session: rustls::Connection,
    // Came, and was not opened yet.
    sealed: Vec<u8>,
}

impl Tls {
    fn of(mut session: rustls::Connection) -> Self {
        // Frames are bounded, and all that is sealed is taken at once.
        session.set_buffer_limit(None);
        Tls { session, sealed: Vec::new() }
    }

    /// Whether the two sides have not agreed yet.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// What is to be sent for these bytes, behind what TLS itself has to say.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = Vec::with_capacity(bytes.len() + bytes.len() / 256 + 64);
        self.session.writer().write_all(bytes).map_err(io_failed)?;
        while self.session.wants_write() {
            self.session.write_tls(&mut sealed).map_err(io_failed)?;
        }
        Ok(sealed)
    }

    /// Where the next bytes of the socket go.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.sealed.reserve(READ);
        &mut self.sealed
    }

    /// Opens what came there, and puts it behind `bytes`, all of it: who waits for the socket misses nothing.
    pub(super) fn open(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut left = &self.sealed[..];
        while !left.is_empty() {
            if self.session.read_tls(&mut left).map_err(io_failed)? == 0 {
                return Err(Error::Protocol("TLS takes no more".into()));
            }
            let state = self.session.process_new_packets().map_err(failed)?;
            let opened = state.plaintext_bytes_to_read();
            let at = bytes.len();
            bytes.resize(at + opened, 0);
            self.session.reader().read_exact(&mut bytes[at..]).map_err(io_failed)?;
            if state.peer_has_closed() {
                return if opened == 0 { Err(Error::Dead) } else { Ok(()) };
            }
        }
        self.sealed.clear();
        Ok(())
    }
}

fn failed(error: rustls::Error) -> Error {
    Error::Protocol(format!("TLS: {error}"))
}

fn io_failed(error: io::Error) -> Error {
    Error::Protocol(format!("TLS: {error}"))
}
