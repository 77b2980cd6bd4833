//! References and descriptors as they stand in a parcel on the driver: `flat_binder_object`s in the
//! data, and a table of where they stand.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::process::Process;
use super::remote::BinderRemote;
use super::uapi::{FLAG_INHERIT_RT, OBJECT_FLAGS, TYPE_BINDER, TYPE_FD, TYPE_HANDLE};
use crate::object::{Binder, Reference};
use crate::parcel::{FLAT_OBJECT_SIZE, Incoming, Object, SharedBytes, no_object, wrong_kind};
use crate::{Error, Result};

/// What a parcel holds while it is on its way out: objects to unpin, descriptors to close.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) offsets: Vec<u64>,
    pub(super) pins: Vec<u64>,
    pub(super) fds: Vec<OwnedFd>,
    // Proxies whose handles stand in the parcel.
    pub(super) proxies: Vec<Binder>,
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
pub(super) fn encode(
    process: &Arc<Process>,
    data: &mut [u8],
    objects: Vec<(u32, Object)>,
) -> Result<Outgoing> {
    let mut out = Outgoing::default();
    for (offset, object) in objects {
        let bytes = match object {
            Object::Fd(fd) => {
                let bytes = flat(TYPE_FD, 0x17f, fd.as_raw_fd() as u64, 1);
                out.fds.push(fd);
                bytes
            }
            Object::Binder(Binder(Reference::Local(node))) => {
                process.start_looping();
                let lends = node.domain().unwrap_or(process.domain).lends_realtime();
                let inherit = if lends && node.scheduling().inherit { FLAG_INHERIT_RT } else { 0 };
                let id = process.pin(&node);
                out.pins.push(id);
                flat(TYPE_BINDER, OBJECT_FLAGS | inherit, id, id)
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
        out.offsets.push(offset.into());
    }
    Ok(out)
}

/// Objects of a delivered parcel.
pub(super) struct Arrived<'a> {
    process: &'a Arc<Process>,
    data: SharedBytes<'a>,
    // Where one stands, until it is read.
    offsets: Vec<Option<u64>>,
    // References for proxies that were made, to go out before the buffer is freed.
    pub(super) commands: Vec<u8>,
}

impl<'a> Arrived<'a> {
    pub(super) fn new(process: &'a Arc<Process>, data: SharedBytes<'a>, offsets: SharedBytes<'_>) -> Self {
        let offsets =
            offsets.to_vec().chunks_exact(8).map(|raw| raw.try_into().ok().map(u64::from_ne_bytes)).collect();
        Arrived { process, data, offsets, commands: Vec::new() }
    }

    /// Kind and number of the object at `at`, which counts as read from now on.
    fn take(&mut self, at: usize) -> Result<(u32, u64)> {
        let place = self.offsets.iter_mut().find(|place| **place == Some(at as u64));
        let place = place.ok_or_else(|| no_object(at))?;
        *place = None;
        self.look(at).ok_or_else(|| no_object(at))
    }

    fn look(&self, at: usize) -> Option<(u32, u64)> {
        let bytes = self.data.slice(at, FLAT_OBJECT_SIZE)?.to_vec();
        let kind = u32::from_ne_bytes(bytes[..4].try_into().ok()?);
        Some((kind, u64::from_ne_bytes(bytes[8..16].try_into().ok()?)))
    }
}

impl Incoming for Arrived<'_> {
    fn take_binder(&mut self, at: usize) -> Result<Binder> {
        match self.take(at)? {
            (TYPE_HANDLE, handle) => {
                let remote = self.process.proxy(handle as u32, &mut self.commands).known_as();
                Ok(Binder::from_remote(remote))
            }
            // One of this process's own that came back.
            (TYPE_BINDER, id) => match self.process.node(id) {
                Some(node) => Ok(Binder(Reference::Local(node))),
                None => Err(Error::UnknownObject(id)),
            },
            (kind, _) => Err(wrong_kind(at, "an object reference", &format!("type {kind:#x}"))),
        }
    }

    fn take_fd(&mut self, at: usize) -> Result<OwnedFd> {
        match self.take(at)? {
            // SAFETY: the driver installed this descriptor for this parcel, and each entry of the
            // table is taken once. (`binder_fd_object.fd` is the low half.)
            (TYPE_FD, fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd as u32 as i32) }),
            (kind, _) => Err(wrong_kind(at, "a file descriptor", &format!("type {kind:#x}"))),
        }
    }
}

impl Drop for Arrived<'_> {
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

impl Arrived<'_> {
    /// Takes every object out, for a parcel that outlives its buffer.
    pub(super) fn take_all(&mut self) -> Vec<(u32, Option<Object>)> {
        let places: Vec<u64> = self.offsets.iter().copied().flatten().collect();
        places
            .into_iter()
            .filter_map(|at| {
                let at = usize::try_from(at).ok()?;
                let object = match self.look(at)? {
                    (TYPE_FD, _) => self.take_fd(at).map(Object::Fd),
                    _ => self.take_binder(at).map(Object::Binder),
                };
                Some((at as u32, Some(object.ok()?)))
            })
            .collect()
    }
}
