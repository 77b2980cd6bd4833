//! A file of the attacker's own file system, which answers neither its reads nor its closes; given to the victim, or as
//! what the attacker itself waits for.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::case::{BUSY, Bounds, FILLED, IDLE};
use crate::common::{ASK, ECHO, READ_FD};
use crate::process::{self, Users};
use crate::raw::{Connection, any_file, kind, message, object};
use crate::regions::{Entry, Request};
use crate::words::{MINE, called_in, echo};

/// The device through which a file system in user space is asked.
const DEVICE: &str = "/dev/fuse";
/// Of `linux/fuse.h`.
const INIT: u32 = 26;
const OPEN: u32 = 14;
const GETATTR: u32 = 3;
const DIRECT_IO: u32 = 1;

/// Where the file is, for this process and its threads alone.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// The attack's process, while it is root: mounts the file for the attacker, where nobody else sees it.
pub fn mount(at: &Path, is_mapped: bool) {
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
        answer(device, is_mapped);
        // SAFETY: it ends this process.
        unsafe { libc::_exit(0) };
    }
}

/// Answers what it takes to open the file, to map it if it is, and nothing else.
fn answer(mut device: File, is_mapped: bool) {
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
            GETATTR if is_mapped => {
                // For as long as it likes: a file of one page, that anybody may read.
                let of_64 = [u64::MAX >> 1, 0, 1, 4096, 8, 0, 0, 0];
                of_64.iter().for_each(|value| reply.extend(u64::to_ne_bytes(*value)));
                let of_32 = [0, 0, 0, 0o100_444, 1, 0, 0, 0, 4096, 0];
                of_32.iter().for_each(|value| reply.extend(u32::to_ne_bytes(*value)));
            }
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

/// A page that cannot be read: who tries waits for ever.
fn unreadable_page() -> usize {
    let source = opened();
    // SAFETY: a new mapping of a file of this length, which nobody but the kernel reads.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        assert_eq!((libc::fstat(source, &raw mut about), about.st_size), (0, 4096));
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, source, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page as usize
    }
}

/// Writes that page to the memory of a slot, and waits in the kernel, which has locked the memory's size meanwhile: nobody
/// else can give a page of it back.
fn hold(memory: RawFd, page: usize) {
    std::thread::spawn(move || {
        // SAFETY: a system call, which reads the page and never comes back.
        unsafe { libc::pwrite(memory, page as *const libc::c_void, 4096, 1 << 20) }
    });
}

/// Requests have a share of memory, and replies.
const WRITTEN: Bounds = Bounds { rss: 2 * FILLED + 64, maps: 900, threads: 64, fds: 200, ..BUSY };

/// A message that says that a reply stands in a slot in which no thread waits for it.
const REPLIED: u32 = 14;

/// Uses up the share of requests, so that the victim gives the memory of those that follow back, and keeps it from that.
pub fn memory_that_is_being_written(at: &Path) {
    const LEN: usize = 1_900_000;
    let connection = Connection::to(at).unwrap();
    let large = Request::new(connection.root, ECHO).with(&[], |w| w.write_bytes(&vec![1; LEN]));
    let page = unreadable_page();
    for id in 0..260 {
        let slot = connection.slot(id);
        if id >= 190 {
            hold(slot.memory.file.as_raw_fd(), page);
            std::thread::sleep(Duration::from_millis(2));
        }
        connection.request(&slot, &large);
        std::mem::forget(slot);
    }
    std::mem::forget(connection);
}

/// Has the victim call it with large arguments, answers after the deadline, and keeps the victim from giving their memory
/// back.
pub fn arguments_that_are_being_written(at: &Path) {
    let page = unreadable_page();
    for _ in 0..4 {
        let connection = Connection::to(at).unwrap();
        std::thread::spawn(move || {
            let object = handoff_ipc::Binder::new(crate::common::Everything::default());
            let ask = Request::new(connection.root, ASK).with(&[MINE], |w| {
                w.write_binder(Some(&object))?;
                w.write_i32(1_900_000)
            });
            for id in 0.. {
                let slot = connection.slot(id);
                connection.request(&slot, &ask);
                let Some(called) = called_in(&connection) else { break };
                hold(called.memory.file.as_raw_fd(), page);
                std::thread::sleep(Duration::from_millis(30));
                called.reply_with(&[0, 0, 0], &[]);
                connection.send(message(REPLIED, called.id, 0), &[]);
                std::thread::sleep(Duration::from_millis(30));
                std::mem::forget((slot, called));
            }
            std::mem::forget(connection);
        });
    }
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn memory_that_is_being_written_under_threads() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(may_mount());
    crate::case::run("memory_that_is_being_written", "server", &WRITTEN);
}

#[cfg(feature = "tokio")]
#[test]
fn memory_that_is_being_written_under_tasks() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(may_mount());
    crate::case::run("memory_that_is_being_written", "tasks", &WRITTEN);
}

#[test]
fn arguments_that_are_being_written_to_threads() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(may_mount());
    crate::case::run("arguments_that_are_being_written", "server", &WRITTEN);
}

#[cfg(feature = "tokio")]
#[test]
fn arguments_that_are_being_written_to_tasks() {
    handoff_testkit::require!(handoff_testkit::require_root());
    handoff_testkit::require!(may_mount());
    crate::case::run("arguments_that_are_being_written", "tasks", &WRITTEN);
}

fn may_mount() -> Result<OwnedFd, String> {
    let device = File::options().read(true).write(true).open(DEVICE);
    device.map(OwnedFd::from).map_err(|error| format!("needs {DEVICE}: {error}"))
}
