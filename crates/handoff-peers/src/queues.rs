//! Rings in memory beside the message queue: 64-byte messages from one CPU to another.
//!
//! Every ring is filled and emptied by the same code, with its own calls where one message is handed
//! over; the two ends run on the same two CPUs; the reader looks at every byte's place and checks every
//! message's number.

mod pair;
mod race;

use std::io;

use handoff_ipc::queue::{MessageQueue, Synchronized};

use pair::Pair;
pub(crate) use pair::play_if_writer;
use race::race;

const SIZE: usize = 64;
/// Messages that a ring holds.
const CAPACITY: usize = 4096;
/// Messages that are handed over at once where that is what is measured.
const BATCH: usize = 32;

type Message = [u8; SIZE];

/// A ring, and how many messages are handed over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Ours, each end in a process of its own.
    Fmq,
    /// Ours, both ends in this process, each with a mapping of its own.
    FmqMappings,
    /// Ours, both ends in this process, in one mapping: as the others have it.
    FmqInside,
    /// `rtrb`: one producer, one consumer, in one process's memory.
    #[cfg(feature = "libraries")]
    Rtrb,
    /// `ringbuf`: as `rtrb`.
    #[cfg(feature = "libraries")]
    Ringbuf,
    /// `crossbeam-queue`'s `ArrayQueue`: any number of producers and consumers.
    #[cfg(feature = "libraries")]
    Crossbeam,
    /// Ours, each end in a process of its own, 32 messages at a time.
    FmqBatch,
    /// `rtrb`, 32 messages at a time.
    #[cfg(feature = "libraries")]
    RtrbBatch,
    /// `ringbuf`, 32 messages at a time.
    #[cfg(feature = "libraries")]
    RingbufBatch,
}

impl QueueKind {
    /// Those that this build has.
    pub const ALL: &[QueueKind] = &[
        QueueKind::Fmq,
        QueueKind::FmqMappings,
        QueueKind::FmqInside,
        #[cfg(feature = "libraries")]
        QueueKind::Rtrb,
        #[cfg(feature = "libraries")]
        QueueKind::Ringbuf,
        #[cfg(feature = "libraries")]
        QueueKind::Crossbeam,
        QueueKind::FmqBatch,
        #[cfg(feature = "libraries")]
        QueueKind::RtrbBatch,
        #[cfg(feature = "libraries")]
        QueueKind::RingbufBatch,
    ];

    /// Its name in tables, with its version where it is not ours.
    pub fn name(self) -> String {
        let many = format!("{BATCH} at a time");
        match self {
            QueueKind::Fmq => "FMQ (ours, two processes)".to_owned(),
            QueueKind::FmqMappings => "FMQ (ours, one process, two mappings)".to_owned(),
            QueueKind::FmqInside => "FMQ (ours, one process)".to_owned(),
            QueueKind::FmqBatch => format!("FMQ (ours, two processes), {many}"),
            #[cfg(feature = "libraries")]
            QueueKind::Rtrb => format!("rtrb {} (one process)", crate::locked("rtrb")),
            #[cfg(feature = "libraries")]
            QueueKind::Ringbuf => format!("ringbuf {} (one process)", crate::locked("ringbuf")),
            #[cfg(feature = "libraries")]
            QueueKind::Crossbeam => {
                format!("crossbeam ArrayQueue {} (one process)", crate::locked("crossbeam-queue"))
            }
            #[cfg(feature = "libraries")]
            QueueKind::RtrbBatch => format!("rtrb {} (one process), {many}", crate::locked("rtrb")),
            #[cfg(feature = "libraries")]
            QueueKind::RingbufBatch => format!("ringbuf {} (one process), {many}", crate::locked("ringbuf")),
        }
    }

    pub fn is_ours(self) -> bool {
        use QueueKind::{Fmq, FmqBatch, FmqInside, FmqMappings};
        matches!(self, Fmq | FmqMappings | FmqInside | FmqBatch)
    }

    /// Messages that are handed over at once.
    pub fn batch(self) -> usize {
        match self {
            QueueKind::FmqBatch => BATCH,
            #[cfg(feature = "libraries")]
            QueueKind::RtrbBatch | QueueKind::RingbufBatch => BATCH,
            _ => 1,
        }
    }
}

/// A ring that messages can be sent through.
#[derive(Debug)]
pub struct Ring {
    kind: QueueKind,
    pair: Option<Pair>,
}

impl Ring {
    /// Makes one, with a process for its writer where that is its kind.
    ///
    /// # Errors
    /// If that process cannot be started, or this program has not called
    /// [`play_if_peer`](crate::play_if_peer).
    pub fn open(kind: QueueKind) -> io::Result<Self> {
        let pair = match kind {
            QueueKind::Fmq | QueueKind::FmqBatch => Some(Pair::start()?),
            _ => None,
        };
        Ok(Ring { kind, pair })
    }

    /// Messages per second of one run of so many, between the first and the last one; the reader
    /// checks each.
    ///
    /// # Errors
    /// If the queue cannot be made, a message is lost or out of order, or the writer dies.
    pub fn rate(&mut self, messages: u64) -> io::Result<f64> {
        match (self.kind, &mut self.pair) {
            (QueueKind::FmqBatch, Some(pair)) => pair.rate::<BATCH>(messages),
            (_, Some(pair)) => pair.rate::<1>(messages),
            (kind, None) => inside(kind, messages),
        }
    }
}

fn fmq() -> io::Result<MessageQueue<Message, Synchronized>> {
    MessageQueue::new(CAPACITY).map_err(io::Error::other)
}

/// Of a ring whose ends are both in this process.
fn inside(kind: QueueKind, messages: u64) -> io::Result<f64> {
    match kind {
        #[cfg(feature = "libraries")]
        QueueKind::Rtrb => {
            let (mut producer, mut consumer) = rtrb::RingBuffer::<Message>::new(CAPACITY);
            race::<1>(
                messages,
                move |[message]| producer.push(*message).is_ok(),
                move |[message]| consumer.pop().map(|popped| *message = popped).is_ok(),
            )
        }
        #[cfg(feature = "libraries")]
        QueueKind::RtrbBatch => {
            let (mut producer, mut consumer) = rtrb::RingBuffer::<Message>::new(CAPACITY);
            race::<BATCH>(
                messages,
                move |batch| producer.push_entire_slice(batch).is_ok(),
                move |batch| consumer.pop_entire_slice(batch).is_ok(),
            )
        }
        #[cfg(feature = "libraries")]
        QueueKind::Ringbuf => {
            use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
            let (mut producer, mut consumer) = ringbuf::HeapRb::<Message>::new(CAPACITY).split();
            race::<1>(
                messages,
                move |[message]| producer.try_push(*message).is_ok(),
                move |[message]| consumer.try_pop().map(|popped| *message = popped).is_some(),
            )
        }
        #[cfg(feature = "libraries")]
        QueueKind::RingbufBatch => {
            use ringbuf::traits::{Consumer as _, Observer as _, Producer as _, Split as _};
            let (mut producer, mut consumer) = ringbuf::HeapRb::<Message>::new(CAPACITY).split();
            race::<BATCH>(
                messages,
                move |batch| producer.vacant_len() >= BATCH && producer.push_slice(batch) == BATCH,
                move |batch| consumer.occupied_len() >= BATCH && consumer.pop_slice(batch) == BATCH,
            )
        }
        #[cfg(feature = "libraries")]
        QueueKind::Crossbeam => {
            let queue = crossbeam_queue::ArrayQueue::<Message>::new(CAPACITY);
            race::<1>(
                messages,
                |[message]| queue.push(*message).is_ok(),
                |[message]| queue.pop().map(|popped| *message = popped).is_some(),
            )
        }
        _ => {
            let queue = fmq()?;
            let other = match kind {
                QueueKind::FmqMappings => {
                    let descriptor = queue.descriptor().map_err(io::Error::other)?;
                    Some(MessageQueue::attach(descriptor).map_err(io::Error::other)?)
                }
                _ => None,
            };
            let mut writer = queue.writer().map_err(io::Error::other)?;
            let mut reader = other.as_ref().unwrap_or(&queue).reader().map_err(io::Error::other)?;
            race::<1>(
                messages,
                move |batch| writer.write(batch).is_ok(),
                move |batch| reader.read(batch).is_ok(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_workloads::peer::play_in_test;

    #[test]
    fn every_ring_delivers_every_message() {
        play_in_test("process::tests::peer_main");
        for kind in QueueKind::ALL {
            let mut ring = Ring::open(*kind).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            for _ in 0..2 {
                let rate = ring.rate(100_000).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                assert!(rate > 0.0, "{kind:?}");
            }
            assert!(!kind.name().contains("unknown"), "{}", kind.name());
        }
    }
}
