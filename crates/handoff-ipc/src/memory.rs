//! Shared memory that travels in a parcel: a sealed memfd, mapped by whoever received it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::parcel::{Parcelable, Reader, SharedBytes, Writer};
use crate::shm::region::Region;
use crate::{Error, Result};

/// A span of memory that several processes see. A call that carries one costs the same whatever its
/// size.
///
/// Nobody can shrink it under another's feet (its size is sealed), and [`SharedMemory::freeze`]
/// makes it read-only for everybody who receives it from then on.
///
/// ```
/// use handoff_ipc::SharedMemory;
///
/// let frame = SharedMemory::new(1 << 20)?;
/// frame.write_at(0, b"pixels")?;
/// frame.freeze()?;
/// assert_eq!(frame.bytes().slice(0, 6).unwrap().to_vec(), b"pixels");
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    mapping: Mapping,
}

#[derive(Debug)]
enum Mapping {
    Writable(Region),
    ReadOnly(ReadOnly),
}

/// Invariant: `start..start + len` is mapped readable for the life of the value, of a file that
/// cannot shrink.
#[derive(Debug)]
struct ReadOnly {
    start: *const u8,
    len: usize,
}

// SAFETY: the mapping is only read, by raw copies, from any thread.
unsafe impl Send for ReadOnly {}
// SAFETY: as above.
unsafe impl Sync for ReadOnly {}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: mapped by `SharedMemory::from_fd` with this length; nobody borrows it any longer.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.len) };
    }
}

impl SharedMemory {
    /// `len` bytes of zeros. Pages are taken when they are first touched.
    ///
    /// # Errors
    /// If `len` is 0, or the kernel has no memory or descriptors left.
    pub fn new(len: usize) -> Result<Self> {
        if len == 0 {
            return Err(Error::BadParcel { at: 0, what: "shared memory of no bytes".into() });
        }
        let (region, file) = Region::create_open("handoff-memory", len)?;
        Ok(SharedMemory { file, mapping: Mapping::Writable(region) })
    }

    /// At least `len` bytes of zeros in huge pages: as many whole ones as it takes, so that large frames cost
    /// few entries of the processor's address cache. Others can get it only once it is frozen
    /// ([`SharedMemory::freeze`]).
    ///
    /// # Errors
    /// If the kernel has no huge pages, or too few are free: the message says how many are needed and where to
    /// ask for them.
    pub fn with_huge_pages(len: usize) -> Result<Self> {
        if len == 0 {
            return Err(Error::BadParcel { at: 0, what: "shared memory of no bytes".into() });
        }
        let (region, file) = Region::create_huge("handoff-memory", len)?;
        Ok(SharedMemory { file, mapping: Mapping::Writable(region) })
    }

    /// Takes over memory of another process, as `len` bytes: what came by some other way than a parcel.
    ///
    /// # Errors
    /// If it is no memfd of just that size, or its size is not sealed.
    pub fn from_fd(file: OwnedFd, len: usize) -> Result<Self> {
        let seals =
            fcntl_get_seals(&file).map_err(|_| Error::Protocol("memory that is not a memfd".into()))?;
        let frozen = seals.contains(SealFlags::FUTURE_WRITE) || seals.contains(SealFlags::WRITE);
        // Whoever may write could give a huge page back to the kernel, which may then have none left for a reader.
        if !frozen && Region::is_huge(file.as_fd())? {
            return Err(Error::Protocol("memory of huge pages that is not frozen".into()));
        }
        let mapping = if frozen {
            Region::check(file.as_fd(), len)?;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let start =
                unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0) }
                    .map_err(|error| Error::io("cannot map shared memory", error))?;
            Mapping::ReadOnly(ReadOnly { start: start.cast_const().cast(), len })
        } else {
            Mapping::Writable(Region::accept(file.as_fd(), len)?)
        };
        Ok(SharedMemory { file, mapping })
    }

    /// Another mapping of the same memory; read-only if it was frozen.
    ///
    /// # Errors
    /// If the process has no descriptors or no addresses left.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.file.try_clone().map_err(|error| Error::io("cannot share memory", error))?;
        SharedMemory::from_fd(file, self.len())
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match &self.mapping {
            Mapping::Writable(region) => region.len(),
            Mapping::ReadOnly(mapping) => mapping.len,
        }
    }

    /// Never: there is no memory of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// False if it was received frozen.
    pub fn is_writable(&self) -> bool {
        matches!(self.mapping, Mapping::Writable(_))
    }

    /// The contents. Others may be writing to them: what counts is what was copied out.
    pub fn bytes(&self) -> SharedBytes<'_> {
        let start = match &self.mapping {
            Mapping::Writable(region) => region.start().cast_const(),
            Mapping::ReadOnly(mapping) => mapping.start,
        };
        // SAFETY: `len` bytes are mapped there as long as `self` lives.
        unsafe { SharedBytes::new(start, self.len()) }
    }

    /// The word at byte `offset`, for those who may write: `None` if it is not aligned or not inside.
    pub(crate) fn word(&self, offset: usize) -> Option<&std::sync::atomic::AtomicU32> {
        let Mapping::Writable(region) = &self.mapping else { return None };
        let fits = offset % 4 == 0 && offset.checked_add(4)? <= region.len();
        // SAFETY: aligned (a mapping begins at a page) and inside the mapping, which lives as long as
        // `self`; atomics may be shared.
        fits.then(|| unsafe { &*region.start().add(offset).cast() })
    }

    /// Copies bytes in, where others see them at once.
    ///
    /// # Errors
    /// If they reach past the end, or the memory was received frozen.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let Mapping::Writable(region) = &self.mapping else {
            return Err(Error::PermissionDenied("this shared memory was handed out read-only".into()));
        };
        if offset.checked_add(bytes.len()).is_none_or(|end| end > region.len()) {
            let limit = region.len().saturating_sub(offset);
            return Err(Error::TooLarge { size: bytes.len(), limit });
        }
        // SAFETY: just checked to lie inside the mapping; no reference into it exists anywhere.
        unsafe { region.start().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// From now on nobody else gets it writable: mappings that exist stay as they are.
    ///
    /// # Errors
    /// If the kernel refuses (before 5.1).
    pub fn freeze(&self) -> Result<()> {
        fcntl_add_seals(&self.file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(|error| Error::io("cannot make shared memory read-only for others", error))
    }
}

/// To be handed over by some other way than a parcel.
impl AsFd for SharedMemory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Its size, then its descriptor.
impl Parcelable for SharedMemory {
    const LEAST_SIZE: usize = 8 + crate::parcel::LEAST_OBJECT_SIZE;

    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write(&(self.len() as u64))?;
        to.write_fd(&self.file)
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        let len: u64 = from.read()?;
        let len = usize::try_from(len).map_err(|_| from.bad("memory of an impossible size"))?;
        SharedMemory::from_fd(from.read_fd()?, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(memory: &SharedMemory) -> Result<SharedMemory> {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        writer.write(memory).unwrap();
        let mut objects: Vec<_> = writer.finish().into_iter().map(|(at, o)| (at, Some(o))).collect();
        Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects).read()
    }

    #[test]
    fn what_is_written_is_seen_by_whoever_received_it() {
        let mine = SharedMemory::new(10_000).unwrap();
        let theirs = send(&mine).unwrap();
        mine.write_at(9_000, b"hello").unwrap();
        assert_eq!(theirs.bytes().slice(9_000, 5).unwrap().to_vec(), b"hello");
        theirs.write_at(0, b"back").unwrap();
        assert_eq!(mine.bytes().slice(0, 4).unwrap().to_vec(), b"back");
        assert!(mine.write_at(9_996, b"hello").is_err());
        assert!(mine.write_at(usize::MAX, b"hello").is_err());
    }

    #[test]
    fn frozen_memory_is_read_only_for_others() {
        let mine = SharedMemory::new(100).unwrap();
        mine.freeze().unwrap();
        let theirs = send(&mine).unwrap();
        assert!(!theirs.is_writable());
        assert!(theirs.write_at(0, b"x").is_err());
        mine.write_at(0, b"x").unwrap();
        assert_eq!(theirs.bytes().get(0), Some(b'x'));
    }

    /// Puts the number of huge pages back.
    struct HugePages(String);

    const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

    impl Drop for HugePages {
        fn drop(&mut self) {
            std::fs::write(HUGE_PAGES, &self.0).unwrap();
        }
    }

    #[test]
    fn huge_pages_come_or_the_error_says_how_to_get_them() {
        let too_many = SharedMemory::with_huge_pages(1 << 45).unwrap_err().to_string();
        assert!(too_many.contains("huge pages"), "{too_many}");
        let supported = std::fs::read_to_string(HUGE_PAGES);
        if let Ok(before) = &supported {
            assert!(too_many.contains(HUGE_PAGES), "{too_many}");
            let before: usize = before.trim().parse().unwrap();
            let _back = HugePages(before.to_string());
            if std::fs::write(HUGE_PAGES, (before + 2).to_string()).is_ok()
                && std::fs::read_to_string(HUGE_PAGES).unwrap().trim() == (before + 2).to_string()
            {
                let mine = SharedMemory::with_huge_pages(1_000_000).unwrap();
                assert!(mine.len() >= 2 << 20 && mine.len().is_multiple_of(1 << 20), "{}", mine.len());
                mine.write_at(mine.len() - 5, b"hello").unwrap();
                let copy = || mine.file.try_clone().unwrap();
                let open = SharedMemory::from_fd(copy(), mine.len()).unwrap_err();
                assert!(open.to_string().contains("not frozen"), "{open}");
                mine.freeze().unwrap();
                let theirs = send(&mine).unwrap();
                assert_eq!(theirs.bytes().slice(mine.len() - 5, 5).unwrap().to_vec(), b"hello");
            }
        }
    }

    #[test]
    fn memory_of_a_wrong_size_is_refused() {
        let mine = SharedMemory::new(100).unwrap();
        let copy = || mine.file.try_clone().unwrap();
        for len in [0, 99, 101, usize::MAX] {
            assert!(SharedMemory::from_fd(copy(), len).is_err(), "{len}");
        }
        assert!(SharedMemory::new(0).is_err());
        // No memfd at all.
        let file = OwnedFd::from(std::fs::File::open("/proc/self/status").unwrap());
        assert!(SharedMemory::from_fd(file, 100).is_err());
    }
}
