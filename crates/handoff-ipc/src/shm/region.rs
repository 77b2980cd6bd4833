//! A shared region: a memfd whose size nobody can change, mapped into both processes.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::{Error, Result};

const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
const WRITE_SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// Memory that another process may read and write at any time.
///
/// Invariant: `start..start + len` is mapped readable and writable for the life of the value, and
/// its file cannot shrink (sealed), so no access to it can fault.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping may be used from any thread; every access goes through atomics or raw copies
// whose users keep to the protocol of the slot.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A new region of zeros, and the descriptor to hand to the peer. Pages are only taken when
    /// they are first touched.
    pub(crate) fn create(name: &str, len: usize) -> Result<(Self, OwnedFd)> {
        let (region, file) = Self::create_open(name, len)?;
        fcntl_add_seals(&file, SealFlags::SEAL)
            .map_err(|error| Error::io("cannot seal shared memory", error))?;
        Ok((region, file))
    }

    /// [`Region::create`] of a file to which further seals may be added.
    pub(crate) fn create_open(name: &str, len: usize) -> Result<(Self, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|error| Error::io("cannot create shared memory (memfd_create)", error))?;
        ftruncate(&file, len as u64).map_err(|error| Error::io("cannot size shared memory", error))?;
        fcntl_add_seals(&file, SIZE_SEALS).map_err(|error| Error::io("cannot seal shared memory", error))?;
        Ok((Self::map(file.as_fd(), len)?, file))
    }

    /// [`Region::create_open`] in huge pages of the machine's usual size, as many as `len` takes.
    pub(crate) fn create_huge(name: &str, len: usize) -> Result<(Self, OwnedFd)> {
        const FAILED: &str = "cannot have huge pages";
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let told = |key: &str| -> Option<usize> {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().trim_end_matches("kB").trim().parse().ok()
        };
        let Some(page) = told("Hugepagesize:").and_then(|kb| kb.checked_mul(1024)).filter(|page| *page > 0)
        else {
            return Err(Error::io(
                format!("{FAILED}: this kernel was built without them (CONFIG_HUGETLBFS)"),
                std::io::Error::from(std::io::ErrorKind::Unsupported),
            ));
        };
        let pages = len.div_ceil(page);
        let free = told("HugePages_Free:").unwrap_or(0);
        let too_few = || {
            format!(
                "{FAILED}: {pages} of {} KiB are needed and {free} are free; \
                 write the number you need to /proc/sys/vm/nr_hugepages",
                page / 1024
            )
        };
        let len = pages
            .checked_mul(page)
            .ok_or_else(|| Error::io(too_few(), std::io::Error::from(std::io::ErrorKind::OutOfMemory)))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let file = memfd_create(name, flags).map_err(|error| Error::io(FAILED, error))?;
        ftruncate(&file, len as u64).map_err(|error| Error::io(too_few(), error))?;
        fcntl_add_seals(&file, SIZE_SEALS).map_err(|error| Error::io("cannot seal huge pages", error))?;
        // Here the kernel sets the pages aside: later it cannot run out of them.
        let start = Self::map(file.as_fd(), len).map_err(|error| match error {
            Error::Io { source, .. } => Error::Io { what: too_few(), source },
            other => other,
        })?;
        Ok((start, file))
    }

    /// Whether a file is of huge pages. It is known to be a memfd: a file system in user space need not answer.
    pub(crate) fn is_huge(file: BorrowedFd<'_>) -> Result<bool> {
        const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
        let system = fstatfs(file).map_err(|error| Error::io("cannot look at a region", error))?;
        Ok(system.f_type as u64 & 0xffff_ffff == HUGETLBFS_MAGIC)
    }

    /// Maps a region that a peer made, once its size and its seals are known to be right.
    pub(crate) fn accept(file: BorrowedFd<'_>, len: usize) -> Result<Self> {
        Self::check(file, len)?;
        Self::refuse_huge(file)?;
        Self::map(file, len)
    }

    /// As [`Region::accept`], of a region between two processes alone: no seal can be added to it any longer.
    pub(crate) fn accept_sealed(file: BorrowedFd<'_>, len: usize) -> Result<Self> {
        let seals = Self::seals(file)?;
        if !seals.contains(SealFlags::SEAL) || seals.intersects(WRITE_SEALS) {
            return Err(Error::Protocol("a region whose seals can change, or that cannot be written".into()));
        }
        Self::accept(file, len)
    }

    /// Maps the first `len` bytes of a peer's file. With `trusted` its size need not be sealed: the
    /// peer could then take the memory away.
    pub(crate) fn accept_part(file: BorrowedFd<'_>, len: usize, trusted: bool) -> Result<Self> {
        let size = if trusted {
            Self::size(file)?
        } else {
            let size = Self::sealed_size(file)?;
            Self::refuse_huge(file)?;
            size
        };
        if usize::try_from(size).is_ok_and(|size| size >= len) {
            return Self::map(file, len);
        }
        Err(Error::Protocol(format!("a region of {size} bytes where at least {len} are due")))
    }

    fn size(file: BorrowedFd<'_>) -> Result<i64> {
        Ok(fstat(file).map_err(|error| Error::io("cannot look at a region", error))?.st_size)
    }

    fn sealed_size(file: BorrowedFd<'_>) -> Result<i64> {
        if !Self::seals(file)?.contains(SIZE_SEALS) {
            return Err(Error::Protocol("a region whose size is not sealed".into()));
        }
        Self::size(file)
    }

    fn seals(file: BorrowedFd<'_>) -> Result<SealFlags> {
        fcntl_get_seals(file).map_err(|_| Error::Protocol("a region that is not a memfd".into()))
    }

    /// Whoever may write to a file can give its huge pages back to the kernel (`FALLOC_FL_PUNCH_HOLE`), and an
    /// access for which the kernel has none left is a `SIGBUS`.
    fn refuse_huge(file: BorrowedFd<'_>) -> Result<()> {
        if Self::is_huge(file)? {
            return Err(Error::Protocol("a region of huge pages that its maker can take away".into()));
        }
        Ok(())
    }

    /// Whether a peer's file is a memfd of just this size, which cannot change.
    pub(crate) fn check(file: BorrowedFd<'_>, len: usize) -> Result<()> {
        let size = Self::sealed_size(file)?;
        if usize::try_from(size) != Ok(len) {
            return Err(Error::Protocol(format!("a region of {size} bytes where {len} are due")));
        }
        Ok(())
    }

    fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
        }
        .map_err(|error| Error::io("cannot map shared memory", error))?;
        let start = NonNull::new(start.cast())
            .ok_or_else(|| Error::Protocol("the kernel mapped a region at 0".into()))?;
        Ok(Region { start, len })
    }

    /// Gives the memory of some bytes back to the kernel, in whole pages: they are zero from then on.
    pub(crate) fn free(&self, from: usize, len: usize) {
        debug_assert!(from % 4096 == 0 && from + len <= self.len);
        // SAFETY: inside the mapping, which stays; what the bytes become is what a peer could write there.
        // Refused, they stay as they are.
        let _ = unsafe { madvise(self.start().add(from).cast(), len, Advice::LinuxRemove) };
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody borrows it any longer.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let (mine, file) = Region::create("test", 8192).unwrap();
        let theirs = Region::accept_sealed(file.as_fd(), 8192).unwrap();
        // SAFETY: inside both mappings.
        unsafe {
            mine.start().add(5000).write_volatile(7);
            assert_eq!(theirs.start().add(5000).read_volatile(), 7);
        }
    }

    #[test]
    fn a_region_that_could_shrink_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8192).unwrap();
        assert!(Region::accept(file.as_fd(), 8192).is_err());
        let (_, file) = Region::create("test", 4096).unwrap();
        assert!(Region::accept(file.as_fd(), 8192).is_err(), "a region of another size");
        assert!(Region::accept(std::io::stdin().as_fd(), 8192).is_err(), "no memfd at all");
    }

    #[test]
    fn a_region_whose_seals_can_change_is_refused_where_two_processes_share_it() {
        let (_region, file) = Region::create_open("test", 8192).unwrap();
        assert!(Region::accept(file.as_fd(), 8192).is_ok());
        assert!(Region::accept_sealed(file.as_fd(), 8192).is_err(), "a peer could still seal it");
        fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL).unwrap();
        assert!(Region::accept_sealed(file.as_fd(), 8192).is_err(), "it cannot be written any longer");
    }

    /// Needs no huge page to be free: none is taken before the first access.
    #[test]
    fn a_region_of_huge_pages_is_refused() {
        const LEN: usize = 64 << 20;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let file = match memfd_create("test", flags) {
            Ok(file) => file,
            // A kernel without them.
            Err(Errno::NOSYS | Errno::NOENT | Errno::INVAL | Errno::NODEV) => return,
            Err(error) => panic!("{error}"),
        };
        ftruncate(&file, LEN as u64).unwrap();
        fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL).unwrap();
        let fd = file.as_fd();
        for refused in
            [Region::accept(fd, LEN), Region::accept_sealed(fd, LEN), Region::accept_part(fd, 4096, false)]
        {
            let error = refused.expect_err("its maker can take a page away");
            assert!(error.to_string().contains("huge pages"), "{error}");
        }
    }
}
