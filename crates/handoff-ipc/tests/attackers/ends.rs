//! Attacks that come when something ends: a link, or what a link had this process hold.

use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::case::{Bounds, FILLED, IDLE, SHARE, SLOW_MS};
use crate::common::{RECORD, SESSION, SLEEP_MS};
use crate::names::{ADD, WATCH, with_object};
use crate::raw::{Connection, kind, message, object};
use crate::regions::{Entry, Memory, RING, Request, SLOT};
use crate::{flood, process};

attacks! {
    watchers_that_end_while_an_owner_is_asked: "bank", Bounds { threads: 40, maps: 400, fds: 200, ..IDLE };
    rings_that_are_full_when_their_links_end: "server", Bounds { maps: 1600, rss: FILLED + 64, threads: 48, ..SHARE };
    words_that_thousands_sleep_on: "server", Bounds { maps: 1500, ..SHARE };
    rings_of_links_that_end_behind_slow_calls: "server", Bounds { maps: 700, threads: 40, ..SHARE };
    sessions_given_back_behind_slow_calls: "server", Bounds { cpu: 0.1, rss: 96, threads: 40, ..IDLE };
}

/// Who waits for a name is told of it with an object whose owner is to make a connection, does not, and goes.
fn watchers_that_end_while_an_owner_is_asked(at: &Path) {
    let begin = Instant::now();
    for pair in 0..8u32 {
        let (owner, watcher) = (Connection::to(at).unwrap(), Connection::to(at).unwrap());
        let (owners, watchers) = (owner.slot(0), watcher.slot(0));
        let mine = Entry { kind: object::OF_SENDER, value: 1, ..Entry::default() };
        let name = format!("asked.{pair}");
        let ask = |of: &Connection, code| Request { node: of.root, ..with_object(code, &name, mine) };
        watcher.call(&watchers, &ask(&watcher, WATCH));
        let add = ask(&owner, ADD);
        let ping = Request::new(owner.root, u32::from_be_bytes(*b"_PNG"));
        // One a while after the other: whoever waits for the first waits for the next then.
        let when = begin + Duration::from_millis(800 + 3000 * u64::from(pair));
        std::thread::spawn(move || {
            // A thread of the manager's stays at the slot.
            while Instant::now() < when {
                owner.call(&owners, &ping);
                std::thread::sleep(Duration::from_millis(200));
            }
            owner.call(&owners, &add);
            // Not before the manager asks.
            owner.receive(Duration::from_secs(2));
            drop(watcher);
            std::mem::forget((owner, owners, watchers));
        });
    }
    std::thread::sleep(Duration::from_millis(1200));
}

/// Makes so many links, and has them all end at once, again and again.
fn end_at_once(at: &Path, links: usize, prepare: impl Fn(&Connection) + Send + 'static) {
    flood::more_descriptors();
    let at = at.to_owned();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let links: Vec<_> = (0..links).filter_map(|_| Connection::to(&at)).collect();
            links.iter().for_each(&prepare);
            // Read, or a link's end comes with what was not.
            links.iter().for_each(|link| drop(link.receive(Duration::from_millis(1))));
            drop(links);
            let _ = tell.send(());
        }
    });
    let _ = told.recv_timeout(Duration::from_secs(20));
}

/// What stands in a ring when its link ends is taken out then: as many calls as there is room for.
fn rings_that_are_full_when_their_links_end(at: &Path) {
    let memory = Memory::new(RING, 0);
    let root = Connection::to(at).unwrap().root;
    let count = (2 << 20) / 32 - 1;
    let smallest = [0, RECORD, root as u32, (root >> 32) as u32, 0, 0, 32, 0].map(u32::to_le_bytes).concat();
    memory.put(4096, &smallest.repeat(count));
    memory.at(64).store(32 * count as u32, Ordering::Release);
    end_at_once(at, 60, move |link| {
        link.send(message(kind::RING, 0, 0), &[memory.file.as_raw_fd()]);
    });
}

/// Whoever wakes a thread of its own in a slot wakes all of the attacker's that sleep there: here at a link's end.
fn words_that_thousands_sleep_on(at: &Path) {
    const SLEEPERS: usize = 4000;
    let memory = Arc::new(Memory::new(SLOT, 0));
    let started = (0..SLEEPERS).map_while(|_| {
        let memory = Arc::clone(&memory);
        let sleep = move || loop {
            let word = memory.at(0);
            let now = word.load(Ordering::Acquire);
            // SAFETY: the word is mapped.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, now, 0) };
        };
        std::thread::Builder::new().stack_size(32 << 10).spawn(sleep).ok()
    });
    process::tell(&format!("{} sleepers", started.count()));
    end_at_once(at, 300, move |link| {
        for id in 0..4 {
            link.send(message(kind::SLOT, id, 0), &[memory.file.as_raw_fd()]);
        }
    });
}

/// Makes calls that take long, more than the user may have threads.
fn take_all_threads(connection: &Connection) {
    for id in 1..40 {
        let slot = connection.slot(id);
        let sleep = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(SLOW_MS));
        connection.request(&slot, &sleep);
        std::mem::forget(slot);
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// No thread is left to take out what links that ended had in their rings.
fn rings_of_links_that_end_behind_slow_calls(at: &Path) {
    let (connection, memory) = (Connection::to(at).unwrap(), Memory::new(RING, 0));
    take_all_threads(&connection);
    std::mem::forget(connection);
    end_at_once(at, 60, move |link| {
        link.send(message(kind::RING, 0, 0), &[memory.file.as_raw_fd()]);
    });
}

/// Objects are given back by the ten thousand while calls that take long have all threads of the user's share: what is
/// left to do for each waits.
fn sessions_given_back_behind_slow_calls(at: &Path) {
    const SESSIONS: usize = 30_000;
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    let session = Request::new(connection.root, SESSION).with(&[], |w| w.write_i32(0));
    let made: Vec<u64> =
        (0..SESSIONS).filter(|_| connection.call(&slot, &session)).map(|_| slot.object()).collect();
    take_all_threads(&connection);
    for node in &made {
        connection.send(message(kind::RELEASE, 1, *node), &[]);
    }
    process::tell(&format!("{} sessions given back", made.len()));
    std::thread::sleep(Duration::from_millis(500));
    std::mem::forget((connection, slot));
}
