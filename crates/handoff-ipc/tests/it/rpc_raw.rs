//! Binder RPC spoken by hand: a client's connection, a server's, and the processes that stand beside an attack.
// A module of a test cannot be reached from elsewhere.
#![allow(unreachable_pub)]

use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use crate::common::*;
use handoff_ipc::Binder;
use handoff_ipc::rpc::{RpcAddress, RpcServer, RpcSession};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    match role.as_str() {
        "server" => {
            let _server = serve_rpc(socket);
            ready_and_wait();
        }
        "server with few descriptors" => {
            let few = rustix::process::Rlimit { current: Some(256), maximum: Some(256) };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
            let _server = serve_rpc(socket);
            ready_and_wait();
        }
        "server over TCP" => {
            let server = RpcServer::builder(RpcAddress::Inet(([127, 0, 0, 1], 0).into()));
            let server = server.serve(Binder::new(Everything::default())).unwrap();
            std::fs::write(socket, server.address().to_string()).unwrap();
            ready_and_wait();
        }
        // Another process of the same user, which finds its share.
        "honest" => {
            let session = RpcSession::connect(socket).unwrap();
            let root = session.root().unwrap();
            for n in 0..50u32 {
                assert_eq!(echo(&root, &n.to_le_bytes()).unwrap(), n.to_le_bytes());
            }
            assert_eq!(call_back(&root, &Binder::new(Everything::default()), 3).unwrap(), 3);
            std::process::exit(0);
        }
        other => panic!("no such role: {other}"),
    }
}

pub const TRANSACT: u32 = 0;
pub const REPLY: u32 = 1;
pub const DEC_STRONG: u32 = 2;
/// `IBinder::PING_TRANSACTION`.
pub const PING: u32 = u32::from_be_bytes(*b"_PNG");

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn frame(command: u32, body: &[u8]) -> Vec<u8> {
    [&words(&[command, body.len() as u32, 0, 0]), body].concat()
}

/// A call; `data` and `table` are its parcel.
pub fn call(address: u64, code: u32, flags: u32, number: u64, data: &[u8], table: &[u32]) -> Vec<u8> {
    let mut body = address.to_le_bytes().to_vec();
    body.extend(words(&[code, flags]));
    body.extend(number.to_le_bytes());
    body.extend(words(&[data.len() as u32, 0, 0, 0]));
    body.extend(data);
    body.extend(words(table));
    frame(TRANSACT, &body)
}

/// The service's interface, as it stands in front of each call's arguments.
pub fn token() -> Vec<u8> {
    let name = "test.IEverything";
    let mut bytes = words(&[name.len() as u32]);
    bytes.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// How a session of version 2 begins, without descriptors, and how each of its connections does.
pub const NEW_SESSION: [u8; 16] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
pub const INIT: &[u8; 8] = b"cci\0\0\0\0\0";

/// One connection that is spoken by hand.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw(stream)
    }

    /// A session of version 2 with descriptors.
    pub fn open(socket: &Path) -> Self {
        let mut raw = Raw::connect(socket);
        raw.send(&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        raw.send(INIT);
        assert_eq!(raw.take(8), [2, 0, 0, 0, 0, 0, 0, 0]);
        raw
    }

    /// The address of the root object.
    pub fn root(&mut self) -> u64 {
        self.send(&call(0, 0, 0, 0, &[], &[]));
        let reply = self.reply();
        assert_eq!(reply[..4], [0; 4]);
        u64::from_le_bytes(reply[24..32].try_into().unwrap())
    }

    /// Fails where the server has ended the session.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The body of the next reply.
    pub fn reply(&mut self) -> Vec<u8> {
        loop {
            match self.frame().expect("the session goes on") {
                (REPLY, body) => return body,
                (command, _) => assert_eq!(command, DEC_STRONG),
            }
        }
    }

    /// Whether the next reply says that the call failed, by its status or as an exception.
    pub fn is_refused(&mut self) -> bool {
        let reply = self.reply();
        reply[..4] != [0; 4] || reply.get(20..24).is_some_and(|exception| exception != [0; 4])
    }

    /// The next frame; `None` at the end.
    pub fn frame(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).ok()?;
        let mut body = vec![0; u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize];
        self.0.read_exact(&mut body).ok()?;
        Some((u32::from(header[0]), body))
    }

    pub fn status(&mut self) -> i32 {
        i32::from_le_bytes(self.reply()[..4].try_into().unwrap())
    }

    pub fn is_ended(&mut self) -> bool {
        loop {
            match self.0.read(&mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// A server, or an honest client, in a process of its own.
pub fn start(role: &str, socket: &Path) -> Peer {
    Peer::start(role, socket)
}

/// A server in a process of its own, and proof that it serves others whatever the attacker, who stays, has done.
pub fn attacked<T>(attack: impl FnOnce(&Path) -> T) {
    let place = Place::new();
    let mut server = start("server", &place.socket());
    let stays = attack(&place.socket());
    alone("honest", &place.socket());
    drop(stays);
    alone("honest", &place.socket());
    assert!(server.child.try_wait().unwrap().is_none(), "the server lives");
}

/// Sends bytes with descriptors along. Fails where the server has ended the session.
pub fn send_with(raw: &Raw, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(&raw.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// A server that is spoken by hand: `answer` has the first connection of a client that has sent its header.
pub fn hostile_server(
    answer: impl FnOnce(&mut Raw) + Send + 'static,
) -> (Place, std::thread::JoinHandle<()>) {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let server = std::thread::spawn(move || {
        let mut raw = Raw(listener.accept().unwrap().0);
        raw.take(24);
        answer(&mut raw);
        // Those that come later get no answer.
        drop(listener);
    });
    (place, server)
}

/// Answers what a client asks while it sets its session up.
pub fn set_up(raw: &mut Raw) {
    raw.send(&words(&[2, 0]));
    for answer in [words(&[1]), [&words(&[32])[..], &[9; 32]].concat()] {
        raw.take(16 + 40);
        raw.send(&frame(REPLY, &[words(&[0, answer.len() as u32, 0, 0, 0]), answer].concat()));
    }
}
