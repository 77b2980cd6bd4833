//! Attackers of Binder RPC that have others wait, hold and count for them: what they do not read, do not send, and do
//! not give back.

use std::io::Read as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use crate::rpc_raw::*;
use handoff_ipc::rpc::{RpcAddress, RpcSession};
use handoff_ipc::{Binder, Error};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Long for a machine that is busy.
const GENEROUS: Duration = Duration::from_secs(60);

/// A reference to object `number` of the client, as it stands in a parcel.
fn object(number: u32) -> Vec<u8> {
    words(&[1, 1, number, 12])
}

/// A client of a server in another process, which counts what that process has open.
fn counted(server: &str) -> (Place, Peer, RpcSession, impl Fn() -> i32) {
    let place = Place::new();
    let server = start(server, &place.socket());
    let session = RpcSession::connect(place.socket()).unwrap();
    let root = session.root().unwrap();
    let open = move || root.transaction(COUNT_FDS).call(|_| Ok(()), |r| r.read::<i32>()).unwrap();
    (place, server, session, open)
}

#[test]
fn references_that_are_given_back_to_who_does_not_read_are_bounded() {
    attacked(|socket| {
        const EACH: u32 = 40_000;
        let mut raw = Raw::open(socket);
        let root = raw.root();
        raw.0.set_write_timeout(Some(GENEROUS)).unwrap();
        // Nobody reads the objects in them, so that each is to be given back.
        let is_ended = (0..12).any(|round| {
            let objects: Vec<u8> = (0..EACH).flat_map(|n| object(round * EACH + n)).collect();
            let at = token().len() as u32;
            let table: Vec<u32> = (0..EACH).map(|n| at + 16 * n).collect();
            !raw.send(&call(root, RECORD, 1, round.into(), &[token(), objects].concat(), &table))
        });
        assert!(is_ended, "the server keeps what it owes for as long as its peer likes");
    });
}

#[test]
fn a_parcel_of_many_objects_takes_no_more_time_for_each() {
    const MANY: u32 = 30_000;
    let (place, server, _session, open) = counted("server");
    let mut raw = Raw::open(&place.socket());
    let root = raw.root();
    raw.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let objects: Vec<u8> = (0..MANY).flat_map(object).collect();
    let at = token().len() as u32 + 4;
    let table: Vec<u32> = (0..MANY).map(|n| at + 16 * n).collect();
    let many = call(root, COUNT_OBJECTS, 0, 0, &[token(), words(&[MANY]), objects].concat(), &table);
    let before = cpu_time(server.child.id());
    // It reads none of the references that are given back, so that they soon do not fit into the socket.
    raw.send(&many);
    open();
    let end = Instant::now() + GENEROUS;
    // Served beside: until it has used no time for a while.
    let mut last = before;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = cpu_time(server.child.id());
        if (now == last && now > before) || Instant::now() > end {
            break;
        }
        last = now;
    }
    let used = last.saturating_sub(before);
    assert!(used < Duration::from_secs(4), "{used:?} of CPU time for {MANY} objects");
}

/// Answers who asks for the root object.
fn give_root(raw: &mut Raw) {
    raw.take(16 + 40);
    let root = words(&[0, 16, 0, 0, 0, 1, 3, 0, 12, 0]);
    raw.send(&frame(REPLY, &root));
}

/// A oneway call of about a mebibyte that records its number.
fn large(root: u64, number: u32) -> Vec<u8> {
    let data = [token(), words(&[number]), vec![0; 1 << 20]].concat();
    call(root, RECORD, 1, number.into(), &data, &[])
}

#[test]
fn calls_whose_turn_never_comes_end_with_who_sent_them() {
    let (place, server, _session, open) = counted("server");
    let before = open();
    let mut raw = Raw::open(&place.socket());
    let root = raw.root();
    raw.0.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // All but the first: they are read until they are as much as may wait.
    let _ = (1..16).take_while(|number| raw.send(&large(root, *number))).count();
    drop(raw);
    eventually("the server has given everything back", || open() <= before);
    drop(server);
}

#[test]
fn a_call_that_others_wait_for_is_served_however_much_waits() {
    attacked(|socket| {
        let mut first = Raw::open(socket);
        let root = first.root();
        first.send(&call(0, 2, 0, 0, &[], &[]));
        let id = first.reply()[24..56].to_vec();
        let mut second = Raw::connect(socket);
        second.send(&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]);
        second.send(&[&id[..], b"cci\0\0\0\0\0"].concat());
        second.0.set_write_timeout(Some(GENEROUS)).unwrap();
        // What overtook the first call on the way takes all the room that there is for calls that wait.
        let overtaking = std::thread::spawn(move || {
            assert!((1..=12).all(|number| second.send(&large(root, number))));
            second
        });
        std::thread::sleep(Duration::from_secs(1));
        assert!(first.send(&large(root, 0)));
        let mut records = 0;
        eventually("all calls are served", || {
            first.send(&call(root, TAKE_RECORDS, 0, 0, &token(), &[]));
            records += u32::from_le_bytes(first.reply()[24..28].try_into().unwrap());
            records == 13
        });
        (first, overtaking.join().unwrap())
    });
}

#[test]
fn calls_whose_turn_never_comes_keep_no_session_of_a_client() {
    let (place, server) = hostile_server(|raw| {
        set_up(raw);
        give_root(raw);
        let (_, named) = raw.frame().expect("it asks for the interface");
        assert_eq!(named[8..12], *b"FTN_");
        let name = token();
        raw.send(&frame(REPLY, &[words(&[0, name.len() as u32, 0, 0, 0]), name].concat()));
        let (_, body) = loop {
            let frame = raw.frame().expect("it calls");
            if frame.0 == TRANSACT {
                break frame;
            }
        };
        let at = 40 + token().len() + 4;
        let theirs = u64::from_le_bytes(body[at..at + 8].try_into().unwrap());
        // One of which the one before does not come, and then the reply.
        raw.send(&call(theirs, RECORD, 1, 5, &token(), &[]));
        raw.send(&frame(REPLY, &words(&[0, 4, 0, 0, 0, 0])));
        raw.0.set_read_timeout(Some(GENEROUS)).unwrap();
        assert!(raw.is_ended(), "the client's session lasts longer than the client");
    });
    let session = RpcSession::builder(place.socket()).incoming_threads(0).connect().unwrap();
    let root = session.root().unwrap();
    let own = Binder::new(Everything::default());
    root.transaction(KEEP).call(|to| to.write(&Some(own.clone())), |_| Ok(())).unwrap();
    drop((root, session));
    server.join().unwrap();
}

#[test]
fn a_session_takes_no_more_descriptors_than_are_counted() {
    let (place, _server, _session, open) = counted("server with few descriptors");
    let before = open();
    let mut all = Vec::new();
    for _ in 0..120 {
        let mut raw = Raw::connect(&place.socket());
        raw.send(&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        raw.send(b"cci\0\0\0\0\0");
        all.push(raw);
    }
    // Until each is set up or refused.
    for raw in &mut all {
        let _ = std::io::Read::read(&mut raw.0, &mut [0; 8]);
    }
    let more = open() - before;
    // Three eighths of 192.
    assert!(more <= 72 + 4, "{more} descriptors for the sessions of one process");
}

/// A socket whose close takes a minute, and the end that does not read.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65_536]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&stream, Some(GENEROUS)).unwrap();
    (stream.into(), other)
}

#[test]
fn a_refused_connection_that_takes_long_to_close_keeps_nobody_waiting() {
    attacked(|socket| {
        let all: Vec<Raw> = (0..120).map(|_| Raw::connect(socket)).collect();
        let mut ends = Vec::new();
        for _ in 0..12 {
            let refused = Raw::connect(socket);
            let (slow, other) = slow_to_close();
            if !send_with(&refused, &[2], &[slow.as_fd()]) {
                // The server was faster: closed here, it is not to take long.
                rustix::net::sockopt::set_socket_linger(&slow, None).unwrap();
            }
            ends.push((refused, other));
        }
        (all, ends)
    });
}

/// A socket that somebody listens at who accepts nobody, and whose queue is full.
fn full_queue(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let new = |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let address = SocketAddrUnix::new(path).unwrap();
    let listener = new(SocketFlags::CLOEXEC);
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = new(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if connect(&socket, &address).is_err() {
            return (listener, waiting);
        }
        waiting.push(socket);
    }
}

#[test]
fn who_accepts_nobody_keeps_a_client_no_longer_than_it_waits() {
    let place = Place::new();
    let _full = full_queue(&place.socket());
    let (tell, told) = std::sync::mpsc::channel();
    let socket = place.socket();
    std::thread::spawn(move || {
        let session = RpcSession::builder(socket).setup_timeout(Duration::from_millis(50)).connect();
        tell.send(session.err().map(|error| error.to_string())).unwrap();
    });
    let error = told.recv_timeout(GENEROUS).expect("the client gives up").expect("nobody answers");
    assert!(error.contains("no RPC server answers"), "{error}");
}

/// A client of a server that sends it a descriptor whose close takes long, once it has its root object and reads nothing
/// behind it: `then` may not wait for that close.
fn beside_a_slow_close(takes_descriptors: bool, then: impl FnOnce(RpcSession, Binder)) {
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let (tell, told) = std::sync::mpsc::channel();
    let (has_root, wait_for_root) = std::sync::mpsc::channel();
    let (place, server) = hostile_server(move |raw| {
        set_up(raw);
        give_root(raw);
        wait_for_root.recv().unwrap();
        let (slow, other) = slow_to_close();
        let sent = send_with(raw, &frame(DEC_STRONG, &[0; 16]), &[slow.as_fd()]);
        // Where none may travel, the kernel refuses it (since Linux 6.16).
        assert!(sent || !takes_descriptors);
        // Closed at once where it is on its way; else that would wait here.
        let _slow = (!sent).then_some(slow);
        tell.send(()).unwrap();
        let end = Instant::now() + GENEROUS / 2;
        while !is_over.load(Ordering::SeqCst) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let in_time = is_over.load(Ordering::SeqCst);
        drop(other);
        assert!(in_time, "the client waits until a descriptor is closed");
    });
    let session = RpcSession::builder(place.socket())
        .descriptors(takes_descriptors)
        .incoming_threads(0)
        .connect()
        .unwrap();
    let root = session.root().unwrap();
    // Then nobody reads the frame before nobody else has the descriptor.
    has_root.send(()).unwrap();
    told.recv().unwrap();
    then(session, root);
    over.store(true, Ordering::SeqCst);
    server.join().unwrap();
}

#[test]
fn descriptors_for_a_session_without_any_do_not_keep_its_caller() {
    // Kept until then: their end is not what is timed.
    let mut kept = None;
    beside_a_slow_close(false, |session, root| {
        let outcome =
            root.transaction(PING).deadline(Duration::from_millis(300)).call(|_| Ok(()), |_| Ok(()));
        assert!(matches!(outcome, Err(Error::DeadlineExpired(_))), "{outcome:?}");
        kept = Some((session, root));
    });
}

#[test]
fn a_session_s_end_does_not_wait_for_descriptors_that_nobody_read() {
    beside_a_slow_close(true, |session, root| drop((root, session)));
}

#[test]
fn one_machine_has_a_share_and_the_next_finds_what_it_gives_back() {
    let place = Place::new();
    let _server = start("server over TCP", &place.socket());
    let at: SocketAddr = std::fs::read_to_string(place.socket()).unwrap().parse().unwrap();
    // Sessions that do nothing: as many as the server lets one machine have.
    let begin = |_| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        let mut answer = [0; 8];
        let is_let_in = stream.write_all(&[&NEW_SESSION[..], INIT].concat()).is_ok()
            && stream.read_exact(&mut answer).is_ok();
        is_let_in.then_some(stream)
    };
    let sessions: Vec<TcpStream> = (0..500).map_while(begin).collect();
    assert!((1..500).contains(&sessions.len()), "{} sessions", sessions.len());
    drop(sessions);
    // The server hears of their ends one by one.
    let begun = Instant::now();
    let root = loop {
        match RpcSession::connect(RpcAddress::Inet(at)).and_then(|session| session.root()) {
            Ok(root) => break root,
            Err(error) => assert!(begun.elapsed() < GENEROUS, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(echo(&root, b"from here").unwrap(), b"from here");
}
