//! Counters of what the engines did, and the few things that they tell a person once.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter off the fast path.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) static PRIORITY_CHANGES: Counter = Counter::new();
pub(crate) static RAISED: Counter = Counter::new();
pub(crate) static INHERIT_DENIED: Counter = Counter::new();
/// What peers asked for beyond their share.
pub(crate) static REFUSED: Counter = Counter::new();
/// Control messages that were read.
pub(crate) static MESSAGES: Counter = Counter::new();
pub(crate) static SERVED_ONEWAY: Counter = Counter::new();

pub(crate) static ONEWAY_SPAM: Counter = Counter::new();
pub(crate) static UNKNOWN_RETURNS: Counter = Counter::new();

pub(crate) static SPAMMED: AtomicBool = AtomicBool::new(false);
pub(crate) static UNKNOWN_RETURN: AtomicBool = AtomicBool::new(false);
pub(crate) static MALFORMED: AtomicBool = AtomicBool::new(false);
pub(crate) static NO_THREAD: AtomicBool = AtomicBool::new(false);
static NO_PRIVILEGE: AtomicBool = AtomicBool::new(false);

/// A counter with one writer: an increment costs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// By the one thread that owns the counter at present.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Says something on standard error, the first time only.
pub(crate) fn say_once(said: &AtomicBool, text: impl FnOnce() -> String) {
    if !said.swap(true, Ordering::Relaxed) {
        eprintln!("handoff: {}", text());
    }
}

/// A priority that could not be lent.
pub(crate) fn inherit_denied(why: &dyn Display) {
    INHERIT_DENIED.add();
    say_once(&NO_PRIVILEGE, || format!("callers' priorities are not inherited here: {why}"));
}

/// What a process holds for others, as its ledger counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Connections, descriptors that nobody has taken out of a parcel or closed, and those that peers were sent and
    /// have not read.
    pub descriptors: u64,
    /// Regions of shared memory that peers made.
    pub mappings: u64,
    /// Their bytes, and those of large replies in them.
    pub bytes: u64,
    /// Objects of this process that others may call.
    pub exports: u64,
    /// Introductions that were not taken up.
    pub introductions: u64,
    /// Threads that wait for a peer while another one stands in.
    pub threads: u64,
}

impl Held {
    /// True if it is no more than another, of anything.
    pub fn is_within(&self, other: &Held) -> bool {
        let all = |held: &Held| {
            [held.descriptors, held.mappings, held.bytes, held.exports, held.introductions, held.threads]
        };
        all(self).iter().zip(all(other)).all(|(mine, theirs)| *mine <= theirs)
    }
}
