//! The memory of a queue, mapped as its descriptor says once that was checked.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use handoff_sync::ring::{Counters, Shape};

use super::descriptor::{Grantor, Role};
use crate::shm::region::Region;
use crate::{Error, Result};

/// Where the parts of a queue's memory lie.
///
/// Invariant: the words are aligned; `data` has `shape.size` bytes; all is mapped readable and
/// writable as long as the [`Memory`] lives that it is of.
#[derive(Debug, Clone, Copy)]
struct Parts {
    read: NonNull<AtomicU64>,
    write: NonNull<AtomicU64>,
    reserve: Option<NonNull<AtomicU64>>,
    data: NonNull<u8>,
    shape: Shape,
}

/// Invariant: `parts` and `flag` lie inside the regions, which are mapped as long as the value lives.
#[derive(Debug)]
pub(super) struct Memory {
    parts: Parts,
    flag: Option<NonNull<AtomicU32>>,
    /// An end of this process is in use: the writer; the reader of a synchronized queue.
    pub(super) writing: AtomicBool,
    pub(super) reading: AtomicBool,
    // Holds the mappings.
    _regions: Vec<Option<Region>>,
}

/// A share in a queue's memory that has its parts at hand.
///
/// Invariant: `parts` are those of `memory`.
#[derive(Debug)]
pub(super) struct Share {
    parts: Parts,
    memory: Arc<Memory>,
}

// SAFETY: words are used as atomics, and the ring by raw copies only, from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
// SAFETY: as above; the pointers are those of a `Memory`, which may be sent.
unsafe impl Send for Share {}
// SAFETY: as above.
unsafe impl Sync for Share {}

fn bad(what: impl Into<String>) -> Error {
    Error::BadQueue(what.into())
}

/// Where a grantor lies, once its numbers make sense.
#[derive(Clone, Copy)]
struct Part {
    fd: usize,
    start: usize,
    end: usize,
}

fn part(grantor: &Grantor, role: Role, fds: usize) -> Result<Part> {
    let fd = usize::try_from(grantor.fd_index)
        .ok()
        .filter(|fd| *fd < fds)
        .ok_or_else(|| bad(format!("{role:?} lies in descriptor {} of {fds}", grantor.fd_index)))?;
    let start = usize::try_from(grantor.offset).ok().filter(|start| start % 8 == 0);
    let start = start.ok_or_else(|| bad(format!("{role:?} lies at {}, no multiple of 8", grantor.offset)))?;
    let end = usize::try_from(grantor.extent).ok().filter(|len| *len > 0);
    let end = end.and_then(|len| start.checked_add(len)).filter(|end| *end <= isize::MAX as usize);
    let end = end.ok_or_else(|| bad(format!("{role:?} has {} bytes", grantor.extent)))?;
    Ok(Part { fd, start, end })
}

impl Memory {
    /// Maps a queue of messages of `quantum` bytes. `trusted` files need not be sealed.
    pub(super) fn map(grantors: &[Grantor], fds: &[OwnedFd], quantum: usize, trusted: bool) -> Result<Self> {
        const ROLES: [(Role, usize); 5] =
            [(Role::Read, 8), (Role::Write, 8), (Role::Data, 1), (Role::EventFlag, 4), (Role::Reserve, 8)];
        if grantors.len() <= Role::Data as usize {
            return Err(bad(format!("it has {} parts; 3 are the least", grantors.len())));
        }
        let mut parts: Vec<Part> = Vec::with_capacity(ROLES.len());
        let mut needs = vec![0_usize; fds.len()];
        for (grantor, (role, least)) in grantors.iter().zip(ROLES) {
            let part = part(grantor, role, fds.len())?;
            if part.end - part.start < least {
                return Err(bad(format!("{role:?} has {} bytes; {least} are the least", grantor.extent)));
            }
            let meets =
                |other: &&Part| other.fd == part.fd && other.start < part.end && part.start < other.end;
            if parts.iter().any(|other| meets(&other)) {
                return Err(bad(format!("{role:?} lies over another part")));
            }
            needs[part.fd] = needs[part.fd].max(part.end);
            parts.push(part);
        }
        let ring = parts[Role::Data as usize];
        let size = ring.end - ring.start;
        if quantum == 0 || size % quantum != 0 {
            return Err(bad(format!("its ring of {size} bytes is no whole number of messages of {quantum}")));
        }
        let mut regions = Vec::with_capacity(fds.len());
        for (fd, need) in fds.iter().zip(needs) {
            let region = (need > 0).then(|| Region::accept_part(fd.as_fd(), need, trusted)).transpose()?;
            regions.push(region);
        }
        let at = |part: &Part| -> Result<NonNull<u8>> {
            let region = regions[part.fd].as_ref().ok_or_else(|| bad("a part without memory"))?;
            // SAFETY: `part.end` is no further than what was mapped of this descriptor.
            NonNull::new(unsafe { region.start().add(part.start) }).ok_or_else(|| bad("memory at 0"))
        };
        let word = |role: Role| parts.get(role as usize).map(at).transpose();
        let needed = |role: Role| word(role)?.ok_or_else(|| bad("a part is missing"));
        Ok(Memory {
            parts: Parts {
                read: needed(Role::Read)?.cast(),
                write: needed(Role::Write)?.cast(),
                reserve: word(Role::Reserve)?.map(NonNull::cast),
                data: needed(Role::Data)?,
                shape: Shape { size: size as u64, quantum: quantum as u64 },
            },
            flag: word(Role::EventFlag)?.map(NonNull::cast),
            writing: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            _regions: regions,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        self.parts.shape
    }

    #[inline]
    pub(super) fn flag(&self) -> Option<&AtomicU32> {
        // SAFETY: an aligned word inside the mappings (type invariant).
        self.flag.as_ref().map(|word| unsafe { word.as_ref() })
    }
}

impl Share {
    pub(super) fn of(memory: &Arc<Memory>) -> Self {
        Share { parts: memory.parts, memory: Arc::clone(memory) }
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    #[inline]
    pub(super) fn shape(&self) -> Shape {
        self.parts.shape
    }

    #[inline]
    pub(super) fn counters(&self) -> Counters<'_> {
        // SAFETY: aligned words (invariant of `Parts`) of memory that this share holds (type
        // invariant); atomics may be shared.
        unsafe {
            Counters {
                read: self.parts.read.as_ref(),
                write: self.parts.write.as_ref(),
                reserve: self.parts.reserve.as_ref().map(|word| word.as_ref()),
            }
        }
    }

    /// A message's place at `offset`; one that does not lie in the ring is taken for the last.
    #[inline]
    pub(super) fn place(&self, offset: u64) -> *mut u8 {
        let Shape { size, quantum } = self.parts.shape;
        // SAFETY: a message from there ends inside of the ring, which holds one at least.
        unsafe { self.parts.data.as_ptr().add(offset.min(size - quantum) as usize) }
    }

    /// `bytes` of the ring from `offset` on, as two runs. Asked for more, it gives the whole ring.
    #[inline]
    pub(super) fn runs(&self, offset: u64, bytes: usize) -> [(*mut u8, usize); 2] {
        let size = self.parts.shape.size as usize;
        let (offset, bytes) = ((offset as usize).min(size), bytes.min(size));
        let first = bytes.min(size - offset);
        let start = self.parts.data.as_ptr();
        // SAFETY: `offset <= size`, the bytes of the ring.
        [(unsafe { start.add(offset) }, first), (start, bytes - first)]
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
