//! Binder RPC over TLS: who listens to it, who is not the one that it says it is, and who does not speak it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use handoff_ipc::Error;
use handoff_ipc::rpc::rustls::crypto::{CryptoProvider, ring};
use handoff_ipc::rpc::rustls::pki_types::{PrivateKeyDer, ServerName};
use handoff_ipc::rpc::rustls::server::WebPkiClientVerifier;
use handoff_ipc::rpc::rustls::{ClientConfig, RootCertStore, ServerConfig};
use handoff_ipc::rpc::{RpcAddress, RpcServer, RpcSession, RpcSessionBuilder};

const NAME: &str = "handoff.test";

type Certified = rcgen::CertifiedKey<rcgen::KeyPair>;

fn certified() -> Certified {
    rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap()
}

fn key(of: &Certified) -> PrivateKeyDer<'static> {
    PrivateKeyDer::try_from(of.signing_key.serialize_der()).unwrap()
}

fn trusting(whom: &Certified) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(whom.cert.der().clone()).unwrap();
    Arc::new(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server's keys; with somebody to trust, clients have to be that one.
fn of_server(own: &Certified, client: Option<&Certified>) -> Arc<ServerConfig> {
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config = match client {
        Some(client) => {
            let known = WebPkiClientVerifier::builder_with_provider(trusting(client), provider());
            config.with_client_cert_verifier(known.build().unwrap())
        }
        None => config.with_no_client_auth(),
    };
    Arc::new(config.with_single_cert(vec![own.cert.der().clone()], key(own)).unwrap())
}

fn of_client(server: &Certified, own: Option<&Certified>) -> Arc<ClientConfig> {
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(trusting(server));
    Arc::new(match own {
        Some(own) => config.with_client_auth_cert(vec![own.cert.der().clone()], key(own)).unwrap(),
        None => config.with_no_client_auth(),
    })
}

fn local() -> RpcAddress {
    RpcAddress::Inet(([127, 0, 0, 1], 0).into())
}

fn port(server: &RpcServer) -> std::net::SocketAddr {
    let RpcAddress::Inet(address) = server.address() else { panic!("it listens to TCP") };
    *address
}

fn serve(keys: &Certified) -> RpcServer {
    let service = everything();
    RpcServer::builder(local()).tls(of_server(keys, None)).serve(service).unwrap()
}

fn client(address: &RpcAddress, server: &Certified) -> RpcSessionBuilder {
    let name = ServerName::try_from(NAME).unwrap();
    RpcSession::builder(address.clone()).tls(of_client(server, None), name)
}

fn works(session: &RpcSession) {
    echo(&session.root().unwrap(), b"over TLS").unwrap();
}

#[test]
fn calls_of_every_size_and_calls_back_go_over_tls() {
    let keys = certified();
    let place = Place::new();
    for address in [local(), place.socket().into()] {
        let server = RpcServer::builder(address)
            .tls(of_server(&keys, None))
            .descriptors(true)
            .serve(everything())
            .unwrap();
        let session = client(server.address(), &keys).descriptors(true).connect().unwrap();
        let root = session.root().unwrap();
        for len in [0, 1, 16_000, 17_000, 100_000, (1 << 20) - 1000] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            assert_eq!(echo(&root, &bytes).unwrap(), bytes);
        }
        assert_eq!(call_back(&root, &everything(), 3).unwrap(), 3);
        // Each on a connection of its own.
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let root = root.clone();
                scope.spawn(move || {
                    for _ in 0..50 {
                        assert_eq!(echo(&root, &[number; 3000]).unwrap(), [number; 3000]);
                    }
                });
            }
        });
        let file = std::os::fd::OwnedFd::from(file_with("text"));
        let sent = root.transaction(READ_FD).call(|p| p.write(&file), |r| r.read::<String>());
        assert!(matches!(&sent, Err(Error::Unsupported { .. })), "{sent:?}");
        drop(server);
        eventually("the end is known", || !session.is_alive());
    }
}

/// Relays each connection to a server. All that is said goes through `pass`, which is told whether the client said it.
fn relayed(
    server: std::net::SocketAddr,
    pass: impl Fn(&mut [u8], bool) + Clone + Send + 'static,
) -> RpcAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = RpcAddress::Inet(listener.local_addr().unwrap());
    let relay = move |mut from: TcpStream, mut to: TcpStream, is_client_s: bool| {
        let pass = pass.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                pass(&mut bytes[..count], is_client_s);
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            drop(to.shutdown(Shutdown::Both));
        });
    };
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(server) else { return };
            relay(near.try_clone().unwrap(), far.try_clone().unwrap(), true);
            relay(far, near, false);
        }
    });
    address
}

/// The same, and all that was said.
fn overheard(server: std::net::SocketAddr) -> (RpcAddress, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let kept = Arc::clone(&heard);
    (relayed(server, move |bytes, _| kept.lock().unwrap().extend(&*bytes)), heard)
}

#[test]
fn who_listens_reads_nothing() {
    let keys = certified();
    let secret = b"whoever reads this has broken it".repeat(3);
    for is_sealed in [true, false] {
        let server = RpcServer::builder(local());
        let server = if is_sealed { server.tls(of_server(&keys, None)) } else { server };
        let server = server.serve(everything()).unwrap();
        let (address, heard) = overheard(port(&server));
        let session = RpcSession::builder(address.clone());
        let session = if is_sealed { client(&address, &keys) } else { session }.connect().unwrap();
        assert_eq!(echo(&session.root().unwrap(), &secret).unwrap(), secret);
        let heard = heard.lock().unwrap();
        let is_read = heard.windows(secret.len()).any(|bytes| bytes == secret);
        assert!(is_read != is_sealed && heard.len() > 2 * secret.len());
    }
}

#[test]
fn a_server_is_the_one_that_it_is_taken_for() {
    let (keys, others) = (certified(), certified());
    let server = serve(&keys);
    let refused = client(server.address(), &others).connect().unwrap_err();
    assert!(matches!(&refused, Error::Protocol(text) if text.contains("certificate")), "{refused}");
    let other_name = ServerName::try_from("handoff.elsewhere").unwrap();
    let refused = RpcSession::builder(server.address().clone()).tls(of_client(&keys, None), other_name);
    let refused = refused.connect().unwrap_err();
    assert!(matches!(&refused, Error::Protocol(text) if text.contains("certificate")), "{refused}");
    works(&client(server.address(), &keys).connect().unwrap());
}

#[test]
fn a_client_shows_its_certificate_where_it_is_asked_for_it() {
    let (keys, mine, others) = (certified(), certified(), certified());
    let server = RpcServer::builder(local()).tls(of_server(&keys, Some(&mine)));
    let server = server.serve(everything()).unwrap();
    let connect = |own: Option<&Certified>| {
        let name = ServerName::try_from(NAME).unwrap();
        RpcSession::builder(server.address().clone()).tls(of_client(&keys, own), name).connect()
    };
    for own in [None, Some(&others)] {
        let refused = connect(own).unwrap_err();
        assert!(matches!(refused, Error::Protocol(_)), "{refused}");
        assert_eq!(server.sessions(), 0);
    }
    works(&connect(Some(&mine)).unwrap());
}

#[test]
fn one_side_alone_with_tls_is_told() {
    let keys = certified();
    let (sealed, plain) = (serve(&keys), RpcServer::builder(local()));
    let plain = plain.serve(everything()).unwrap();
    let quick = |session: RpcSessionBuilder| session.setup_timeout(Duration::from_secs(20)).connect();
    for refused in
        [quick(RpcSession::builder(sealed.address().clone())), quick(client(plain.address(), &keys))]
    {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, Error::Protocol(text) if text.contains("TLS")), "{refused}");
    }
    works(&client(sealed.address(), &keys).connect().unwrap());
    works(&RpcSession::connect(plain.address().clone()).unwrap());
}

/// What is no TLS, is cut, or stops, ends its own connection, while an honest client calls.
#[test]
fn a_hostile_handshake_harms_nobody_else() {
    let keys = certified();
    let server = serve(&keys);
    let honest = client(server.address(), &keys).connect().unwrap();
    // Somebody's own greeting, to be cut and changed.
    let (relay, heard) = overheard(port(&server));
    works(&client(&relay, &keys).connect().unwrap());
    let greeting = heard.lock().unwrap()[..200].to_vec();
    let mut attacks = vec![vec![0xff; 100_000], b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    // Records of the greatest length, each of a type that TLS has.
    attacks.extend((20..=24).map(|kind| [&[kind, 3, 3, 0x40, 0xff][..], &[0; 0x40ff]].concat().repeat(20)));
    for at in (0..greeting.len()).step_by(7) {
        let mut changed = greeting.clone();
        changed[at] ^= 0x55;
        attacks.push(changed);
        attacks.push(greeting[..at].to_vec());
    }
    let mut open = Vec::new();
    for attack in attacks {
        let mut socket = TcpStream::connect(port(&server)).unwrap();
        // It may have been ended before all is sent.
        drop(socket.write_all(&attack));
        open.push(socket);
        works(&honest);
    }
    works(&client(server.address(), &keys).connect().unwrap());
    // Those that stopped are ended, too.
    for mut socket in open {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut end = Vec::new();
        match socket.read_to_end(&mut end) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
    works(&honest);
}

/// After the handshake, somebody between the two changes what is said.
#[test]
fn what_is_changed_on_the_way_ends_the_session() {
    let keys = certified();
    let server = serve(&keys);
    let changes = Arc::new(AtomicBool::new(false));
    let changing = Arc::clone(&changes);
    let address = relayed(port(&server), move |bytes, is_client_s| {
        if let (true, Some(last)) = (is_client_s && changing.load(Ordering::Relaxed), bytes.last_mut()) {
            *last ^= 1;
        }
    });
    let session = client(&address, &keys).connect().unwrap();
    let root = session.root().unwrap();
    echo(&root, b"as it was said").unwrap();
    changes.store(true, Ordering::Relaxed);
    let changed = echo(&root, b"not as it was said").unwrap_err();
    assert!(matches!(changed, Error::Dead | Error::Protocol(_)), "{changed}");
    eventually("the end is known", || !session.is_alive());
    works(&client(server.address(), &keys).connect().unwrap());
}
