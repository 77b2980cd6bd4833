use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::handshake_tests::{ASKER, OTHER, next, peer, send};
use super::poller_tests::{Slow, answers, region};
use super::*;
use crate::ledger::{self, Resource};
use crate::object::{Binder, Promised, Reference, Service, Transaction};
use crate::shm::pair::await_that;
use crate::shm::slot::{Area, Entry, Header, Meta, SLOT_SIZE, Slot};
use crate::shm::socket::{self, Receive};
use crate::shm::wire::{Message, Refusal};

fn identity(uid: u32) -> CallingIdentity {
    CallingIdentity { pid: 1, uid, gid: 1 }
}

#[test]
fn a_peer_that_does_not_read_its_descriptors_is_sent_no_more_until_it_does() {
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_101));
    let (other, _others) = peer(&core, OTHER, identity(50_102));
    let parcel = |count: usize| (0..count).map(|_| region(1)).collect::<Vec<_>>();
    let mut sent = 0;
    let refused = loop {
        match link.send_fds(0, true, parcel(70)) {
            Ok(()) => sent += 70,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::PermissionDenied(why) if why.contains("has not read")), "{refused}");
    assert!(sent >= 70);
    other.send_fds(0, true, parcel(70)).unwrap();
    link.send(Message::Post, Vec::new()).unwrap();
    // Whole parcels came, and the link goes on.
    let mut came = 0;
    while let Receive::Message(message) = socket::receive(theirs.as_fd()).unwrap() {
        came += message.fds.len();
    }
    assert_eq!(came, sent);
    link.send_fds(0, true, parcel(70)).unwrap();
    assert!(!link.is_dead());
    core.stop();
}

/// A peer that asks for connections and takes none is told so, and keeps its link.
#[test]
fn a_peer_that_has_not_read_its_share_is_refused_introductions() {
    let core = Core::start().unwrap();
    let who = identity(50_103);
    let (link, theirs) = peer(&core, ASKER, who);
    let node = super::handshake_tests::node();
    let id = link.export(&node).unwrap();
    let mut used = Vec::new();
    await_that("it has its share", || {
        // Again, as other tests give theirs back.
        used.extend(ledger::use_up(who, Resource::Sent));
        send(&theirs, Message::Introduce { request: 1, node: id }, &[]);
        match next(&theirs) {
            Message::IntroductionOver { .. } => true,
            Message::Introduced { .. } => false,
            other => panic!("{other:?}"),
        }
    });
    // The introductions before may be over only now.
    let refused = std::iter::from_fn(|| Some(next(&theirs)))
        .find(|message| !matches!(message, Message::IntroductionOver { .. }));
    assert_eq!(refused, Some(Message::Refused { request: 1, refusal: Refusal::TooMany }));
    drop(used);
    send(&theirs, Message::Introduce { request: 2, node: id }, &[]);
    let made = std::iter::from_fn(|| Some(next(&theirs)))
        .find(|message| !matches!(message, Message::IntroductionOver { .. }));
    assert!(matches!(made, Some(Message::Introduced { request: 2, .. })), "{made:?}");
    core.stop();
}

#[test]
fn descriptors_that_come_after_the_deadline_are_not_the_next_parcels() {
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_104));
    send(&theirs, Message::Slot { slot: 0 }, &[&region(SLOT_SIZE)]);
    let fds = Message::Fds { slot: 0, reply: false };
    send(&theirs, fds, &[&region(1)]);
    answers(&theirs, 1);
    let began = Instant::now();
    let deadline = began + Duration::from_millis(1);
    assert!(link.take_fds(0, false, 3, Some(deadline)).is_err());
    assert!(began.elapsed() < crate::shm::link::PEER_TIMEOUT, "no longer than the deadline");
    send(&theirs, fds, &[&region(2), &region(3), &region(4)]);
    answers(&theirs, 2);
    let taken = link.take_fds(0, false, 1, Some(deadline)).unwrap();
    assert_eq!(rustix::fs::fstat(&taken[0]).unwrap().st_size, 4, "the first of the next parcel");
    core.stop();
}

/// The introduction that brings an object's end may have been made by somebody who wants it to take long.
#[test]
fn a_service_that_only_an_introduction_holds_keeps_nobody_waiting() {
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_108));
    let (end, wait) = mpsc::channel();
    let Binder(Reference::Local(node)) = Binder::new(Slow(Mutex::new(wait))) else { unreachable!("local") };
    let id = link.export(&node).unwrap();
    drop(node);
    send(&theirs, Message::Introduce { request: 1, node: id }, &[]);
    assert!(socket_of_introduction(&theirs));
    send(&theirs, Message::Release { node: id, count: 1 }, &[]);
    // The introduction ended with its connection, of which the peer had the only other end.
    assert!(matches!(next(&theirs), Message::IntroductionOver { .. }));
    answers(&theirs, 2);
    end.send(()).expect("it has not ended");
    await_that("it has ended", || end.send(()).is_err());
    core.stop();
}

/// Takes the answer to an introduction, and closes the connection that it brings.
fn socket_of_introduction(socket: &OwnedFd) -> bool {
    let received = super::handshake::receive_within(socket.as_fd(), Duration::from_secs(60)).unwrap();
    matches!(received.message, Message::Introduced { .. }) && received.fds.len() == 1
}

/// It holds its own other end then, and would never see the connection's end.
#[test]
fn the_end_of_a_link_that_was_sent_over_it_does_not_keep_it() {
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_105));
    send(&theirs, Message::Slot { slot: 0 }, &[&region(SLOT_SIZE)]);
    send(&theirs, Message::Fds { slot: 0, reply: false }, &[&theirs]);
    answers(&theirs, 1);
    drop(theirs);
    await_that("the end of the link is dropped", || {
        link.sweep_fds();
        link.is_dead()
    });
    core.stop();
}

/// Serves its calls when the test lets it.
struct Waits(Mutex<mpsc::Receiver<()>>);

impl Service for Waits {
    fn descriptor(&self) -> &str {
        "test.IWaits"
    }

    fn on_transact(&self, _: &mut Transaction<'_>) -> Result<()> {
        let _ = self.0.lock().unwrap().recv();
        Ok(())
    }
}

#[test]
fn descriptors_are_kept_as_long_as_a_request_stands_in_their_slot() {
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_106));
    let (end, wait) = mpsc::channel();
    let Binder(Reference::Local(node)) = Binder::new(Waits(Mutex::new(wait))) else { unreachable!("local") };
    let (slot, file) = Slot::create().unwrap();
    send(&theirs, Message::Slot { slot: 0 }, &[&file]);
    slot.write_request(&Header { code: 1, node: link.export(&node).unwrap(), ..Header::default() });
    // A request, and nobody who sleeps for its reply.
    slot.word().store(1, Ordering::Release);
    send(&theirs, Message::Call { slot: 0 }, &[]);
    send(&theirs, Message::Fds { slot: 0, reply: false }, &[&region(1)]);
    answers(&theirs, 1);
    for _ in 0..30 {
        assert!(link.sweep_fds());
    }
    assert_eq!(link.take_fds(0, false, 1, None).unwrap().len(), 1);
    assert!(!link.sweep_fds(), "nothing is left to be looked at");
    drop(end);
    core.stop();
}

#[test]
fn memory_of_replies_is_counted_once_and_as_far_as_the_share_goes() {
    let who = identity(50_107);
    let memory = ledger::FilledMemory::new(Resource::Replies, 4096);
    let held = || ledger::held_by(who, Resource::Replies);
    assert!(memory.covers(4096) && !memory.covers(4097));
    memory.count(who, 100_000, || ()).unwrap();
    assert!(memory.covers(100_000) && held() == (112 << 10) - 4096);
    memory.count(who, 1 << 20, || ()).unwrap();
    assert_eq!(held(), (1 << 20) - 4096);
    let mut used = Vec::new();
    await_that("it has its share", || {
        memory.uncount();
        memory.count(who, 1 << 20, || ()).unwrap();
        // Again, as other tests give theirs back.
        used.extend(ledger::use_up(who, Resource::Replies));
        memory.count(who, 2 << 20, || ()).is_err()
    });
    assert!(!memory.covers(2 << 20));
    memory.count(who, 2 << 20, || drop(used)).unwrap();
    memory.uncount();
    assert!(held() == 0 && !memory.covers(4097));
}

#[test]
fn objects_that_a_peer_may_ask_for_on_its_link_are_counted() {
    let core = Core::start().unwrap();
    let who = identity(50_109);
    let (link, _theirs) = peer(&core, ASKER, who);
    let before = ledger::held_by(who, Resource::Introductions);
    let promised = || Promised::new(super::handshake_tests::node());
    let nonce = core.resumable(&link, promised()).unwrap();
    assert_eq!(ledger::held_by(who, Resource::Introductions), before + 1);
    assert!(core.claim_nonce(&nonce, &link).is_some() && core.claim_nonce(&nonce, &link).is_none());
    assert_eq!(ledger::held_by(who, Resource::Introductions), before);
    let mut used = Vec::new();
    await_that("it has its share", || {
        // Again, as other tests give theirs back.
        used.extend(ledger::use_up(who, Resource::Introductions));
        core.resumable(&link, promised()).is_err()
    });
    core.stop();
}

#[test]
fn descriptors_that_a_callee_announces_and_never_sends_are_waited_for_until_the_deadline() {
    const FD: u32 = 4;
    let core = Core::start().unwrap();
    let (link, theirs) = peer(&core, ASKER, identity(50_110));
    let object = Binder::from_remote(link.proxy(1, None));
    let call = std::thread::spawn(move || {
        let limited = object.transaction(1).deadline(Duration::from_secs(1));
        let began = Instant::now();
        let outcome = limited.call(|_| Ok(()), |reply| reply.read::<OwnedFd>().map(drop));
        (outcome, began.elapsed())
    });
    let received = super::handshake::receive_within(theirs.as_fd(), Duration::from_secs(60)).unwrap();
    let slot = Slot::accept(received.fds[0].as_fd()).unwrap();
    let request = 1;
    await_that("the request is there", || slot.word().load(Ordering::Acquire) & 0xf == request);
    slot.write_entries(Area::A, &[Entry { kind: FD, ..Entry::default() }]);
    slot.write_reply(0, 24, Meta(Meta::OBJECTS));
    slot.word().store(0, Ordering::Release);
    handoff_sync::futex::wake(slot.word());
    let (outcome, took) = call.join().unwrap();
    assert!(matches!(outcome, Err(Error::DeadlineExpired(_))), "{outcome:?} after {took:?}");
    assert!(!link.is_dead());
    core.stop();
}

#[test]
fn a_peer_that_has_its_share_of_messages_wait_is_cut_off() {
    let core = Core::start().unwrap();
    let who = identity(50_111);
    let (link, theirs) = peer(&core, ASKER, who);
    while !link.has_backlog() {
        link.send(Message::Post, Vec::new()).unwrap();
    }
    assert!(ledger::held_by(who, Resource::Unsent) > 0);
    let mut used = Vec::new();
    await_that("it has its share", || {
        // Again, as other tests give theirs back.
        used.extend(ledger::use_up(who, Resource::Unsent));
        link.send(Message::Post, Vec::new()).is_err()
    });
    await_that("the link has ended", || link.is_dead());
    drop((used, theirs));
    await_that("nothing is held for it", || ledger::held_by(who, Resource::Unsent) == 0);
    core.stop();
}

/// To unmap what the peer maps, too, may take as long as the peer likes.
#[test]
fn a_dead_link_s_own_slots_and_ring_are_not_unmapped_by_the_poller() {
    let core = Core::start().unwrap();
    let who = identity(50_120);
    let (link, theirs) = peer(&core, ASKER, who);
    let slot = crate::shm::client::open(&link, 0).unwrap();
    assert_eq!(ledger::held_by(who, Resource::Mappings), 1);
    // Nothing is closed or unmapped for this user until then.
    let (end, slow) = mpsc::channel();
    crate::disposal::drop_later(who.uid, Slow(std::sync::Mutex::new(slow)));
    drop(theirs);
    await_that("the poller is done with the link", || link.is_dead() && slot.is_dead());
    assert!(matches!(crate::shm::client::open(&link, 0), Err(Error::Dead)));
    assert_eq!(ledger::held_by(who, Resource::Mappings), 2, "unmapped elsewhere");
    end.send(()).unwrap();
    await_that("it is unmapped", || ledger::held_by(who, Resource::Mappings) == 0);
    core.stop();
}
