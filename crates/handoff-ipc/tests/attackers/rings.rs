//! Attacks on the ring of oneway calls.

use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::case::{BUSY, Bounds, FILLED, IDLE, SHARE, SLOW_MS};
use crate::common::{GET_KEPT, HOLD, KEEP, RECORD, Random, SELF, SLEEP_MS};
use crate::raw::{Connection, WAIT, kind, message, object};
use crate::regions::{Entry, Request, Ring};

attacks! {
    ring_written_behind: "server", IDLE;
    ring_written_far_ahead: "server", IDLE;
    records_that_lie: "server", BUSY;
    records_whose_descriptors_never_come: "server", IDLE;
    ring_scribbled_over: "server", BUSY;
    ring_full_of_slow_calls: "server", BUSY;
    rings_full_of_calls_that_wait: "server", Bounds { rss: FILLED + 64, fds: 200, maps: 400, ..BUSY };
    oneway_calls_without_end: "server", Bounds { rss: 64, ..BUSY };
    references_given_back_without_end: "server", Bounds { rss: 64, maps: 600, ..SHARE };
    rings_behind_slow_calls: "server", Bounds { rss: 6, threads: 64, fds: 100, ..BUSY };
    queue_whose_thread_does_not_come: "server", Bounds { threads: 64, fds: 100, ..BUSY };
    calls_of_links_that_end: "server", Bounds { maps: 1200, ..SHARE };
}

fn record(node: u64, value: i32) -> Request {
    Request::new(node, RECORD).with(&[], |w| w.write_i32(value))
}

fn post(connection: &Connection) {
    connection.send(message(kind::POST, 0, 0), &[]);
}

/// Rings whose sender says that it wrote less than nothing.
fn ring_written_behind(at: &Path) {
    for _ in 0..20 {
        let connection = Connection::to(at).unwrap();
        let ring = connection.ring();
        ring.set_written(-32i32 as u32);
        post(&connection);
        std::mem::forget((connection, ring));
    }
}

/// Rings whose sender says that it wrote more than there is room for.
fn ring_written_far_ahead(at: &Path) {
    for far in [1 << 31, (1 << 31) - 32, (2 << 20) + 32, 16, 33, 31].repeat(4) {
        let connection = Connection::to(at).unwrap();
        let ring = connection.ring();
        ring.record(0, &record(connection.root, 1), Some(32));
        ring.set_written(far);
        post(&connection);
        std::mem::forget((connection, ring));
    }
}

/// Records of impossible sizes, at the end of the ring too.
fn records_that_lie(at: &Path) {
    let at = at.to_owned();
    let mut random = Random(5);
    std::thread::spawn(move || {
        loop {
            let Some(connection) = Connection::to(&at) else { continue };
            let ring = connection.ring();
            let mut written = 0;
            for _ in 0..20 {
                let lie = [0, 31, 32, 64, 1 << 20, (2 << 20) - 32, 2 << 20, u32::MAX - 31, u32::MAX];
                let size = lie[random.below(lie.len() as u64) as usize];
                let mut request = record(connection.root, 1);
                request.lies = match random.below(3) {
                    0 => None,
                    1 => Some((u32::MAX, 0)),
                    _ => Some((4, u32::MAX)),
                };
                if random.below(3) == 0 {
                    request.code = u32::MAX;
                }
                ring.record(written, &request, Some(size));
                written = written.wrapping_add(size & !31).wrapping_add(32);
                ring.set_written(written);
                post(&connection);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// Whoever takes such a record out waits for what it announces.
fn records_whose_descriptors_never_come(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let rings: Vec<(Connection, Ring)> = (0..24)
                .filter_map(|_| {
                    let connection = Connection::to(&at)?;
                    let ring = connection.ring();
                    let file = Entry { kind: object::FD, ..Entry::default() };
                    let mut request = record(connection.root, 1);
                    request.entries = vec![file; 3];
                    ring.set_written(ring.record(0, &request, None));
                    post(&connection);
                    Some((connection, ring))
                })
                .collect();
            std::thread::sleep(Duration::from_millis(6000));
            drop(rings);
        }
    });
    std::thread::sleep(Duration::from_millis(300));
}

/// All words of a ring change all the time.
fn ring_scribbled_over(at: &Path) {
    for seed in 1..4 {
        let at = at.to_owned();
        std::thread::spawn(move || {
            let mut random = Random(seed);
            loop {
                let Some(connection) = Connection::to(&at) else { continue };
                let ring = connection.ring();
                while connection.is_open() {
                    ring.record(0, &record(connection.root, 1), None);
                    let value =
                        if random.below(2) == 0 { random.next() as u32 } else { random.below(6) as u32 };
                    let place = [0, 64, 128, 128, 128][random.below(5) as usize];
                    ring.memory.at(place).store(value, Ordering::Relaxed);
                    // SAFETY: the word is mapped.
                    unsafe { libc::syscall(libc::SYS_futex, ring.bell().as_ptr(), libc::FUTEX_WAKE, 1, 0) };
                    if random.below(8) == 0 {
                        post(&connection);
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
            }
        });
    }
}

/// As many calls as the victim takes, each to be served for a while.
fn ring_full_of_slow_calls(at: &Path) {
    for _ in 0..4 {
        let connection = Connection::to(at).unwrap();
        let ring = connection.ring();
        let mut written = 0u32;
        let slow = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(20));
        while written < 1 << 20 {
            written += ring.record(written, &slow, None);
        }
        ring.set_written(written);
        post(&connection);
        std::mem::forget((connection, ring));
    }
}

/// Each of many links has a ring full of the smallest calls, to one object whose handler waits for the attacker.
fn rings_full_of_calls_that_wait(at: &Path) {
    let first = Connection::to(at).unwrap();
    let slot = first.slot(0);
    first.call(&slot, &Request::new(first.root, SELF));
    let held = slot.object();
    let its_own = Entry { kind: object::OF_RECEIVER, value: held, ..Entry::default() };
    let any = handoff_ipc::Binder::new(crate::common::Everything::default());
    first.call(&slot, &Request::new(first.root, KEEP).with(&[its_own], |w| w.write(&Some(any))));
    let (ring, (mut ours, theirs)) = (first.ring(), UnixStream::pair().unwrap());
    let file = Entry { kind: object::FD, ..Entry::default() };
    let hold =
        Request::new(held, HOLD).with(&[file], |w| w.write(&OwnedFd::from(theirs.try_clone().unwrap())));
    first.send(message(kind::FDS, u32::MAX, 0), &[theirs.as_raw_fd()]);
    ring.set_written(ring.record(0, &hold, None));
    post(&first);
    // It has begun.
    ours.read_exact(&mut [0]).unwrap();
    for _ in 0..60 {
        let Some(connection) = Connection::to(at) else { break };
        let (slot, ring) = (connection.slot(0), connection.ring());
        connection.call(&slot, &Request::new(connection.root, GET_KEPT));
        let node = slot.object();
        let count = (2 << 20) / 32 - 1;
        let smallest = [0, 999, node as u32, (node >> 32) as u32, 0, 0, 32, 0].map(u32::to_le_bytes).concat();
        ring.memory.put(4096, &smallest.repeat(count as usize));
        ring.set_written(32 * count);
        post(&connection);
        std::mem::forget((connection, slot, ring));
    }
    std::mem::forget((first, slot, ring, ours));
}

/// One call after another, for which nobody waits. The receiver's word says where room is.
fn oneway_calls_without_end(at: &Path) {
    for _ in 0..2 {
        let connection = Connection::to(at).unwrap();
        let ring = connection.ring();
        std::thread::spawn(move || {
            let mut written = 0u32;
            loop {
                while written.wrapping_sub(ring.taken()) < 1 << 19 {
                    written =
                        written.wrapping_add(ring.record(written, &record(connection.root + 999, 1), None));
                }
                ring.set_written(written);
                post(&connection);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// Oneway calls hold what was given back before them: here they come to an end slowly.
fn references_given_back_without_end(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let ring = connection.ring();
    let at = at.to_owned();
    std::thread::spawn(move || {
        let (mut connection, mut ring) = (connection, ring);
        loop {
            let slow = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(2));
            let mut end = 0;
            while end < 4 << 10 {
                end += ring.record(end, &slow, None);
            }
            ring.set_written(end);
            post(&connection);
            let mut count = 0;
            while connection.is_open() && count < 200_000 {
                // Between two records: never the end of what was taken out.
                ring.set_written(end + 1);
                connection.send(message(kind::RELEASE, 1, 1 << 40), &[]);
                count += 1;
            }
            std::thread::sleep(Duration::from_millis(20));
            if let Some(next) = Connection::to(&at) {
                ring = next.ring();
                connection = next;
            }
        }
    });
}

/// All threads of the attacker's share are at work, and it rings for another one again and again.
fn rings_behind_slow_calls(at: &Path) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let file = Entry { kind: object::FD, ..Entry::default() };
    for _ in 0..2 {
        let connection = Connection::to(at).unwrap();
        let slots: Vec<_> = (0..12).map(|id| connection.slot(id)).collect();
        for slot in &slots {
            let hold = Request::new(connection.root, HOLD)
                .with(&[file], |w| w.write(&OwnedFd::from(theirs.try_clone().unwrap())));
            connection.send(message(kind::FDS, slot.id, 0), &[theirs.as_raw_fd()]);
            connection.request(slot, &hold);
        }
        std::mem::forget((connection, slots));
    }
    std::thread::sleep(Duration::from_millis(200));
    let connection = Connection::to(at).unwrap();
    let ring = connection.ring();
    let begun = Instant::now();
    (0..200_000).all(|_| begun.elapsed() < 10 * WAIT && connection.send(message(kind::POST, 0, 0), &[]));
    std::mem::forget((connection, ring, ours, theirs));
}

/// Each leaves a call that takes long to one object: they are served, one by one, after their links have ended.
fn calls_of_links_that_end(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            let Some(connection) = Connection::to(&at) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let ring = connection.ring();
            let slow = Request::new(connection.root, SLEEP_MS).with(&[], |w| w.write_i32(20));
            ring.set_written(ring.record(0, &slow, None));
            post(&connection);
            while connection.is_open() && ring.taken() == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            // Who connects without end is another attack.
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// All threads of the attacker's share are at work, and more of its calls wait for one, before it has a call to the object that
/// everybody calls: the thread that is sent to that one's queue does not come.
fn queue_whose_thread_does_not_come(at: &Path) {
    const THREADS: u32 = 15;
    let first = Connection::to(at).unwrap();
    let slot = first.slot(0);
    let [brief, long] = [(); 2].map(|()| {
        first.call(&slot, &Request::new(first.root, SELF));
        slot.object()
    });
    assert_ne!(brief, long);
    let sleep = |node, ms: i32| Request::new(node, SLEEP_MS).with(&[], |w| w.write_i32(ms));
    let slots: Vec<_> = (1..THREADS + 4).map(|id| first.slot(id)).collect();
    let (at_once, later) = slots.split_at(THREADS as usize - 1);
    at_once.iter().for_each(|slot| first.request(slot, &sleep(first.root, SLOW_MS)));
    std::thread::sleep(Duration::from_millis(200));
    let ring = first.ring();
    let mut written = ring.record(0, &sleep(brief, 400), None);
    ring.set_written(written);
    post(&first);
    std::thread::sleep(Duration::from_millis(200));
    // The thread that serves the brief one comes back to the ring, and finds these: it stays with the first of them.
    later.iter().for_each(|slot| first.request(slot, &sleep(first.root, SLOW_MS)));
    written += ring.record(written, &sleep(long, SLOW_MS), None);
    written += ring.record(written, &record(first.root, 1), None);
    ring.set_written(written);
    post(&first);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(ring.taken(), written, "all were taken out");
    std::mem::forget((first, slot, slots, ring));
}
