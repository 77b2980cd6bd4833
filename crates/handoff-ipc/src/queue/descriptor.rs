//! What describes a queue to another process: FMQ's descriptor, as it travels in a parcel.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use super::item::Item;
use crate::parcel::{FLAT_OBJECT_SIZE, Nullable, Parcelable, Reader, Writer};
use crate::{Error, Result};

/// One of the two kinds of queue. The types that implement it stand in the type of a queue.
pub trait Flavor: Sized + 'static {
    /// Its number in a descriptor (`kSynchronizedReadWrite`, `kUnsynchronizedWrite`).
    const FLAGS: i32;
    /// True if the reader holds the writer up.
    const SYNCHRONIZED: bool;
}

/// One reader, one writer, and nothing is lost: HIDL's `fmq_sync`, AIDL's `SynchronizedReadWrite`.
#[derive(Debug, Clone, Copy)]
pub enum Synchronized {}

/// Any number of readers, which the writer does not wait for: HIDL's `fmq_unsync`, AIDL's
/// `UnsynchronizedWrite`.
#[derive(Debug, Clone, Copy)]
pub enum Unsynchronized {}

impl Flavor for Synchronized {
    const FLAGS: i32 = 1;
    const SYNCHRONIZED: bool = true;
}

impl Flavor for Unsynchronized {
    const FLAGS: i32 = 2;
    const SYNCHRONIZED: bool = false;
}

/// What a grantor describes: its index in the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Role {
    /// The read counter, 8 bytes.
    Read = 0,
    /// The write counter, 8 bytes.
    Write = 1,
    /// The ring.
    Data = 2,
    /// The event flag, 4 bytes; may be absent.
    EventFlag = 3,
    /// Ours: how far an unsynchronized writer has begun to write, 8 bytes; may be absent.
    Reserve = 4,
}

/// A part of a queue's memory (`GrantorDescriptor`). Numbers are as they came: a peer's may be
/// anything, and are checked when a queue is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grantor {
    /// Which descriptor of the handle it lies in.
    pub fd_index: i32,
    /// Its first byte there; a multiple of 8.
    pub offset: i32,
    /// Its bytes.
    pub extent: i64,
}

impl Grantor {
    /// Bytes of HIDL's form.
    pub const HIDL_SIZE: usize = 24;

    /// HIDL's form: flags, descriptor, offset, padding, extent.
    pub fn to_hidl(self) -> [u8; Self::HIDL_SIZE] {
        let mut bytes = [0; Self::HIDL_SIZE];
        bytes[4..8].copy_from_slice(&self.fd_index.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.extent.to_le_bytes());
        bytes
    }

    /// From HIDL's form. Flags are not used by anybody.
    pub fn from_hidl(bytes: [u8; Self::HIDL_SIZE]) -> Self {
        let word = |at: usize| i32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let extent = i64::from_le_bytes(std::array::from_fn(|n| bytes[16 + n]));
        Grantor { fd_index: word(4), offset: word(8), extent }
    }
}

/// A queue of `T` in the flavour `F`, as it is sent to another process (`MQDescriptor`).
///
/// It travels in a parcel on any engine and becomes a queue again with
/// [`MessageQueue::attach`](super::MessageQueue::attach).
#[derive(Debug)]
pub struct Descriptor<T, F> {
    pub(super) grantors: Vec<Grantor>,
    pub(super) fds: Vec<OwnedFd>,
    pub(super) quantum: i32,
    pub(super) flags: i32,
    pub(super) trusting: bool,
    kind: PhantomData<fn() -> (T, F)>,
}

/// More than a queue ever has.
const MOST: usize = 16;

impl<T: Item, F: Flavor> Descriptor<T, F> {
    /// From its parts: what somebody else's parcel or binding held. Nothing is checked before
    /// [`MessageQueue::attach`](super::MessageQueue::attach).
    pub fn from_parts(grantors: Vec<Grantor>, fds: Vec<OwnedFd>, quantum: i32, flags: i32) -> Self {
        Descriptor { grantors, fds, quantum, flags, trusting: false, kind: PhantomData }
    }

    /// The parts of the memory, in the order of [`Role`].
    pub fn grantors(&self) -> &[Grantor] {
        &self.grantors
    }

    /// The descriptors that the grantors index.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }

    /// Bytes of a message.
    pub fn quantum(&self) -> i32 {
        self.quantum
    }

    /// Number of the flavour.
    pub fn flags(&self) -> i32 {
        self.flags
    }

    /// A second one of the same queue.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn try_clone(&self) -> Result<Self> {
        let fds = self.fds.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>();
        let fds = fds.map_err(|error| Error::io("cannot duplicate the descriptors of a queue", error))?;
        Ok(Descriptor { grantors: self.grantors.clone(), fds, ..*self })
    }

    /// Accepts memory whose size is not sealed (ashmem, a device's buffer): its owner can then end
    /// this process with `SIGBUS` by taking it away.
    #[must_use]
    pub fn trusting_memory(mut self) -> Self {
        self.trusting = true;
        self
    }
}

/// AIDL's `MQDescriptor`: that it is not null, its size, then grantors, handle, quantum, flags.
impl<T: Item, F: Flavor> Parcelable for Descriptor<T, F> {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_structured(|to| {
            to.write_i32(self.grantors.len() as i32)?;
            for grantor in &self.grantors {
                to.write_structured(|to| {
                    to.write_i32(grantor.fd_index)?;
                    to.write_i32(grantor.offset)?;
                    to.write_i64(grantor.extent)
                })?;
            }
            // The handle.
            to.write_structured(|to| {
                to.write_i32(self.fds.len() as i32)?;
                self.fds.iter().try_for_each(|fd| to.write(fd))?;
                to.write_i32(0) // no integers in the handle
            })?;
            to.write_i32(self.quantum)?;
            to.write_i32(self.flags)
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        Self::read_nullable(from)?.ok_or_else(|| from.null())
    }
}

impl<T: Item, F: Flavor> Nullable for Descriptor<T, F> {
    fn write_some(&self, to: &mut Writer<'_>) -> Result<()> {
        self.write_to(to)
    }

    fn read_nullable(from: &mut Reader<'_>) -> Result<Option<Self>> {
        from.read_structured(|from| {
            let count = from.read_count(24)?.ok_or_else(|| from.null())?;
            if count > MOST {
                return Err(from.bad(format!("a queue of {count} parts; {MOST} are the most")));
            }
            let mut grantors = Vec::with_capacity(count);
            for _ in 0..count {
                let grantor = from.read_structured(|from| {
                    Ok(Grantor { fd_index: from.read()?, offset: from.read()?, extent: from.read()? })
                })?;
                grantors.push(grantor.ok_or_else(|| from.null())?);
            }
            let fds = from.read_structured(|from| {
                let count = from.read_count(FLAT_OBJECT_SIZE)?.ok_or_else(|| from.null())?;
                if count > MOST {
                    return Err(from.bad(format!("a queue of {count} descriptors; {MOST} are the most")));
                }
                let fds = (0..count).map(|_| from.read()).collect::<Result<Vec<OwnedFd>>>()?;
                from.read::<Option<Vec<i32>>>()?;
                Ok(fds)
            })?;
            let fds = fds.ok_or_else(|| from.null())?;
            let (quantum, flags) = (from.read()?, from.read()?);
            Ok(Descriptor::from_parts(grantors, fds, quantum, flags))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidl_s_form_has_24_bytes_and_reads_back() {
        let grantor = Grantor { fd_index: 1, offset: 0x0102, extent: 1 << 40 };
        let bytes = grantor.to_hidl();
        assert_eq!(bytes[..4], [0; 4]);
        assert_eq!(bytes[8..12], [2, 1, 0, 0]);
        assert_eq!(Grantor::from_hidl(bytes), grantor);
    }
}
