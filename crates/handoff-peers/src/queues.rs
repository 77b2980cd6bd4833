//! Rings in memory beside the message queue: 64-byte messages, one at a time, from one thread to another.

use std::thread;
use std::time::Instant;

use handoff_ipc::queue::{MessageQueue, Synchronized};

/// Bytes of a message.
const SIZE: usize = 64;
/// Messages that a ring holds.
const CAPACITY: usize = 4096;

/// A ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Ours: FMQ's layout in shared memory, mapped by each end for itself.
    Fmq,
    /// `rtrb`: a ring in one process's memory.
    #[cfg(feature = "libraries")]
    Rtrb,
}

impl QueueKind {
    /// Those that this build has.
    pub const ALL: &[QueueKind] = &[
        QueueKind::Fmq,
        #[cfg(feature = "libraries")]
        QueueKind::Rtrb,
    ];

    /// Its name in tables, with its version where it is not ours.
    pub fn name(self) -> String {
        match self {
            QueueKind::Fmq => "FMQ (ours, between mappings)".to_owned(),
            #[cfg(feature = "libraries")]
            QueueKind::Rtrb => format!("rtrb {} (one process)", crate::locked("rtrb")),
        }
    }

    /// Messages per second of one run of so many; the reader checks each.
    ///
    /// # Errors
    /// If the queue cannot be made, or a message is lost or out of order.
    pub fn rate(self, messages: u64) -> std::io::Result<f64> {
        match self {
            QueueKind::Fmq => fmq(messages),
            #[cfg(feature = "libraries")]
            QueueKind::Rtrb => rtrb(messages),
        }
    }
}

/// Rates of every ring in turns, `rounds` values each.
///
/// # Errors
/// As [`QueueKind::rate`].
pub fn queue_rates(messages: u64, rounds: u32) -> std::io::Result<Vec<(QueueKind, Vec<f64>)>> {
    let mut rates: Vec<(QueueKind, Vec<f64>)> =
        QueueKind::ALL.iter().map(|kind| (*kind, Vec::new())).collect();
    for _ in 0..rounds {
        for (kind, values) in &mut rates {
            values.push(kind.rate(messages)?);
        }
    }
    Ok(rates)
}

fn number(message: &[u8; SIZE]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|n| message[n]))
}

fn fill(message: &mut [u8; SIZE], number: u64) {
    message[..8].copy_from_slice(&number.to_ne_bytes());
}

/// Runs both ends and times them.
fn race(
    messages: u64,
    mut push: impl FnMut(&[u8; SIZE]) -> bool + Send,
    mut pop: impl FnMut(&mut [u8; SIZE]) -> bool,
) -> std::io::Result<f64> {
    let began = Instant::now();
    let lost = thread::scope(|scope| {
        scope.spawn(move || {
            let mut message = [7; SIZE];
            for next in 0..messages {
                fill(&mut message, next);
                let mut tries = 0_u32;
                while !push(&message) {
                    pause(&mut tries);
                }
            }
        });
        let mut message = [0; SIZE];
        (0..messages).find(|expected| {
            let mut tries = 0_u32;
            while !pop(&mut message) {
                pause(&mut tries);
            }
            number(&message) != *expected
        })
    });
    match lost {
        None => Ok(messages as f64 / began.elapsed().as_secs_f64()),
        Some(at) => Err(std::io::Error::other(format!("message {at} did not come in its turn"))),
    }
}

/// Spins a while and then lets others run: where there is one CPU, the other end is among them.
fn pause(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(256) { thread::yield_now() } else { std::hint::spin_loop() }
}

fn fmq(messages: u64) -> std::io::Result<f64> {
    let failed = |error: handoff_ipc::Error| std::io::Error::other(error);
    let queue = MessageQueue::<[u8; SIZE], Synchronized>::new(CAPACITY).map_err(failed)?;
    let theirs = MessageQueue::attach(queue.descriptor().map_err(failed)?).map_err(failed)?;
    let mut writer = queue.writer().map_err(std::io::Error::other)?;
    let mut reader = theirs.reader().map_err(std::io::Error::other)?;
    race(
        messages,
        move |message| writer.write(std::slice::from_ref(message)).is_ok(),
        |message| reader.read(std::slice::from_mut(message)).is_ok(),
    )
}

#[cfg(feature = "libraries")]
fn rtrb(messages: u64) -> std::io::Result<f64> {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<[u8; SIZE]>::new(CAPACITY);
    race(
        messages,
        move |message| producer.push(*message).is_ok(),
        |message| consumer.pop().map(|popped| *message = popped).is_ok(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_delivers_every_message() {
        for (kind, rates) in queue_rates(100_000, 1).unwrap() {
            assert!(rates[0] > 0.0, "{kind:?}");
        }
    }

    #[test]
    fn a_lost_message_is_an_error() {
        let mut popped = 0;
        let outcome = race(
            3,
            |_| true,
            |message| {
                popped += 2;
                fill(message, popped - 2);
                true
            },
        );
        assert!(outcome.unwrap_err().to_string().contains("message 1"));
    }
}
