use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Resource as Limit, Rlimit, setrlimit};

use super::handshake::receive_within;
use super::handshake_tests::{ASKER, LONG, OTHER, asker, listen, new_socket, next, node, peer, send};
use super::*;
use crate::ledger::{self, Resource};
use crate::object::{Binder, Reference, Service, Transaction};
use crate::shm::oneway::ring;
use crate::shm::pair::await_that;
use crate::shm::region::Region;
use crate::shm::slot::SLOT_SIZE;
use crate::shm::socket;
use crate::shm::wire::{Message, Refusal};

/// Asks something that the poller answers; it does so only when it waits for nothing else.
pub(super) fn answers(socket: &OwnedFd, request: u32) {
    send(socket, Message::Introduce { request, node: u64::MAX }, &[]);
    assert_eq!(next(socket), Message::Refused { request, refusal: Refusal::Unknown });
}

pub(super) fn region(len: usize) -> OwnedFd {
    Region::create("handoff-test", len).unwrap().1
}

/// A socket whose last `close` waits until its peer reads or is gone, which is this long at the most.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&socket, Some(4 * LONG)).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    (socket.into(), other)
}

#[test]
fn a_descriptor_that_is_slow_to_close_keeps_nobody_waiting() {
    let core = Core::start().unwrap();
    let (_one, one) = asker(&core, ASKER);
    let (_two, two) = asker(&core, OTHER);
    // With a message that takes none; as memory that is none; in the queue of a connection that ends.
    for message in
        [Message::Post, Message::Slot { slot: 1 }, Message::Hello { endpoint: OTHER, token: [0; 16] }]
    {
        let (slow, other) = slow_to_close();
        let (mine, evil) = socket::pair().unwrap();
        send(&evil, message, &[&slow]);
        send(&evil, Message::Post, &[&slow]);
        // From here on the last ones are in the queue, so it is not this thread that closes them.
        drop((slow, evil));
        drop(core.add_link(PeerFd::new(mine, 0), CallingIdentity::own(), [9; 16]));
        answers(&one, 1);
        answers(&two, 2);
        drop(other);
    }
    core.stop();
}

/// A service that takes its time to go.
pub(super) struct Slow(pub(super) Mutex<mpsc::Receiver<()>>);

impl Service for Slow {
    fn descriptor(&self) -> &str {
        "test.ISlow"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.get_mut().unwrap().recv();
    }
}

#[test]
fn a_service_that_is_slow_to_drop_keeps_nobody_waiting() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let (end, slow) = mpsc::channel();
    let Binder(Reference::Local(node)) = Binder::new(Slow(Mutex::new(slow))) else { unreachable!("local") };
    let id = link.export(&node).unwrap();
    drop(node);
    send(&theirs, Message::Release { node: id, count: 1 }, &[]);
    answers(&theirs, 1);
    end.send(()).unwrap();
    core.stop();
}

#[test]
fn a_slot_beyond_the_share_is_refused_and_the_link_goes_on() {
    let core = Core::start().unwrap();
    let who = CallingIdentity { pid: 1, uid: 50_001, gid: 1 };
    let (link, theirs) = peer(&core, ASKER, who);
    let others = ledger::use_up(who, Resource::Mappings);
    send(&theirs, Message::Slot { slot: 0 }, &[&region(SLOT_SIZE)]);
    // It may be used before the peer knows.
    send(&theirs, Message::Fds { slot: 0, reply: false }, &[&region(1)]);
    send(&theirs, Message::Call { slot: 0 }, &[]);
    assert_eq!(next(&theirs), Message::SlotRefused { slot: 0, refusal: Refusal::TooMany });
    answers(&theirs, 1);
    drop(others);
    send(&theirs, Message::Slot { slot: 1 }, &[&region(SLOT_SIZE)]);
    answers(&theirs, 2);
    assert!(link.await_slot(1, None).is_ok());
    core.stop();
}

/// Those beyond its share count until they are closed, and when that share is used up nothing more is read.
#[test]
fn a_peer_whose_descriptors_wait_to_be_closed_is_not_read_from() {
    let core = Core::start().unwrap();
    let who = CallingIdentity { pid: 1, uid: 50_007, gid: 1 };
    let (_link, theirs) = peer(&core, ASKER, who);
    answers(&theirs, 1);
    let mut others = Vec::new();
    await_that("the link is crowded", || {
        // Again, as other tests give descriptors back.
        others.extend(ledger::use_up(who, Resource::Closing));
        crate::disposal::is_crowded(who)
    });
    let question = Message::Introduce { request: 3, node: u64::MAX };
    send(&theirs, question, &[]);
    // Others are read meanwhile, more than once.
    let (_other, other) = asker(&core, OTHER);
    (0..3).for_each(|request| answers(&other, request));
    assert!(matches!(socket::receive(theirs.as_fd()), Ok(socket::Receive::Empty)));
    drop(others);
    assert_eq!(next(&theirs), Message::Refused { request: 3, refusal: Refusal::Unknown });
    core.stop();
}

#[test]
fn descriptors_are_kept_for_open_slots_and_as_many_as_the_share_is() {
    let core = Core::start().unwrap();
    let who = CallingIdentity { pid: 1, uid: 50_002, gid: 1 };
    let (link, theirs) = peer(&core, ASKER, who);
    send(&theirs, Message::Slot { slot: 0 }, &[&region(SLOT_SIZE)]);
    send(&theirs, Message::Fds { slot: 0, reply: false }, &[&region(1)]);
    answers(&theirs, 1);
    assert_eq!(link.take_fds(0, false, 1, None).unwrap().len(), 1);
    let (mut others, mut request) = (Vec::new(), 2);
    await_that("the share is used up", || {
        // Again, as other tests give descriptors back.
        others.extend(ledger::use_up(who, Resource::Descriptors));
        send(&theirs, Message::Fds { slot: 0, reply: false }, &[&region(1)]);
        answers(&theirs, request);
        request += 1;
        matches!(link.take_fds(0, false, 1, None), Err(Error::PermissionDenied(_)))
    });
    drop(others);
    send(&theirs, Message::Fds { slot: 0, reply: false }, &[&region(1)]);
    answers(&theirs, request);
    assert_eq!(link.take_fds(0, false, 1, None).unwrap().len(), 1, "the next parcel's are its own");
    // For a slot that nobody opened there is nobody to take them.
    send(&theirs, Message::Fds { slot: 7, reply: false }, &[&region(1)]);
    assert!(matches!(receive_within(theirs.as_fd(), LONG), Err(Error::Dead)));
    core.stop();
}

#[test]
fn introductions_beyond_the_share_are_refused_and_others_get_theirs() {
    let core = Core::start().unwrap();
    let who = CallingIdentity { pid: 1, uid: 50_003, gid: 1 };
    let (link, _theirs) = peer(&core, ASKER, who);
    let (other, _others) = peer(&core, OTHER, CallingIdentity { uid: 50_004, ..who });
    let used = ledger::use_up(who, Resource::Descriptors);
    assert_eq!(core.introduction(&link, node()).unwrap_err(), Refusal::TooMany);
    assert!(core.introduction(&other, node()).is_ok());
    drop(used);
    assert!(core.introduction(&link, node()).is_ok());
    core.stop();
}

#[test]
fn a_slot_that_the_peer_refuses_fails_its_call_with_the_reason() {
    let core = Core::start().unwrap();
    let (link, theirs) = asker(&core, ASKER);
    let object = Binder::from_remote(link.proxy(1, None));
    let call = std::thread::spawn(move || object.transaction(1).call(|_| Ok(()), |_| Ok(())));
    let Message::Slot { slot } = next(&theirs) else { panic!("a slot is opened first") };
    send(&theirs, Message::SlotRefused { slot, refusal: Refusal::TooMany }, &[]);
    assert!(matches!(call.join().unwrap(), Err(Error::PermissionDenied(_))));
    assert!(!link.is_dead());
    core.stop();
}

/// Set for the half of the next test that runs in a process without descriptors.
const FULL: &str = "HANDOFF_TEST_NO_DESCRIPTORS";

#[test]
fn without_a_descriptor_newcomers_are_turned_away_and_later_greeted() {
    if std::env::var_os(FULL).is_none() {
        let name =
            "shm::core::poller_tests::without_a_descriptor_newcomers_are_turned_away_and_later_greeted";
        let outcome = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(FULL, "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
        assert!(String::from_utf8_lossy(&outcome.stdout).contains("1 passed"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let core = Core::start().unwrap();
    let address = listen(&core, folder.path());
    let sockets: [OwnedFd; 4] = std::array::from_fn(|_| new_socket());
    setrlimit(Limit::Nofile, Rlimit { current: Some(200), maximum: Some(200) }).unwrap();
    let mut all: Vec<OwnedFd> = std::iter::from_fn(|| new_reserve().ok()).collect();
    let (last, turned_away) = sockets.split_last().unwrap();
    for socket in turned_away {
        rustix::net::connect(socket, &address).unwrap();
        assert_eq!(next(socket), Message::Refused { request: 0, refusal: Refusal::NoRoom });
    }
    // With the reserve taken, too, the listener is left alone for a while.
    let reserve = core.reserve.lock().unwrap().take();
    let copy = reserve.as_ref().and_then(|reserve| reserve.try_clone().ok());
    assert!(copy.is_none());
    rustix::net::connect(last, &address).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    all.truncate(all.len() / 2);
    drop(reserve);
    send(last, Message::Hello { endpoint: OTHER, token: [0; 16] }, &[]);
    assert!(matches!(next(last), Message::Welcome { .. }));
    core.stop();
}

#[test]
fn a_ring_is_charged_too() {
    let core = Core::start().unwrap();
    let who = CallingIdentity { pid: 1, uid: 50_005, gid: 1 };
    let (_link, theirs) = peer(&core, ASKER, who);
    let _used = ledger::use_up(who, Resource::Bytes);
    send(&theirs, Message::Ring, &[&region(ring::REGION)]);
    assert!(matches!(receive_within(theirs.as_fd(), LONG), Err(Error::Dead)));
    core.stop();
}

#[test]
fn a_paused_link_goes_on_afterwards_and_others_meanwhile() {
    let core = Core::start().unwrap();
    let (link, paused) = asker(&core, ASKER);
    let (_other, other) = asker(&core, OTHER);
    for _ in 0..20 {
        core.pause(link.id, Duration::from_millis(20));
        core.wake();
        send(&paused, Message::Introduce { request: 1, node: u64::MAX }, &[]);
        answers(&other, 2);
        // What this process sends goes out all the same, also what was kept meanwhile.
        link.send(Message::Post, Vec::new()).unwrap();
        let (first, second) = (next(&paused), next(&paused));
        let refused = Message::Refused { request: 1, refusal: Refusal::Unknown };
        assert!([first, second].contains(&refused) && [first, second].contains(&Message::Post));
    }
    core.stop();
}
