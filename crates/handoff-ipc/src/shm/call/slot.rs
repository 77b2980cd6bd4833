//! The call slot: one region in which a caller's thread and the thread that serves it take turns.
//!
//! ```text
//! byte 0        state word, code/status, length, meta, object, priority, thread: half a cache line
//! byte 32       payload: the request, and the reply where it may overwrite the request; one with a
//!               large buffer begins so that the buffer does at the next page (see `Meta::payload_offset`)
//! 2 MiB         the reply to a request that the service still borrows
//! last 2 pages  what each side tells about itself, and objects beside the payload
//! ```
//!
//! A call with up to 32 bytes each way so moves a single cache line to the server and back.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::parcel::{LINE, SharedBytes, Spill, Writer};
use crate::shm::region::Region;

/// Bytes of a slot's region. Sparse: an idle slot holds one page.
pub(crate) const SLOT_SIZE: usize = 4 << 20;
/// Where the payload of the first area begins.
const AREA_A: usize = 32;
/// Where the second area begins.
const AREA_B: usize = 2 << 20;
const SERVER_PAGE: usize = SLOT_SIZE - 4096;
const CALLER_PAGE: usize = SLOT_SIZE - 8192;
/// Bytes at the end of each area that are kept for the table of objects.
const TABLE: usize = 64 << 10;

/// From the page in which an area begins to the one where a large buffer does.
const PAGE: usize = 4096;

/// Largest payload of one direction, in bytes.
pub(crate) const MAX_PAYLOAD: usize = AREA_B - PAGE - TABLE - 8192;

/// From so many bytes on, the memory of a reply in the second area is given back when the slot is idle.
pub(crate) const LARGE_REPLY: u32 = 64 << 10;

/// Slots that each side of a link may open.
pub(crate) const MAX_SLOTS: usize = 1024;

/// Objects that one parcel may carry.
pub(crate) const MAX_OBJECTS: usize = 1024;

/// One object beside a payload. See `objects.rs` for what the fields mean.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    pub(crate) offset: u32,
    pub(crate) kind: u32,
    pub(crate) value: u64,
    pub(crate) endpoint: [u8; 16],
    pub(crate) token: [u8; 16],
}

const _: () = assert!(MAX_OBJECTS * size_of::<Entry>() <= TABLE && size_of::<Entry>() == 48);

/// The fields of a request or a reply, as private copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// Transaction code; in a reply the transport's status.
    pub(crate) code: u32,
    /// Bytes of payload.
    pub(crate) len: u32,
    /// Flags in the low byte, the payload offset above, the caller's CPU in the high half.
    pub(crate) meta: Meta,
    /// The object that is called.
    pub(crate) node: u64,
    /// The caller's priority, packed.
    pub(crate) priority: u32,
    pub(crate) tid: u32,
}

/// Flags, payload offset and CPU in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Meta(pub(crate) u32);

impl Meta {
    /// The reply lies in the second area.
    pub(crate) const AREA_B: u32 = 1;
    /// Objects travel beside the payload; their number is in the sender's page.
    pub(crate) const OBJECTS: u32 = 2;
    /// The caller's page holds a deadline.
    pub(crate) const DEADLINE: u32 = 4;
    /// The caller will look for the reply without sleeping, and so may the server for what follows.
    pub(crate) const SPIN: u32 = 8;
    /// The caller asks the server to wait on the caller's CPU.
    pub(crate) const BESIDE: u32 = 16;

    /// Both sides are bound to one CPU: whoever looks must yield.
    pub(crate) const YIELD: u32 = 32;
    /// What the request says is secret: no copy of it is to be left. Servers of before pass over it.
    pub(crate) const SECRET: u32 = 64;

    pub(crate) fn new(flags: u32, cpu: u16) -> Self {
        Meta(flags & 0xffff | u32::from(cpu) << 16)
    }

    /// How far before the area's second page the payload begins, in bytes, less than 1024; 0: at the
    /// area's start.
    fn payload_offset(self) -> usize {
        (self.0 >> 8 & 0xff) as usize * 4
    }

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn cpu(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    region: Region,
}

/// A parcel that stands in an area.
#[derive(Clone, Copy)]
pub(crate) struct ParcelExtent {
    pub(crate) len: u32,
    /// The flags of `Meta` that tell where it begins.
    pub(crate) payload_offset: u32,
}

/// Where a small parcel is put together. The peer looks at the slot all the time while it waits: were
/// the parcel written there value by value, the cache line would go back and forth as often.
pub(crate) type Stage = [MaybeUninit<u8>; 256];

pub(crate) const STAGE: Stage = [MaybeUninit::uninit(); 256];

// What a parcel has on a stage finds room before the line before the page in which its large buffer begins.
const _: () = assert!(AREA_A + size_of::<Stage>() + LINE <= PAGE && AREA_B % PAGE == 0);

/// One of the two payload areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    A,
    B,
}

impl Area {
    fn start(self) -> usize {
        match self {
            Area::A => AREA_A,
            Area::B => AREA_B,
        }
    }

    /// Where a large buffer begins.
    fn page(self) -> usize {
        self.start() / PAGE * PAGE + PAGE
    }

    fn table(self) -> usize {
        self.start() / AREA_B * AREA_B + AREA_B - TABLE - 8192
    }
}

impl Slot {
    /// A new slot and the descriptor for the server.
    pub(crate) fn create() -> Result<(Self, OwnedFd)> {
        let (region, file) = Region::create("handoff-slot", SLOT_SIZE)?;
        Ok((Slot { region }, file))
    }

    /// The server's mapping of a caller's slot.
    pub(crate) fn accept(file: BorrowedFd<'_>) -> Result<Self> {
        Ok(Slot { region: Region::accept_sealed(file, SLOT_SIZE)? })
    }

    #[inline]
    fn u32_at(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset % 4 == 0 && offset + 4 <= self.region.len());
        // SAFETY: inside the mapping (all callers pass constants below SLOT_SIZE), aligned, and
        // atomics may be shared with whoever else maps the page.
        unsafe { &*self.region.start().add(offset).cast::<AtomicU32>() }
    }

    #[inline]
    pub(crate) fn word(&self) -> &AtomicU32 {
        self.u32_at(0)
    }

    /// Writes a request's header. The word's exchange publishes it.
    #[inline]
    pub(crate) fn write_request(&self, header: &Header) {
        self.u32_at(4).store(header.code, Ordering::Relaxed);
        self.u32_at(8).store(header.len, Ordering::Relaxed);
        self.u32_at(12).store(header.meta.0, Ordering::Relaxed);
        self.u32_at(16).store(header.node as u32, Ordering::Relaxed);
        self.u32_at(20).store((header.node >> 32) as u32, Ordering::Relaxed);
        self.u32_at(24).store(header.priority, Ordering::Relaxed);
        self.u32_at(28).store(header.tid, Ordering::Relaxed);
    }

    /// Reads a request's header, once.
    #[inline]
    pub(crate) fn read_request(&self) -> Header {
        let at = |offset| self.u32_at(offset).load(Ordering::Relaxed);
        Header {
            code: at(4),
            len: at(8),
            meta: Meta(at(12)),
            node: u64::from(at(16)) | u64::from(at(20)) << 32,
            priority: at(24),
            tid: at(28),
        }
    }

    /// Writes a reply's header.
    #[inline]
    pub(crate) fn write_reply(&self, status: i32, len: u32, meta: Meta) {
        self.u32_at(4).store(status as u32, Ordering::Relaxed);
        self.u32_at(8).store(len, Ordering::Relaxed);
        self.u32_at(12).store(meta.0, Ordering::Relaxed);
    }

    /// Reads a reply's header: status, length, meta.
    #[inline]
    pub(crate) fn read_reply(&self) -> (i32, u32, Meta) {
        let at = |offset| self.u32_at(offset).load(Ordering::Relaxed);
        (at(4) as i32, at(8), Meta(at(12)))
    }

    /// The slot that a waiting caller is asked to serve; in place of the code.
    pub(crate) fn set_nested(&self, slot: u32) {
        self.u32_at(4).store(slot, Ordering::Relaxed);
    }

    pub(crate) fn nested(&self) -> u32 {
        self.u32_at(4).load(Ordering::Relaxed)
    }

    /// A writer over an area, small parcels by way of `stage`.
    ///
    /// # Safety
    /// It must be this side's turn (the protocol of `handoff_sync::word`), and no other writer over the area
    /// and no reader that must stay valid may exist in this process.
    #[inline]
    pub(crate) unsafe fn writer<'a>(&'a self, area: Area, stage: &'a mut Stage) -> Writer<'a> {
        let at = |offset| self.region.start().wrapping_add(offset);
        let spill = Spill { start: at(area.start()), page: at(area.page()), capacity: MAX_PAYLOAD };
        // SAFETY: inside the mapping: both areas end before their tables, also from their second pages; a
        // stage and a line are shorter than what is before those; the rest by the caller.
        unsafe { Writer::staged(stage, spill) }
    }

    /// Puts what is still on a stage into the area.
    #[inline]
    pub(crate) fn put_down(&self, area: Area, parcel: &mut Writer<'_>) -> ParcelExtent {
        parcel.unstage();
        let start = parcel.start().addr() - self.region.start().addr();
        let payload_offset =
            if start == area.start() { 0 } else { (((area.page() - start) / 4) as u32) << 8 };
        ParcelExtent { len: parcel.len() as u32, payload_offset }
    }

    /// The payload of an area, which begins where `meta` says; `None` if `len` reaches past it.
    #[inline]
    pub(crate) fn payload(&self, area: Area, meta: Meta, len: u32) -> Option<SharedBytes<'_>> {
        let len = len as usize;
        let start =
            if meta.payload_offset() == 0 { area.start() } else { area.page() - meta.payload_offset() };
        // SAFETY: inside the mapping, which lives as long as `self`: a payload of the largest size ends
        // before the area's table even if it begins at the area's second page.
        (len <= MAX_PAYLOAD).then(|| unsafe { SharedBytes::new(self.region.start().add(start), len) })
    }

    /// Puts objects beside a payload.
    pub(crate) fn write_entries(&self, area: Area, entries: &[Entry]) {
        debug_assert!(entries.len() <= MAX_OBJECTS);
        let count = entries.len().min(MAX_OBJECTS);
        // SAFETY: the table of an area is inside the mapping and holds MAX_OBJECTS entries.
        unsafe {
            let table = self.region.start().add(area.table()).cast::<Entry>();
            table.copy_from_nonoverlapping(entries.as_ptr(), count);
        }
        self.u32_at(Self::count_at(area)).store(count as u32, Ordering::Relaxed);
    }

    /// Private copies of the objects beside a payload.
    pub(crate) fn read_entries(&self, area: Area) -> Option<Vec<Entry>> {
        let count = self.u32_at(Self::count_at(area)).load(Ordering::Relaxed) as usize;
        if count > MAX_OBJECTS {
            return None;
        }
        let mut entries = vec![Entry::default(); count];
        // SAFETY: as in `write_entries`; every bit pattern is an entry.
        unsafe {
            let table = self.region.start().add(area.table()).cast::<Entry>();
            table.copy_to_nonoverlapping(entries.as_mut_ptr(), count);
        }
        Some(entries)
    }

    fn count_at(area: Area) -> usize {
        match area {
            Area::A => CALLER_PAGE + 16,
            Area::B => SERVER_PAGE + 16,
        }
    }

    /// The call's deadline, nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn set_deadline(&self, deadline_ns: u64) {
        self.u32_at(CALLER_PAGE).store(deadline_ns as u32, Ordering::Relaxed);
        self.u32_at(CALLER_PAGE + 4).store((deadline_ns >> 32) as u32, Ordering::Relaxed);
    }

    pub(crate) fn deadline(&self) -> u64 {
        let at = |offset| u64::from(self.u32_at(offset).load(Ordering::Relaxed));
        at(CALLER_PAGE) | at(CALLER_PAGE + 4) << 32
    }

    /// The caller says that it has read a large reply, or the server that another one comes.
    pub(crate) fn set_reply_read(&self, is_read: bool) {
        self.u32_at(CALLER_PAGE + 8).store(is_read.into(), Ordering::Release);
    }

    pub(crate) fn is_reply_read(&self) -> bool {
        self.u32_at(CALLER_PAGE + 8).load(Ordering::Acquire) == 1
    }

    /// Gives the memory of an area's payload back to the kernel, but for the page of the hand-off word.
    pub(crate) fn free_payload(&self, area: Area) {
        let from = match area {
            Area::A => area.page(),
            Area::B => area.start(),
        };
        self.region.free(from, area.table() - from);
    }

    /// Pages of the second area's payload that hold memory.
    #[cfg(test)]
    pub(crate) fn pages_of_reply(&self) -> usize {
        let len = Area::B.table() - AREA_B;
        let mut pages = vec![0_u8; len / PAGE];
        // SAFETY: inside the mapping; the kernel fills one byte a page in.
        let found =
            unsafe { libc::mincore(self.region.start().add(AREA_B).cast(), len, pages.as_mut_ptr().cast()) };
        assert_eq!(found, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    /// Overwrites what a payload of so many bytes may have touched, wherever in the area it began.
    pub(crate) fn clear(&self, area: Area, len: u32) {
        let end = (area.page() + len as usize).min(area.table());
        // SAFETY: inside the mapping. What a peer reads or writes there meanwhile is its own affair.
        unsafe { self.region.start().add(area.start()).write_bytes(0, end - area.start()) };
    }

    /// Overwrites the arguments of a call, of so many bytes, and the reply that stands in the slot.
    #[cold]
    pub(crate) fn clear_call(&self, sent: u32) {
        let (_, len, meta) = self.read_reply();
        if meta.has(Meta::AREA_B) {
            self.clear(Area::B, len);
            self.clear(Area::A, sent);
        } else {
            self.clear(Area::A, sent.max(len));
        }
    }

    /// What the attending thread tells its caller: its priority, and its only CPU or `NO_CPU`.
    pub(crate) fn set_server_status(&self, priority: u32, cpu: u32) {
        self.u32_at(SERVER_PAGE).store(priority, Ordering::Relaxed);
        self.u32_at(SERVER_PAGE + 4).store(cpu, Ordering::Relaxed);
    }

    pub(crate) fn server_priority(&self) -> u32 {
        self.u32_at(SERVER_PAGE).load(Ordering::Relaxed)
    }

    pub(crate) fn server_cpu(&self) -> u32 {
        self.u32_at(SERVER_PAGE + 4).load(Ordering::Relaxed)
    }
}

/// The attending thread is not bound to one CPU.
pub(crate) const NO_CPU: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Reader;
    use std::os::fd::AsFd;

    #[test]
    fn areas_and_tables_do_not_overlap() {
        for area in [Area::A, Area::B] {
            assert!(area.page() + MAX_PAYLOAD <= area.table(), "{area:?}");
            let before = size_of::<Stage>() + LINE;
            assert_eq!(Meta((before as u32 / 4) << 8).payload_offset(), before, "{area:?}");
            assert!(area.start() + Meta(u32::MAX).payload_offset() < area.page(), "{area:?}");
        }
        assert!(Area::A.table() + TABLE <= AREA_B);
        assert!(Area::B.table() + TABLE <= CALLER_PAGE);
        const { assert!(MAX_PAYLOAD > 1 << 20) };
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (mine, file) = Slot::create().unwrap();
        let theirs = Slot::accept(file.as_fd()).unwrap();
        let header = Header {
            code: 1,
            len: 2,
            meta: Meta::new(Meta::SPIN | Meta::OBJECTS, 513),
            node: u64::MAX - 5,
            priority: 7,
            tid: 8,
        };
        mine.write_request(&header);
        assert_eq!(theirs.read_request(), header);
        assert_eq!(theirs.read_request().meta.cpu(), 513);
        let entry = Entry { offset: 4, kind: 1, value: 9, ..Entry::default() };
        theirs.write_entries(Area::B, &[entry; 3]);
        assert_eq!(mine.read_entries(Area::B), Some(vec![entry; 3]));
        mine.u32_at(SERVER_PAGE + 16).store(u32::MAX, Ordering::Relaxed);
        assert_eq!(theirs.read_entries(Area::B), None, "a count that cannot be");
        assert!(mine.payload(Area::A, Meta(0), u32::MAX).is_none());
    }

    #[test]
    fn a_large_buffer_begins_at_a_page_or_a_line_before_and_small_ones_share_the_headers_line() {
        let (mine, file) = Slot::create().unwrap();
        let theirs = Slot::accept(file.as_fd()).unwrap();
        // Where in its page the buffer begins that is copied, in the last column but one.
        for (area, before, size, skew, lead) in [
            (Area::A, 0, 8, 0, 0),
            (Area::A, 0, 300, 0, 0),
            (Area::A, 0, 4096, 0, 1),
            (Area::A, 0, 4096, 16, 1),
            (Area::A, 0, 4096, PAGE - 64, 1),
            (Area::A, 0, 4096, PAGE - 63, 1 + 16),
            (Area::B, 2, 1 << 20, PAGE - 1, 3 + 16),
            (Area::B, 2, 1 << 20, 0, 3),
            (Area::A, 63, 1 << 20, 0, 64),
            (Area::A, 63, 1 << 20, PAGE - 16, 64 + 16),
            (Area::A, 64, 1 << 20, 0, 0),
        ] {
            let mut stage = STAGE;
            // SAFETY: no other writer or reader is there.
            let mut writer = unsafe { mine.writer(area, &mut stage) };
            for number in 0..before {
                writer.write_i32(number).unwrap();
            }
            let mut room = vec![0; size + 2 * PAGE];
            let at = room.as_ptr().align_offset(PAGE) + skew;
            room[at..][..size].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
            let bytes = &room[at..][..size];
            writer.write_bytes(bytes).unwrap();
            writer.write_i32(-1).unwrap();
            let written = mine.put_down(area, &mut writer);
            let meta = Meta(written.payload_offset);
            assert_eq!(meta.payload_offset(), 4 * lead, "{before} numbers, then {size} bytes from {skew}");
            let mut reader = Reader::new(theirs.payload(area, meta, written.len).unwrap());
            (0..before).for_each(|number| assert_eq!(reader.read_i32().unwrap(), number));
            assert_eq!(reader.read_bytes().unwrap().to_vec(), bytes);
            assert_eq!(reader.read_i32().unwrap(), -1);
        }
    }
}
