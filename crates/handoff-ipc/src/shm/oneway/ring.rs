//! The ring of a link's oneway calls: its memory, and the records in it.
//!
//! ```text
//! byte 0      how far the receiver has read        (counts bytes without end, modulo 2^32)
//! byte 64     how far the sender has written       (likewise)
//! byte 128    who looks: see `handoff_sync::bell`
//! page 1 ..   records; each starts at a multiple of 32 and lies in one piece
//! ```
//!
//! The sender owns the free part, the receiver the written one. The receiver believes nothing that
//! stands there: a record is copied out once, then checked.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::parcel::{SharedBytes, Writer};
use crate::shm::call::slot::{Entry, MAX_OBJECTS};
use crate::shm::region::Region;
use crate::{Error, Result};

/// Bytes of the ring's data. Half of it is the largest oneway call.
pub(crate) const DATA: usize = 2 << 20;
/// The words at its start have a page of their own.
const HEAD: usize = 4096;
/// Bytes of the whole region.
pub(crate) const REGION: usize = HEAD + DATA;

const TAKEN: usize = 0;
const WRITTEN: usize = 64;
const BELL: usize = 128;

/// What stands in front of each record's payload.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// Bytes of payload.
    pub(crate) len: u32,
    pub(crate) code: u32,
    pub(crate) node: u64,
    pub(crate) priority: u32,
    /// Entries behind the payload.
    pub(crate) objects: u32,
    /// Bytes from this record to the next; a record with `SKIP` as its code only fills up the end.
    pub(crate) size: u32,
    /// Where the sender ran: a receiver beside it does not spin. With [`SECRET`] for one whose payload is not to be left
    /// anywhere; receivers of before take it for a CPU that nobody is on.
    pub(crate) cpu: u32,
}

/// See [`Record::cpu`].
pub(crate) const SECRET: u32 = 1 << 31;

const SKIP: u32 = u32::MAX;
/// Bytes of a record's head.
pub(crate) const RECORD: usize = size_of::<Record>();
const _: () = assert!(RECORD == 32 && DATA.is_power_of_two());

impl Record {
    /// Fills up `size` bytes before the end of the memory.
    pub(crate) fn filler(size: u32) -> Self {
        Record { len: 0, code: SKIP, node: 0, priority: 0, objects: 0, size, cpu: 0 }
    }
}

/// Rounded up to where a record may start.
pub(crate) fn aligned(len: usize) -> usize {
    (len + 31) & !31
}

/// Bytes of a record with so much in it.
pub(crate) fn size_of_record(len: usize, objects: usize) -> usize {
    aligned(RECORD + aligned(len) + objects * size_of::<Entry>())
}

/// What stands at a position, as private copies.
#[derive(Debug)]
pub(crate) enum RingItem {
    /// So many bytes that only fill up the end.
    Filler(u32),
    Call {
        record: Record,
        payload: Vec<u8>,
        entries: Vec<Entry>,
    },
}

/// Both ends' view of the ring.
#[derive(Debug)]
pub(crate) struct Ring {
    region: Region,
}

impl Ring {
    /// The sending end, and the descriptor for the peer.
    pub(crate) fn create() -> Result<(Self, OwnedFd)> {
        let (region, file) = Region::create("handoff-oneway", REGION)?;
        Ok((Ring { region }, file))
    }

    /// The receiving end of a ring that a peer made.
    pub(crate) fn accept(region: BorrowedFd<'_>) -> Result<Self> {
        Ok(Ring { region: Region::accept_sealed(region, REGION)? })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offsets are constants inside the first page; atomics may be shared.
        unsafe { &*self.region.start().add(offset).cast::<AtomicU32>() }
    }

    /// Who looks at the ring.
    pub(crate) fn bell(&self) -> &AtomicU32 {
        self.word(BELL)
    }

    /// How far the receiver has read, as it says.
    pub(crate) fn taken(&self) -> u32 {
        self.word(TAKEN).load(Ordering::Acquire)
    }

    pub(crate) fn set_taken(&self, at: u32) {
        self.word(TAKEN).store(at, Ordering::Release);
    }

    /// How far the sender has written, as it says.
    pub(crate) fn written(&self) -> u32 {
        self.word(WRITTEN).load(Ordering::Acquire)
    }

    /// How far the sender has written, for a receiver that has read up to `at` and knew of everything before
    /// `known`: an error if that lies before `known` or further ahead than the ring is long.
    pub(crate) fn written_after(&self, at: u32, known: u32) -> Result<u32> {
        let written = self.written();
        let ahead = written.wrapping_sub(at);
        if ahead as usize <= DATA && ahead >= known.wrapping_sub(at) {
            return Ok(written);
        }
        Err(Error::Protocol("a oneway ring that was written backwards or too far".into()))
    }

    /// Makes everything before `at` visible to the receiver.
    pub(crate) fn set_written(&self, at: u32) {
        self.word(WRITTEN).store(at, Ordering::Release);
    }

    /// Address of a position.
    fn at(&self, at: u32) -> *mut u8 {
        // SAFETY: the remainder lies inside the data.
        unsafe { self.region.start().add(HEAD + at as usize % DATA) }
    }

    /// Bytes from a position to the end of the memory.
    pub(crate) fn until_end(at: u32) -> usize {
        DATA - at as usize % DATA
    }

    /// A writer of the payload of the record at `at`, of at most `space` bytes.
    ///
    /// # Safety
    /// The record's head and `space` bytes behind it are free, do not reach past the end of the
    /// memory, and only this thread writes there.
    pub(crate) unsafe fn payload_writer(&self, at: u32, space: usize) -> Writer<'_> {
        debug_assert!(RECORD + space <= Self::until_end(at));
        // SAFETY: the caller's promise; the memory lives as long as `self`.
        unsafe { Writer::over(self.at(at).wrapping_add(RECORD), space) }
    }

    /// A copy of the payload of the record at `at`.
    pub(crate) fn payload(&self, at: u32, len: usize) -> Vec<u8> {
        let len = len.min(Self::until_end(at).saturating_sub(RECORD));
        // SAFETY: behind the head and before the end of the memory, which lives as long as `self`.
        unsafe { SharedBytes::new(self.at(at).wrapping_add(RECORD), len) }.to_vec()
    }

    /// Overwrites the payload of a record that was copied out.
    pub(crate) fn clear_payload(&self, at: u32, len: usize) {
        let len = len.min(Self::until_end(at).saturating_sub(RECORD));
        // SAFETY: behind the head and before the end of the memory, and not given back to the sender yet.
        unsafe { self.at(at).wrapping_add(RECORD).write_bytes(0, len) };
    }

    /// Puts objects behind the payload of `len` bytes of the record at `at`.
    ///
    /// # Safety
    /// As for [`Ring::payload_writer`], for [`size_of_record`] bytes.
    pub(crate) unsafe fn put_entries(&self, at: u32, len: usize, entries: &[Entry]) {
        debug_assert!(size_of_record(len, entries.len()) <= Self::until_end(at));
        // SAFETY: the caller's promise.
        unsafe {
            let table = self.at(at).add(RECORD + aligned(len)).cast::<Entry>();
            table.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
        }
    }

    /// Puts a record's head at `at`.
    ///
    /// # Safety
    /// The head's place is free, `at` is a multiple of 32, and only this thread writes there.
    pub(crate) unsafe fn put(&self, at: u32, record: Record) {
        debug_assert!(at % 32 == 0);
        // SAFETY: positions are multiples of 32, so a head never crosses the end of the memory; the
        // rest is the caller's promise.
        unsafe { self.at(at).cast::<Record>().write(record) };
    }

    /// Copies what stands at `at` out, once it is known to lie before `end`, up to where the sender has written.
    pub(crate) fn read(&self, at: u32, end: u32) -> Result<RingItem> {
        let broken = |what: &str| Error::Protocol(format!("a oneway record {what}"));
        let (there, until_end) = (end.wrapping_sub(at) as usize, Self::until_end(at));
        if !(RECORD..=DATA).contains(&there) || at % 32 != 0 {
            return Err(broken("that is out of the ring"));
        }
        // SAFETY: a head does not cross the end (both are multiples of 32); any bits are one.
        let record: Record = unsafe { self.at(at).cast::<Record>().read_volatile() };
        let size = record.size as usize;
        if size % 32 != 0 || size < RECORD || size > there.min(until_end) {
            return Err(broken("of an impossible size"));
        }
        if record.code == SKIP {
            return Ok(RingItem::Filler(record.size));
        }
        let (len, count) = (record.len as usize, record.objects as usize);
        if count > MAX_OBJECTS || len > size || size_of_record(len, count) > size {
            return Err(broken("that does not hold what it says"));
        }
        let start = self.at(at).wrapping_add(RECORD);
        let mut entries = vec![Entry::default(); count];
        // SAFETY: payload and entries lie inside the record, and that inside the ring.
        let payload = unsafe {
            start.add(aligned(len)).cast::<Entry>().copy_to_nonoverlapping(entries.as_mut_ptr(), count);
            SharedBytes::new(start, len).to_vec()
        };
        Ok(RingItem::Call { record, payload, entries })
    }
}

/// For the fuzz target: a ring of which a peer wrote anything it liked.
#[cfg(any(test, feature = "fuzzing"))]
impl Ring {
    /// Takes out what stands in `bytes` when they lie at `at`, as far as it is sound; gives the
    /// number of calls.
    pub(crate) fn read_scribbled(&self, at: u32, bytes: &[u8]) -> Result<usize> {
        for (offset, byte) in bytes.iter().enumerate().take(DATA) {
            // SAFETY: one byte inside of the data; nobody else has this ring.
            unsafe { self.at(at.wrapping_add(offset as u32)).write(*byte) };
        }
        let end = at.wrapping_add(bytes.len() as u32);
        self.set_written(end);
        let (mut at, mut calls, mut steps) = (at, 0, 0);
        while at != end {
            let size = match self.read(at, end)? {
                RingItem::Filler(size) => size,
                RingItem::Call { record, payload, entries } => {
                    assert_eq!(payload.len(), record.len as usize);
                    assert!(size_of_record(payload.len(), entries.len()) <= record.size as usize);
                    calls += 1;
                    record.size
                }
            };
            at = at.wrapping_add(size);
            steps += 1;
            assert!(steps <= bytes.len() / RECORD, "every step goes on by a head at least");
        }
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsFd;

    fn record(len: usize, objects: usize) -> Record {
        let size = size_of_record(len, objects) as u32;
        Record { len: len as u32, code: 9, node: 5, priority: 3, objects: objects as u32, size, cpu: 0 }
    }

    #[test]
    fn what_the_sender_puts_the_receiver_finds() {
        let (mine, file) = Ring::create().unwrap();
        let theirs = Ring::accept(file.as_fd()).unwrap();
        // Close to the end of the memory, and of the count.
        let at = u32::MAX - 31;
        let entry = Entry { offset: 4, kind: 1, value: 9, ..Entry::default() };
        // SAFETY: the ring is empty and this thread is alone.
        unsafe {
            mine.put(at, Record::filler(32));
            let mut writer = mine.payload_writer(0, 64);
            writer.write(&7i32).unwrap();
            mine.put_entries(0, 4, &[entry; 2]);
            mine.put(0, record(4, 2));
        }
        mine.set_written(size_of_record(4, 2) as u32);
        assert!(matches!(theirs.read(at, theirs.written()).unwrap(), RingItem::Filler(32)));
        let RingItem::Call { record: found, payload, entries } = theirs.read(0, theirs.written()).unwrap()
        else {
            panic!("a call")
        };
        assert_eq!((found, payload, entries), (record(4, 2), 7i32.to_ne_bytes().to_vec(), vec![entry; 2]));
        assert!(theirs.read(found.size, theirs.written()).is_err(), "nothing was written there");
    }

    #[test]
    fn records_that_lie_are_refused() {
        let lies = [
            Record { size: 33, ..record(4, 0) },
            Record { size: 0, ..record(4, 0) },
            Record { size: u32::MAX - 31, ..record(4, 0) },
            Record { len: u32::MAX, ..record(4, 0) },
            Record { objects: u32::MAX, ..record(4, 0) },
            Record { objects: 1, ..record(4, 0) },
            Record::filler(DATA as u32),
        ];
        let (ring, _file) = Ring::create().unwrap();
        for lie in lies {
            // SAFETY: the ring is empty and this thread is alone.
            unsafe { ring.put(64, lie) };
            ring.set_written(64 + 4096);
            assert!(matches!(ring.read(64, ring.written()), Err(Error::Protocol(_))), "{lie:?}");
        }
        assert!(ring.read(65, ring.written()).is_err(), "a position between records");
    }

    #[test]
    fn a_ring_written_backwards_or_too_far_is_refused() {
        let (ring, _file) = Ring::create().unwrap();
        for at in [0, 64, u32::MAX - 31] {
            let written = |ahead: u32, known: u32| {
                ring.set_written(at.wrapping_add(ahead));
                ring.written_after(at, at.wrapping_add(known)).map(|end| end.wrapping_sub(at))
            };
            for ahead in [0, 32, DATA as u32] {
                assert_eq!(written(ahead, 0).unwrap(), ahead);
            }
            for ahead in [0_u32.wrapping_sub(32), DATA as u32 + 32, 1 << 31, u32::MAX] {
                assert!(matches!(written(ahead, 0), Err(Error::Protocol(_))), "{ahead:#x} after {at:#x}");
            }
            assert_eq!(written(64, 64).unwrap(), 64);
            assert!(written(32, 64).is_err(), "what was seen once stays written");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_read_or_refused(at: u32, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let (ring, _file) = Ring::create().unwrap();
            let _ = ring.read_scribbled(at & !31, &bytes);
        }
    }
}
