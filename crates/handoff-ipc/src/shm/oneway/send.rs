//! Sends oneway calls: each is copied into the ring, and the sender goes on.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use handoff_placement::fast::current_cpu;
use handoff_sync::bell;
use handoff_sync::futex::{self, WakeAction};

use super::ends::{INBOX, Sender};
use super::ring::{DATA, RECORD, Record, Ring, SECRET, size_of_record};
use crate::call::OutCall;
use crate::locked::lock;
use crate::object::WriteFn;
use crate::parcel::{Object, Writer};
use crate::shm::call::client;
use crate::shm::call::slot::{Entry, MAX_OBJECTS};
use crate::shm::link::Link;
use crate::shm::objects;
use crate::shm::remote::RemoteNode;
use crate::shm::wire::Message;
use crate::{Error, OnewayBacklog, Result};

/// As long as this much is free, a call to an object that is being served may wait in the ring.
const COMFORT: usize = DATA - DATA / 4;

/// Sends one oneway call.
pub(crate) fn send(remote: &RemoteNode, call: &OutCall, write: WriteFn<'_>) -> Result<()> {
    let link = &remote.link;
    let (payload, objects) = {
        let mut end = lock(&link.oneway_out);
        let sender = open(&mut end, link)?;
        let written = sender.write(write, 0)?;
        if objects::asked(link, &written.objects).is_none() {
            let none = written.objects.is_empty();
            let encoded = if none { Default::default() } else { objects::encode(link, written.objects)? };
            return sender.complete(link, remote.node, call, written.len, encoded);
        }
        (sender.ring.payload(sender.written, written.len), written.objects)
    };
    // An owner is asked for a connection, and may not answer: the others who send to this peer do not wait for that, nor
    // does the poller, which takes the ring away when the peer ends.
    let encoded = objects::encode(link, objects)?;
    let mut end = lock(&link.oneway_out);
    let sender = open(&mut end, link)?;
    let written = sender.write(&mut |to: &mut Writer<'_>| to.write_raw(&payload), encoded.0.len())?;
    sender.complete(link, remote.node, call, written.len, encoded)
}

/// The sending end; the first call makes it.
fn open<'a>(end: &'a mut Option<Sender>, link: &Link) -> Result<&'a mut Sender> {
    if link.is_dead() {
        return Err(Error::Dead);
    }
    match end {
        Some(sender) => Ok(sender),
        none => {
            let (ring, file) = Ring::create()?;
            link.send(Message::Ring, vec![file])?;
            Ok(none.insert(Sender { ring, written: 0, taken: 0 }))
        }
    }
}

/// A parcel whose payload stands in the ring, where the receiver does not look yet.
struct WrittenParcel {
    len: usize,
    objects: Vec<(u32, Object)>,
}

impl Sender {
    /// Puts a payload behind what was sent last, where there is room for it and its objects, and for `more` of them.
    fn write(&mut self, write: WriteFn<'_>, more: usize) -> Result<WrittenParcel> {
        let mut room = Ring::until_end(self.written);
        let mut free = self.free(DATA / 2);
        if room < DATA / 2 {
            // The payload must lie in one piece: go on at the start once that is free.
            free = self.free(room + DATA / 2);
            if free < room + DATA / 2 {
                // Perhaps it fits into what is left before the end.
                if free < room || room <= 2 * RECORD {
                    return Err(Error::OnewayFull(OnewayBacklog::Bytes(DATA - free)));
                }
            } else {
                // SAFETY: free up to the end, as was just found; the sending end is locked.
                unsafe { self.ring.put(self.written, Record::filler(room as u32)) };
                self.written = self.written.wrapping_add(room as u32);
                free -= room;
                room = DATA;
            }
        }
        let full = || Error::OnewayFull(OnewayBacklog::Bytes(DATA - free));
        let table = MAX_OBJECTS * size_of::<Entry>();
        let space = free.min(room).saturating_sub(RECORD + 32);
        if space == 0 {
            return Err(full());
        }
        // SAFETY: a head and `space` bytes from here are free: the receiver has read them, and this
        // thread holds the lock of the sending end.
        let mut writer = unsafe { self.ring.payload_writer(self.written, space) };
        write(&mut writer).map_err(|error| match error {
            Error::TooLarge { size, .. } if size <= DATA / 2 - table => full(),
            Error::TooLarge { size, .. } => Error::TooLarge { size, limit: DATA / 2 - table },
            other => other,
        })?;
        let len = writer.len();
        let objects = writer.finish();
        if size_of_record(len, objects.len() + more) + 32 > space {
            return Err(full());
        }
        Ok(WrittenParcel { len, objects })
    }

    /// Puts what belongs to a payload around it, and lets the receiver see the record.
    fn complete(
        &mut self,
        link: &Arc<Link>,
        node: u64,
        call: &OutCall,
        len: usize,
        (entries, fds): (Vec<Entry>, Vec<OwnedFd>),
    ) -> Result<()> {
        let size = size_of_record(len, entries.len()) as u32;
        if !entries.is_empty() {
            // SAFETY: `write` found that the record fits into the free space; the sending end is locked since.
            unsafe { self.ring.put_entries(self.written, len, &entries) };
            link.send_fds(INBOX, false, fds)?;
        }
        let (priority, _) = client::me();
        let (len, objects) = (len as u32, entries.len() as u32);
        let cpu = u32::from(current_cpu()) | if call.clear_buffers { SECRET } else { 0 };
        let record = Record { len, code: call.code, node, priority, objects, size, cpu };
        // SAFETY: as above.
        unsafe { self.ring.put(self.written, record) };
        self.written = self.written.wrapping_add(size);
        self.publish(link, node)
    }

    fn publish(&mut self, link: &Link, node: u64) -> Result<()> {
        self.ring.set_written(self.written);
        let may_wait = self.free(COMFORT) >= COMFORT;
        match bell::ring(self.ring.bell(), node, may_wait) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(self.ring.bell()),
            WakeAction::Notify => link.send(Message::Post, Vec::new())?,
        }
        Ok(())
    }
}
