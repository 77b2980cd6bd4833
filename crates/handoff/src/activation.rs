//! The socket that systemd made before it started this program (socket activation, sd_listen_fds(3)).

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use rustix::net::sockopt;

/// The socket that was passed on to this process; `None` if it was started in another way. A second call gives `None`.
pub(crate) fn listener() -> anyhow::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let mut passed =
        sd_notify::listen_fds().context("$LISTEN_PID, or $LISTEN_FDS, is not what systemd sets")?;
    let count = passed.len();
    let Some(number) = passed.next().filter(|_| !TAKEN.swap(true, Ordering::Relaxed)) else {
        return Ok(None);
    };
    ensure!(
        count == 1,
        "{count} sockets were passed on, and one is served: give the unit one ListenSequentialPacket="
    );
    // SAFETY: The number was just found open (its flag was set), and it is closed by nobody else: see below.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let listens = sockopt::socket_acceptconn(borrowed).is_ok_and(|listens| listens);
    ensure!(listens, "descriptor {number}, which was passed on, is no socket that listens");
    // SAFETY: `$LISTEN_PID` names this process, so whoever started it passed the descriptor on to be owned by it. Nothing
    // else here owns it even if that is a lie: no other socket of this program listens yet. It is taken once.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(borrowed.as_raw_fd()) }))
}
