//! Callers lend their urgency: policy, priority and nice, on the `shm` engine.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::common::*;
use handoff_ipc::engine::Engine;
use handoff_ipc::shm::ShmEngine;
use handoff_ipc::{Binder, Scheduling};
use handoff_placement::{Policy, Priority, Tid};
use handoff_testkit::{require, require_realtime, require_root};

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((role, socket)) = role() else { return };
    let scheduling = match role.as_str() {
        "inherits" | "one-thread" => Scheduling::default(),
        "refuses" => Scheduling { inherit: false, ..Scheduling::default() },
        "floor" => Scheduling { floor: Some(Priority::fifo(5)), ..Scheduling::default() },
        other => panic!("no such role: {other}"),
    };
    let engine = serve(&socket, Everything::with(scheduling));
    if role == "one-thread" {
        engine.set_max_threads(1);
    }
    ready_and_wait();
}

struct World {
    _place: Place,
    _server: Peer,
    engine: ShmEngine,
    root: Binder,
}

fn world(role: &str) -> World {
    let place = Place::new();
    let server = Peer::start(role, &place.socket());
    let engine = ShmEngine::new(place.socket()).unwrap();
    let root = engine.context_object().unwrap();
    World { _place: place, _server: server, engine, root }
}

#[test]
fn policy_priority_and_nice_are_inherited() {
    require!(require_realtime());
    let w = world("inherits");
    let own = own_priority();
    assert_eq!(served_at(&w.root), own.to_string());
    let callers = [
        Priority::fifo(99),
        Priority::fifo(1),
        Priority::round_robin(7),
        Priority::other((own.nice - 5).max(-20)),
        own,
        // Less urgent than the server's threads are by themselves: nothing to inherit.
        Priority::other((own.nice + 10).min(19)),
    ];
    for round in 0..3 {
        for caller in callers {
            let expected = if caller.more_urgent_than(own) { caller } else { own };
            assert_eq!(served_for(&w.root, caller), expected.to_string(), "round {round}");
        }
    }
    assert_eq!(served_at(&w.root), own.to_string(), "and is given back");
}

#[test]
fn a_thread_that_changes_its_priority_is_followed() {
    require!(require_realtime());
    let w = world("inherits");
    std::thread::spawn(move || {
        let root = &w.root;
        let own = own_priority();
        assert_eq!(served_at(root), own.to_string());
        Priority::fifo(3).apply(Tid::current()).unwrap();
        // At once when told, within a few calls when not.
        w.engine.priority_changed();
        assert_eq!(served_at(root), "fifo:3");
        own.apply(Tid::current()).unwrap();
        let seen: Vec<String> = (0..17).map(|_| served_at(root)).collect();
        assert_eq!(seen[16], own.to_string());
    })
    .join()
    .unwrap();
}

#[test]
fn a_service_may_refuse_or_set_a_floor() {
    require!(require_realtime());
    let w = world("refuses");
    assert_eq!(served_for(&w.root, Priority::fifo(50)), own_priority().to_string());
    let w = world("floor");
    assert_eq!(served_at(&w.root), "fifo:5");
    assert_eq!(served_for(&w.root, Priority::fifo(50)), "fifo:50");
    assert_eq!(served_for(&w.root, Priority::fifo(2)), "fifo:5");
}

/// The one thread of the server works for an ordinary caller; an urgent one queues behind it. Were the
/// thread not raised, anything in between could keep both from the CPU for ever.
#[test]
fn a_busy_thread_is_raised_for_whoever_queues_behind_it() {
    require!(require_root());
    require!(require_realtime());
    let w = world("one-thread");
    let root = w.root.clone();
    let pid: u32 = {
        // Learn the server's process from the other side: it is the peer of the root.
        w._server.child.id()
    };
    // It is at work until this end is closed.
    let (mut held, theirs) = UnixStream::pair().unwrap();
    let slow = {
        let (root, theirs) = (root.clone(), OwnedFd::from(theirs));
        std::thread::spawn(move || root.transaction(HOLD).call(|p| p.write(&theirs), |_| Ok(())).unwrap())
    };
    held.read_exact(&mut [0]).unwrap();
    let urgent = {
        let root = root.clone();
        std::thread::spawn(move || {
            Priority::fifo(10).apply(Tid::current()).unwrap();
            served_at(&root)
        })
    };
    eventually("the busy thread runs at the priority of whoever waits for it", || {
        threads_at(pid, "handoff").contains(&Priority::fifo(10))
    });
    assert!(!slow.is_finished() && !urgent.is_finished());
    drop(held);
    assert_eq!(urgent.join().unwrap(), "fifo:10");
    slow.join().unwrap();
    eventually("the thread is an ordinary one again", || {
        let _: String = served_at(&root);
        threads_at(pid, "handoff").iter().all(|p| p.policy == Policy::Other)
    });
}

fn threads_at(pid: u32, name: &str) -> Vec<Priority> {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let comm = std::fs::read_to_string(path.join("comm")).ok()?;
            let tid = path.file_name()?.to_str()?.parse().ok()?;
            if comm.trim() == name { Priority::of(Tid::new(tid)?).ok() } else { None }
        })
        .collect()
}

/// A peer that claims an urgency that its thread does not have gets none of it.
#[test]
fn a_lie_about_the_priority_is_not_believed() {
    require!(require_root());
    require!(require_realtime());
    let w = world("inherits");
    let root = w.root.clone();
    std::thread::spawn(move || {
        let own = own_priority();
        Priority::fifo(40).apply(Tid::current()).unwrap();
        assert_eq!(served_at(&root), "fifo:40");
        // The runtime believes this thread is urgent for a few calls more; the server, which asks
        // the kernel now and then, may too, but not for longer than it trusts a claim.
        own.apply(Tid::current()).unwrap();
        for _ in 0..100 {
            served_at(&root);
        }
        assert_eq!(served_at(&root), own.to_string());
    })
    .join()
    .unwrap();
}
