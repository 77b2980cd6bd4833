//! Attacks on the words and the headers in a slot, which the victim's threads look at while they wait.

use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::case::{BUSY, Bounds, IDLE};
use crate::common::{CALL_BACK, ECHO, Random};
use crate::process;
use crate::raw::{Connection, WAIT, kind, meta, object, word};
use crate::regions::{Entry, Memory, Request, SLOT, Slot, slot_of_victim};

attacks! {
    nested_calls_without_end: "server", Bounds { threads: 40, ..IDLE };
    nested_calls_one_after_another: "server", BUSY;
    words_put_back: "server", Bounds { maps: 240, ..IDLE };
    callee_that_keeps_its_caller_awake: "server", IDLE;
    callee_that_scribbles_while_it_is_waited_for: "server", BUSY;
    slot_scribbled_over_while_it_is_read: "server", BUSY;
    one_slot_in_two_processes: "server", BUSY;
}

/// An object that the victim may call: any number will do.
pub const MINE: Entry =
    Entry { kind: object::OF_SENDER, value: 7, offset: 0, endpoint: [0; 16], token: [0; 16] };

/// A request that has the victim call the attacker's object.
pub fn call_me_back(node: u64) -> Request {
    Request::new(node, CALL_BACK).with(&[MINE], |w| {
        w.write_binder(Some(&handoff_ipc::Binder::new(crate::common::Everything::default())))?;
        w.write_i32(1_000_000)
    })
}

pub fn echo(node: u64, len: usize) -> Request {
    Request::new(node, ECHO).with(&[], |w| w.write_bytes(&vec![7; len]))
}

/// The slot that the victim opens to call an object of the attacker, once its request is in it.
pub fn called_in(connection: &Connection) -> Option<Slot> {
    loop {
        let (message, mut fds) = connection.receive(WAIT)?;
        if message.kind != kind::SLOT {
            continue;
        }
        let slot = slot_of_victim(message.a, fds.pop()?);
        for _ in 0..10_000 {
            if slot.word().load(Ordering::Acquire) & 0xf == word::REQUEST {
                return Some(slot);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        return None;
    }
}

/// Has the thread that waits in `waits` serve the slot `id`.
fn nest(waits: &Slot, id: u32) {
    waits.memory.set(4, &[id]);
    waits.word().store(word::NESTED, Ordering::Release);
    waits.wake();
}

/// Each call back is answered by another call, in the thread that waits: its stack grows.
fn nested_calls_without_end(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let first = connection.slot(0);
    connection.request(&first, &call_me_back(connection.root));
    let mut kept = vec![first];
    let mut depth = 0;
    for id in 1..900 {
        let Some(waits) = called_in(&connection) else { break };
        let slot = connection.slot(id);
        slot.write(&call_me_back(connection.root));
        slot.word().store(word::REQUEST, Ordering::Release);
        nest(&waits, id);
        kept.extend([waits, slot]);
        depth = id;
    }
    process::tell(&format!("{depth} calls in each other"));
    std::mem::forget((connection, kept));
}

/// The thread that waits for a call back is given one call after another to serve.
fn nested_calls_one_after_another(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let first = connection.slot(0);
    connection.request(&first, &call_me_back(connection.root));
    let waits = called_in(&connection).expect("the victim calls back");
    std::thread::spawn(move || {
        for id in 1..1000 {
            let slot = connection.slot(id);
            for _ in 0..200 {
                slot.write(&echo(connection.root, 8));
                slot.word().store(word::REQUEST, Ordering::Release);
                nest(&waits, id);
                if !slot.is_free_within(Duration::from_millis(50)) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        drop(first);
    });
}

/// A thread that waits for the next request finds the word as if it had never waited.
fn words_put_back(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slots: Vec<Slot> = (0..64).map(|id| connection.slot(id)).collect();
    std::thread::spawn(move || {
        loop {
            for slot in &slots {
                connection.request(slot, &echo(connection.root, 8));
            }
            std::thread::sleep(Duration::from_millis(50));
            for slot in &slots {
                slot.word().store(word::FREE, Ordering::Release);
                slot.wake();
            }
            std::thread::sleep(Duration::from_millis(1500));
        }
    });
}

/// The victim waits for a call back in a word that says neither that it is answered nor that it may sleep.
fn callee_that_keeps_its_caller_awake(at: &Path) {
    let connection = Connection::to(at).unwrap();
    for id in 0..4 {
        let slot = connection.slot(id);
        connection.request(&slot, &call_me_back(connection.root));
        if let Some(waits) = called_in(&connection) {
            waits.word().store(word::REQUEST | 0x100, Ordering::Release);
            waits.wake();
            std::mem::forget(waits);
        }
        std::mem::forget(slot);
    }
    std::mem::forget(connection);
}

/// Writes random words over the head of a slot, again and again.
fn scribble(slot: Slot, seed: u64) {
    std::thread::spawn(move || {
        let mut random = Random(seed);
        loop {
            for _ in 0..20 {
                let value = match random.below(3) {
                    0 => random.next() as u32,
                    1 => random.below(160) as u32,
                    _ => u32::MAX,
                };
                let page = if random.below(4) == 0 { SLOT - 8192 } else { 0 };
                slot.memory.at(page + random.below(16) as usize * 4).store(value, Ordering::Relaxed);
            }
            slot.wake();
            std::thread::sleep(Duration::from_micros(500));
        }
    });
}

fn callee_that_scribbles_while_it_is_waited_for(at: &Path) {
    for seed in 1..5 {
        let connection = Connection::to(at).unwrap();
        let slot = connection.slot(0);
        connection.request(&slot, &call_me_back(connection.root));
        if let Some(waits) = called_in(&connection) {
            scribble(waits, seed);
        }
        std::mem::forget((connection, slot));
    }
}

fn slot_scribbled_over_while_it_is_read(at: &Path) {
    for seed in 1..5 {
        let (at, again) = (at.to_owned(), seed);
        std::thread::spawn(move || {
            loop {
                let Some(connection) = Connection::to(&at) else { continue };
                let slot = connection.slot(0);
                let same = Slot { id: 0, memory: Memory::same(&slot.memory) };
                scribble(same, again);
                while connection.is_open() {
                    connection.request(&slot, &echo(connection.root, 3000).meta(meta::SPIN));
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
    }
}

/// A fork has the same socket and the same memory: both put requests into one slot.
fn one_slot_in_two_processes(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    assert!(connection.call(&slot, &echo(connection.root, 8)));
    // SAFETY: the child goes on with what it has, in one thread, and never comes back.
    let child = unsafe { libc::fork() };
    let ping = move || {
        loop {
            connection.request(&slot, &echo(connection.root, 64).meta(meta::SPIN));
            std::thread::sleep(Duration::from_micros(300));
        }
    };
    if child == 0 {
        process::die_with_parent();
        ping();
    }
    std::thread::spawn(ping);
}

/// The number of huge pages that the machine sets aside.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// The role that sets two huge pages aside until its parent ends, however it does.
pub fn huge_pages() {
    let number = || std::fs::read_to_string(HUGE_PAGES).unwrap().trim().parse::<u64>().unwrap();
    let before = number();
    std::fs::write(HUGE_PAGES, (before + 2).to_string()).unwrap();
    let taken = number().saturating_sub(before);
    process::tell(if taken == 2 { "pages yes" } else { "pages no" });
    // Not ended by what ends the whole group.
    // SAFETY: a signal is ignored from now on.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    drop(std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new()));
    drop(std::fs::write(HUGE_PAGES, number().saturating_sub(taken).to_string()));
    std::process::exit(0);
}

/// A slot of huge pages, which its owner takes away after it was mapped: the victim's next look at it would be its end.
pub fn slot_of_huge_pages(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = Slot { id: 0, memory: Memory::new(SLOT, libc::MFD_HUGETLB) };
    connection.send(crate::raw::message(kind::SLOT, 0, 0), &[slot.memory.file.as_raw_fd()]);
    slot.write(&echo(connection.root, 8));
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: system calls; the pages that are taken are never used.
    unsafe {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        libc::fallocate(slot.memory.file.as_raw_fd(), how, 0, SLOT as i64);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), SLOT, access, flags, -1, 0);
    }
    connection.send(crate::raw::message(kind::CALL, 0, 0), &[]);
    std::mem::forget((connection, slot));
}

/// The process that set huge pages aside. It puts the number back when its input ends, also because this process
/// was killed.
struct Pages(process::Helper);

impl Drop for Pages {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Alone on the machine: huge pages are everybody's.
#[test]
fn huge_pages_that_are_taken_away() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(handoff_testkit::require_file(HUGE_PAGES));
    let pages = Pages(process::Helper::start("huge pages", Path::new("/")));
    let there = pages.0.hear("pages").expect("huge pages are asked for");
    handoff_testkit::require!(if there == "yes" { Ok(()) } else { Err("needs two huge pages of memory") });
    crate::case::run("slot_of_huge_pages", "server", &IDLE);
}
