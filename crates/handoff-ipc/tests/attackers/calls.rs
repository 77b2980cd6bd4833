//! Attacks with requests: what is claimed in them, and when they come.

use std::path::Path;
use std::time::Duration;

use crate::case::BUSY;
use crate::common::{DEADLINE, ECHO, KEEP, Random, SLEEP_MS, WIDE};
use crate::raw::{Connection, endpoint, kind, message, meta, object};
use crate::regions::{Entry, Request};
use crate::words::echo;

attacks! {
    headers_that_lie: "server", BUSY;
    garbage_for_every_code: "server", BUSY;
    objects_that_lie: "server", BUSY;
    deadlines_out_of_this_world: "server", BUSY;
    threads_asked_to_other_cpus: "server", BUSY;
    callers_that_always_look: "server", BUSY;
    requests_that_are_given_up: "server", BUSY;
    nulls_that_take_much_memory: "server", BUSY;
}

/// Calls in a slot until the victim hangs up, again and again.
fn call(at: &Path, mut make: impl FnMut(&Connection, u64) -> Request + Send + 'static) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        let mut round = 0;
        loop {
            let Some(connection) = Connection::to(&at) else { continue };
            let slot = connection.slot(0);
            while connection.is_open() {
                round += 1;
                slot.set_deadline(u64::MAX / (1 + round % 7));
                let request = make(&connection, round);
                connection.request(&slot, &request);
                if !slot.is_free_within(Duration::from_millis(100)) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    });
}

fn headers_that_lie(at: &Path) {
    let mut random = Random(11);
    call(at, move |connection, _| {
        let numbers =
            [0, 1, 31, 1024, 1025, 1 << 20, (2 << 20) - 1, 2 << 20, 4 << 20, u32::MAX - 3, u32::MAX];
        let mut any = || numbers[random.below(numbers.len() as u64) as usize];
        let mut request = echo(connection.root, 100);
        request.lies = Some((any(), any()));
        (request.priority, request.tid) = (any(), any());
        request.meta = any();
        if any() == 0 {
            request.node = u64::from(any()) << 32 | u64::from(any());
        }
        request
    });
}

fn garbage_for_every_code(at: &Path) {
    let mut random = Random(12);
    call(at, move |connection, round| {
        // Not those that end the victim's process, or hold its thread, as they were asked to.
        let code = (round % 40) as u32;
        let code = if [SLEEP_MS, 15, 21].contains(&code) { ECHO } else { code };
        let mut request = Request::new(connection.root, code);
        request.payload = (0..random.below(200)).map(|_| random.next() as u8).collect();
        if random.below(4) == 0 {
            request.code = random.next() as u32 | 1 << 25;
        }
        request
    });
}

fn objects_that_lie(at: &Path) {
    let mut random = Random(13);
    call(at, move |connection, _| {
        let entries: Vec<Entry> = (0..random.below(30))
            .map(|_| Entry {
                offset: random.below(64) as u32 * [1, 1 << 26][random.below(2) as usize],
                kind: [object::OF_SENDER, object::OF_RECEIVER, 0, u32::MAX][random.below(4) as usize],
                value: random.below(50),
                endpoint: endpoint(),
                token: endpoint(),
            })
            .collect();
        let mut request = Request::new(connection.root, KEEP).meta(meta::OBJECTS);
        request.payload = vec![0; 28];
        request.entries = entries;
        request
    });
}

fn deadlines_out_of_this_world(at: &Path) {
    call(at, |connection, _| Request::new(connection.root, DEADLINE).meta(meta::DEADLINE));
}

fn threads_asked_to_other_cpus(at: &Path) {
    call(at, |connection, round| {
        let cpu = [0, 1, 2, 63, 64, 1023, 1024, 8191, 65_535][round as usize % 9];
        let flags = [meta::BESIDE, meta::SPIN, meta::BESIDE | meta::SPIN, meta::SPIN | meta::YIELD];
        echo(connection.root, 8).meta(flags[round as usize % 4] | cpu << 16)
    });
}

/// Each caller says that it will look for the reply, and so has a thread look for its next request.
fn callers_that_always_look(at: &Path) {
    for _ in 0..4 {
        call(at, |connection, _| echo(connection.root, 8).meta(meta::SPIN));
    }
}

/// Four bytes each in the request, and four KiB each where they are read.
fn nulls_that_take_much_memory(at: &Path) {
    for _ in 0..2 {
        call(at, |connection, _| {
            let mut request = Request::new(connection.root, WIDE);
            request.payload = 60_000i32.to_le_bytes().to_vec();
            request.payload.resize(4 * 60_001, 0xff);
            request
        });
    }
}

/// The caller goes away from its requests before they are served, in the middle and afterwards.
fn requests_that_are_given_up(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slots: Vec<_> = (0..16).map(|id| connection.slot(id)).collect();
    std::thread::spawn(move || {
        for round in 0u64.. {
            let slot = &slots[round as usize % slots.len()];
            let sleep = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(2));
            connection.request(slot, &sleep);
            std::thread::sleep(Duration::from_micros(round % 5 * 700));
            // ABANDONED, as one who waits no longer says.
            slot.word().store(3, std::sync::atomic::Ordering::Release);
            connection.send(message(kind::RAISE, slot.id, 0), &[]);
        }
    });
}
