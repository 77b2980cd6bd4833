//! Attacks on what a process has little of: descriptors, mappings, memory, threads, and time of its poller.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::case::{BUSY, Bounds, FILLED, IDLE, SHARE, SLOW_MS};
use crate::common::{ECHO, FILL, HOARD, MAKE_FD, SELF, SESSION, SLEEP_MS, SUM};
use crate::process;
use crate::raw::{Connection, WAIT, any_file, dial, kind, message, object, send_bytes};
use crate::regions::{Entry, Request};
use crate::words::{MINE, call_me_back, echo};

/// MiB of the 98,304 objects that one process may have made: in a debug build each takes some 700 bytes.
const OBJECTS: usize = 96;

attacks! {
    descriptors_for_slots_that_are_not_there: "server", IDLE;
    descriptors_that_nobody_takes: "server", SHARE;
    close_that_blocks: "server", IDLE;
    close_that_blocks_at_the_end_of_a_link: "server", IDLE;
    slots_over_many_links: "server", Bounds { maps: 22_000, rss: 64, ..SHARE };
    sessions_whose_end_takes_long: "server", IDLE;
    objects_without_end: "server", Bounds { rss: OBJECTS, ..BUSY };
    objects_of_links_that_end: "server", Bounds { fds: 60, maps: 80, ..BUSY };
    a_thousand_objects_in_a_parcel: "server", Bounds { rss: 64, ..BUSY };
    callers_that_take_all_threads: "server", Bounds { threads: 64, ..IDLE };
    call_backs_that_are_never_answered: "server", Bounds { threads: 64, fds: 200, ..IDLE };
    calls_whose_descriptors_never_come: "server", Bounds { threads: 64, ..IDLE };
    close_that_blocks_behind_many_others: "server", Bounds { fds: 750, ..IDLE };
    closes_that_block_and_many_more: "server", Bounds { fds: 480, ..BUSY };
    refused_connections_that_wait_to_be_closed: "server", Bounds { fds: 450, ..BUSY };
    refused_connections_that_linger: "server", Bounds { fds: 450, ..BUSY };
    descriptors_that_are_not_read: "server", Bounds { fds: 200, threads: 64, ..BUSY };
    replies_that_nobody_reads: "server", Bounds { rss: FILLED + 64, maps: 1200, threads: 64, ..BUSY };
    requests_that_nobody_filled: "server", Bounds { rss: FILLED + 64, maps: 700, threads: 64, ..BUSY };
    sessions_that_introductions_hold: "server", Bounds { fds: 200, ..IDLE };
}

fn descriptors_for_slots_that_are_not_there(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let file = any_file();
    let many = vec![file.as_raw_fd(); 60];
    for round in 0..20 {
        connection.send(message(kind::FDS, 9_000 + round, 0), &many);
    }
    std::mem::forget(connection);
}

/// They come for slots that are there, before a call that never comes.
fn descriptors_that_nobody_takes(at: &Path) {
    let file = any_file();
    let many = vec![file.as_raw_fd(); 60];
    for _ in 0..8 {
        let Some(connection) = Connection::to(at) else { break };
        let slots: Vec<_> = (0..4).map(|id| connection.slot(id)).collect();
        for id in 0..4 {
            connection.send(message(kind::FDS, id, 0), &many);
        }
        std::mem::forget((connection, slots));
    }
}

/// A connection with data that is never taken: whoever closes it last waits as long as it says.
pub fn lingering(seconds: i32) -> OwnedFd {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Else the other end's grows, and has room for all a moment later.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, 16 << 10).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65536]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: seconds };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: it reads the structure.
    unsafe {
        let option = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, option, len);
    }
    std::mem::forget(other);
    stream.into()
}

/// The victim is given descriptors whose close takes long, with messages that have no use for them.
fn close_that_blocks(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    connection.call(&slot, &echo(connection.root, 8));
    for _ in 0..3 {
        connection.send(message(kind::RAISE, 0, 0), &[lingering(15).as_raw_fd()]);
        // The victim may have hung up on the first.
        if let Some(other) = Connection::to(at) {
            let _slot = other.slot(0);
            other.send(message(kind::RAISE, 0, 0), &[lingering(15).as_raw_fd()]);
            std::mem::forget(other);
        }
    }
    std::mem::forget((connection, slot));
}

/// They wait to be taken when their link ends.
fn close_that_blocks_at_the_end_of_a_link(at: &Path) {
    for _ in 0..3 {
        let Some(connection) = Connection::to(at) else { break };
        let slot = connection.slot(0);
        connection.call(&slot, &echo(connection.root, 8));
        connection.send(message(kind::FDS, 0, 0), &[lingering(15).as_raw_fd()]);
        connection.call(&slot, &echo(connection.root, 8));
    }
    std::mem::forget(Connection::to(at));
}

/// Links are free, and each may have many slots.
fn slots_over_many_links(at: &Path) {
    let memory = crate::regions::Memory::new(crate::regions::SLOT, 0);
    let mut slots = 0;
    for _ in 0..83 {
        let Some(connection) = Connection::to(at) else { break };
        for id in 0..1024 {
            if !connection.send(message(kind::SLOT, id, 0), &[memory.file.as_raw_fd()]) {
                break;
            }
            slots += 1;
        }
        std::mem::forget(connection);
    }
    process::tell(&format!("{slots} slots sent"));
    std::mem::forget(memory);
}

/// What the victim drops for the attacker takes long to drop.
fn sessions_whose_end_takes_long(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    for _ in 0..4 {
        let session = Request::new(connection.root, SESSION).with(&[], |w| w.write_i32(4000));
        if connection.call(&slot, &session) {
            connection.send(message(kind::RELEASE, 1, slot.object()), &[]);
        }
    }
    std::mem::forget((connection, slot));
}

/// Each call gives the attacker one object more to hold.
fn objects_without_end(at: &Path) {
    for _ in 0..2 {
        let connection = Connection::to(at).unwrap();
        let slot = connection.slot(0);
        std::thread::spawn(move || {
            loop {
                connection.call(&slot, &Request::new(connection.root, SELF));
            }
        });
    }
}

/// The victim keeps an object of each of many links, which end.
fn objects_of_links_that_end(at: &Path) {
    for _ in 0..150 {
        let Some(connection) = Connection::to(at) else { break };
        let (slot, _ring) = (connection.slot(0), connection.ring());
        let object = handoff_ipc::Binder::new(crate::common::Everything::default());
        let keep = Request::new(connection.root, HOARD).with(&[MINE], |w| w.write_binder(Some(&object)));
        connection.call(&slot, &keep);
    }
}

/// Objects of the attacker's, which the victim gives back one by one to a peer that does not listen.
fn a_thousand_objects_in_a_parcel(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let Some(connection) = Connection::to(&at) else { continue };
            let slot = connection.slot(0);
            while connection.is_open() {
                let entries: Vec<Entry> = (0..1024)
                    .map(|n| Entry {
                        kind: object::OF_SENDER,
                        value: n,
                        offset: n as u32,
                        ..Entry::default()
                    })
                    .collect();
                let mut request = echo(connection.root, 64).meta(crate::raw::meta::OBJECTS);
                request.entries = entries;
                if !connection.call(&slot, &request) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

/// More calls that take long than the victim has threads.
fn callers_that_take_all_threads(at: &Path) {
    for _ in 0..4 {
        let connection = Connection::to(at).unwrap();
        for id in 0..12 {
            let slot = connection.slot(id);
            let sleep = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(SLOW_MS));
            connection.request(&slot, &sleep);
            std::mem::forget(slot);
        }
        std::mem::forget(connection);
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// The victim's handlers wait for the attacker.
fn call_backs_that_are_never_answered(at: &Path) {
    for _ in 0..4 {
        let connection = Connection::to(at).unwrap();
        for id in 0..10 {
            let slot = connection.slot(id);
            connection.request(&slot, &call_me_back(connection.root));
            std::mem::forget(slot);
        }
        std::mem::forget(connection);
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// The victim's threads wait for what a request announces.
fn calls_whose_descriptors_never_come(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            for _ in 0..3 {
                let Some(connection) = Connection::to(&at) else { break };
                for id in 0..12 {
                    let slot = connection.slot(id);
                    let file = Entry { kind: object::FD, ..Entry::default() };
                    let mut request = Request::new(connection.root, ECHO).meta(crate::raw::meta::OBJECTS);
                    request.entries = vec![file; 2];
                    connection.request(&slot, &request);
                    std::mem::forget(slot);
                }
                std::mem::forget(connection);
            }
            std::thread::sleep(Duration::from_millis(4500));
        }
    });
    std::thread::sleep(Duration::from_millis(200));
}

/// Messages with as many descriptors as the kernel lets through, more than the protocol has, and the last one takes long.
fn close_that_blocks_behind_many_others(at: &Path) {
    let file = any_file();
    if let Some(connection) = Connection::to(at) {
        let mut many = vec![file.as_raw_fd(); 252];
        many.push(lingering(15).as_raw_fd());
        connection.send(message(kind::RAISE, 0, 0), &many);
        std::mem::forget(connection);
    }
    for _ in 0..3 {
        // Not greeted while what came before is not closed.
        let Ok(socket) = dial(at) else { continue };
        let slow = lingering(15);
        let mut many = vec![file.as_raw_fd(); 252];
        many.push(slow.as_raw_fd());
        send_bytes(&socket, &message(kind::RAISE, 0, 0).bytes(), &many);
        // With what is no message, too.
        let Ok(other) = dial(at) else { continue };
        send_bytes(&other, &[1, 2, 3], &many);
        std::mem::forget((socket, other));
    }
}

/// Makes the victim's thread that closes what this user sent wait.
fn block_closes(connection: &Connection) {
    connection.send(message(kind::RAISE, 0, 0), &[lingering(15).as_raw_fd()]);
}

/// Behind a close that blocks more and more descriptors wait to be closed.
fn closes_that_block_and_many_more(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    connection.call(&slot, &echo(connection.root, 8));
    block_closes(&connection);
    std::thread::spawn(move || {
        let file = any_file();
        let many = vec![file.as_raw_fd(); 40];
        loop {
            connection.send(message(kind::RAISE, slot.id, 0), &many);
        }
    });
    std::thread::sleep(Duration::from_millis(200));
}

/// Its share of descriptors is used up, behind a close that blocks: what connects from here on is refused.
fn use_up_descriptors(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    connection.call(&slot, &echo(connection.root, 8));
    block_closes(&connection);
    let file = any_file();
    for _ in 0..20 {
        connection.send(message(kind::RAISE, 0, 0), &[file.as_raw_fd(); 20]);
    }
    std::mem::forget((connection, slot));
}

/// With its share of descriptors used up, and a close that blocks, it connects again and again.
fn refused_connections_that_wait_to_be_closed(at: &Path) {
    use_up_descriptors(at);
    let file = any_file();
    for round in 0..800 {
        let Ok(socket) = dial(at) else { continue };
        // A few have something in their queue before they are refused.
        if round % 40 == 0 {
            send_bytes(&socket, &[0; 48], &[file.as_raw_fd()]);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// As above, and each has in its queue what lingers at its close, before it is accepted.
fn refused_connections_that_linger(at: &Path) {
    use_up_descriptors(at);
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let slow: Vec<_> = (0..300).map(|_| lingering(15)).collect();
            for slow in slow {
                let Ok(socket) = dial(&at) else { continue };
                send_bytes(&socket, &[0; 48], &[slow.as_raw_fd()]);
                // Then the victim has the last one; if it has closed that already, this close waits.
                std::thread::spawn(move || drop(slow));
            }
        }
    });
    std::thread::sleep(Duration::from_millis(500));
}

/// Has the victim send it descriptors, and reads none of them: the kernel counts them against the victim's user.
fn descriptors_that_are_not_read(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        let links: Vec<_> = (0..4).filter_map(|_| Connection::to(&at)).collect();
        let slots: Vec<_> = links.iter().map(|link| link.slot(0)).collect();
        loop {
            for (link, slot) in links.iter().zip(&slots) {
                let make = Request::new(link.root, MAKE_FD).with(&[], |w| {
                    w.write_string16("unread")?;
                    w.write_i32(60)
                });
                link.call(slot, &make);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    std::thread::sleep(Duration::from_millis(300));
}

/// Small requests, each with a reply of almost 2 MiB, in more slots than the victim has threads.
fn replies_that_nobody_reads(at: &Path) {
    let connection = Connection::to(at).unwrap();
    for id in 0..700 {
        let slot = connection.slot(id);
        connection.call(&slot, &Request::new(connection.root, FILL).with(&[], |w| w.write_i32(1_900_000)));
        std::mem::forget(slot);
    }
    std::mem::forget(connection);
}

/// Large requests in memory that the attacker never touched: the victim, which reads them, is who has the kernel fill it.
fn requests_that_nobody_filled(at: &Path) {
    const LEN: u32 = 1_900_000;
    let connection = Connection::to(at).unwrap();
    let mut sum = Request::new(connection.root, SUM).with(&[], |w| w.write_i32(LEN as i32));
    sum.lies = Some((4 + LEN, 0));
    for id in 0..350 {
        let slot = connection.slot(id);
        connection.call(&slot, &sum);
        std::mem::forget(slot);
    }
    std::mem::forget(connection);
}

/// The last who holds a session, whose end takes long, is a connection that was made for a third process.
fn sessions_that_introductions_hold(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    let mut held = Vec::new();
    for request in 0..6 {
        let session = Request::new(connection.root, SESSION).with(&[], |w| w.write_i32(4000));
        if connection.call(&slot, &session) {
            let node = slot.object();
            connection.send(message(kind::INTRODUCE, request, node), &[]);
            held.extend(connection.receive(WAIT));
            connection.send(message(kind::RELEASE, 1, node), &[]);
        }
    }
    // Each connection's end is an introduction's.
    drop(held);
    std::mem::forget((connection, slot));
}
