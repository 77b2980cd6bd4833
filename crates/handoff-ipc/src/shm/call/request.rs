//! The request of a call, written in one place, whoever waits for its reply.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use handoff_placement::fast::current_cpu;

use super::caller_slot::CallerSlot;
use super::slot::{Area, Header, Meta, STAGE, Slot};
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
    /// Puts the request into a slot; what then exchanges the word hands it over. `waits` is asked last for the
    /// flags that say how its reply is awaited.
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
        waits: impl FnOnce() -> u32,
    ) -> Result<()> {
        let mut stage = STAGE;
        // SAFETY: by the caller.
        let mut writer = unsafe { slot.writer(Area::A, &mut stage) };
        write(&mut writer)?;
        let len = writer.len() as u32;
        let mut flags = 0;
        if writer.has_objects() {
            send_objects(link, shared, slot, writer.take_objects())?;
            flags |= Meta::OBJECTS;
        }
        if let Some(left) = self.deadline {
            slot.set_deadline(place::monotonic_ns().saturating_add(left.as_nanos() as u64));
            flags |= Meta::DEADLINE;
        }
        flags |= waits();
        writer.unstage();
        let meta = Meta::new(flags | slot.payload_offset(Area::A, &writer), current_cpu());
        let (priority, tid) = self.caller;
        slot.write_request(&Header { code: self.code, len, meta, node: self.node, priority, tid });
        Ok(())
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
