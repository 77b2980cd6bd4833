//! The kernel's driver: its file, its mapping and its requests, of this process.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handoff_ipc::binder::uapi::BINDER_WRITE_READ;
use rustix::fs::{Mode, OFlags, open};

use crate::agent::Agent;
use crate::seam::{Exchange, FileIdentity, Process};
use crate::{AgentCommand, Message};

/// Bytes that an argument of a request may take: more than any has.
const LONGEST_ARGUMENT: usize = 512;

/// An opening of the kernel's driver.
#[derive(Debug)]
pub(crate) struct Opened {
    file: OwnedFd,
    // Invariant: 0, or the address of `length` bytes that `map` mapped and nobody unmapped.
    address: AtomicUsize,
    length: AtomicUsize,
    agent: AgentCommand,
    // Files that cases send.
    files: Mutex<Vec<OwnedFd>>,
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl Opened {
    pub(crate) fn open(device: &Path, blocks: bool, agent: &AgentCommand) -> Result<Self, i32> {
        let wait = if blocks { OFlags::empty() } else { OFlags::NONBLOCK };
        let file = open(device, OFlags::RDWR | OFlags::CLOEXEC | wait, Mode::empty());
        Ok(Self::of(file.map_err(|error| error.raw_os_error())?, agent))
    }

    /// An opening that another process made.
    pub(crate) fn of(file: OwnedFd, agent: &AgentCommand) -> Self {
        let (address, length) = Default::default();
        Opened { file, address, length, agent: agent.clone(), files: Mutex::default() }
    }

    fn unmap_now(&self) {
        let address = self.address.swap(0, Ordering::SeqCst);
        if address != 0 {
            let length = self.length.load(Ordering::SeqCst);
            // SAFETY: mapped by `map` with this length and, as the swap says, not unmapped before. No reference
            // into it is ever made: memory is read through /proc/self/mem.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address), length) };
        }
    }
}

impl Process for Opened {
    fn exchange(&self, message: &Message, room: usize) -> Exchange {
        let (commands, _blocks) = message.placed();
        let mut read = vec![0u8; room];
        loop {
            let mut both = [
                commands.len() as u64,
                0,
                commands.as_ptr().addr() as u64,
                room as u64,
                0,
                read.as_mut_ptr().addr() as u64,
            ];
            // SAFETY: six 64-bit numbers are `binder_write_read`, and both buffers are as long as they say. What
            // commands point to are blocks that live until here, or addresses that a driver has to refuse.
            let answer =
                unsafe { libc::ioctl(self.file.as_raw_fd(), BINDER_WRITE_READ as _, both.as_mut_ptr()) };
            let errno = if answer < 0 { errno() } else { 0 };
            if errno == libc::EINTR && both[1] == 0 {
                continue;
            }
            read.truncate(both[4] as usize);
            return Exchange { errno, written: both[1], read };
        }
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> i32 {
        assert!(argument.len() <= LONGEST_ARGUMENT, "no request takes {} bytes", argument.len());
        // Whatever the request's number says, there is room for it, and aligned as for any structure.
        let mut room = [0u64; LONGEST_ARGUMENT / 8];
        let mut bytes: Vec<u8> = argument.to_vec();
        bytes.resize(LONGEST_ARGUMENT, 0);
        for (word, chunk) in room.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().unwrap_or_default());
        }
        // SAFETY: no request of the driver reads or writes more than `LONGEST_ARGUMENT` bytes. Addresses in the
        // argument are such that a driver has to refuse, or null.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, room.as_mut_ptr()) };
        let errno = if answer < 0 { errno() } else { 0 };
        for (byte, new) in argument.iter_mut().zip(room.iter().flat_map(|word| word.to_ne_bytes())) {
            *byte = new;
        }
        errno
    }

    fn ioctl_at(&self, request: u32, address: u64) -> i32 {
        let address: *mut u8 = std::ptr::without_provenance_mut(address as usize);
        // SAFETY: cases pass addresses of the first page or of the kernel's half, where this process has nothing.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, address) } < 0 { errno() } else { 0 }
    }

    fn map(&self, length: usize, is_writable: bool) -> i32 {
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, self.file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return errno();
        }
        self.unmap_now();
        self.length.store(length, Ordering::SeqCst);
        self.address.store(at.expose_provenance(), Ordering::SeqCst);
        0
    }

    fn unmap(&self) {
        self.unmap_now();
    }

    fn make_writable(&self) -> i32 {
        let (address, length) = (self.address.load(Ordering::SeqCst), self.length.load(Ordering::SeqCst));
        let at = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: it is this value's own mapping, which nobody writes to or refers into.
        if unsafe { libc::mprotect(at, length, libc::PROT_READ | libc::PROT_WRITE) } < 0 {
            errno()
        } else {
            0
        }
    }

    fn mapping(&self) -> u64 {
        self.address.load(Ordering::SeqCst) as u64
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        // What is not there is an error in this way, and not a signal.
        let mut bytes = vec![0; length];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    fn is_readable(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::IN)
    }

    fn file(&self, fd: i32) -> Option<FileIdentity> {
        identity_of(fd)
    }

    fn open_file(&self) -> Option<i32> {
        let file = rustix::fs::memfd_create("conformance", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        let number = file.as_raw_fd();
        self.files.lock().ok()?.push(file);
        Some(number)
    }

    fn inherited(&self) -> Result<Box<dyn Process>, String> {
        let file = self.file.try_clone().map_err(|error| error.to_string())?;
        Agent::start(&self.agent, Some(file))?.heir()
    }

    fn start_exchange(&self, message: &Message, room: usize) {
        // It would block this thread. What a case begins is begun by a peer.
        let _ = self.exchange(message, room);
    }

    fn finish_exchange(&self, _: Duration) -> Option<Exchange> {
        None
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.unmap_now();
    }
}

/// A descriptor of this process, by its number alone: it may have been put there by a driver.
pub(crate) fn identity_of(fd: i32) -> Option<FileIdentity> {
    let inode = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?.ino();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    Some(FileIdentity { inode, closes_on_exec: flags & libc::O_CLOEXEC != 0 })
}
