//! An open driver: its file, the buffer that it delivers parcels into, and the one ioctl of a call.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

use super::uapi::{
    BINDER_ENABLE_ONEWAY_SPAM_DETECTION, BINDER_FREEZE, BINDER_GET_EXTENDED_ERROR, BINDER_GET_FROZEN_INFO,
    BINDER_SET_CONTEXT_MGR, BINDER_SET_CONTEXT_MGR_EXT, BINDER_SET_MAX_THREADS, BINDER_THREAD_EXIT,
    BINDER_VERSION, BINDER_WRITE_READ, BUFFER, OBJECT_FLAGS, PROTOCOL_VERSION, TYPE_BINDER,
};
use crate::parcel::SharedBytes;
use crate::{Error, Result};

/// A text that the driver delivers is not longer (a security context has tens of bytes).
const LONGEST_TEXT: usize = 4096;

#[repr(C)]
#[derive(Default)]
struct WriteRead {
    write_size: u64,
    write_consumed: u64,
    write_buffer: u64,
    read_size: u64,
    read_consumed: u64,
    read_buffer: u64,
}

/// One process's opening of a driver.
#[derive(Debug)]
pub(super) struct Driver {
    file: OwnedFd,
    // Invariant: `buffer..buffer + BUFFER` is mapped readable for the life of the value. The driver
    // writes to parts of it that hold no parcel that was delivered and not freed.
    buffer: NonNull<u8>,
    detects_spam: bool,
    /// Speaks in the kernel's place.
    #[cfg(any(test, feature = "fuzzing"))]
    script: Option<std::sync::Arc<super::scripted::model::Script>>,
}

// SAFETY: the file may be used from any thread, and the mapping is only read.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

impl Driver {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
            let what = format!(
                "cannot open the Binder driver at {} (a kernel without it? `handoff guest run` boots one that \
                 has it)",
                path.display()
            );
            Error::io(what, error)
        })?;
        let mut version: i32 = 0;
        let fd = file.as_raw_fd();
        // SAFETY: the driver writes one 32-bit number.
        let answer = unsafe { libc::ioctl(fd, BINDER_VERSION as _, &raw mut version) };
        if answer < 0 || version != PROTOCOL_VERSION {
            let what = format!(
                "{} is no Binder driver of protocol {PROTOCOL_VERSION} (it says {version})",
                path.display()
            );
            return Err(Error::io(what, std::io::Error::last_os_error()));
        }
        let mut driver = Self::mapped(file)?;
        // Older kernels do not know it, and nothing depends on it.
        driver.detects_spam = driver.set(BINDER_ENABLE_ONEWAY_SPAM_DETECTION, 1).is_ok();
        Ok(driver)
    }

    /// A driver that says what a script has it say, out of memory of its own.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn scripted(script: std::sync::Arc<super::scripted::model::Script>) -> Result<Self> {
        let memory = script.memory().try_clone_to_owned().map_err(|error| Error::io("cannot dup", error))?;
        let mut driver = Self::mapped(memory)?;
        driver.script = Some(script);
        Ok(driver)
    }

    fn mapped(file: OwnedFd) -> Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let buffer = unsafe {
            mmap(
                std::ptr::null_mut(),
                BUFFER,
                ProtFlags::READ,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
                &file,
                0,
            )
        }
        .map_err(|error| Error::io("cannot map the driver's buffer", error))?;
        let buffer = NonNull::new(buffer.cast())
            .ok_or_else(|| Error::Protocol("the kernel mapped a buffer at 0".into()))?;
        Ok(Driver {
            file,
            buffer,
            detects_spam: false,
            #[cfg(any(test, feature = "fuzzing"))]
            script: None,
        })
    }

    /// Whether this process is told when it sends too many oneway calls.
    pub(super) fn detects_spam(&self) -> bool {
        self.detects_spam
    }

    fn set(&self, request: u32, value: u32) -> std::io::Result<()> {
        // SAFETY: these requests read one 32-bit number.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, &raw const value) };
        if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the driver knows an `ioctl` request that takes an argument. It changes nothing: the
    /// argument cannot be read, which a driver finds out only once it knows what it is for.
    pub(super) fn knows_request(&self, request: u32) -> bool {
        // SAFETY: nothing is mapped at address 0, so that the driver can neither read nor write there.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, std::ptr::null_mut::<u8>()) };
        answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
    }

    /// Whether the driver knows a command that takes arguments; asked in the same way.
    pub(super) fn knows_command(&self, command: u32) -> Result<bool> {
        let page = rustix::param::page_size();
        let cannot = |error| Error::io("cannot map two pages to ask the driver what it knows", error);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let pages = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                2 * page,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(cannot)?;
        // SAFETY: the two pages are this function's own until it unmaps them, once. The number is
        // written to the last bytes of the first page; its arguments would be on the second, which
        // nobody can read. The driver reads no more than `write_size` bytes and writes none.
        let known = unsafe {
            let number = pages.cast::<u8>().add(page - 4).cast::<u32>();
            number.write_unaligned(command);
            let outcome = mprotect(pages.cast::<u8>().add(page).cast(), page, MprotectFlags::empty());
            let known = outcome.map(|()| {
                let mut both = WriteRead {
                    write_size: 4 + u64::from(command >> 16 & 0x3fff),
                    write_buffer: number.addr() as u64,
                    ..WriteRead::default()
                };
                let answer = libc::ioctl(self.file.as_raw_fd(), BINDER_WRITE_READ as _, &raw mut both);
                answer != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
            });
            // It was mapped above, so that this cannot fail.
            let _ = munmap(pages, 2 * page);
            known
        };
        known.map_err(cannot)
    }

    pub(super) fn set_max_threads(&self, threads: u32) -> Result<()> {
        self.set(BINDER_SET_MAX_THREADS, threads)
            .map_err(|error| Error::io("cannot set the driver's thread limit", error))
    }

    /// `BINDER_THREAD_EXIT`: the calling thread uses the driver no more.
    pub(super) fn thread_exit(&self) {
        let _ = self.set(BINDER_THREAD_EXIT, 0);
    }

    /// Freezes or thaws the calls of a process.
    pub(super) fn freeze(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<()> {
        let info = [pid, u32::from(frozen), timeout_ms];
        // SAFETY: the driver reads one `binder_freeze_info`, which is three 32-bit numbers.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), BINDER_FREEZE as _, info.as_ptr()) };
        let done = match answer {
            // The driver in Rust says so of a process that does not use it, too, and knows nothing of it then.
            0 => self.ask_frozen(pid).map(drop),
            _ => Err(std::io::Error::last_os_error()),
        };
        let Err(error) = done else { return Ok(()) };
        let why = match error.raw_os_error() {
            Some(libc::EINVAL) if !self.knows_request(BINDER_FREEZE) => {
                " (the kernel's driver cannot freeze, Linux 5.12 and later can)"
            }
            Some(libc::EINVAL) => " (it does not use this driver)",
            Some(libc::EAGAIN) => " (it has calls under way: give it longer, or try again)",
            _ => "",
        };
        let what = if frozen { "freeze" } else { "thaw" };
        Err(Error::io(format!("cannot {what} the calls of process {pid}{why}"), error))
    }

    /// What reached a process since it was frozen: bits of synchronous calls, and of oneway calls.
    pub(super) fn frozen_info(&self, pid: u32) -> Result<(u32, u32)> {
        self.ask_frozen(pid).map_err(|error| {
            Error::io(format!("cannot ask what reached process {pid} (does it use this driver?)"), error)
        })
    }

    fn ask_frozen(&self, pid: u32) -> std::io::Result<(u32, u32)> {
        let mut info = [pid, 0, 0];
        // SAFETY: the driver reads and writes one `binder_frozen_status_info`: three 32-bit numbers.
        let answer =
            unsafe { libc::ioctl(self.file.as_raw_fd(), BINDER_GET_FROZEN_INFO as _, info.as_mut_ptr()) };
        if answer == 0 { Ok((info[1], info[2])) } else { Err(std::io::Error::last_os_error()) }
    }

    /// Makes the object `node` the one that handle 0 means for everybody; `flags` are added to it.
    pub(super) fn become_context_manager(&self, node: u64, flags: u32) -> Result<()> {
        #[repr(C)]
        struct Flat {
            kind: u32,
            flags: u32,
            object: u64,
            cookie: u64,
        }
        let flat = Flat { kind: TYPE_BINDER, flags: OBJECT_FLAGS | flags, object: node, cookie: node };
        let fd = self.file.as_raw_fd();
        // SAFETY: the driver reads one `flat_binder_object`.
        if unsafe { libc::ioctl(fd, BINDER_SET_CONTEXT_MGR_EXT as _, &raw const flat) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EINVAL) && self.set(BINDER_SET_CONTEXT_MGR, 0).is_ok() {
            return Ok(());
        }
        Err(Error::io("cannot become the driver's context manager (is there one already?)", error))
    }

    /// Writes commands, and with `read` waits for returns. Gives what was read. What was not consumed of
    /// `out` stays in it.
    // Without the C library, whose page of code would be one more that each call visits.
    #[inline(always)]
    pub(super) fn write_read<'b>(
        &self,
        out: &mut Vec<u8>,
        read: &'b mut [MaybeUninit<u8>],
    ) -> Result<&'b [u8]> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(script) = &self.script {
            return script.write_read(self.buffer.as_ptr().addr(), out, read);
        }
        loop {
            let mut both = WriteRead {
                write_size: out.len() as u64,
                write_buffer: out.as_ptr() as u64,
                read_size: read.len() as u64,
                read_buffer: read.as_mut_ptr() as u64,
                ..WriteRead::default()
            };
            // SAFETY: the structure is `binder_write_read`, and both buffers are as long as it says.
            // Transactions in `out` point to parcels that their senders keep until this returns.
            let answer = unsafe {
                ioctl(&self.file, Updater::<{ BINDER_WRITE_READ as Opcode }, WriteRead>::new(&mut both))
            };
            let consumed = (both.write_consumed as usize).min(out.len());
            if consumed == out.len() {
                out.clear();
            } else {
                out.drain(..consumed);
            }
            let Err(error) = answer else {
                let heard = (both.read_consumed as usize).min(read.len());
                // SAFETY: the driver wrote so many bytes, from the first on.
                return Ok(unsafe { std::slice::from_raw_parts(read.as_ptr().cast(), heard) });
            };
            interrupted(error)?;
        }
    }

    /// The driver's own account of why the last call of this thread failed (6.1 and later).
    pub(super) fn extended_error(&self) -> Option<i32> {
        let mut error = [0u32; 3];
        // SAFETY: the driver writes three 32-bit numbers.
        let answer =
            unsafe { libc::ioctl(self.file.as_raw_fd(), BINDER_GET_EXTENDED_ERROR as _, error.as_mut_ptr()) };
        (answer == 0 && error[2] != 0).then(|| error[2] as i32)
    }

    /// A delivered text that ends in a zero, such as a security context.
    #[cold]
    pub(super) fn delivered_text(&self, at: u64) -> Option<String> {
        let offset = usize::try_from(at).ok()?.checked_sub(self.buffer.as_ptr().addr())?;
        let most = BUFFER.checked_sub(offset)?.min(LONGEST_TEXT);
        // Byte by byte: what is behind the text may have no memory.
        let mut text = Vec::new();
        for index in 0..most {
            match self.delivered(at + index as u64, 1)?.get(0)? {
                0 => return String::from_utf8(text).ok(),
                byte => text.push(byte),
            }
        }
        None
    }

    /// A delivered span; `None` if it is not inside of the buffer.
    #[inline]
    pub(super) fn delivered(&self, at: u64, len: u64) -> Option<SharedBytes<'_>> {
        if len == 0 {
            return Some(SharedBytes::from_slice(&[]));
        }
        let offset = usize::try_from(at).ok()?.checked_sub(self.buffer.as_ptr().addr())?;
        let len = usize::try_from(len).ok()?;
        if offset.checked_add(len)? > BUFFER {
            return None;
        }
        // SAFETY: just checked to lie inside the mapping, which lives as long as `self`.
        Some(unsafe { SharedBytes::new(self.buffer.as_ptr().add(offset), len) })
    }
}

/// Whether the ioctl that just failed was only interrupted.
#[cold]
fn interrupted(error: Errno) -> Result<()> {
    match error {
        Errno::INTR => Ok(()),
        _ => Err(Error::io("the Binder driver refused a command", error)),
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length; `delivered` borrows `self`.
        let _ = unsafe { munmap(self.buffer.as_ptr().cast(), BUFFER) };
    }
}
