//! A client that scribbles over everything it shares with the server, while it calls; and what is left of one that died.
#![allow(unsafe_code)] // the scribbling

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::common::*;
use handoff_ipc::engine::Engine;
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Error};
use handoff_testkit::repeats;

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    match role.as_str() {
        "server" => {
            let _engine = serve(&socket, Everything::steady());
            ready_and_wait();
        }
        "keeper" => what_is_kept_of_the_dead(&socket),
        "kept" => {
            let engine = ShmEngine::new(&socket).unwrap();
            let root = engine.context_object().unwrap();
            root.transaction(RECORD).oneway(|w| w.write(&1)).unwrap();
            let me = Binder::new(Everything::default());
            root.transaction(KEEP).call(|w| w.write(&Some(me)), |_| Ok(())).unwrap();
            ready_and_wait();
        }
        "scribbler" => {
            // Its own calls go wrong in every way: that is its own affair.
            std::panic::set_hook(Box::new(|_| ()));
            call_for_ever(&socket);
            std::thread::spawn(move || scribble_for_ever(1));
            ready_and_wait();
        }
        "babbler" => {
            std::panic::set_hook(Box::new(|_| ()));
            call_for_ever(&socket);
            std::thread::spawn(babble_for_ever);
            ready_and_wait();
        }
        other => panic!("no such role: {other}"),
    }
}

/// A proxy of a dead client holds neither its connection nor its ring.
fn what_is_kept_of_the_dead(socket: &std::path::Path) {
    let engine = serve(socket, Everything::default());
    let here = ShmEngine::new(socket).unwrap();
    let root = here.context_object().unwrap();
    let kept = || root.transaction(GET_KEPT).call(|_| Ok(()), |r| r.read::<Option<Binder>>());
    assert!(kept().unwrap().is_none());
    let before = (open_fds(), mappings());
    let mut peer = Peer::start("kept", socket);
    peer.kill();
    eventually("nothing is held of the dead", || {
        let now = (open_fds(), mappings());
        now.0 <= before.0 && now.1 <= before.1
    });
    assert!(matches!(kept(), Err(Error::Dead)), "the proxy is kept");
    drop(engine);
    std::process::exit(0);
}

/// Connects, calls until the link breaks, and connects again.
fn call_for_ever(socket: &std::path::Path) {
    for _ in 0..2 {
        let socket = socket.to_owned();
        std::thread::spawn(move || {
            loop {
                let engine = ShmEngine::new(&socket).unwrap();
                let Ok(root) = engine.context_object() else { continue };
                let other = root.clone();
                let worker = std::thread::spawn(move || {
                    for _ in 0..200 {
                        drop(echo(&other, &[1; 3000]));
                        drop(other.transaction(RECORD).oneway(|w| w.write(&1)));
                    }
                });
                for _ in 0..200 {
                    drop(echo(&root, b"12345678"));
                    let me = Binder::new(Everything::default());
                    drop(call_back(&root, &me, 2));
                    let fd = std::os::fd::OwnedFd::from(file_with("text"));
                    drop(root.transaction(READ_FD).call(|w| w.write(&fd), |r| r.read::<String>()));
                    if !root.is_alive() {
                        break;
                    }
                }
                drop(worker.join());
            }
        });
    }
}

/// Writes random words at random places of the shared regions, mostly where headers are.
fn scribble_for_ever(seed: u64) {
    let mut random = Random(seed);
    let pid = std::process::id() as i32;
    let mut mapped = std::collections::HashMap::new();
    loop {
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            let named = line.contains("handoff-slot") || line.contains("handoff-oneway");
            let Some((range, _)) = line.split_once(' ').filter(|_| named) else { continue };
            let (from, to) = range.split_once('-').unwrap();
            let there = usize::from_str_radix(from, 16).unwrap();
            let len = usize::from_str_radix(to, 16).unwrap() - there;
            // A mapping of its own for each file: the one that is listed may be gone by now, and its place be part of the heap,
            // which is private and so cannot be mapped twice.
            let file = line.split_ascii_whitespace().nth(4).unwrap().to_owned();
            let from = *mapped.entry(file).or_insert_with(|| {
                // SAFETY: with a length of 0, nothing is moved or unmapped.
                unsafe { libc::mremap(there as *mut libc::c_void, 0, len, libc::MREMAP_MAYMOVE).addr() }
            });
            if from == libc::MAP_FAILED.addr() {
                continue;
            }
            for _ in 0..50 {
                let within = match random.next() % 4 {
                    0 | 1 => 128,
                    2 => 8192,
                    _ => len as u64,
                };
                let page = if random.next() % 5 == 0 { len as u64 - 8192 } else { 0 };
                let at = from + ((page + random.next() % within) as usize & !3).min(len - 4);
                let word = match random.next() % 3 {
                    0 => random.next() as u32,
                    1 => (random.next() % 128) as u32,
                    _ => u32::MAX,
                };
                let (local, remote) = (
                    libc::iovec { iov_base: (&raw const word).cast_mut().cast(), iov_len: 4 },
                    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: 4 },
                );
                // SAFETY: reads four bytes of a local; what it writes to is shared memory of raw accesses.
                unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) };
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Sends random control messages, some with descriptors, on every socket that it has.
fn babble_for_ever() {
    let mut random = Random(7);
    let file = file_with("nothing");
    loop {
        for fd in 3..64 {
            // SAFETY: any number may stand for any file here: that is what a hostile process does.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let mut bytes = [0u8; 48];
            bytes[0] = (random.next() % 15) as u8;
            for byte in &mut bytes[4..] {
                *byte = if random.next() % 2 == 0 { 0 } else { random.next() as u8 };
            }
            let len = if random.next() % 20 == 0 { (random.next() % 60) as usize } else { 48 };
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
            let fds = [std::os::fd::AsFd::as_fd(&file)];
            if random.next() % 3 == 0 {
                control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
            }
            let message = std::io::IoSlice::new(&bytes[..len.min(48)]);
            let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
            let _ = rustix::net::sendmsg(fd, &[message], &mut control, flags);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn others_are_served_beside(role: &str) {
    let place = Place::new();
    let mut server = Peer::start("server", &place.socket());
    let engine = ShmEngine::new(place.socket()).unwrap();
    let root = engine.context_object().unwrap();
    let me = Binder::new(Everything::default());
    // A code that was scribbled over has the service make these, which it keeps.
    root.transaction(QUEUE).call(|_| Ok(()), |_| Ok(())).unwrap();
    root.transaction(FRAMES).call(|_| Ok(()), |_| Ok(())).unwrap();
    let before: i32 = root.transaction(COUNT_FDS).call(|_| Ok(()), |r| r.read()).unwrap();
    let mut rounds = 0u32;
    for _ in 0..repeats(20, 3) {
        let bad: Vec<Peer> = (0..2).map(|_| Peer::start(role, &place.socket())).collect();
        for _ in 0..300 {
            rounds += 1;
            assert_eq!(echo(&root, &rounds.to_le_bytes()).unwrap(), rounds.to_le_bytes());
            assert_eq!(echo(&root, &[rounds as u8; 2500]).unwrap(), [rounds as u8; 2500]);
            assert_eq!(call_back(&root, &me, 2).unwrap(), 2);
        }
        drop(bad);
    }
    assert!(server.child.try_wait().unwrap().is_none(), "the server lives");
    eventually("the server holds nothing of the dead", || {
        let now: i32 = root.transaction(COUNT_FDS).call(|_| Ok(()), |r| r.read()).unwrap();
        now <= before
    });
    assert!(!matches!(echo(&root, b"x"), Err(Error::Dead)));
    // Their oneway calls stood in the same queue as this one.
    let _: Vec<i32> = root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read()).unwrap();
    root.transaction(RECORD).oneway(|w| w.write(&4711)).unwrap();
    eventually("oneway calls are served", || {
        let records: Vec<i32> = root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read()).unwrap();
        records.contains(&4711)
    });
}

#[test]
fn a_proxy_of_the_dead_keeps_neither_descriptor_nor_mapping() {
    alone("keeper", &Place::new().socket());
}

#[test]
fn a_client_that_scribbles_over_its_regions_harms_only_itself() {
    others_are_served_beside("scribbler");
}

#[test]
fn a_client_that_babbles_on_its_sockets_harms_only_itself() {
    others_are_served_beside("babbler");
}
