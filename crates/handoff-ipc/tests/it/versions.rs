//! Peers of other releases: what each side learns when the other one speaks another version of the protocol.
//!
//! The fake peers write bytes, not the crate's own messages: the form of a greeting is the one thing that every
//! version keeps, older programs rely on it, so the test must not follow when the crate changes it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use crate::common::*;
use handoff_ipc::servicemanager::{Manager, Policy, ServiceOptions, SocketAccess};
use handoff_ipc::{Error, Runtime};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, connect, listen, socket};

/// What this release speaks.
const OURS: u32 = 3;

/// Bytes of a greeting, in every version.
const GREETING: usize = 48;

const HELLO: u32 = 1;
const WELCOME: u32 = 2;

/// A greeting as any version writes it: kind, version, and what only that version understands.
fn greeting(kind: u32, version: u32) -> [u8; GREETING] {
    let mut bytes = [0xa5; GREETING];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn packets() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap()
}

fn address(path: &Path) -> SocketAddrUnix {
    SocketAddrUnix::new(path).unwrap()
}

/// The next greeting's kind and version; `None` once the other end is closed.
fn read_greeting(from: &OwnedFd) -> Option<(u32, u32)> {
    let mut bytes = [0; GREETING + 1];
    match rustix::io::read(from, &mut bytes) {
        Ok(GREETING) => {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            Some((word(0), word(4)))
        }
        Ok(0) | Err(rustix::io::Errno::CONNRESET) => None,
        other => panic!("{other:?} is no greeting"),
    }
}

/// A server of `version` for one client: answers its greeting as that version would, tells what it read.
fn serve(path: &Path, version: u32) -> std::thread::JoinHandle<Option<(u32, u32)>> {
    let listener = packets();
    bind(&listener, &address(path)).unwrap();
    listen(&listener, 1).unwrap();
    std::thread::spawn(move || {
        let client = accept(&listener).unwrap();
        let heard = read_greeting(&client);
        rustix::io::write(&client, &greeting(WELCOME, version)).unwrap();
        // Until the client has had its answer.
        assert_eq!(read_greeting(&client), None, "a client goes on with a server of another version");
        heard
    })
}

#[test]
fn a_server_of_another_version_is_named_with_both_versions() {
    for version in [OURS - 1, OURS + 1] {
        let place = Place::new();
        let server = serve(&place.socket(), version);
        let runtime = Runtime::builder().socket(place.socket()).connect();
        // Waiting longer would help nobody, so it ends long before its time.
        let refused =
            runtime.and_then(|it| it.services().wait_for("bank", Duration::from_secs(3600)).map(drop));
        let error = refused.unwrap_err();
        assert!(
            matches!(error, Error::OtherVersion { theirs, ours: OURS } if theirs == version),
            "{error:?} of a server of version {version}"
        );
        let told = error.to_string();
        assert!(told.contains(&format!("version {version}")) && told.contains("same release"), "{told}");
        assert_eq!(server.join().unwrap(), Some((HELLO, OURS)), "the server can say the same");
    }
}

#[test]
fn a_client_of_another_version_is_told_and_nobody_else_notices() {
    let place = Place::new();
    let _serving = Manager::new(Policy::open()).serve(&place.socket(), SocketAccess::Owner).unwrap();
    let service = Runtime::builder().socket(place.socket()).connect().unwrap();
    service
        .services()
        .add("bank", handoff_ipc::Binder::new(Everything::default()), ServiceOptions::default())
        .unwrap();
    for version in [OURS - 1, OURS + 1] {
        let client = packets();
        connect(&client, &address(&place.socket())).unwrap();
        rustix::io::write(&client, &greeting(HELLO, version)).unwrap();
        assert_eq!(read_greeting(&client), Some((WELCOME, OURS)), "a client of version {version}");
        assert_eq!(read_greeting(&client), None, "the connection goes on with version {version}");
        // One of this version is served all the same.
        let found = service.services().check("bank").unwrap();
        assert!(found.is_some_and(|bank| bank.is_alive()));
    }
}
