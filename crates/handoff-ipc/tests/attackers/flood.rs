//! Attacks by number: connections, messages, processes.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::case::{BUSY, Bounds, IDLE, SHARE};
use crate::process;
use crate::raw::{Connection, Message, VERSION, dial, endpoint, kind, message, meta, pair, send_bytes};
use crate::words::{call_me_back, echo};

attacks! {
    flood_of_several_links: "root server", Bounds { rate: 260_000, ..BUSY };
    answers_to_a_socket_that_thousands_watch: "server", Bounds { cpu: 0.8, ..BUSY };
    raises_without_end: "server", BUSY;
    connections_without_end: "server", SHARE;
    connects_that_wait_for_room: "server", SHARE;
    connections_that_never_greet: "server", SHARE;
    greetings_whose_answer_is_not_read: "server", SHARE;
    links_without_end: "server", Bounds { rss: 64, maps: 600, ..SHARE };
    peer_that_does_not_read: "server", Bounds { rss: 64, ..BUSY };
    links_that_do_not_read: "server", Bounds { fds: 200, ..BUSY };
    killed_in_the_middle_again_and_again: "server", BUSY;
    one_link_in_many_processes: "server", BUSY;
    end_of_a_link_sent_over_it: "server", IDLE;
}

/// Several links say something at once, all the time.
fn flood_of_several_links(at: &Path) {
    for _ in 0..4 {
        let at = at.to_owned();
        std::thread::spawn(move || {
            loop {
                let Some(connection) = Connection::to(&at) else {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let slot = connection.slot(0);
                while connection.is_open() {
                    if connection.flood(message(kind::RAISE, slot.id, 0)) == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            }
        });
    }
}

/// Each answer has the kernel tell all who watch the socket, on the thread that sends it.
fn answers_to_a_socket_that_thousands_watch(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let (mut told, mut tell) = UnixStream::pair().unwrap();
    for _ in 0..8 {
        // SAFETY: the child makes system calls with what it has, and never comes back.
        if unsafe { libc::fork() } == 0 {
            process::die_with_parent();
            more_descriptors();
            // SAFETY: descriptors and a structure on the stack.
            unsafe {
                let poll = libc::epoll_create1(0);
                let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                let watch = |_: &u32| {
                    let again = libc::dup(connection.socket.as_raw_fd());
                    libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, again, &raw mut event) == 0
                };
                let count = (0..u32::MAX).take_while(watch).count();
                drop(tell.write_all(&count.to_le_bytes()));
                loop {
                    libc::pause();
                }
            }
        }
    }
    let mut watches = 0;
    for _ in 0..8 {
        let mut count = [0; size_of::<usize>()];
        told.read_exact(&mut count).unwrap();
        watches += usize::from_le_bytes(count);
    }
    process::tell(&format!("{watches} watches"));
    std::thread::spawn(move || {
        for request in 0.. {
            let question = Message { first: [7; 16], ..message(kind::CLAIM, request, 0) };
            if !send_bytes(&connection.socket, &question.bytes(), &[]) {
                std::thread::sleep(Duration::from_micros(100));
            }
            while connection.receive(Duration::ZERO).is_some() {}
        }
    });
}

/// Urgent requests, it says, for which no thread is urgent enough.
fn raises_without_end(at: &Path) {
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    std::thread::spawn(move || {
        let fifo = 1 << 16 | 99;
        // SAFETY: a number.
        let tid = unsafe { libc::gettid() } as u32;
        for round in 0.. {
            let mut request = echo(connection.root, 8);
            (request.priority, request.tid) = (fifo + round, if round % 2 == 0 { tid } else { round });
            connection.call(&slot, &request);
            connection.flood(message(kind::RAISE, 0, 0));
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Connections as fast as they can be made, half of them with a greeting, and each closed at once.
fn connections_without_end(at: &Path) {
    for _ in 0..2 {
        let at = at.to_owned();
        std::thread::spawn(move || {
            for round in 0u32.. {
                let socket = dial(&at);
                if let Ok(socket) = socket
                    && round % 2 == 0
                {
                    let hello = Message { first: endpoint(), ..message(kind::HELLO, VERSION, 0) };
                    send_bytes(&socket, &hello.bytes(), &[]);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
    }
}

/// As many connections as the victim has descriptors, and nothing is said on them.
fn connections_that_never_greet(at: &Path) {
    hold_many(at, |_| ());
}

/// Each asks to be let in, and does not look whether it was.
fn greetings_whose_answer_is_not_read(at: &Path) {
    hold_many(at, |socket| {
        let hello = Message { first: endpoint(), ..message(kind::HELLO, VERSION, 0) };
        send_bytes(socket, &hello.bytes(), &[]);
    });
}

/// Hundreds of threads wait in `connect` for room in the queue of those that are not accepted yet, again and again.
fn connects_that_wait_for_room(at: &Path) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    for _ in 0..400 {
        let address = SocketAddrUnix::new(at).unwrap();
        std::thread::spawn(move || {
            loop {
                let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
                let Ok(socket) = socket_with(family, kind, SocketFlags::CLOEXEC, None) else { continue };
                let _ = connect(&socket, &address);
            }
        });
    }
    std::thread::sleep(Duration::from_millis(300));
}

/// Holds 1,100 connections, and makes new ones for those that the victim closes.
fn hold_many(at: &Path, greet: fn(&std::os::fd::OwnedFd)) {
    more_descriptors();
    let connect = move |at: &Path| {
        let socket = dial(at).ok()?;
        greet(&socket);
        Some(socket)
    };
    // A few at a time: who connects without end is another attack.
    let pause = || std::thread::sleep(Duration::from_micros(300));
    let mut held: Vec<_> = (0..1100).filter_map(|_| connect(at).inspect(|_| pause())).collect();
    let at = at.to_owned();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            held.retain(|socket| {
                let mut watched = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
                // SAFETY: one structure, as it says.
                unsafe { libc::poll(&raw mut watched, 1, 0) };
                watched.revents & libc::POLLHUP == 0
            });
            held.extend((held.len()..1100).take(20).map_while(|_| connect(&at)));
        }
    });
}

/// The attacker may have as many as the machine lets it.
pub fn more_descriptors() {
    // SAFETY: it reads and writes the structure.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(20_000);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// Links that are greeted, with a slot each, as many as the victim lets in.
fn links_without_end(at: &Path) {
    more_descriptors();
    let links: Vec<_> = (0..1100)
        .map_while(|_| {
            let connection = Connection::to(at)?;
            let slot = connection.slot(0);
            Some((connection, slot))
        })
        .collect();
    process::tell(&format!("{} links", links.len()));
    std::mem::forget(links);
}

/// Asks one thing after another, and reads no answer.
fn peer_that_does_not_read(at: &Path) {
    for _ in 0..3 {
        let at = at.to_owned();
        std::thread::spawn(move || {
            loop {
                let Some(connection) = Connection::to(&at) else {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let mut request = 0;
                while connection.is_open() {
                    request += 1;
                    let question = Message { first: endpoint(), ..message(kind::CLAIM, request, 0) };
                    if !send_bytes(&connection.socket, &question.bytes(), &[]) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        });
    }
}

/// Many links, on each of which as many answers wait as one may have, and none is read.
fn links_that_do_not_read(at: &Path) {
    // Fewer than one link may have waiting. Those of all links are four times what one process may.
    const EACH: u32 = 16_000;
    let mut links: Vec<(Connection, u32)> =
        (0..25).filter_map(|_| Connection::to(at)).map(|link| (link, 0)).collect();
    let end = Instant::now() + process::GENEROUS / 2;
    while links.iter().any(|(_, sent)| *sent < EACH) && Instant::now() < end {
        links.retain(|(link, _)| link.is_open());
        for (link, sent) in &mut links {
            let question = |request| Message { first: [7; 16], ..message(kind::CLAIM, request, 0) };
            while *sent < EACH && send_bytes(&link.socket, &question(*sent).bytes(), &[]) {
                *sent += 1;
            }
        }
    }
    std::mem::forget(links);
}

/// Children that die between any two steps of a call.
fn killed_in_the_middle_again_and_again(at: &Path) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        for round in 0u64.. {
            // SAFETY: the child uses what it has made itself, and never comes back.
            let child = unsafe { libc::fork() };
            if child == 0 {
                process::die_with_parent();
                if let Some(connection) = Connection::to(&at) {
                    let slot = connection.slot(0);
                    let ring = connection.ring();
                    loop {
                        connection.request(&slot, &call_me_back(connection.root));
                        ring.set_written(32);
                        connection.call(&slot, &echo(connection.root, 5000).meta(meta::SPIN));
                    }
                }
                // SAFETY: it ends this process.
                unsafe { libc::_exit(0) };
            }
            std::thread::sleep(Duration::from_micros(500 + round * 397 % 9000));
            // SAFETY: the child is this thread's own and was not waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    });
}

/// Forks of a process that has a link, all of which use it.
fn one_link_in_many_processes(at: &Path) {
    let connection = Connection::to(at).unwrap();
    for id in 0..6 {
        // SAFETY: the child uses what it has, in one thread, and never comes back.
        if unsafe { libc::fork() } == 0 {
            process::die_with_parent();
            let slot = connection.slot(id / 2);
            loop {
                connection.request(&slot, &echo(connection.root, 100));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    std::mem::forget(connection);
}

/// The victim is sent the other end of its own connections, for calls that never come, and the attacker lets go of them.
fn end_of_a_link_sent_over_it(at: &Path) {
    for round in 0..16 {
        let Some(connection) = Connection::to(at) else { break };
        let slot = connection.slot(0);
        connection.call(&slot, &echo(connection.root, 8));
        // In a queue of its own, too: a socket in a socket.
        let (mine, theirs) = pair();
        send_bytes(&mine, &[0], &[connection.socket.as_raw_fd()]);
        let end = if round % 2 == 0 { &connection.socket } else { &theirs };
        connection.send(message(kind::FDS, 0, 0), &[end.as_raw_fd()]);
    }
}
