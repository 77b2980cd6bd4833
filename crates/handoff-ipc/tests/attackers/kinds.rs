//! Descriptors of kinds that nobody expects, wherever a descriptor may stand.

use std::ffi::c_long;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::Duration;

use crate::case::{BUSY, Bounds};
use crate::common::{REGISTER, SUM_MEMORY};
use crate::raw::{Connection, Message, VERSION, endpoint, kind, message, object, send_bytes};
use crate::regions::{Entry, RING, Request, SEALS, SLOT, memfd};

attacks! {
    descriptors_of_odd_kinds: "server", Bounds { threads: 64, fds: 250, maps: 400, ..BUSY };
}

fn owned(fd: c_long) -> Option<OwnedFd> {
    // SAFETY: a new descriptor, if it is one, taken over at once.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The same file, without the right to do anything with it.
fn path_only(file: &OwnedFd) -> Option<OwnedFd> {
    let name = std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    // SAFETY: the name ends with a zero.
    owned(unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) }.into())
}

/// One that watches itself through others.
fn nested_epoll() -> Option<OwnedFd> {
    // SAFETY: it takes a number.
    let all: Vec<OwnedFd> = (0..5).filter_map(|_| owned(unsafe { libc::epoll_create1(0) }.into())).collect();
    for pair in all.windows(2) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: descriptors and a structure on the stack.
        unsafe {
            libc::epoll_ctl(pair[0].as_raw_fd(), libc::EPOLL_CTL_ADD, pair[1].as_raw_fd(), &raw mut event)
        };
    }
    all.into_iter().next()
}

/// Those of them that this kernel lets an ordinary user have.
fn odd_kinds() -> Vec<OwnedFd> {
    let mut ring = [0u32; 32];
    let region = memfd(SLOT, 0, SEALS);
    let open =
        |path: &str| std::fs::File::options().read(true).write(true).open(path).ok().map(OwnedFd::from);
    let name = SocketAddr::from_abstract_name(format!("odd kinds {}", std::process::id()));
    let listener = name.and_then(|name| UnixListener::bind_addr(&name));
    // SAFETY: numbers, and a structure that the kernel fills in.
    let calls = unsafe {
        [
            libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0),
            libc::syscall(libc::SYS_io_uring_setup, 4, ring.as_mut_ptr()),
            libc::syscall(libc::SYS_memfd_secret, 0),
            libc::syscall(libc::SYS_userfaultfd, 1),
            libc::eventfd(0, 0).into(),
            libc::timerfd_create(libc::CLOCK_MONOTONIC, 0).into(),
            libc::inotify_init().into(),
        ]
    };
    let made = [
        path_only(&region),
        path_only(&memfd(RING, 0, SEALS)),
        nested_epoll(),
        open("/proc/self/mem"),
        open("/dev/ptmx"),
        listener.ok().map(OwnedFd::from),
    ];
    calls.map(owned).into_iter().chain(made).flatten().collect()
}

/// As regions, in parcels, as connections to be met, and as connections of somebody who was introduced.
fn descriptors_of_odd_kinds(at: &Path) {
    let (at, odd) = (at.to_owned(), odd_kinds());
    crate::process::tell(&format!("{} kinds", odd.len()));
    let soon = Duration::from_millis(50);
    let attack = move |odd: &OwnedFd| {
        let fd = odd.as_raw_fd();
        for kind in [kind::SLOT, kind::RING] {
            if let Some(connection) = Connection::to(&at) {
                connection.send(message(kind, 0, 0), &[fd]);
            }
        }
        let Some(connection) = Connection::to(&at) else { return };
        let (slot, file) = (connection.slot(0), Entry { kind: object::FD, ..Entry::default() });
        let memory = handoff_ipc::SharedMemory::new(4096).unwrap();
        let read = Request::new(connection.root, SUM_MEMORY).with(&[file], |w| w.write(&memory));
        connection.send(message(kind::FDS, 0, 0), &[fd]);
        connection.request(&slot, &read);
        slot.is_free_within(soon);
        let third =
            Entry { kind: object::OF_THIRD, endpoint: endpoint(), token: endpoint(), ..Entry::default() };
        let any = handoff_ipc::Binder::new(crate::common::Everything::default());
        let meet = Request::new(connection.root, REGISTER).with(&[third], |w| w.write_binder(Some(&any)));
        let slot = connection.slot(1);
        connection.send(message(kind::FDS, 1, 0), &[fd]);
        connection.request(&slot, &meet);
        slot.is_free_within(soon);
        connection.send(message(kind::INTRODUCE, 7, connection.root), &[]);
        while let Some((answer, fds)) = connection.receive(soon) {
            if let (true, Some(introduction)) = (answer.kind == kind::INTRODUCED, fds.first()) {
                let hello = message(kind::HELLO, VERSION, 0);
                let hello = Message { first: endpoint(), second: answer.first, ..hello };
                send_bytes(introduction, &hello.bytes(), &[fd]);
            }
        }
    };
    std::thread::spawn(move || {
        loop {
            odd.iter().for_each(&attack);
        }
    });
    std::thread::sleep(Duration::from_millis(500));
}
