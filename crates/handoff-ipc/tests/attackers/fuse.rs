//! A file of the attacker's own file system, which answers neither its reads nor its closes.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::case::{Bounds, IDLE};
use crate::common::READ_FD;
use crate::process::{self, Users};
use crate::raw::{Connection, any_file, kind, message, object};
use crate::regions::{Entry, Request};
use crate::words::echo;

/// The device through which a file system in user space is asked.
const DEVICE: &str = "/dev/fuse";
/// Of `linux/fuse.h`.
const INIT: u32 = 26;
const OPEN: u32 = 14;
const DIRECT_IO: u32 = 1;

/// Where the file is, for this process and its threads alone.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// The attack's process, while it is root: mounts the file for the attacker, where nobody else sees it.
pub fn mount(at: &Path) {
    let file = at.with_file_name("never-answers");
    File::create(&file).unwrap();
    let device = File::options().read(true).write(true).open(DEVICE).unwrap();
    let user = Users::here().attacker();
    let options = format!("fd={},rootmode=100000,user_id={user},group_id={user}", device.as_raw_fd());
    let text = |text: &[u8]| CString::new(text).unwrap();
    let (name, place, options) = (text(b"fuse"), text(file.as_os_str().as_bytes()), text(options.as_bytes()));
    // SAFETY: each string ends with a zero and outlives its call.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(name.as_ptr(), place.as_ptr(), name.as_ptr(), 0, options.as_ptr().cast()) == 0
    };
    assert!(mounted, "a mount: {}", std::io::Error::last_os_error());
    FILE.set(file).unwrap();
    // A process of its own: a thread that waits for the file cannot end before the device is closed.
    // SAFETY: the child uses what it has made itself, in one thread, and never comes back.
    if unsafe { libc::fork() } == 0 {
        // As the attacker, whose end can end it.
        process::become_user(user);
        answer(device);
        // SAFETY: it ends this process.
        unsafe { libc::_exit(0) };
    }
}

/// Answers what it takes to open the file, and nothing else.
fn answer(mut device: File) {
    let mut request = vec![0; 1 << 18];
    while let Ok(length) = device.read(&mut request) {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        assert!(length >= 40);
        let mut reply = [&[0; 8], &request[8..16]].concat();
        match word(4) {
            INIT => {
                // Version, what may be read ahead, what is understood, what may wait, and the longest write.
                for value in [7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] {
                    reply.extend(u32::to_ne_bytes(value));
                }
            }
            OPEN => [1, 0, DIRECT_IO, 0].iter().for_each(|value| reply.extend(u32::to_ne_bytes(*value))),
            _ => continue,
        }
        let length = reply.len() as u32;
        reply[..4].copy_from_slice(&length.to_ne_bytes());
        device.write_all(&reply).unwrap();
    }
}

/// One that is never closed here, for that would wait for ever.
fn opened() -> RawFd {
    File::open(FILE.get().unwrap()).unwrap().into_raw_fd()
}

/// The victim is given the file wherever a descriptor may come: with a message that has none, in place of memory,
/// for a call that reads it, before the end of a link.
pub fn file_that_never_answers(at: &Path) {
    assert!(waits_at_its_close(), "it is an attack");
    let connection = Connection::to(at).unwrap();
    let slot = connection.slot(0);
    connection.call(&slot, &echo(connection.root, 8));
    for kind in [kind::RAISE, kind::SLOT, kind::RING, kind::FDS] {
        // The victim hangs up on some of them.
        let Some(other) = Connection::to(at) else { continue };
        other.send(message(kind, 1, 0), &[opened()]);
        std::mem::forget(other);
    }
    for _ in 0..3 {
        let Some(ends) = Connection::to(at) else { continue };
        let slot = ends.slot(0);
        ends.send(message(kind::FDS, 0, 0), &[opened()]);
        ends.call(&slot, &echo(ends.root, 8));
    }
    for id in 1..4 {
        let reads = connection.slot(id);
        let file = Entry { kind: object::FD, ..Entry::default() };
        let request = Request::new(connection.root, READ_FD).with(&[file], |w| w.write(&any_file()));
        connection.send(message(kind::FDS, id, 0), &[opened()]);
        connection.request(&reads, &request);
        std::mem::forget(reads);
    }
    std::mem::forget((connection, slot));
}

fn waits_at_its_close() -> bool {
    let file = opened();
    let closes = std::thread::spawn(move || {
        // SAFETY: the descriptor is this thread's own.
        unsafe { libc::close(file) }
    });
    std::thread::sleep(Duration::from_millis(100));
    !closes.is_finished()
}

#[test]
fn files_that_never_answer() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(may_mount());
    crate::case::run("file_that_never_answers", "server", &Bounds { threads: 64, ..IDLE });
}

fn may_mount() -> Result<OwnedFd, String> {
    let device = File::options().read(true).write(true).open(DEVICE);
    device.map(OwnedFd::from).map_err(|error| format!("needs {DEVICE}: {error}"))
}
