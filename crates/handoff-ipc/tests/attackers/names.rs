//! Attacks on the service manager, on introductions, and on who somebody is.

use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::bank::PAY;
use crate::case::{BUSY, Bounds, IDLE, TWICE};
use crate::raw::{
    Connection, DONE, WAIT, any_file, dial, endpoint, introduced, kind, message, object, pair, word,
};
use crate::regions::{Entry, Request, Slot};

attacks! {
    somebody_elses_endpoint: "bank", BUSY;
    introductions_that_nobody_takes_up: "bank", Bounds { fds: 800, ..IDLE };
    third_parties_that_never_answer: "bank", Bounds { threads: 130, maps: 900, fds: 800, ..IDLE };
    introductions_over_odd_sockets: "bank", Bounds { fds: 400, ..BUSY };
    names_without_end: "bank", Bounds { rss: 64, ..BUSY };
    watches_without_end: "bank", Bounds { rss: 64, threads: 48, ..BUSY };
    waiters_by_the_thousand: "bank", Bounds { rss: 64, threads: 48, fds: 600, maps: 400, ..BUSY };
    deaths_by_the_thousand: "bank", Bounds { rss: 64, threads: 48, fds: 200, maps: 400, ..BUSY };
    names_of_many_megabytes: "bank", Bounds { rss: 64, ..TWICE };
    dumps_without_end: "bank", Bounds { rss: 64, ..TWICE };
}

/// Transactions of the manager.
const GET: u32 = 1;
pub const ADD: u32 = 5;
pub const WATCH: u32 = 7;

fn get(name: &str) -> Request {
    Request::new(0, GET).with(&[], |w| w.write_string16(name))
}

fn placeholder() -> handoff_ipc::Binder {
    handoff_ipc::Binder::new(crate::common::Everything::default())
}

pub fn with_object(code: u32, name: &str, entry: Entry) -> Request {
    Request::new(0, code).with(&[entry], |w| {
        w.write_string16(name)?;
        w.write_binder(Some(&placeholder()))?;
        w.write(&false)?;
        w.write_i32(8)
    })
}

/// Asks the manager; gives the first object of the reply and its descriptor.
pub fn look_up(connection: &Connection, slot: &Slot, name: &str) -> Option<(Entry, OwnedFd)> {
    if !connection.call(slot, &Request { node: connection.root, ..get(name) }) {
        return None;
    }
    loop {
        let (message, mut fds) = connection.receive(WAIT)?;
        if message.kind == kind::FDS {
            return Some((slot.entry(0), fds.pop()?));
        }
    }
}

/// Says that it is the bank to a service that trusts the bank, and waits for what the service tells the bank.
fn somebody_elses_endpoint(at: &Path) {
    let manager = Connection::to(at).unwrap();
    let slot = manager.slot(0);
    let (bank, _) = look_up(&manager, &slot, "bank.public").unwrap();
    for _ in 0..20 {
        let Some((teller, socket)) = look_up(&manager, &slot, "teller") else { break };
        let Some(link) = introduced(&socket, bank.endpoint, teller.token) else { continue };
        std::thread::spawn(move || pretend(&link));
    }
    std::mem::forget((manager, slot));
}

fn pretend(link: &Connection) {
    let (mut round, first) = (0u64, link.slot(0));
    loop {
        round += 1;
        if round % 16 == 1 {
            link.request(&first, &Request::new(link.root, PAY));
        }
        let Some((asked, mut fds)) = link.receive(Duration::from_millis(20)) else { continue };
        match asked.kind {
            // "You are the bank: what does this token of yours stand for?"
            kind::CLAIM => {
                DONE.leaked();
                link.send(message(kind::REDEEMED, asked.a, 4711), &[]);
            }
            kind::SLOT => {
                let Some(file) = fds.pop() else { continue };
                let slot = crate::regions::slot_of_victim(asked.a, file);
                std::thread::sleep(Duration::from_millis(20));
                if slot.word().load(Ordering::Acquire) & 0xf == word::REQUEST {
                    DONE.leaked();
                    slot.reply(&[0, 1, u32::from(b'x')]);
                }
                std::mem::forget(slot);
            }
            _ => {}
        }
    }
}

/// Looks a service up again and again, and never greets it.
fn introductions_that_nobody_takes_up(at: &Path) {
    for _ in 0..4 {
        let Some(manager) = Connection::to(at) else { break };
        let slot = manager.slot(0);
        for _ in 0..400 {
            if !manager.call(&slot, &Request { node: manager.root, ..get("bank.public") }) {
                break;
            }
        }
        std::mem::forget((manager, slot));
    }
}

/// Has the manager meet processes that are none.
fn third_parties_that_never_answer(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let mut kept = Vec::new();
            for _ in 0..10 {
                let Some(manager) = Connection::to(&at) else { break };
                let slots: Vec<Slot> = (0..32).map(|id| manager.slot(id)).collect();
                for slot in &slots {
                    let (mine, theirs) = pair();
                    offer(&manager, slot, &format!("third.{}", slot.id), &theirs);
                    kept.push(mine);
                }
                std::mem::forget((manager, slots));
            }
            std::thread::sleep(Duration::from_millis(5500));
        }
    });
    std::thread::sleep(Duration::from_millis(400));
}

/// Registers an object of a third process that is to be met over `socket`.
fn offer(manager: &Connection, slot: &Slot, name: &str, socket: &OwnedFd) {
    let entry = Entry { kind: object::OF_THIRD, endpoint: endpoint(), token: endpoint(), ..Entry::default() };
    let request = Request { node: manager.root, ..with_object(ADD, name, entry) };
    manager.send(message(kind::FDS, slot.id, 0), &[socket.as_raw_fd()]);
    manager.request(slot, &request);
}

/// What is to be met is a file, a pipe, another kind of socket, or the manager itself.
fn introductions_over_odd_sockets(at: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = std::os::unix::net::UnixDatagram::pair().unwrap();
    let streams = std::os::unix::net::UnixStream::pair().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let at = at.to_owned();
    std::thread::spawn(move || {
        let fixed: Vec<OwnedFd> =
            vec![listener.into(), datagrams.0.into(), streams.0.into(), null.into(), any_file()];
        for round in 0usize.. {
            let Some(manager) = Connection::to(&at) else { continue };
            let slot = manager.slot(0);
            let socket = match fixed.get(round % 8) {
                Some(odd) => odd.try_clone().unwrap(),
                None if round % 8 == 6 => match dial(&at) {
                    Ok(itself) => itself,
                    Err(_) => continue,
                },
                None => pair().0,
            };
            offer(&manager, &slot, "odd", &socket);
            slot.is_free_within(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    drop((datagrams.1, streams.1));
}

fn names_without_end(at: &Path) {
    for thread in 0..2 {
        let manager = Connection::to(at).unwrap();
        std::thread::spawn(move || {
            let slot = manager.slot(0);
            for n in 0u64.. {
                let entry = Entry { kind: object::OF_SENDER, value: n % 512, ..Entry::default() };
                let name = format!("many.{thread}.{n}");
                manager.call(&slot, &Request { node: manager.root, ..with_object(ADD, &name, entry) });
            }
        });
    }
}

/// Wants to hear of a name that an honest process registers all the time, and does not listen.
fn watches_without_end(at: &Path) {
    for _ in 0..2 {
        let manager = Connection::to(at).unwrap();
        std::thread::spawn(move || {
            let slot = manager.slot(0);
            for n in 0u64.. {
                let entry = Entry { kind: object::OF_SENDER, value: n, ..Entry::default() };
                let name = if n % 2 == 0 { "honest.name".to_owned() } else { format!("nobody.{n}") };
                manager.call(&slot, &Request { node: manager.root, ..with_object(WATCH, &name, entry) });
            }
        });
    }
}

/// As many as may wait for a name that an honest process registers ten times a second.
fn waiters_by_the_thousand(at: &Path) {
    let manager = Connection::to(at).unwrap();
    let (send, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let slot = manager.slot(0);
        for n in 0..4096 {
            let entry = Entry { kind: object::OF_SENDER, value: n, ..Entry::default() };
            manager.call(&slot, &Request { node: manager.root, ..with_object(WATCH, "honest.name", entry) });
            let _ = send.send(());
        }
        std::mem::forget((manager, slot));
    });
    waits.iter().take(1000).for_each(drop);
}

/// Takes all names and watches that it may, and ends, again and again: each is a death that somebody is told of.
fn deaths_by_the_thousand(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let Some(manager) = Connection::to(&at) else { continue };
            let slot = manager.slot(0);
            for n in 0..3000u64 {
                let entry = Entry { kind: object::OF_SENDER, value: n, ..Entry::default() };
                for (code, name) in [(ADD, format!("dead.{n}")), (WATCH, format!("dead.{}", n + 1))] {
                    manager.call(&slot, &Request { node: manager.root, ..with_object(code, &name, entry) });
                }
            }
        }
    });
    std::thread::sleep(Duration::from_millis(300));
}

/// Names as long as a request may be.
fn names_of_many_megabytes(at: &Path) {
    let name = "n".repeat(900_000);
    for _ in 0..2 {
        let manager = Connection::to(at).unwrap();
        let name = name.clone();
        std::thread::spawn(move || {
            let slot = manager.slot(0);
            let requests = [GET, ADD, WATCH].map(|code| {
                let entry = Entry { kind: object::OF_SENDER, value: 1, ..Entry::default() };
                let asked = if code == GET { get(&name) } else { with_object(code, &name, entry) };
                Request { node: manager.root, ..asked }
            });
            for request in requests.iter().cycle() {
                manager.call(&slot, request);
            }
        });
    }
}

/// The manager's state as text, with as many arguments as there is room for.
fn dumps_without_end(at: &Path) {
    const DUMP: u32 = u32::from_be_bytes(*b"_DMP");
    for _ in 0..2 {
        let manager = Connection::to(at).unwrap();
        std::thread::spawn(move || {
            let slot = manager.slot(0);
            let arguments = vec![String::new(); 200_000];
            let dump = Request::new(manager.root, DUMP).with(&[], |w| w.write(&arguments));
            loop {
                manager.call(&slot, &dump);
            }
        });
    }
}

/// A process that has a name, and answers nobody who asks for its object.
mod squatted {
    use super::*;
    use crate::common::Place;
    use crate::process::{GENEROUS, Helper, Users};
    use handoff_ipc::Runtime;
    use handoff_ipc::servicemanager::ServiceOptions;

    /// More than threads serve one user, and fewer than it may be introduced to.
    const WAITERS: u64 = 40;

    #[test]
    fn who_waits_for_its_name_is_served_meanwhile_and_hears_of_the_next_who_has_it() {
        handoff_testkit::require!(handoff_testkit::require_root());
        let place = Place::new();
        let owner = Some(Users::choose("squatted").victim());
        std::os::unix::fs::chown(place.dir.path(), owner, owner).unwrap();
        let helper = Helper::start("manager", &place.socket());
        helper.hear("serving").expect("the victim starts");
        let connect = || Connection::to(&place.socket()).unwrap();

        let its_own = Entry { kind: object::OF_SENDER, value: 1, ..Entry::default() };
        let (owner, waits) = (connect(), Runtime::builder().socket(place.socket()).connect().unwrap());
        let slot = owner.slot(0);
        assert!(owner.call(&slot, &Request { node: owner.root, ..with_object(ADD, "squatted", its_own) }));
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let waiter = connect();
                let slot = waiter.slot(0);
                let watch = Request { node: waiter.root, ..with_object(WATCH, "squatted", its_own) };
                waiter.request(&slot, &watch);
                (waiter, slot)
            })
            .collect();

        let (send, told) = std::sync::mpsc::channel();
        let served = std::thread::spawn(move || {
            let tell = move |_: &str, found| drop(send.send(found));
            let watch = waits.services().on_registration("squatted", tell).unwrap();
            (watch, waits)
        });
        let end = std::time::Instant::now() + GENEROUS;
        while !served.is_finished() {
            assert!(std::time::Instant::now() < end, "the manager serves its user in {GENEROUS:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let next = Runtime::builder().socket(place.socket()).connect().unwrap();
        next.services().add("squatted", placeholder(), ServiceOptions::default().replacing()).unwrap();
        assert!(told.recv_timeout(GENEROUS).is_ok(), "told of the next who has the name");
        drop((served.join(), waiters, owner, slot));
    }
}
