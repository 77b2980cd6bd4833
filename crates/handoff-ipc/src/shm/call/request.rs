//! The request of a call, written in one place, whoever waits for its reply.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use handoff_placement::fast::current_cpu;

use super::caller_slot::CallerSlot;
use super::slot::{Area, Header, Meta, STAGE, Slot, Written};
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
        let arguments = unsafe { write_arguments(slot, write)? };
        self.put_around(link, shared, slot, arguments, waits)
    }

    /// Completes a request whose arguments stand in its slot.
    #[inline]
    pub(super) fn put_around(
        &self,
        link: &Arc<Link>,
        shared: &CallerSlot,
        slot: &Slot,
        arguments: Written,
        waits: impl FnOnce(u32) -> u32,
    ) -> Result<()> {
        let mut flags = arguments.payload_offset;
        if !arguments.objects.is_empty() {
            send_objects(link, shared, slot, arguments.objects)?;
            flags |= Meta::OBJECTS;
        }
        if let Some(left) = self.deadline {
            slot.set_deadline(place::monotonic_ns().saturating_add(left.as_nanos() as u64));
            flags |= Meta::DEADLINE;
        }
        flags |= waits(arguments.len);
        let meta = Meta::new(flags, current_cpu());
        let (priority, tid) = self.caller;
        let (code, node) = (self.code, self.node);
        slot.write_request(&Header { code, len: arguments.len, meta, node, priority, tid });
        Ok(())
    }
}

/// Writes a call's arguments into its slot.
///
/// # Safety
/// As of [`Request::put`].
#[inline]
pub(super) unsafe fn write_arguments(slot: &Slot, write: WriteFn<'_>) -> Result<Written> {
    let mut stage = STAGE;
    // SAFETY: by the caller.
    let mut writer = unsafe { slot.writer(Area::A, &mut stage) };
    write(&mut writer)?;
    Ok(slot.put_down(Area::A, &mut writer))
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
