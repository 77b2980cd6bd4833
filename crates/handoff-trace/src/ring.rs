//! Pages of the kernel's trace ring buffer, as `trace_pipe_raw` gives them.
//!
//! A page starts with a time stamp and a word that holds how many bytes follow and whether events
//! were lost before it; then come records, each with a 4-byte header of 5 bits of type or length and
//! 27 bits of time since the record before. The layout of the page is read from
//! `events/header_page`; that of the header is fixed since Linux 2.6.33.
//! Reference: `include/linux/ring_buffer.h` and `Documentation/trace/ring-buffer-design.rst`.
//!
//! Nothing in a page is believed before it is checked: a damaged one ends in an error, never in a
//! read outside it.

use crate::error::{Result, TraceError};
use crate::format::parse_field;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;

/// Bits of the `commit` word that are not the length: `RB_MISSED_EVENTS`, `RB_MISSED_STORED`.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 27) - 1;

/// An absolute time stamp carries 59 bits; the upper five are those of the stamp before.
const ABSOLUTE_BITS: u32 = 59;

/// Where things are in a page: what `events/header_page` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    commit_offset: usize,
    commit_size: usize,
    data_offset: usize,
    data_size: usize,
}

impl PageLayout {
    /// The layout of a 64-bit kernel with pages of 4 KiB.
    pub const USUAL_64_BIT: Self =
        Self { commit_offset: 8, commit_size: 8, data_offset: 16, data_size: 4080 };

    /// Reads the text of `events/header_page`.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |why: &str| TraceError::format("the ring-buffer page (header_page)", why);
        let find = |name: &str| {
            text.lines()
                .filter_map(|line| parse_field(line.trim()))
                .find(|field| field.name == name)
                .ok_or_else(|| fail(&format!("it has no field `{name}`")))
        };
        let (timestamp, commit, data) =
            (find("timestamp")?.place, find("commit")?.place, find("data")?.place);
        let commit_end = u32::from(commit.offset) + u32::from(commit.size);
        if timestamp.offset != 0 || timestamp.size != 8 || !matches!(commit.size, 4 | 8) {
            return Err(fail("its time stamp or its length has an unknown size"));
        }
        if commit.offset < 8 || commit_end > u32::from(data.offset) || data.size == 0 {
            return Err(fail("its fields overlap"));
        }
        Ok(Self {
            commit_offset: commit.offset.into(),
            commit_size: commit.size.into(),
            data_offset: data.offset.into(),
            data_size: data.size.into(),
        })
    }

    /// The size of a whole page, in bytes.
    pub fn page_size(&self) -> usize {
        self.data_offset + self.data_size
    }

    /// The same page with another size, as `buffer_subbuf_size_kb` and `trace.dat` files give it.
    pub fn with_page_size(self, bytes: usize) -> Result<Self> {
        if bytes <= self.data_offset || bytes > 1 << 20 {
            return Err(TraceError::format("the ring-buffer page", format!("a size of {bytes} bytes")));
        }
        Ok(Self { data_size: bytes - self.data_offset, ..self })
    }
}

/// What is known of events lost just before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostEvents {
    /// None were lost.
    Nothing,
    /// Some were lost; the kernel had no room to say how many.
    Unknown,
    Count(u64),
}

/// One page, checked as far as its header goes.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    time: u64,
    data: &'a [u8],
    /// Events lost between the page before and this one.
    pub missed: LostEvents,
}

impl<'a> Page<'a> {
    /// Looks at the header of the page in `bytes`.
    pub fn parse(layout: &PageLayout, bytes: &'a [u8]) -> std::result::Result<Self, &'static str> {
        let time = bytes.first_chunk::<8>().ok_or("it is shorter than its header")?;
        let commit = bytes
            .get(layout.commit_offset..layout.commit_offset + layout.commit_size)
            .ok_or("it is shorter than its header")?;
        let commit = match *commit {
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => return Err("its length has an unknown size"),
        };
        let length = (commit & COMMIT_MASK) as usize;
        let data = bytes.get(layout.data_offset..).ok_or("it is shorter than its header")?;
        let data_and_count = data;
        let data = data.get(..length).ok_or("it claims more data than it has")?;
        let missed = if commit & MISSED_EVENTS == 0 {
            LostEvents::Nothing
        } else if commit & MISSED_STORED == 0 {
            LostEvents::Unknown
        } else {
            stored_count(layout.commit_size, &data_and_count[length..])
        };
        Ok(Self { time: u64::from_ne_bytes(*time), data, missed })
    }

    /// The records of the page, in the order they were written.
    pub fn records(&self) -> Records<'a> {
        Records { data: self.data, time: self.time }
    }
}

/// The number of lost events, a `long` behind the data.
fn stored_count(long: usize, rest: &[u8]) -> LostEvents {
    let count = match long {
        4 => rest.first_chunk::<4>().map(|bytes| u64::from(u32::from_ne_bytes(*bytes))),
        _ => rest.first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes)),
    };
    count.map_or(LostEvents::Unknown, LostEvents::Count)
}

/// One record: its time and its bytes, which start with the event's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds of the trace's clock.
    pub time: u64,
    /// The fields, as the event's format lays them out.
    pub data: &'a [u8],
}

/// Goes through the records of a page.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    data: &'a [u8],
    time: u64,
}

impl<'a> Records<'a> {
    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.data.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Type or length, and delta, out of a record's header: a C bit field, which starts at the
    /// lowest bit on little-endian machines and at the highest on big-endian ones.
    #[inline]
    fn split(header: u32) -> (u32, u64) {
        if cfg!(target_endian = "little") {
            (header & 31, u64::from(header >> 5))
        } else {
            (header >> DELTA_BITS, u64::from(header & ((1 << DELTA_BITS) - 1)))
        }
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> std::result::Result<(), &'static str> {
        self.data = self.data.get(bytes..).ok_or("a record reaches past its end")?;
        Ok(())
    }

    #[inline]
    fn step(&mut self) -> std::result::Result<Option<Record<'a>>, &'static str> {
        const CUT: &str = "a record's header is cut short";
        loop {
            if self.data.is_empty() {
                return Ok(None);
            }
            let (kind, delta) = Self::split(self.word(0).ok_or(CUT)?);
            let (start, length) = match kind {
                TYPE_PADDING if delta == 0 => return Ok(None),
                TYPE_PADDING => {
                    // A discarded event still moved the clock; its length follows the header.
                    self.time = self.time.wrapping_add(delta);
                    let length = self.word(4).ok_or(CUT)? as usize;
                    self.skip(length.max(4).saturating_add(4))?;
                    continue;
                }
                TYPE_TIME_EXTEND => {
                    let upper = u64::from(self.word(4).ok_or(CUT)?) << DELTA_BITS;
                    self.time = self.time.wrapping_add(upper + delta);
                    self.skip(8)?;
                    continue;
                }
                TYPE_TIME_STAMP => {
                    let upper = u64::from(self.word(4).ok_or(CUT)?) << DELTA_BITS;
                    self.time = absolute(upper + delta, self.time);
                    self.skip(8)?;
                    continue;
                }
                0 => {
                    let length = self.word(4).ok_or(CUT)? as usize;
                    (8, length.checked_sub(4).ok_or("a record is shorter than its own length")?)
                }
                words => (4, words as usize * 4),
            };
            self.time = self.time.wrapping_add(delta);
            let end = start + length;
            let data = self.data.get(start..end).ok_or("a record reaches past its end")?;
            // The last record of a page may be cut to the byte; all others fill whole words.
            self.data = self.data.get(end.next_multiple_of(4)..).unwrap_or_default();
            return Ok(Some(Record { time: self.time, data }));
        }
    }
}

/// Completes a 59-bit time stamp with the upper bits of the one before, which it may have passed.
fn absolute(stamp: u64, before: u64) -> u64 {
    let low = (1 << ABSOLUTE_BITS) - 1;
    let full = (stamp & low) | (before & !low);
    if full < before && before & !low != 0 { full.wrapping_add(1 << ABSOLUTE_BITS) } else { full }
}

impl<'a> Iterator for Records<'a> {
    type Item = std::result::Result<Record<'a>, &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(record) => record.map(Ok),
            Err(why) => {
                self.data = &[];
                Some(Err(why))
            }
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
