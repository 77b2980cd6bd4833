//! Sends oneway calls: each is copied into the ring, and the sender goes on.
#![allow(unsafe_code)]

use std::sync::Arc;

use handoff_placement::fast::current_cpu;
use handoff_sync::bell;
use handoff_sync::futex::{self, WakeAction};

use super::ends::{INBOX, Sender};
use super::ring::{DATA, RECORD, Record, Ring, size_of_record};
use crate::call::OutCall;
use crate::locked::lock;
use crate::object::WriteFn;
use crate::shm::call::client;
use crate::shm::call::slot::{Entry, MAX_OBJECTS};
use crate::shm::link::Link;
use crate::shm::objects;
use crate::shm::remote::RemoteNode;
use crate::shm::wire::Message;
use crate::{Error, Result, Waiting};

/// As long as this much is free, a call to an object that is being served may wait in the ring.
const COMFORT: usize = DATA - DATA / 4;

/// Sends one oneway call.
pub(crate) fn send(remote: &RemoteNode, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
    let link = &remote.link;
    let mut sender = lock(&link.oneway_out);
    if link.is_dead() {
        return Err(Error::Dead);
    }
    let sender = match &mut *sender {
        Some(sender) => sender,
        none => {
            let (ring, file) = Ring::create()?;
            link.send(Message::Ring, vec![file])?;
            none.insert(Sender { ring, written: 0, taken: 0 })
        }
    };
    sender.send(link, remote.node, call, write)
}

impl Sender {
    fn send(&mut self, link: &Arc<Link>, node: u64, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
        let mut room = Ring::until_end(self.written);
        let mut free = self.free(DATA / 2);
        if room < DATA / 2 {
            // The payload must lie in one piece: go on at the start once that is free.
            free = self.free(room + DATA / 2);
            if free < room + DATA / 2 {
                // Perhaps it fits into what is left before the end.
                if free < room || room <= 2 * RECORD {
                    return Err(Error::OnewayFull(Waiting::Bytes(DATA - free)));
                }
            } else {
                // SAFETY: free up to the end, as was just found; the sending end is locked.
                unsafe { self.ring.put(self.written, Record::filler(room as u32)) };
                self.written = self.written.wrapping_add(room as u32);
                free -= room;
                room = DATA;
            }
        }
        let full = Error::OnewayFull(Waiting::Bytes(DATA - free));
        let table = MAX_OBJECTS * size_of::<Entry>();
        let space = free.min(room).saturating_sub(RECORD + 32);
        if space == 0 {
            return Err(full);
        }
        // SAFETY: a head and `space` bytes from here are free: the receiver has read them, and this
        // thread holds the lock of the sending end.
        let mut writer = unsafe { self.ring.payload_writer(self.written, space) };
        write(&mut writer).map_err(|error| match error {
            Error::TooLarge { size, .. } if size <= DATA / 2 - table => {
                Error::OnewayFull(Waiting::Bytes(DATA - free))
            }
            Error::TooLarge { size, .. } => Error::TooLarge { size, limit: DATA / 2 - table },
            other => other,
        })?;
        let len = writer.len();
        let objects = writer.finish();
        let count = objects.len();
        let size = size_of_record(len, count);
        if size + 32 > space {
            return Err(full);
        }
        if count > 0 {
            let (entries, fds) = objects::encode(link, objects)?;
            // SAFETY: it was just checked that the record fits into the free space.
            unsafe { self.ring.put_entries(self.written, len, &entries) };
            link.send_fds(INBOX, false, fds)?;
        }
        let (priority, _) = client::me();
        let (len, objects, size) = (len as u32, count as u32, size as u32);
        let record =
            Record { len, code: call.code, node, priority, objects, size, cpu: current_cpu().into() };
        // SAFETY: as above.
        unsafe { self.ring.put(self.written, record) };
        self.written = self.written.wrapping_add(size);
        self.publish(link, node)
    }

    fn publish(&mut self, link: &Link, node: u64) -> Result<()> {
        self.ring.set_written(self.written);
        let patient = self.free(COMFORT) >= COMFORT;
        match bell::ring(self.ring.bell(), node, patient) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(self.ring.bell()),
            WakeAction::Notify => link.send(Message::Post, Vec::new())?,
        }
        Ok(())
    }
}
