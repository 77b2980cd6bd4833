//! Processes that are killed at any instruction: seeded, 2,000 kills by default.

#[path = "it/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::*;
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
            let _engine = serve(&socket, Everything::default());
            ready_and_wait();
        }
        // Does a bit of everything with the server until it is killed.
        "client" => {
            let engine = ShmEngine::new(&socket).unwrap();
            let root = engine.context_object().unwrap();
            std::thread::spawn(move || {
                let other = root.clone();
                std::thread::spawn(move || {
                    loop {
                        drop(use_it(&other));
                    }
                });
                loop {
                    drop(use_it(&root));
                }
            });
            ready_and_wait();
        }
        other => panic!("no such role: {other}"),
    }
}

/// A round of calls of every kind.
fn use_it(root: &Binder) -> Result<(), Error> {
    let me = Binder::new(Everything::default());
    echo(root, b"12345678")?;
    echo(root, &[7; 5000])?;
    call_back(root, &me, 3)?;
    let fd = std::os::fd::OwnedFd::from(file_with("text"));
    let text: String = root.transaction(READ_FD).call(|w| w.write(&fd), |r| r.read())?;
    assert_eq!(text, "text");
    match root.transaction(RECORD).oneway(|w| w.write(&1)) {
        Ok(()) | Err(Error::OnewayFull(_)) => {}
        Err(other) => return Err(other),
    }
    let records: Vec<i32> = root.transaction(TAKE_RECORDS).call(|_| Ok(()), |r| r.read())?;
    assert!(records.iter().all(|n| *n == 1));
    let found: Binder = root.transaction(SELF).call(|_| Ok(()), |r| r.read())?;
    echo(&found, b"x").map(drop)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What this process holds that a dead peer could have left behind.
fn holdings() -> (usize, usize) {
    (open_fds(), mappings())
}

#[test]
fn survivors_of_killed_servers_and_clients_lose_nothing_but_the_peer() {
    let kills = number("HANDOFF_KILLS", repeats(2000, 200));
    let seed = number("HANDOFF_SEED", 20_261_121);
    println!("{kills} kills with seed {seed}");
    let mut random = Random(seed);

    // Half of the kills: clients of a server that lives in this process.
    let place = Place::new();
    let engine = serve(&place.socket(), Everything::default());
    let mut clean = None;
    for round in 0..kills / 2 / 4 {
        let mut clients: Vec<Peer> = (0..4).map(|_| Peer::start("client", &place.socket())).collect();
        for client in &mut clients {
            std::thread::sleep(Duration::from_micros(random.below(3000)));
            client.kill();
        }
        drop(clients);
        eventually("the links of dead clients are gone", || engine.stats().links == 0);
        if round == 10 {
            clean = Some(holdings());
        }
    }
    if let Some(clean) = clean {
        eventually(&format!("fds and mappings are those of round 10: {clean:?}"), || holdings() <= clean);
    }
    let threads = engine.stats().threads;
    assert!(threads <= 16, "{threads} threads");
    // And it still serves.
    let other = ShmEngine::new(place.socket()).unwrap();
    use_it(&other.context_object().unwrap()).unwrap();
    drop(other);
    drop(engine);

    // The other half: servers of callers in this process, that wait, spin and sleep in calls.
    let mut clean = None;
    for round in 0..kills / 2 {
        let place = Place::new();
        let mut server = Peer::start("server", &place.socket());
        let engine = ShmEngine::new(place.socket()).unwrap();
        let root = engine.context_object().unwrap();
        let deaths = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&deaths);
        let registration = root
            .link_to_death(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let root = &root;
                scope.spawn(move || {
                    loop {
                        let outcome = match thread {
                            0 => use_it(root),
                            _ => root.transaction(SLEEP_MS).call(|w| w.write(&1), |_| Ok(())),
                        };
                        match outcome {
                            Ok(()) => {}
                            Err(Error::Dead) => return,
                            Err(other) => panic!("round {round}: {other}"),
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(random.below(4000)));
            server.kill();
            // The scope ends when both threads have seen the error: a hang shows as one.
        });
        eventually("the death is told", || deaths.load(Ordering::SeqCst) == 1);
        drop(registration);
        drop((root, engine));
        assert_eq!(deaths.load(Ordering::SeqCst), 1, "once");
        if round == 10 {
            eventually("the first rounds settle", || mappings() == 0);
            clean = Some(open_fds());
        }
    }
    if let Some(clean) = clean {
        eventually(&format!("no fd is left over the {clean} of round 10"), || open_fds() <= clean);
        eventually("no mapping is left", || mappings() == 0);
    }
}
