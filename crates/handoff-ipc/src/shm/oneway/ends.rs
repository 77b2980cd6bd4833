//! The two ends of the ring that carries oneway calls one way on a link: what each of them remembers.

use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use handoff_sync::adaptive_spin::{AdaptiveSpin, CpuMove};
use handoff_sync::spurious::SpuriousWakes;

use super::backlog::Backlog;
use super::ring::{DATA, Record, Ring};
use crate::ledger::Charge;
use crate::{Error, Result};

/// Descriptors of oneway calls are kept under this in place of a slot's number.
pub(crate) const INBOX: u32 = u32::MAX;

/// The sending end; whoever holds the link's lock on it writes.
pub(crate) struct Sender {
    pub(super) ring: Ring,
    pub(super) written: u32,
    /// How far the receiver was when this side looked last.
    pub(super) taken: u32,
}

impl Sender {
    /// Bytes that are free. Looks at how far the receiver is only if `enough` are not known to be: its
    /// word lies in a cache line that it writes.
    pub(super) fn free(&mut self, enough: usize) -> usize {
        // A receiver that claims to have read what was never written gets nothing more.
        let left = |taken| DATA.saturating_sub(self.written.wrapping_sub(taken) as usize);
        let known = left(self.taken);
        if known >= enough {
            return known;
        }
        self.taken = self.ring.taken();
        left(self.taken)
    }
}

/// What the one thread that takes records out remembers.
#[derive(Debug, Default)]
pub(super) struct DrainState {
    /// Bytes taken out so far.
    pub(super) at: u32,
    /// How far the sender has written, when this side looked last.
    pub(super) known: u32,
    /// The sender's word once said what it may not say.
    pub(super) broken: bool,
    /// Turns without a record.
    pub(super) spurious: SpuriousWakes,
    /// There were too many: the peer's writes to the bell keep the thread awake.
    pub(super) never_rests: bool,
    /// Where the last record's sender ran.
    pub(super) cpu: u32,
    pub(super) adaptive_spin: AdaptiveSpin,
    pub(super) cpu_move: CpuMove,
    /// Whom the last calls went to, and how many of them in a row.
    pub(super) node: u64,
    pub(super) alike: u32,
    /// Some calls that were taken out keep their place in the ring.
    pub(super) keeps: bool,
}

impl DrainState {
    /// How far the sender has written.
    pub(super) fn end(&mut self, ring: &Ring) -> Result<u32> {
        let end = ring.written_after(self.at, self.known);
        match end {
            Ok(end) if !self.broken => self.known = end,
            _ => self.broken = true,
        }
        if self.broken { Err(Error::Protocol("a oneway ring whose length cannot be".into())) } else { end }
    }

    /// True if there is a record, or an error for [`Receiver::drain`] to find: what is said here it says, too,
    /// whatever the sender writes meanwhile.
    pub(super) fn has_more(&mut self, ring: &Ring) -> bool {
        self.end(ring).map_or(true, |end| end != self.at)
    }

    /// A turn without a record is over.
    pub(super) fn note_idle(&mut self) {
        self.never_rests |= self.spurious.too_many();
    }

    pub(super) fn note(&mut self, record: &Record) {
        self.spurious.found();
        self.cpu = record.cpu;
        self.alike = if record.node == self.node { self.alike.saturating_add(1) } else { 0 };
        self.node = record.node;
    }
}

pub(crate) struct Receiver {
    pub(super) ring: Ring,
    // Its mapping and its bytes: gone after them.
    _charges: [Charge; 2],
    // One thread at a time takes records out.
    pub(super) drained: Mutex<DrainState>,
    // Up to here every call is in its object's queue, which holds the object.
    pub(super) queued: AtomicU32,
    // References given back after calls that are not: where the ring ended, object, count.
    pub(super) given_back: Mutex<Vec<(u32, u64, u32)>>,
    pub(super) backlog: Backlog,
    // A thread was sent for, and has not looked yet.
    pub(super) coming: AtomicBool,
    // A thread sleeps here, and has nothing to do.
    pub(super) waiting: AtomicBool,
    pub(super) dead: AtomicBool,
}

impl Receiver {
    /// Whether the peer has written what nobody has taken out.
    pub(crate) fn has_calls(&self) -> bool {
        self.ring.written() != self.queued.load(Ordering::Acquire)
    }

    pub(crate) fn accept(region: BorrowedFd<'_>, charges: [Charge; 2]) -> Result<Self> {
        Ok(Receiver {
            ring: Ring::accept(region)?,
            _charges: charges,
            drained: Mutex::default(),
            queued: AtomicU32::new(0),
            given_back: Mutex::default(),
            backlog: Backlog::default(),
            coming: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        })
    }
}
