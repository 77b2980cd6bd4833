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
        let (before, mut left, mut is_closed) = (bytes.len(), &self.sealed[..], false);
        while !left.is_empty() && !is_closed {
            if self.session.read_tls(&mut left).map_err(io_failed)? == 0 {
                return Err(Error::Protocol("TLS takes no more".into()));
            }
            let state = self.session.process_new_packets().map_err(failed)?;
            let at = bytes.len();
            bytes.resize(at + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut bytes[at..]).map_err(io_failed)?;
            is_closed = state.peer_has_closed();
        }
        self.sealed.clear();
        // What came right before the end is served.
        if is_closed && bytes.len() == before { Err(Error::Dead) } else { Ok(()) }
    }
}

fn failed(error: rustls::Error) -> Error {
    Error::Protocol(format!("TLS: {error}"))
}

fn io_failed(error: io::Error) -> Error {
    Error::Protocol(format!("TLS: {error}"))
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, RootCertStore, ServerConfig};

    use super::*;

    /// What one side says, as the other one hears it.
    fn say(from: &mut Tls, to: &mut Tls, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut heard = Vec::new();
        let sealed = from.seal(bytes)?;
        to.room().extend(sealed);
        to.open(&mut heard).map(|()| heard)
    }

    #[test]
    fn what_was_said_right_before_the_end_is_heard_and_nothing_after_it() {
        let own = rcgen::generate_simple_self_signed(["it".to_owned()]).unwrap();
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = ServerTls(Arc::new(server.with_single_cert(vec![own.cert.der().clone()], key).unwrap()));
        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let name = ServerName::try_from("it").unwrap();
        let client = ClientTls(Arc::new(client.with_no_client_auth()), name);
        for is_alone in [false, true] {
            let (mut client, mut server) = (client.begin().unwrap(), server.begin().unwrap());
            while client.is_handshaking() || server.is_handshaking() {
                assert!(say(&mut client, &mut server, &[]).unwrap().is_empty());
                assert!(say(&mut server, &mut client, &[]).unwrap().is_empty());
            }
            let long = vec![7u8; 100_000];
            assert_eq!(say(&mut client, &mut server, &long).unwrap(), long);
            let last = if is_alone { &b""[..] } else { b"last" };
            let mut sealed = client.seal(last).unwrap();
            client.session.send_close_notify();
            sealed.extend(client.seal(&[]).unwrap());
            server.room().extend(&sealed);
            let mut heard = Vec::new();
            let ended = server.open(&mut heard);
            assert!(heard == last && matches!(ended, Err(Error::Dead)) == is_alone, "{ended:?}");
            // Again, as somebody in between may send it.
            server.room().extend(&sealed);
            assert!(server.open(&mut heard).is_err() && heard == last);
        }
    }
}
