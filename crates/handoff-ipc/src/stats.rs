//! Counters of what the engines did, and the few things that they warn of once.

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
/// Synchronous calls over RPC sessions, made and served.
pub(crate) static RPC_CALLS: Counter = Counter::new();
pub(crate) static RPC_SERVED: Counter = Counter::new();
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

/// Warns of something, the first time only.
pub(crate) fn warn_once(warned: &AtomicBool, text: impl FnOnce() -> String) {
    if !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!("{}", text());
    }
}

/// A priority that could not be lent.
pub(crate) fn inherit_denied(why: &dyn Display) {
    INHERIT_DENIED.add();
    warn_once(&NO_PRIVILEGE, || format!("callers' priorities are not inherited here: {why}"));
}

/// What a process holds for others, as its ledger counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldResources {
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

impl HeldResources {
    /// True if it is no more than another, of anything.
    pub fn is_within(&self, other: &HeldResources) -> bool {
        let all = |held: &HeldResources| {
            [held.descriptors, held.mappings, held.bytes, held.exports, held.introductions, held.threads]
        };
        all(self).iter().zip(all(other)).all(|(mine, theirs)| *mine <= theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_warning_reaches_the_programs_subscriber_once() {
        let (log, warned) = (Log::default(), AtomicBool::new(false));
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..3 {
                warn_once(&warned, || "no priority to lend".to_owned());
            }
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("no priority to lend").count(), 1, "{text}");
        assert!(text.contains("WARN"), "{text}");
    }
}
