use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::handshake::receive_within;
use super::*;
use crate::ParcelService;
use crate::shm::socket::{self, ReceivedMessage};
use crate::shm::wire::{MESSAGE_SIZE, Message, Refusal};

pub(super) const ASKER: Token = [7; 16];
pub(super) const OTHER: Token = [8; 16];
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn node() -> Arc<LocalNode> {
    LocalNode::new(Arc::new(ParcelService::new("test.INothing", |_, _| Ok(None))))
}

/// A link to somebody who asks for introductions, and what that peer reads.
pub(super) fn asker(core: &Arc<Core>, endpoint: Token) -> (Arc<Link>, OwnedFd) {
    peer(core, endpoint, CallingIdentity::own())
}

pub(super) fn peer(core: &Arc<Core>, endpoint: Token, who: CallingIdentity) -> (Arc<Link>, OwnedFd) {
    let (mine, theirs) = socket::pair().unwrap();
    (core.add_link(PeerFd::new(mine, who.uid), who, endpoint).unwrap(), theirs)
}

pub(super) fn next(socket: &OwnedFd) -> Message {
    receive_within(socket.as_fd(), LONG).unwrap().message
}

pub(super) fn send(socket: &OwnedFd, message: Message, fds: &[&OwnedFd]) {
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    assert!(socket::send(socket.as_fd(), &message, &fds).unwrap());
}

#[test]
fn who_was_introduced_brings_the_connection_that_becomes_the_link() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    // What an introducer keeps a copy of says nothing any longer.
    let copy = introduction.try_clone().unwrap();
    let (mine, end) = socket::pair().unwrap();
    send(&introduction, Message::Hello { endpoint: OTHER, token }, &[&end]);
    drop((introduction, end));
    assert!(matches!(next(&mine), Message::Welcome { node, .. } if node != 0));
    assert_eq!(next(&theirs), Message::IntroductionOver { token });
    assert!(matches!(receive_within(copy.as_fd(), LONG), Err(Error::Dead)));
    // The token is good for one use.
    assert!(core.claim(&token).is_none());
    core.stop();
}

#[test]
fn a_hello_without_the_right_token_or_connection_is_nobodys() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    let (mine, end) = socket::pair().unwrap();
    send(&introduction, Message::Hello { endpoint: OTHER, token: [1; 16] }, &[&end]);
    drop(end);
    assert_eq!(next(&mine), Message::Refused { request: 0, refusal: Refusal::NotYours });
    assert_eq!(next(&theirs), Message::IntroductionOver { token });
    // On the introduced connection itself nobody becomes a link: the introducer has it, too.
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    send(&introduction, Message::Hello { endpoint: OTHER, token }, &[]);
    assert!(matches!(receive_within(introduction.as_fd(), LONG), Err(Error::Dead)));
    assert_eq!(core.tallies().1, 1, "the asker alone");
    core.stop();
}

/// Set for the half of the next test that makes a connection for another process.
const MAKER: &str = "HANDOFF_TEST_MAKES_A_PAIR";

#[test]
fn an_end_that_another_process_made_is_refused() {
    if std::env::var_os(MAKER).is_some() {
        let out = std::io::stdin();
        let (a, b) = socket::pair().unwrap();
        let fds = [a.as_fd(), b.as_fd()];
        assert!(socket::send(out.as_fd(), &Message::Post, &fds).unwrap());
        // Until the other end is closed, as the process is who made the pair.
        let mut stream = UnixStream::from(out.as_fd().try_clone_to_owned().unwrap());
        stream.set_nonblocking(false).unwrap();
        let _ = stream.read(&mut [0; 1]);
        return;
    }
    let core = Core::start().unwrap();
    let (link, _theirs) = asker(&core, ASKER);
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    let (out, theirs) = socket::pair().unwrap();
    let mut maker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shm::core::handshake_tests::an_end_that_another_process_made_is_refused"])
        .env(MAKER, "1")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ReceivedMessage { mut fds, .. } = receive_within(out.as_fd(), LONG).unwrap();
    let (end, mine) = (fds.pop().unwrap().take().unwrap(), fds.pop().unwrap().take().unwrap());
    // As a process that stands between two others would: the stamp is this one's, the pair is not.
    send(&introduction, Message::Hello { endpoint: OTHER, token }, &[&end]);
    drop(end);
    assert_eq!(next(&mine), Message::Refused { request: 0, refusal: Refusal::NotYours });
    assert_eq!(core.tallies().1, 1, "the asker alone");
    drop(UnixStream::from(out).write(&[1]));
    maker.wait().unwrap();
    core.stop();
}

#[test]
fn a_claimed_endpoint_finds_no_link_of_another_process() {
    let core = Core::start().unwrap();
    let (link, _theirs) = asker(&core, ASKER);
    let own = CallingIdentity::own();
    assert!(core.link_to(ASKER, own).is_some_and(|found| found.id == link.id));
    assert!(core.link_to(ASKER, CallingIdentity { pid: own.pid + 1, ..own }).is_none());
    assert!(core.link_to(ASKER, CallingIdentity { pid: 0, ..own }).is_none());
    assert!(core.link_to(OTHER, own).is_none());
    core.stop();
}

#[test]
fn who_has_a_link_already_gets_the_object_there_and_nowhere_else() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let (known, on_known) = asker(&core, OTHER);
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    let (mine, end) = socket::pair().unwrap();
    send(&introduction, Message::Hello { endpoint: OTHER, token }, &[&end]);
    drop(end);
    let Message::Known { nonce, .. } = next(&mine) else { panic!("there is a link") };
    assert_eq!(next(&theirs), Message::IntroductionOver { token });
    // Whoever learns the nonce can do nothing with it on a link of its own.
    send(&theirs, Message::Claim { request: 1, token: nonce }, &[]);
    assert_eq!(next(&theirs), Message::Refused { request: 1, refusal: Refusal::NotYours });
    send(&on_known, Message::Claim { request: 2, token: nonce }, &[]);
    let Message::Claimed { request: 2, node, .. } = next(&on_known) else { panic!("it is its own") };
    assert!(known.exported(node).is_some() && link.exported(node).is_none());
    send(&on_known, Message::Claim { request: 3, token: nonce }, &[]);
    assert_eq!(next(&on_known), Message::Refused { request: 3, refusal: Refusal::NotYours });
    core.stop();
}

#[test]
fn who_was_introduced_counts_at_every_step_until_the_object_is_its() {
    let core = Core::start().unwrap();
    let (link, _theirs) = asker(&core, ASKER);
    let node = node();
    let (_introduction, token) = core.introduction(&link, Arc::clone(&node)).unwrap();
    assert_eq!(node.to_come(), 1, "introduced");
    let claimed = core.claim(&token).unwrap();
    assert_eq!(node.to_come(), 1, "the token is used up, and nothing exported");
    let nonce = core.resumable(&link, claimed).unwrap();
    assert_eq!(node.to_come(), 1, "has a link already, and a number for the object");
    let claimed = core.claim_nonce(&nonce, &link).unwrap();
    assert_eq!(node.to_come(), 1, "the number is used up, and nothing exported");
    link.export(claimed.node()).unwrap();
    drop(claimed);
    assert_eq!(node.to_come(), 0, "it has it");
    core.stop();
}

#[test]
fn an_introduction_ends_with_its_connection() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let (introduction, token) = core.introduction(&link, node()).unwrap();
    drop(introduction);
    assert_eq!(next(&theirs), Message::IntroductionOver { token });
    assert!(core.claim(&token).is_none());
    core.stop();
}

pub(super) fn new_socket() -> OwnedFd {
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, flags, None).unwrap()
}

pub(super) fn listen(core: &Arc<Core>, folder: &std::path::Path) -> rustix::net::SocketAddrUnix {
    let address = rustix::net::SocketAddrUnix::new(folder.join("socket")).unwrap();
    let listener = new_socket();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 64).unwrap();
    core.listen(listener, node()).unwrap();
    address
}

#[test]
fn a_peer_of_another_version_is_told_which_one_this_is() {
    let folder = tempfile::tempdir().unwrap();
    let core = Core::start().unwrap();
    let address = listen(&core, folder.path());
    let socket = new_socket();
    rustix::net::connect(&socket, &address).unwrap();
    let mut hello = Message::Hello { endpoint: OTHER, token: [0; 16] }.encode();
    hello[4] = 2;
    assert_eq!(rustix::io::write(&socket, &hello).unwrap(), MESSAGE_SIZE);
    assert!(matches!(next(&socket), Message::Welcome { node: 0, .. }), "in every version it begins alike");
    core.stop();
}
