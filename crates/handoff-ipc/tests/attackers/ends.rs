//! Attacks that come when something ends: a link, or what a link had this process hold.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::case::{Bounds, IDLE};
use crate::common::{SESSION, SLEEP_MS};
use crate::names::{ADD, WATCH, with_object};
use crate::process;
use crate::raw::{Connection, kind, message, object};
use crate::regions::{Entry, Request};

attacks! {
    watchers_that_end_while_an_owner_is_asked: "bank", Bounds { threads: 40, maps: 400, fds: 200, ..IDLE };
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

/// Makes calls that take long, more than the user may have threads.
fn take_all_threads(connection: &Connection) {
    for id in 1..40 {
        let slot = connection.slot(id);
        let sleep = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(25_000));
        connection.request(&slot, &sleep);
        std::mem::forget(slot);
    }
    std::thread::sleep(Duration::from_millis(200));
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
