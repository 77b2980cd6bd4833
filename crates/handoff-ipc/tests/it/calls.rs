//! Calls between two processes: on the `shm` engine here, on the kernel's driver in the guest.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::common::*;
use handoff_ipc::engine::Engine;
use handoff_ipc::parcel::Writer;
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error, OnewayBacklog, Result, Service, SharedMemory, Transaction};

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    match role.as_str() {
        "server" => {
            let _engine = serve(&socket, Everything::default());
            ready_and_wait();
        }
        "shm-server" => {
            let engine = ShmEngine::new(&socket).unwrap();
            engine.become_context_manager(Binder::new(Everything::default())).unwrap();
            ready_and_wait();
        }
        "one-thread" => {
            let engine = serve(&socket, Everything::default());
            engine.set_max_threads(1);
            ready_and_wait();
        }
        // Registers an object of its own with the server, and serves it.
        "third" => {
            let engine = engine(&socket);
            let root = engine.context_object().unwrap();
            let mine = Binder::new(Everything::default());
            root.transaction(KEEP).call(|w| w.write(&Some(mine)), |_| Ok(())).unwrap();
            ready_and_wait();
        }
        "descriptors" => {
            let engine = engine(&socket);
            let root = engine.context_object().unwrap();
            descriptors_are_closed(&root);
            std::process::exit(0);
        }
        other => panic!("no such role: {other}"),
    }
}

fn world() -> World {
    World::of("server")
}

#[test]
fn bytes_come_back_at_every_size() {
    let w = world();
    for len in [0, 1, 3, 4, 31, 32, 1000, 1016, 1017, 1024, 4096, 65_536, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        assert_eq!(echo(&w.root, &bytes).unwrap(), bytes, "{len} bytes");
    }
    // More than half of the driver's buffer, and more than a slot holds.
    let outcome = echo(&w.root, &vec![0; 5 << 20]).map(|bytes| bytes.len());
    assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    assert_eq!(echo(&w.root, b"still alive").unwrap(), b"still alive");
    if !on_driver() {
        assert!(w.engine.stats().calls >= 14);
    }
}

#[test]
fn many_calls_in_a_row_and_from_many_threads() {
    let w = world();
    for n in 0..20_000u32 {
        let bytes = n.to_le_bytes();
        assert_eq!(echo(&w.root, &bytes).unwrap(), bytes);
    }
    std::thread::scope(|scope| {
        for thread in 0..24u32 {
            let root = w.root.clone();
            scope.spawn(move || {
                for n in 0..300u32 {
                    let bytes = (thread << 16 | n).to_le_bytes();
                    assert_eq!(echo(&root, &bytes).unwrap(), bytes);
                }
            });
        }
    });
}

#[test]
fn the_callee_knows_who_calls() {
    let w = world();
    let (pid, uid): (u32, u32) =
        w.root.transaction(WHO).call(|_| Ok(()), |r| Ok((r.read()?, r.read()?))).unwrap();
    assert_eq!(pid, std::process::id());
    assert_eq!(uid, rustix::process::geteuid().as_raw());
    assert_eq!(w.root.descriptor().unwrap(), "test.IEverything");
    w.root.ping().unwrap();
    assert!(w.root.dump(&[]).unwrap().contains("test.IEverything"));
}

#[test]
fn exceptions_and_unknown_codes_reach_the_caller() {
    let w = world();
    assert!(is_specific(&w.root.transaction(FAIL).call(|_| Ok(()), |_| Ok(())).unwrap_err(), 42));
    let error = w.root.transaction(999).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::UnknownTransaction { .. }), "{error}");
    // A request that is too short for what the service reads.
    let error = w.root.transaction(ECHO).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::BadParcel { .. }), "{error}");
    let error = w.root.transaction(PANIC).call(|_| Ok(()), |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    // What the caller's own closures return comes back as it is.
    let error = w
        .root
        .transaction(ECHO)
        .call(|_| Err(Error::OnewayFull(OnewayBacklog::Calls(7))), |_| Ok(()))
        .unwrap_err();
    assert!(matches!(error, Error::OnewayFull(OnewayBacklog::Calls(7))));
    assert_eq!(echo(&w.root, b"x").unwrap(), b"x");
}

#[test]
fn nested_calls_run_on_the_waiting_thread() {
    let w = world();
    let me = Binder::new(Everything::default());
    for depth in [0, 1, 2, 5, 9] {
        assert_eq!(call_back(&w.root, &me, depth).unwrap(), depth);
    }
    // Deeper than the pool has threads: only the waiting ones can have served it.
    w.engine.set_max_threads(1);
    assert_eq!(call_back(&w.root, &me, 30).unwrap(), 30);
    w.engine.set_max_threads(16);
}

/// Calls back as `Everything` does; says whether the first call to it went too deep.
struct CallsBack {
    began: AtomicBool,
    too_deep: Mutex<mpsc::Sender<bool>>,
}

impl Service for CallsBack {
    fn descriptor(&self) -> &str {
        "test.ICallsBack"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { data, reply, .. } = transaction;
        let (back, left): (Binder, i32) = (data.read()?, data.read()?);
        let first = !self.began.swap(true, Ordering::SeqCst);
        let depth = call_back(&back, &Binder::new(Everything::default()), left - 1);
        if first {
            let too_deep = depth.as_ref().err().is_some_and(is_too_deep);
            self.too_deep.lock().unwrap().send(too_deep).unwrap();
        }
        reply.write(&depth?)
    }
}

/// The error itself, or what the handlers in between made of it.
fn is_too_deep(error: &Error) -> bool {
    error.to_string().contains(&Error::TooDeep.to_string())
}

#[test]
fn nested_calls_have_a_depth_on_both_sides() {
    if on_driver() {
        return;
    }
    let w = world();
    let me = Binder::new(Everything::default());
    // This process is the first whose thread has served too many.
    for depth in [34, 60, 10_000] {
        let error = call_back(&w.root, &me, depth).unwrap_err();
        assert!(is_too_deep(&error), "{depth}: {error}");
        assert_eq!(call_back(&w.root, &me, 10).unwrap(), 10, "the next call is served");
    }
    // A oneway call has a thread of the other process call first: that one is the first.
    for (depth, refused) in [(10, false), (10_000, true)] {
        let (send, too_deep) = mpsc::channel();
        let me = Binder::new(CallsBack { began: AtomicBool::new(false), too_deep: Mutex::new(send) });
        let write = |to: &mut Writer<'_>| to.write(&me).and_then(|()| to.write(&depth));
        w.root.transaction(CALL_BACK).oneway(write).unwrap();
        assert_eq!(too_deep.recv_timeout(Duration::from_secs(60)).unwrap(), refused);
    }
    assert_eq!(call_back(&w.root, &me, 10).unwrap(), 10);
}

#[test]
fn descriptors_travel_both_ways() {
    let w = world();
    for n in 0..50 {
        let text = format!("file {n}");
        let file = OwnedFd::from(file_with(&text));
        let read: String = w.root.transaction(READ_FD).call(|p| p.write(&file), |r| r.read()).unwrap();
        assert_eq!(read, text);
    }
    alone("descriptors", &w.place.socket());
}

/// In a process of its own: its descriptors are counted.
fn descriptors_are_closed(root: &Binder) {
    assert_eq!(echo(root, b"a slot is there").unwrap(), b"a slot is there");
    let before = open_fds();
    let fds: Vec<OwnedFd> = root
        .transaction(MAKE_FD)
        .call(
            |p| {
                p.write(&"made ".to_owned())?;
                p.write(&130)
            },
            |r| (0..130).map(|_| r.read()).collect(),
        )
        .unwrap();
    assert_eq!(fds.len(), 130);
    drop(fds);
    // Those that the caller does not read are closed.
    root.transaction(MAKE_FD)
        .call(
            |p| {
                p.write(&"lost".to_owned())?;
                p.write(&30)
            },
            |_| Ok(()),
        )
        .unwrap();
    eventually("they are closed", || open_fds() == before);
}

#[test]
fn shared_memory_travels_as_a_handle() {
    let w = world();
    let memory = SharedMemory::new(8 << 20).unwrap();
    memory.write_at((8 << 20) - 3, &[1, 2, 3]).unwrap();
    let sum: u64 = w.root.transaction(SUM_MEMORY).call(|p| p.write(&memory), |r| r.read()).unwrap();
    assert_eq!(sum, 6, "the callee read eight megabytes that no parcel could hold");
    memory.freeze().unwrap();
    let sum: u64 = w.root.transaction(SUM_MEMORY).call(|p| p.write(&memory), |r| r.read()).unwrap();
    assert_eq!(sum, 6, "read-only, too");
}

#[test]
fn a_call_that_takes_too_long_expires_and_its_reply_is_dropped() {
    let w = world();
    // The handler ends when this lets it: the deadline passes before there is any reply.
    let (mut held, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    let error = w
        .root
        .transaction(HOLD)
        .deadline(Duration::from_millis(60))
        .call(|p| p.write(&theirs), |_| Ok(()))
        .unwrap_err();
    assert!(matches!(error, Error::DeadlineExpired(_)), "{error}");
    held.read_exact(&mut [0]).unwrap();
    // Now the reply comes, late.
    drop(held);
    // Others go on meanwhile, and afterwards; none gets the late reply.
    for n in 0..100u32 {
        assert_eq!(echo(&w.root, &n.to_le_bytes()).unwrap(), n.to_le_bytes());
        std::thread::sleep(Duration::from_millis(6));
    }
    let left: i64 = w
        .root
        .transaction(DEADLINE)
        .deadline(Duration::from_secs(600))
        .call(|_| Ok(()), |r| r.read())
        .unwrap();
    // Neither the driver nor RPC has a place for it.
    assert!(
        on_driver() || on_rpc() || (1..=600_000).contains(&left),
        "the service sees the deadline: {left} ms"
    );
    let none: i64 = w.root.transaction(DEADLINE).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(none, -1);
}

#[test]
fn oneway_calls_are_served_in_order() {
    let w = world();
    let mut sent = 0;
    while sent < 3000 {
        match w.root.transaction(RECORD).oneway(|p| p.write(&sent)) {
            Ok(()) => sent += 1,
            Err(Error::OnewayFull(_)) => std::thread::sleep(Duration::from_millis(1)),
            Err(other) => panic!("{other}"),
        }
    }
    let mut seen = Vec::new();
    eventually("all oneway calls are served", || {
        let some: Vec<i32> = w.root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read()).unwrap();
        seen.extend(some);
        seen.len() == 3000
    });
    assert_eq!(seen, (0..3000).collect::<Vec<_>>());
}

#[test]
fn a_oneway_call_that_nobody_keeps_up_with_is_refused() {
    let w = world();
    // It sleeps until the server is killed.
    w.root.transaction(SLEEP_MS).oneway(|p| p.write(&600_000)).unwrap();
    let big = vec![0u8; 100_000];
    let refused = (0..2_000).find_map(|_| w.root.transaction(ECHO).oneway(|p| p.write_bytes(&big)).err());
    // The receiver takes calls into its queue up to a limit; past that, the ring fills.
    assert!(
        matches!(refused, Some(Error::OnewayFull(OnewayBacklog::Bytes(1..) | OnewayBacklog::Unknown))),
        "{refused:?}"
    );
    assert_eq!(echo(&w.root, b"sync goes on").unwrap(), b"sync goes on");
}

#[test]
fn no_oneway_call_is_lost_however_far_ahead_of_its_receiver_it_is() {
    let w = world();
    let other: Binder = w.root.transaction(SELF).call(|_| Ok(()), |r| r.read()).unwrap();
    w.root.transaction(SLEEP_MS).oneway(|p| p.write(&1500)).unwrap();
    // More than may wait in the object's queue, so that the last ones keep their places in the ring.
    let count = if on_driver() { 500 } else { 12_000 };
    send_records(&w.root, 0..count);
    // What waits for one object keeps no call from another.
    send_records(&other, 0..10);
    let mut seen = Vec::new();
    eventually("the calls to the other object are served", || {
        seen.extend(records(&other));
        seen.len() == 10
    });
    let mut seen = Vec::new();
    eventually("all calls are served", || {
        seen.extend(records(&w.root));
        seen.len() >= count as usize
    });
    assert_eq!(seen, (0..count).collect::<Vec<_>>());
    // Every place is free again.
    for _ in 0..3 {
        send_records(&w.root, 0..count);
        let mut seen = Vec::new();
        eventually("all calls are served", || {
            seen.extend(records(&w.root));
            seen.len() >= count as usize
        });
        assert_eq!(seen, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn a_thread_that_waits_for_oneway_calls_comes_back_for_others() {
    let w = World::of("one-thread");
    let second = engine(&w.place.socket());
    let root = second.context_object().unwrap();
    let mut late = 0;
    for n in 0..10 {
        w.root.transaction(RECORD).oneway(|p| p.write(&n)).unwrap();
        // Time for the server's only thread to go to sleep where that call came from, for seconds.
        std::thread::sleep(Duration::from_millis(20));
        let called = Instant::now();
        assert_eq!(echo(&root, b"over another link").unwrap(), b"over another link");
        // It would leave by itself after two seconds.
        late += u32::from(called.elapsed() > Duration::from_millis(1500));
    }
    assert!(late < 10, "every call waited until the thread left by itself");
    assert_eq!(records(&root), (0..10).collect::<Vec<_>>());
}

fn records(of: &Binder) -> Vec<i32> {
    of.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read()).unwrap()
}

fn send_records(to: &Binder, numbers: std::ops::Range<i32>) {
    for n in numbers {
        while let Err(error) = to.transaction(RECORD).oneway(|w| w.write(&n)) {
            assert!(matches!(error, Error::OnewayFull(_)), "{error}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn oneway_calls_wait_for_their_own_object_alone() {
    let w = world();
    let other: Binder = w.root.transaction(SELF).call(|_| Ok(()), |r| r.read()).unwrap();
    for round in 0..20 {
        // So many to one object that its thread expects no others.
        send_records(&w.root, 0..30);
        let mut seen = Vec::new();
        eventually("the calls to the first object are served", || {
            seen.extend(records(&w.root));
            seen.len() == 30
        });
        send_records(&other, round..round + 1);
        let mut seen = Vec::new();
        eventually("the call to the second object is served", || {
            seen.extend(records(&other));
            !seen.is_empty()
        });
        assert_eq!(seen, [round]);
    }
    w.root.transaction(SLEEP_MS).oneway(|p| p.write(&60_000)).unwrap();
    send_records(&w.root, 0..1);
    send_records(&other, 0..1);
    eventually("the second object is served while the first sleeps", || records(&other) == [0]);
    assert!(records(&w.root).is_empty(), "what comes after a call to the same object waits for it");
}

#[test]
fn what_was_sent_before_the_end_is_served() {
    let w = world();
    let other = engine(&w.place.socket());
    let root = other.context_object().unwrap();
    send_records(&root, 0..500);
    drop((root, other));
    let mut seen = Vec::new();
    eventually("all that was sent is served", || {
        seen.extend(records(&w.root));
        seen.len() == 500
    });
    assert_eq!(seen, (0..500).collect::<Vec<_>>());
}

#[test]
fn objects_of_a_third_process_are_called_directly() {
    if on_rpc() {
        // A session has objects of its two processes and of no other: `rpc::an_object_of_a_third_process_is_refused`.
        return;
    }
    let mut w = world();
    let third = Peer::start("third", &w.place.socket());
    let found: Option<Binder> = w.root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
    let found = found.unwrap();
    let pid: u32 = found.transaction(WHO).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(pid, std::process::id(), "the third process sees this one as the caller");
    let again: Option<Binder> = w.root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(again.unwrap(), found, "one object, one proxy, one link");
    if !on_driver() {
        assert_eq!(w.engine.stats().links, 2);
    }
    // Without the process that introduced them.
    w.server.kill();
    assert_eq!(echo(&found, b"direct").unwrap(), b"direct");
    drop(third);
    eventually("the third is known to be dead", || found.ping().is_err() && !found.is_alive());
    assert!(matches!(echo(&found, b"x"), Err(Error::Dead)));
}

#[test]
fn own_objects_come_back_as_they_went() {
    let w = world();
    let mine = Binder::new(Everything::default());
    w.root.transaction(KEEP).call(|p| p.write(&Some(mine.clone())), |_| Ok(())).unwrap();
    let back: Option<Binder> = w.root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(back, Some(mine));
    w.root.transaction(KEEP).call(|p| p.write(&None::<Binder>), |_| Ok(())).unwrap();
    let none: Option<Binder> = w.root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(none, None);
}

#[test]
fn references_are_given_back() {
    let w = world();
    let first: Binder = w.root.transaction(SELF).call(|_| Ok(()), |r| r.read()).unwrap();
    assert_eq!(echo(&first, b"a").unwrap(), b"a");
    // Received and never read.
    for _ in 0..10 {
        w.root.transaction(SELF).call(|_| Ok(()), |_| Ok(())).unwrap();
    }
    drop(first);
    assert_eq!(echo(&w.root, b"b").unwrap(), b"b");
}

#[test]
fn the_death_of_the_server_is_one_clear_error_at_once() {
    let mut w = world();
    let died = Arc::new(AtomicU32::new(0));
    let (tell, told) = mpsc::channel();
    let registrations: Vec<_> = (0..5)
        .map(|_| {
            let (died, tell) = (Arc::clone(&died), tell.clone());
            w.root.link_to_death(move || {
                died.fetch_add(1, Ordering::SeqCst);
                tell.send(()).unwrap();
            })
        })
        .collect::<Result<_, _>>()
        .unwrap();
    let taken_back = w.root.link_to_death(|| panic!("was taken back")).unwrap();
    drop(taken_back);
    let root = w.root.clone();
    let waiting =
        std::thread::spawn(move || root.transaction(SLEEP_MS).call(|p| p.write(&60_000), |_| Ok(())));
    std::thread::sleep(Duration::from_millis(100));
    w.server.kill();
    assert!(matches!(waiting.join().unwrap(), Err(Error::Dead)));
    (0..5).for_each(|_| told.recv_timeout(Duration::from_secs(60)).unwrap());
    assert!(!w.root.is_alive());
    assert!(matches!(echo(&w.root, b"x"), Err(Error::Dead)));
    assert_eq!(died.load(Ordering::SeqCst), 5);
    // A recipient that comes too late hears of it all the same.
    let (tell, told) = mpsc::channel();
    w.root.link_to_death(move || tell.send(()).unwrap()).unwrap().keep();
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(registrations);
}

#[test]
fn an_introduction_is_over_when_it_is_taken_up_whichever_engine_asked_for_it() {
    let (there, here) = (Place::new(), Place::new());
    let _owner = Peer::start("shm-server", &there.socket());
    let elsewhere = ShmEngine::new(there.socket()).unwrap();
    let service = Everything::default();
    service.register(elsewhere.context_object().unwrap()).unwrap();
    let introducer = ShmEngine::new(here.socket()).unwrap();
    introducer.become_context_manager(Binder::new(service)).unwrap();
    let client = ShmEngine::new(here.socket()).unwrap();
    let root = client.context_object().unwrap();
    // More than one process may have under way: three eighths of 1,024.
    for _ in 0..500 {
        fetch(&root).unwrap();
    }
}

#[test]
fn a_recipient_may_hold_another_registration() {
    let w = world();
    let inner = w.root.link_to_death(|| ()).unwrap();
    let outer = w.root.link_to_death(move || drop(inner)).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        drop(outer);
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("both are taken back");
    assert_eq!(echo(&w.root, b"x").unwrap(), b"x");
}

#[test]
fn handlers_never_see_a_mask_that_is_not_their_own() {
    let w = world();
    let own = handoff_placement::affinity(handoff_placement::Tid::current()).unwrap().to_string();
    for n in 0..3000 {
        let mask: String = w.root.transaction(MASK).call(|_| Ok(()), |r| r.read()).unwrap();
        assert_eq!(mask, own, "call {n}");
        if n % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn nobody_listens() {
    if on_driver() || on_rpc() {
        return; // the driver has one place for all; `rpc::nobody_listens`
    }
    let place = Place::new();
    let engine = ShmEngine::new(place.socket()).unwrap();
    let error = engine.context_object().unwrap_err();
    assert!(error.to_string().contains("no service manager answers"), "{error}");
    // A second manager at the same place is refused, one that was killed is replaced.
    let mut first = Peer::start("server", &place.socket());
    let second = ShmEngine::new(place.socket()).unwrap();
    assert!(second.become_context_manager(Binder::new(Everything::default())).is_err());
    first.kill();
    second.become_context_manager(Binder::new(Everything::default())).unwrap();
    echo(&engine.context_object().unwrap(), b"x").unwrap();
}

#[test]
fn what_stands_in_the_place_of_the_managers_socket_is_said() {
    if on_driver() || on_rpc() {
        return; // the driver has one place for all; `rpc::nobody_listens`
    }
    let place = Place::new();
    let at = |name: &str| place.dir.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let _streams = std::os::unix::net::UnixListener::bind(at("streams")).unwrap();
    drop(std::os::unix::net::UnixDatagram::bind(at("left")).unwrap());
    for (name, said) in [
        ("missing", "no service manager answers"),
        ("left", "no service manager answers"),
        ("file", "is no socket"),
        ("folder", "is a folder"),
        ("streams", "is the socket of something else"),
    ] {
        let error = ShmEngine::new(at(name)).unwrap().context_object().unwrap_err();
        assert!(error.to_string().contains(said), "{name}: {error}");
        assert!(error.to_string().contains(at(name).to_str().unwrap()), "{name}: {error}");
    }
}
