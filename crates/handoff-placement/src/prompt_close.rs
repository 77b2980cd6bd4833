//! Closes that do not wait.
//!
//! `close` of a socket with `SO_LINGER`, or of a Unix socket that has such a one in its queue, waits as long as the
//! socket's owner likes. The kernel ends that wait when a signal is pending for the thread (`sk_stream_wait_close` in
//! `net/core/stream.c`); what the socket still has to send goes on without it. So a timer sends this thread a signal
//! again and again while it closes: a single one could come before the wait begins.
//!
//! References: `timer_create(2)` (`SIGEV_THREAD_ID`), `socket(7)` (`SO_LINGER`).
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Nanoseconds from one signal to the next. A close that does not wait is over before the first.
const INTERVAL: i64 = 200_000;

/// Cuts short what waits in closes of the thread that made it.
///
/// The first one of a process takes the highest real-time signal that nobody handles; its handler does nothing.
#[derive(Debug)]
pub struct PromptClose {
    timer: libc::timer_t,
    signal: libc::c_int,
    // The timer's signal goes to the thread that made it.
    stays_here: PhantomData<*const ()>,
}

extern "C" fn do_nothing(_: libc::c_int) {}

fn handler() -> libc::sighandler_t {
    do_nothing as extern "C" fn(libc::c_int) as libc::sighandler_t
}

fn handler_of(signal: libc::c_int) -> Option<libc::sighandler_t> {
    // SAFETY: all zeroes is a value of this structure, which the call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; the present action is written to a live structure.
    let outcome = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    (outcome == 0).then_some(action.sa_sigaction)
}

/// The signal, handled from the first call on.
fn signal() -> Option<libc::c_int> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(|| {
        let mut free = (libc::SIGRTMIN()..=libc::SIGRTMAX())
            .rev()
            .filter(|&signal| handler_of(signal) == Some(libc::SIG_DFL));
        let signal = free.next()?;
        // SAFETY: all zeroes is a value of this structure: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler();
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the handler touches nothing, so it may run at any instruction of any thread.
        let outcome = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        (outcome == 0).then_some(signal)
    })
}

impl PromptClose {
    /// For the calling thread, which lets the signal through from here on.
    ///
    /// # Errors
    /// If all real-time signals are handled already, or the kernel gives no timer (`RLIMIT_SIGPENDING`).
    pub fn new() -> io::Result<Self> {
        let signal = signal().ok_or_else(|| io::Error::other("all real-time signals are in use"))?;
        // SAFETY: all zeroes is a value of these structures, which are filled before they are read.
        let (mut event, mut through): (libc::sigevent, libc::sigset_t) = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        let mut timer = std::ptr::null_mut();
        // SAFETY: the calls read and write the structures above, which outlive them; this thread exists.
        unsafe {
            event.sigev_notify_thread_id = libc::gettid();
            libc::sigemptyset(&raw mut through);
            libc::sigaddset(&raw mut through, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const through, std::ptr::null_mut());
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { timer, signal, stays_here: PhantomData })
    }

    /// Does something, closes above all: waits that a signal may end are ended, those that come again after one (as
    /// `nanosleep` of the standard library) go on.
    pub fn during<R>(&mut self, what: impl FnOnce() -> R) -> R {
        struct Armed<'a>(&'a PromptClose);
        impl Drop for Armed<'_> {
            fn drop(&mut self) {
                self.0.set(0);
            }
        }
        // Whoever took the signal for something else since is not sent it.
        let _armed = (handler_of(self.signal) == Some(handler())).then(|| {
            self.set(INTERVAL);
            Armed(self)
        });
        what()
    }

    fn set(&self, nanoseconds: i64) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as _ };
        let times = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: the timer is this value's own; the times are read during the call.
        unsafe { libc::timer_settime(self.timer, 0, &raw const times, std::ptr::null_mut()) };
    }
}

impl Drop for PromptClose {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once. A signal that is pending still finds its handler.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    /// A socket that waits at its close for longer than the test, and who keeps it waiting.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        // The time that a close waits is zero for a socket that never waits.
        stream.set_nonblocking(false).unwrap();
        (stream.into(), reader)
    }

    #[test]
    fn a_close_that_would_wait_for_an_hour_ends() {
        let (slow, reader) = lingering();
        let (other, other_reader) = lingering();
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            drop(other);
            let _ = done.send("the one that waits");
        });
        let ended = std::thread::spawn(move || {
            let mut prompt = PromptClose::new().unwrap();
            prompt.during(|| drop(slow));
            // And again, with several in the queue of a Unix socket that nobody reads.
            let kept: Vec<_> = (0..3)
                .map(|_| {
                    let (slow, reader) = lingering();
                    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
                    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
                    let fds = [slow.as_fd()];
                    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
                    let text = [io::IoSlice::new(b"x")];
                    rustix::net::sendmsg(&here, &text, &mut control, rustix::net::SendFlags::empty())
                        .unwrap();
                    // Not the last one: the queue has it.
                    drop(slow);
                    prompt.during(|| drop(there));
                    (here, reader)
                })
                .collect();
            drop((kept, reader));
        });
        ended.join().unwrap();
        let waits = is_done.recv_timeout(Duration::from_millis(1));
        assert_eq!(waits, Err(RecvTimeoutError::Timeout), "without it, a close waits");
        drop(other_reader);
    }

    #[test]
    fn what_is_done_meanwhile_gives_its_value_and_may_panic() {
        let mut prompt = PromptClose::new().unwrap();
        let slept = prompt.during(|| {
            std::thread::sleep(Duration::from_millis(3));
            7
        });
        assert_eq!(slept, 7, "through many signals");
        let panics = std::panic::AssertUnwindSafe(|| prompt.during(|| panic!("as asked")));
        assert!(std::panic::catch_unwind(panics).is_err());
        drop(prompt);
        std::thread::sleep(Duration::from_millis(2));
    }
}
