//! References and descriptors as they stand in a parcel on the driver: `flat_binder_object`s in the
//! data, and a table of where they stand.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::process::Process;
use super::remote::BinderRemote;
use super::uapi::{
    FLAG_INHERIT_RT, FLAG_SECURITY_CONTEXT, OBJECT_FLAGS, TYPE_BINDER, TYPE_FD, TYPE_HANDLE, Transaction,
};
use super::{serve, thread_state};
use crate::object::LocalNode;
use crate::object::{Binder, Reference};
use crate::parcel::{
    FDA_OBJECT_SIZE, FLAT_OBJECT_SIZE, GatheredBuffer, Handle, Incoming, Kind, NATIVE_HANDLE, Object,
    PTR_OBJECT_SIZE, Sealed, SharedBytes, TYPE_FDA, TYPE_PTR, no_object, wrong_kind,
};
use crate::{Error, Result};

/// What a parcel holds while it is on its way out: nothing, nearly always, which costs nothing.
#[derive(Default)]
pub(super) struct Outgoing(Option<Box<SentReferences>>);

/// Objects to unpin, descriptors to close.
#[derive(Default)]
struct SentReferences {
    offsets: Vec<u64>,
    pins: Vec<u64>,
    fds: Vec<OwnedFd>,
    // Proxies whose handles stand in the parcel.
    proxies: Vec<Binder>,
    // Buffers that the driver takes from where they are, and the bytes that they take together there.
    buffers: Vec<GatheredBuffer>,
    gathered: u64,
}

impl Outgoing {
    /// Whether there is anything.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Where objects stand in the parcel.
    #[inline]
    fn offsets(&self) -> &[u64] {
        self.0.as_ref().map_or(&[], |carried| &carried.offsets)
    }

    /// Bytes that the driver gathers beside the parcel.
    #[inline]
    pub(super) fn gathered(&self) -> u64 {
        self.0.as_ref().map_or(0, |carried| carried.gathered)
    }

    /// What the driver is told of a parcel of these bytes, on either side of a call.
    #[inline]
    pub(super) fn described(&self, bytes: &[u8], target: u64, code: u32, flags: u32) -> Transaction {
        Transaction {
            target,
            code,
            flags,
            data_size: bytes.len() as u64,
            offsets_size: (self.offsets().len() * 8) as u64,
            buffer: bytes.as_ptr() as u64,
            offsets: self.offsets().as_ptr() as u64,
            ..Transaction::default()
        }
    }

    /// Lets the process's own objects go that were kept for the parcel.
    #[inline]
    pub(super) fn unpin(&self, process: &Process) {
        if let Some(carried) = &self.0 {
            carried.pins.iter().for_each(|id| process.unpin(*id));
        }
    }

    /// Whether it must be known when the driver has taken the parcel over.
    #[inline]
    pub(super) fn holds_something(&self) -> bool {
        self.0.as_ref().is_some_and(|carried| !carried.pins.is_empty() || !carried.fds.is_empty())
    }
}

fn flat(kind: u32, flags: u32, object: u64, cookie: u64) -> [u8; FLAT_OBJECT_SIZE] {
    let mut bytes = [0; FLAT_OBJECT_SIZE];
    bytes[..4].copy_from_slice(&kind.to_ne_bytes());
    bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[8..16].copy_from_slice(&object.to_ne_bytes());
    bytes[16..].copy_from_slice(&cookie.to_ne_bytes());
    bytes
}

/// Puts a parcel's objects into its data, as the driver wants them.
#[inline]
pub(super) fn encode(
    process: &Arc<Process>,
    data: &mut [u8],
    objects: Vec<(u32, Object)>,
) -> Result<Outgoing> {
    if objects.is_empty() { Ok(Outgoing(None)) } else { encode_some(process, data, objects) }
}

#[inline(never)]
fn encode_some(process: &Arc<Process>, data: &mut [u8], objects: Vec<(u32, Object)>) -> Result<Outgoing> {
    let mut out = Box::<SentReferences>::default();
    for (offset, object) in objects {
        out.offsets.push(offset.into());
        let bytes = match object {
            // The writer put these two as they are to be.
            Object::Buffer(bytes) => {
                // Each begins at a multiple of eight in the receiver's memory.
                out.gathered += (bytes.len() as u64).next_multiple_of(8);
                out.buffers.push(bytes);
                continue;
            }
            Object::FdArray(fds) => {
                out.fds.extend(fds);
                continue;
            }
            Object::Fd(fd) => {
                let bytes = flat(TYPE_FD, 0x17f, fd.as_raw_fd() as u64, 1);
                out.fds.push(fd);
                bytes
            }
            Object::Binder(Binder(Reference::Local(node))) => {
                serve::start_looping(process);
                let lends = node.context().unwrap_or(process.context).lends_realtime();
                let inherit = if lends && node.scheduling().inherit { FLAG_INHERIT_RT } else { 0 };
                let id = process.pin(&node);
                out.pins.push(id);
                flat(TYPE_BINDER, OBJECT_FLAGS | inherit | security(&node), id, id)
            }
            Object::Binder(Binder(Reference::Remote(remote))) => {
                let known = remote
                    .as_any()
                    .downcast_ref::<BinderRemote>()
                    .filter(|known| Arc::ptr_eq(known.process(), process))
                    .map(BinderRemote::handle);
                let Some(handle) = known else {
                    out.pins.iter().for_each(|id| process.unpin(*id));
                    return Err(Error::Unsupported {
                        engine: "binder",
                        what: format!(
                            "carry a reference to an object of the {} engine or of another device",
                            remote.engine()
                        ),
                    });
                };
                out.proxies.push(Binder(Reference::Remote(remote)));
                flat(TYPE_HANDLE, OBJECT_FLAGS, handle.into(), 0)
            }
        };
        let at = offset as usize;
        data[at..at + FLAT_OBJECT_SIZE].copy_from_slice(&bytes);
    }
    Ok(Outgoing(Some(out)))
}

/// Makes buffer objects say where their buffers are now.
pub(super) fn point_again(data: &mut [u8], objects: &[(u32, Object)]) {
    for (at, object) in objects {
        let Object::Buffer(bytes) = object else { continue };
        if let Some(address) = data.get_mut(*at as usize + 8..*at as usize + 16) {
            address.copy_from_slice(&(bytes.start().addr() as u64).to_ne_bytes());
        }
    }
}

/// The flag of an object whose calls come with a security context.
pub(super) fn security(node: &LocalNode) -> u32 {
    if node.service().wants_security_context() { FLAG_SECURITY_CONTEXT } else { 0 }
}

/// Objects of a delivered parcel.
pub(super) struct ReceivedObjects<'a> {
    process: &'a Arc<Process>,
    data: SharedBytes<'a>,
    // Where one stands, until it is read.
    offsets: Vec<Option<u64>>,
}

impl<'a> ReceivedObjects<'a> {
    pub(super) fn new(process: &'a Arc<Process>, data: SharedBytes<'a>, offsets: SharedBytes<'_>) -> Self {
        let mut places = Vec::with_capacity(offsets.len() / 8);
        let mut free_from = 0;
        offsets.for_each_chunk::<64>(|piece| {
            places.extend(piece.chunks_exact(8).map(|raw| {
                let at = u64::from_ne_bytes(raw.try_into().ok()?);
                // The driver lets none stand in another: a descriptor taken twice would be closed twice.
                let end = at.checked_add(FLAT_OBJECT_SIZE as u64);
                free_from = end.filter(|end| at >= free_from && *end <= data.len() as u64)?;
                Some(at)
            }));
        });
        ReceivedObjects { process, data, offsets: places }
    }

    /// Kind and number of the object at `at`, which counts as read from now on if it is of a kind that is
    /// `wanted`: one of another kind may be a descriptor, which somebody has to close.
    fn take(&mut self, at: usize, wanted: &[u32], name: &str) -> Result<(u32, u64)> {
        let found = self.look(at).filter(|_| self.stands(at)).ok_or_else(|| no_object(at))?;
        if !wanted.contains(&found.0) {
            return Err(wrong_kind(at, name, &format!("type {:#x}", found.0)));
        }
        let place = self.offsets.iter_mut().find(|place| **place == Some(at as u64));
        place.ok_or_else(|| no_object(at))?.take();
        Ok(found)
    }

    fn look(&self, at: usize) -> Option<(u32, u64)> {
        // The shortest object is as long as a flat one.
        let object = self.object::<FLAT_OBJECT_SIZE>(at)?;
        Some((object.kind(), object.long(8)))
    }

    fn object<const N: usize>(&self, at: usize) -> Option<Raw<N>> {
        let mut bytes = [0; N];
        let copied = self.data.slice(at, N)?.copy_to(&mut bytes);
        (copied == N).then_some(Raw(bytes))
    }

    /// True if the driver knows of an object at `at`: what only looks like one is not to be believed.
    fn stands(&self, at: usize) -> bool {
        self.offsets.contains(&Some(at as u64))
    }

    /// The bytes of the buffer object at `at`, in the receiver's memory.
    fn gathered(&self, at: usize) -> Result<Option<SharedBytes<'a>>> {
        if !self.stands(at) {
            return Ok(None);
        }
        match self.object::<PTR_OBJECT_SIZE>(at) {
            Some(object) if object.kind() == TYPE_PTR => {
                let delivered = self.process.driver.delivered(object.long(8), object.long(16));
                delivered.map(Some).ok_or_else(|| {
                    Error::Protocol("the driver delivered a buffer outside of its memory".into())
                })
            }
            _ => Ok(None),
        }
    }

    /// Every byte from the parcel's first to its last gathered buffer's last.
    pub(super) fn extent(&self) -> SharedBytes<'a> {
        let start = self.data.start().addr();
        let end = |at: &u64| {
            let buffer = self.gathered(*at as usize).ok()??;
            buffer.start().addr().checked_add(buffer.len())
        };
        let end = self.offsets.iter().flatten().filter_map(end).max().unwrap_or(0);
        let len = end.saturating_sub(start).max(self.data.len());
        self.process.driver.delivered(start as u64, len as u64).unwrap_or(self.data)
    }
}

/// An object as it stands in a parcel.
struct Raw<const N: usize>([u8; N]);

impl<const N: usize> Raw<N> {
    fn kind(&self) -> u32 {
        u32::from_ne_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// The 64-bit number at byte `at`.
    fn long(&self, at: usize) -> u64 {
        let mut eight = [0; 8];
        eight.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(eight)
    }
}

impl Sealed for ReceivedObjects<'_> {}

impl Incoming for ReceivedObjects<'_> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match self.take(at, &[TYPE_HANDLE, TYPE_BINDER], "an object reference")? {
            (TYPE_HANDLE, handle) => {
                Ok(Binder::from_remote(thread_state::proxy(self.process, handle as u32)))
            }
            // One of this process's own that came back.
            (_, id) => match self.process.node(id) {
                Some(node) => Ok(Binder(Reference::Local(node))),
                None => Err(Error::UnknownObject(id)),
            },
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        let (_, fd) = self.take(at, &[TYPE_FD], "a file descriptor")?;
        // SAFETY: the driver installed this descriptor for this parcel, and each entry of the
        // table is taken once. (`binder_fd_object.fd` is the low half.)
        Ok(unsafe { OwnedFd::from_raw_fd(fd as u32 as i32) })
    }

    fn places(&self) -> Vec<(usize, Kind)> {
        let kind = |at: u64| match self.look(at as usize)?.0 {
            TYPE_HANDLE | TYPE_BINDER => Some(Kind::Binder),
            TYPE_FD => Some(Kind::Fd),
            _ => None,
        };
        self.offsets.iter().flatten().filter_map(|at| Some((*at as usize, kind(*at)?))).collect()
    }

    fn buffer(&self, at: usize) -> Result<Option<SharedBytes<'_>>> {
        self.gathered(at)
    }

    fn fd_array(&self, at: usize, first: usize) -> Result<Vec<OwnedFd>> {
        let object = self.object::<FDA_OBJECT_SIZE>(at).filter(|_| self.stands(at));
        let object = object.filter(|object| object.kind() == TYPE_FDA).ok_or_else(|| no_object(at))?;
        let (count, parent, offset) = (object.long(8), object.long(16), object.long(24));
        let strange = || wrong_kind(at, "descriptors in the handle before it", "others");
        // The handle's buffer is the object before this one.
        let place =
            usize::try_from(parent).ok().and_then(|parent| self.offsets.get(parent).copied().flatten());
        let place = place.filter(|place| (*place as usize).checked_add(PTR_OBJECT_SIZE) == Some(at));
        let buffer = self.gathered(place.ok_or_else(strange)? as usize)?.ok_or_else(strange)?;
        if offset != first as u64 || offset != NATIVE_HANDLE as u64 || count > Handle::MOST as u64 {
            return Err(strange());
        }
        let numbers = buffer.slice(first, count as usize * 4).ok_or_else(strange)?.to_vec();
        numbers
            .chunks_exact(4)
            .map(|raw| {
                let fd = i32::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]]);
                if fd < 0 {
                    return Err(strange());
                }
                // SAFETY: the driver put descriptors that it installed for this process in these places
                // and closes them when the buffer is freed, which is after this borrow.
                let theirs = unsafe { BorrowedFd::borrow_raw(fd) };
                theirs.try_clone_to_owned().map_err(|error| {
                    Error::io("cannot duplicate a descriptor that arrived in a handle", error)
                })
            })
            .collect()
    }
}

impl Drop for ReceivedObjects<'_> {
    fn drop(&mut self) {
        // Descriptors that nobody read: the driver closes none that it delivered.
        for at in self.offsets.iter().flatten() {
            if let Some((TYPE_FD, fd)) = self.look(*at as usize) {
                // SAFETY: as in `take_fd`.
                drop(unsafe { OwnedFd::from_raw_fd(fd as u32 as i32) });
            }
        }
    }
}
