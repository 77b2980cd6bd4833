//! Callers lend their urgency: policy, priority and nice, on the `shm` engine.

mod common;

use std::time::{Duration, Instant};

use common::*;
use handoff_ipc::engine::Engine;
use handoff_ipc::shm::{ShmEngine, priority_changed};
use handoff_ipc::{Binder, Scheduling};
use handoff_placement::{Policy, Priority, Tid};
use handoff_testkit::{require, require_realtime, require_root};

#[test]
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
    root: Binder,
}

fn world(role: &str) -> World {
    let place = Place::new();
    let server = Peer::start(role, &place.socket());
    let engine = ShmEngine::new(place.socket()).unwrap();
    let root = engine.context_object().unwrap();
    // The engine lives as long as the process does.
    std::mem::forget(engine);
    World { _place: place, _server: server, root }
}

#[test]
fn policy_priority_and_nice_are_inherited() {
    require!(require_realtime());
    let w = world("inherits");
    assert_eq!(served_at(&w.root), "other");
    let callers = [
        Priority::fifo(99),
        Priority::fifo(1),
        Priority::round_robin(7),
        Priority::other(-5),
        Priority::other(0),
        // Less urgent than the server's threads are by themselves: nothing to inherit.
        Priority::other(10),
    ];
    for round in 0..3 {
        for caller in callers {
            let expected = if caller.nice > 0 { Priority::other(0) } else { caller };
            assert_eq!(served_for(&w.root, caller), expected.to_string(), "round {round}");
        }
    }
    assert_eq!(served_at(&w.root), "other", "and is given back");
}

#[test]
fn a_thread_that_changes_its_priority_is_followed() {
    require!(require_realtime());
    let w = world("inherits");
    let root = w.root.clone();
    std::thread::spawn(move || {
        assert_eq!(served_at(&root), "other");
        Priority::fifo(3).apply(Tid::current()).unwrap();
        // At once when told, within a few calls when not.
        priority_changed();
        assert_eq!(served_at(&root), "fifo:3");
        Priority::other(0).apply(Tid::current()).unwrap();
        let seen: Vec<String> = (0..17).map(|_| served_at(&root)).collect();
        assert_eq!(seen[16], "other");
    })
    .join()
    .unwrap();
}

#[test]
fn a_service_may_refuse_or_set_a_floor() {
    require!(require_realtime());
    let w = world("refuses");
    assert_eq!(served_for(&w.root, Priority::fifo(50)), "other");
    let w = world("floor");
    assert_eq!(served_at(&w.root), "fifo:5");
    assert_eq!(served_for(&w.root, Priority::fifo(50)), "fifo:50");
    assert_eq!(served_for(&w.root, Priority::fifo(2)), "fifo:5");
}

/// The one thread of the server works for a nice caller while a hog has all of the CPU; an urgent
/// caller queues behind it. Without a raise nothing would ever move.
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
    let slow = {
        let root = root.clone();
        std::thread::spawn(move || {
            let begin = Instant::now();
            root.call(SLEEP_MS, |p| p.write(&300), |_| Ok(())).unwrap();
            begin.elapsed()
        })
    };
    std::thread::sleep(Duration::from_millis(100));
    let urgent = {
        let root = root.clone();
        std::thread::spawn(move || {
            Priority::fifo(10).apply(Tid::current()).unwrap();
            served_at(&root)
        })
    };
    // While the urgent call waits for the only thread, that thread runs at the urgent priority.
    let mut raised = false;
    for _ in 0..100 {
        raised |= threads_at(pid, "handoff").contains(&Priority::fifo(10));
        if raised || slow.is_finished() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(urgent.join().unwrap(), "fifo:10");
    slow.join().unwrap();
    assert!(raised, "the busy thread was never raised");
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
        Priority::fifo(40).apply(Tid::current()).unwrap();
        assert_eq!(served_at(&root), "fifo:40");
        // The runtime believes this thread is urgent for a few calls more; the server, which asks
        // the kernel now and then, may too, but not for longer than it trusts a claim.
        Priority::other(0).apply(Tid::current()).unwrap();
        for _ in 0..100 {
            served_at(&root);
        }
        assert_eq!(served_at(&root), "other");
    })
    .join()
    .unwrap();
}
