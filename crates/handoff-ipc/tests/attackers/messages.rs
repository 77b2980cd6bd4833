//! Attacks with control messages that no honest peer sends.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use crate::case::{BUSY, Bounds};
use crate::common::Random;
use crate::raw::{
    Connection, MESSAGE, Message, VERSION, any_file, dial, endpoint, kind, message, receive, send_bytes,
};
use crate::regions::{RING, SLOT, memfd};
use crate::words::echo;

attacks! {
    messages_of_unknown_kinds: "server", BUSY;
    messages_that_are_cut: "server", BUSY;
    greetings_that_are_wrong: "server", BUSY;
    answers_that_nobody_asked_for: "server", Bounds { fds: 200, ..BUSY };
    random_messages: "server", BUSY;
    slot_numbers_used_again: "server", BUSY;
    regions_that_are_none: "server", BUSY;
    references_that_were_never_given: "server", BUSY;
    descriptors_where_none_belong: "server", Bounds { fds: 200, ..BUSY };
}

/// Connects, does something, looks for a moment what comes of it, and begins again.
fn again_and_again(at: &Path, mut act: impl FnMut(&Connection, u32) + Send + 'static) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        for round in 0.. {
            match Connection::to(&at) {
                Some(connection) => act(&connection, round),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}

fn messages_of_unknown_kinds(at: &Path) {
    again_and_again(at, |connection, round| {
        for kind in [0, kind::UNKNOWN, u32::MAX, 1000 + round] {
            connection.send(message(kind, round, u64::MAX), &[]);
        }
    });
}

fn messages_that_are_cut(at: &Path) {
    again_and_again(at, |connection, round| {
        let whole = message(kind::CALL, 0, 0).bytes();
        let long = [whole, whole].concat();
        let len = [1, 4, 47, 49, 96, 8, 16, 40][round as usize % 8];
        connection.slot(0);
        send_bytes(&connection.socket, &long[..len], &[any_file().as_raw_fd()]);
        if len == MESSAGE - 1 {
            send_bytes(&connection.socket, &[], &[]);
        }
    });
}

fn greetings_that_are_wrong(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        for round in 0u32.. {
            let Ok(socket) = dial(&at) else { continue };
            let hello = |version| Message { first: endpoint(), ..message(kind::HELLO, version, 0) };
            let greeting = match round % 6 {
                0 => hello(0),
                1 => hello(VERSION + 1),
                2 => hello(u32::MAX),
                3 => message(kind::WELCOME, VERSION, 1),
                4 => Message { first: [0; 16], second: endpoint(), ..hello(VERSION) },
                _ => message(kind::SLOT, 0, 0),
            };
            send_bytes(&socket, &greeting.bytes(), &[any_file().as_raw_fd()]);
            // And once more, on a connection that has been greeted.
            send_bytes(&socket, &hello(VERSION).bytes(), &[]);
            drop(receive(&socket, Duration::from_millis(2)));
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}

fn answers_that_nobody_asked_for(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let at = at.to_owned();
    std::thread::spawn(move || {
        let mut connection = connection;
        loop {
            for kind in (7..=10).chain(14..=30) {
                for request in 0..50 {
                    let answer = Message { first: endpoint(), ..message(kind, request, connection.root) };
                    let file = any_file();
                    let fds = [file.as_raw_fd()];
                    connection.send(answer, if request % 25 == 0 { &fds } else { &[] });
                }
                if !connection.is_open() {
                    connection = match Connection::to(&at) {
                        Some(connection) => connection,
                        None => continue,
                    };
                }
            }
            while connection.receive(Duration::ZERO).is_some() {}
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn random_messages(at: &Path) {
    let mut random = Random(77);
    again_and_again(at, move |connection, _| {
        let slot = connection.slot(0);
        connection.call(&slot, &echo(connection.root, 8));
        let file = any_file();
        for _ in 0..20 {
            let mut odd = message(random.below(20) as u32, random.below(3) as u32, random.below(4));
            if random.below(3) == 0 {
                odd.first = endpoint();
                odd.second = endpoint();
            }
            let some: &[RawFd] = if random.below(3) == 0 { &[file.as_raw_fd()] } else { &[] };
            connection.send(odd, some);
        }
    });
}

fn slot_numbers_used_again(at: &Path) {
    again_and_again(at, |connection, round| {
        let slot = connection.slot(round);
        connection.call(&slot, &echo(connection.root, 2000));
        let again = connection.slot(round);
        connection.request(&again, &echo(connection.root, 2000));
    });
}

/// Memory that is not what a slot or a ring is made of.
fn regions_that_are_none(at: &Path) {
    let open = |path: &str| -> OwnedFd { std::fs::File::open(path).unwrap().into() };
    let size = crate::regions::SEALS;
    let regions = vec![
        memfd(SLOT, 0, 0),
        memfd(SLOT, 0, libc::F_SEAL_SHRINK),
        memfd(SLOT, 0, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW),
        memfd(RING, 0, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW),
        memfd(SLOT, 0, size | libc::F_SEAL_WRITE),
        memfd(SLOT - 4096, 0, size),
        memfd(SLOT + 4096, 0, size),
        memfd(RING - 1, 0, size),
        memfd(0, 0, size),
        open("/dev/zero"),
        open("/dev/null"),
        open("/proc/self/status"),
        open("/"),
        crate::raw::pair().0,
    ];
    again_and_again(at, move |connection, round| {
        let region = regions[round as usize / 2 % regions.len()].as_raw_fd();
        let kind = [kind::SLOT, kind::RING][round as usize % 2];
        let some = [region, region];
        connection.send(message(kind, 0, 0), &some[..1 + round as usize % 2]);
        connection.send(message(kind, 0, 0), &[]);
        connection.send(message(kind::CALL, 0, 0), &[]);
        connection.send(message(kind::POST, 0, 0), &[]);
    });
}

/// More references are given back than there are, to objects that may be others', too.
fn references_that_were_never_given(at: &Path) {
    again_and_again(at, |connection, _| {
        let slot = connection.slot(0);
        for node in (0..200).chain([connection.root, u64::MAX, 1 << 63]) {
            for count in [0, 1, u32::MAX, u32::MAX] {
                connection.send(message(kind::RELEASE, count, node), &[]);
            }
        }
        connection.call(&slot, &echo(connection.root, 8));
    });
}

/// Descriptors come with messages that have no use for them.
fn descriptors_where_none_belong(at: &Path) {
    let file = any_file();
    again_and_again(at, move |connection, round| {
        let slot = connection.slot(0);
        let some = [file.as_raw_fd(); 4];
        let kind = [kind::CALL, kind::RAISE, kind::RELEASE, kind::INTRODUCE][round as usize % 4];
        connection.call(&slot, &echo(connection.root, 8));
        for _ in 0..10 {
            connection.send(message(kind, 0, 1), &some);
        }
    });
}
