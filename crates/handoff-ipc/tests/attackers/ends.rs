//! Attacks that come when something ends: a link, or what a link had this process hold.

use std::path::Path;
use std::time::Duration;

use crate::case::{Bounds, IDLE};
use crate::common::{SESSION, SLEEP_MS};
use crate::process;
use crate::raw::{Connection, kind, message};
use crate::regions::Request;

attacks! {
    sessions_given_back_behind_slow_calls: "server", Bounds { cpu: 0.1, rss: 96, threads: 40, ..IDLE };
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
