//! Attacks by options of the victim's own end of a connection: who makes a connection to be introduced on may keep a copy
//! of that end.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use crate::case::{BUSY, Bounds, IDLE};
use crate::names::look_up;
use crate::raw::{Connection, any_file, endpoint, introduced_with_a_copy, kind, message, send_bytes};
use crate::shares::lingering;

attacks! {
    pidfds_with_every_message: "bank", Bounds { fds: 100, ..BUSY };
    descriptors_that_time_stamps_leave_no_room_for: "bank", Bounds { fds: 780, ..IDLE };
}

/// `SO_PASSPIDFD`, of Linux 6.5.
const PASS_PIDFD: libc::c_int = 76;

/// Links to the teller, each with a copy of its end.
fn links_to_the_teller(at: &Path, count: usize) -> Vec<(Connection, OwnedFd)> {
    let manager = Connection::to(at).unwrap();
    let slot = manager.slot(0);
    let links = (0..count)
        .map(|_| {
            let (teller, socket) = look_up(&manager, &slot, "teller").unwrap();
            introduced_with_a_copy(&socket, endpoint(), teller.token).expect("the teller greets")
        })
        .collect();
    std::mem::forget((manager, slot));
    links
}

fn set(socket: &OwnedFd, option: libc::c_int) {
    let on: libc::c_int = 1;
    // SAFETY: it reads the number.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const on).cast(), 4);
    }
}

/// The kernel gives the receiver a descriptor of the sender with each message.
fn pidfds_with_every_message(at: &Path) {
    for (link, copy) in links_to_the_teller(at, 3) {
        set(&copy, PASS_PIDFD);
        let slot = link.slot(0);
        for _ in 0..2000 {
            if !link.send(message(kind::RAISE, 0, 0), &[]) {
                break;
            }
        }
        std::mem::forget((link, copy, slot));
    }
}

/// Time stamps stand before the descriptors, and those that have no room the kernel closes where they are received.
fn descriptors_that_time_stamps_leave_no_room_for(at: &Path) {
    let file = any_file();
    for (link, copy) in links_to_the_teller(at, 3) {
        let slot = link.slot(0);
        set(&copy, libc::SO_TIMESTAMPNS);
        let slow: Vec<OwnedFd> = (0..5).map(|_| lingering(15)).collect();
        let mut fds = vec![file.as_raw_fd(); 253 - slow.len()];
        fds.extend(slow.iter().map(|fd| fd.as_raw_fd()));
        // So that the victim has something to do until it alone has them.
        for _ in 0..60 {
            link.send(message(kind::RAISE, 0, 0), &[]);
        }
        send_bytes(&link.socket, &message(kind::RAISE, 0, 0).bytes(), &fds);
        drop(slow);
        std::mem::forget((link, copy, slot));
    }
}
