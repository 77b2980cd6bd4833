//! Attacks by what a peer leaves undone: it never answers, stops in the middle, goes, or lies in memory that it was given.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::case::{BUSY, Bounds, FILLED, IDLE};
use crate::common::{ASK, Random, USED_QUEUE, WHO};
use crate::process;
use crate::raw::{Connection, DONE, WAIT, kind};
use crate::regions::{Entry, Memory, Request};
use crate::words::{MINE, call_me_back, echo};

attacks! {
    callee_that_never_answers: "server", Bounds { maps: SLOTS + 160, fds: 200, threads: 40, ..BUSY };
    callee_that_keeps_large_arguments: "server", Bounds { maps: SLOTS + 160, fds: 200, threads: 40, rss: FILLED + 64, ..BUSY };
    peers_stopped_in_the_middle: "server", Bounds { maps: 400, fds: 200, threads: 64, ..BUSY };
    root_of_a_user_namespace: "server", IDLE;
    queue_positions_that_lie: "server", Bounds { threads: 40, maps: 400, fds: 200, ..BUSY };
}

/// That a link may have.
const SLOTS: usize = 1024;

/// Each call leaves a slot behind, with little in it.
fn callee_that_never_answers(at: &Path) {
    answer_nothing(at, 0, 2 * SLOTS);
}

/// And here with almost 2 MiB.
fn callee_that_keeps_large_arguments(at: &Path) {
    answer_nothing(at, 1_900_000, SLOTS);
}

/// Has the victim call it with so many bytes, and a deadline of a few milliseconds; reads what comes, and answers nothing.
fn answer_nothing(at: &Path, bytes: i32, most: usize) {
    let connection = Arc::new(Connection::to(at).unwrap());
    let (begun, calls) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    for id in 0..6 {
        let (connection, calls, slot) = (Arc::clone(&connection), Arc::clone(&calls), connection.slot(id));
        std::thread::spawn(move || {
            let object = handoff_ipc::Binder::new(crate::common::Everything::default());
            let ask = Request::new(connection.root, ASK).with(&[MINE], |w| {
                w.write_binder(Some(&object))?;
                w.write_i32(bytes)
            });
            loop {
                connection.call(&slot, &ask);
                calls.fetch_add(1, Ordering::Relaxed);
                while connection.receive(Duration::ZERO).is_some() {}
            }
        });
    }
    // Until it must have as many, and many more.
    while calls.load(Ordering::Relaxed) < most && begun.elapsed() < 10 * WAIT {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes that do what honest ones do are stopped, each in another moment, and go on a second later.
fn peers_stopped_in_the_middle(at: &Path) {
    for child in 0..8u64 {
        let at = at.to_owned();
        std::thread::spawn(move || {
            // SAFETY: the child uses what it has made itself, and never comes back.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                process::die_with_parent();
                while let Some(connection) = Connection::to(&at) {
                    let (slot, ring) = (connection.slot(0), connection.ring());
                    connection.request(&slot, &call_me_back(connection.root));
                    ring.set_written(32);
                    connection.call(&connection.slot(1), &echo(connection.root, 5000));
                }
                // SAFETY: it ends this process.
                unsafe { libc::_exit(0) };
            }
            for round in 0u64.. {
                std::thread::sleep(Duration::from_micros(300 + (child * 1777 + round * 397) % 9000));
                // SAFETY: the child is this thread's own and is not waited for.
                unsafe { libc::kill(pid, libc::SIGSTOP) };
                std::thread::sleep(Duration::from_secs(1));
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGCONT) };
            }
        });
    }
    std::thread::sleep(Duration::from_millis(100));
}

/// Whoever may make a user namespace is root there, and nobody else here.
fn root_of_a_user_namespace(at: &Path) {
    // SAFETY: system calls without pointers.
    let own = unsafe { libc::getuid() };
    // SAFETY: the child makes system calls, uses what it has made itself, and never comes back.
    if unsafe { libc::fork() } == 0 {
        process::die_with_parent();
        // SAFETY: it moves this process, which has one thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWUSER) }, 0, "{}", std::io::Error::last_os_error());
        std::fs::write("/proc/self/uid_map", format!("0 {own} 1")).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::getuid() }, 0, "it is root");
        let connection = Connection::to(at).unwrap();
        let slot = connection.slot(0);
        for round in 0u32.. {
            let who = Request { priority: u32::MAX, tid: 1, ..Request::new(connection.root, WHO) };
            // The reply: no exception, the process, the user.
            let knows = connection.call(&slot, &who) && slot.memory.at(40).load(Ordering::Relaxed) == own;
            if !knows {
                std::process::abort();
            }
            if round == 0 {
                process::tell("known by its own user");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let mut status = 0;
    std::thread::sleep(WAIT / 3);
    // SAFETY: it writes the number.
    let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    assert_eq!(ended, 0, "the namespace's root is served, as the user that it is");
}

/// The victim reads and writes a queue whose positions the attacker writes as it likes.
fn queue_positions_that_lie(at: &Path) {
    for number in 0..2 {
        let connection = Connection::to(at).unwrap();
        let slot = connection.slot(0);
        assert!(connection.call(&slot, &Request::new(connection.root, USED_QUEUE)));
        let mut file = None;
        while let Some((message, mut fds)) = connection.receive(Duration::from_millis(200)) {
            if message.kind == kind::FDS {
                file = fds.pop();
            }
        }
        let queue = Memory::all_of(file.expect("the queue's memory"));
        std::thread::spawn(move || {
            let mut random = Random(21 + number);
            let odd = [0, 1, 7, 8, 64, 1 << 20, u32::MAX, u32::MAX - 7, 1 << 31];
            let _kept = (connection, slot);
            loop {
                for word in 0..24 {
                    if random.below(3) == 0 {
                        queue.at(4 * word).store(odd[random.below(9) as usize], Ordering::Release);
                    }
                }
                std::thread::sleep(Duration::from_micros(random.below(300)));
            }
        });
    }
    DONE.answered();
}

/// Places and names that a process holds by way of an object of the victim's own, and leaves behind.
mod left_behind {
    use super::*;
    use crate::common::Place;
    use crate::process::{GENEROUS, Helper, Users};
    use crate::raw::object;

    /// Asks with the victim's own object, and goes. Says whether the victim did as it was asked.
    fn asks(
        victim: &str,
        code: u32,
        write: impl FnOnce(&mut handoff_ipc::parcel::Writer<'_>) -> handoff_ipc::Result<()>,
    ) -> bool {
        let place = Place::new();
        let owner = Some(Users::choose(victim).victim());
        std::os::unix::fs::chown(place.dir.path(), owner, owner).unwrap();
        let helper = Helper::start(victim, &place.socket());
        helper.hear("serving").expect("the victim starts");
        let connection = Connection::to(&place.socket()).unwrap();
        let slot = connection.slot(0);
        let its_own = Entry { kind: object::OF_RECEIVER, value: connection.root, ..Entry::default() };
        let request = Request::new(connection.root, code).with(&[its_own], write);
        assert!(connection.call(&slot, &request), "answered within {GENEROUS:?}");
        // The transport's status, and the exception.
        slot.memory.at(4).load(Ordering::Relaxed) == 0 && slot.memory.at(32).load(Ordering::Relaxed) == 0
    }

    fn any_object() -> handoff_ipc::Binder {
        handoff_ipc::Binder::new(crate::common::Everything::default())
    }

    #[test]
    fn a_subscription_needs_an_object_of_who_subscribes() {
        handoff_testkit::require!(handoff_testkit::require_root());
        assert!(!asks("camera", 1, |w| w.write_binder(Some(&any_object()))));
    }

    #[test]
    fn a_watch_needs_an_object_of_who_watches() {
        handoff_testkit::require!(handoff_testkit::require_root());
        assert!(!asks("manager", crate::names::WATCH, |w| {
            w.write_string16("a.name")?;
            w.write_binder(Some(&any_object()))
        }));
    }

    #[test]
    fn a_name_is_not_kept_by_the_managers_own_object() {
        handoff_testkit::require!(handoff_testkit::require_root());
        assert!(!asks("manager", crate::names::ADD, |w| {
            w.write_string16("a.name")?;
            w.write_binder(Some(&any_object()))?;
            w.write(&false)?;
            w.write_i32(8)
        }));
    }
}
