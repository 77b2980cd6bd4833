//! The request of a call, written in one place, whoever waits for its reply.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use handoff_placement::fast::current_cpu;

use super::caller_slot::CallerSlot;
use super::slot::{Area, Header, Meta, ParcelExtent, STAGE, Slot};
use crate::Result;
use crate::object::WriteFn;
use crate::parcel::Object;
use crate::shm::link::Link;
use crate::shm::{objects, place};

/// What a request says beside its arguments.
pub(super) struct Request {
    pub(super) code: u32,
    pub(super) node: u64,
    /// The caller's priority, packed, and its thread.
    pub(super) caller: (u32, u32),
    /// How long it may take.
    pub(super) deadline: Option<Duration>,
    pub(super) secret: bool,
}

impl Request {
    /// Puts the request into a slot; what then exchanges the word hands it over. `waits` is asked last, with
    /// the request's length, for the flags that say how its reply is awaited.
    ///
    /// # Safety
    /// The slot is the calling thread's alone and no request is under way in it, so that it is this side's turn,
    /// and nothing that was read from it is borrowed any longer.
    #[inline]
    pub(super) unsafe fn put(
        &self,
        link: &Arc<Link>,
        shared: &CallerSlot,
        slot: &Slot,
        write: WriteFn<'_>,
        waits: impl FnOnce(u32) -> u32,
    ) -> Result<()> {
        // SAFETY: by the caller.
        let arguments = unsafe { Arguments::write(slot, write)? };
        self.put_around(link, shared, slot, arguments, waits)
    }

    /// Completes a request whose arguments stand in its slot.
    #[inline]
    pub(super) fn put_around(
        &self,
        link: &Arc<Link>,
        shared: &CallerSlot,
        slot: &Slot,
        arguments: Arguments,
        waits: impl FnOnce(u32) -> u32,
    ) -> Result<()> {
        let mut flags = arguments.written.payload_offset;
        if !arguments.objects.is_empty() {
            send_objects(link, shared, slot, arguments.objects)?;
            flags |= Meta::OBJECTS;
        }
        if let Some(left) = self.deadline {
            slot.set_deadline(place::monotonic_ns().saturating_add(left.as_nanos() as u64));
            flags |= Meta::DEADLINE;
        }
        if self.secret {
            flags |= Meta::SECRET;
        }
        flags |= waits(arguments.written.len);
        let meta = Meta::new(flags, current_cpu());
        let (priority, tid) = self.caller;
        let (code, node) = (self.code, self.node);
        slot.write_request(&Header { code, len: arguments.written.len, meta, node, priority, tid });
        Ok(())
    }
}

/// A call's arguments, which stand in its slot, and the objects that go beside them.
pub(super) struct Arguments {
    written: ParcelExtent,
    pub(super) objects: Vec<(u32, Object)>,
}

impl Arguments {
    /// Writes them into the slot.
    ///
    /// # Safety
    /// As of [`Request::put`].
    #[inline]
    pub(super) unsafe fn write(slot: &Slot, write: WriteFn<'_>) -> Result<Self> {
        let mut stage = STAGE;
        // SAFETY: by the caller.
        let mut writer = unsafe { slot.writer(Area::A, &mut stage) };
        write(&mut writer)?;
        Ok(Arguments { written: slot.put_down(Area::A, &mut writer), objects: writer.take_objects() })
    }
}

#[cold]
fn send_objects(
    link: &Arc<Link>,
    shared: &CallerSlot,
    slot: &Slot,
    objects: Vec<(u32, Object)>,
) -> Result<()> {
    let (entries, fds): (_, Vec<OwnedFd>) = objects::encode(link, objects)?;
    slot.write_entries(Area::A, &entries);
    link.send_fds(shared.id(), false, fds)
}
