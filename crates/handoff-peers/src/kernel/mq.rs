//! POSIX message queues.
//!
//! <https://man7.org/linux/man-pages/man7/mq_overview.7.html>
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::path::Path;

use crate::{Ask, Kind};

/// An open queue.
struct Queue(libc::mqd_t);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and closed here only.
        unsafe { libc::mq_close(self.0) };
    }
}

fn names(address: &Path) -> io::Result<[CString; 2]> {
    let stem = address.to_string_lossy().replace('/', "-");
    let name = |end: &str| CString::new(format!("/handoff{stem}{end}")).map_err(io::Error::other);
    Ok([name("q")?, name("a")?])
}

fn open(name: &CString, flags: i32) -> io::Result<Queue> {
    // SAFETY: all-zero bytes are a valid `mq_attr`.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = 4;
    attributes.mq_msgsize = Kind::PosixMq.largest() as libc::c_long;
    // SAFETY: the name ends with a zero, and the attributes live over the call.
    let queue = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw mut attributes) };
    if queue < 0 { Err(io::Error::last_os_error()) } else { Ok(Queue(queue)) }
}

fn send(queue: &Queue, message: &[u8]) -> io::Result<()> {
    // SAFETY: the message is readable for its length.
    let sent = unsafe { libc::mq_send(queue.0, message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn receive(queue: &Queue, message: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length.
    let length = unsafe {
        libc::mq_receive(queue.0, message.as_mut_ptr().cast(), message.len(), std::ptr::null_mut())
    };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn serve(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let [requests, answers] = names(address)?;
    let (from, to) = (
        open(&requests, libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC)?,
        open(&answers, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC)?,
    );
    ready();
    let mut message = vec![0; Kind::PosixMq.largest()];
    loop {
        let length = receive(&from, &mut message)?;
        send(&to, &[crate::sum(&message[..length])])?;
    }
}

pub(crate) fn connect(address: &Path) -> io::Result<Ask> {
    let [requests, answers] = names(address)?;
    let to = open(&requests, libc::O_WRONLY | libc::O_CLOEXEC)?;
    let from = open(&answers, libc::O_RDONLY | libc::O_CLOEXEC)?;
    for name in [&requests, &answers] {
        // Both ends have it open: nobody needs the name, and nothing is left of it.
        // SAFETY: the name ends with a zero.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    }
    let mut answer = vec![0; Kind::PosixMq.largest()];
    Ok(Box::new(move |message| {
        send(&to, message)?;
        receive(&from, &mut answer)?;
        Ok(answer[0])
    }))
}
