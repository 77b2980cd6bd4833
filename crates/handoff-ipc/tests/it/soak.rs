//! Many messages through a queue between two processes, each with its number and a checksum: none may
//! be lost, repeated, changed or out of order. `cargo xtask soak` sends a thousand million of them,
//! here it is as many as a test has time for.

use std::time::{Duration, Instant};

use crate::common::{Peer, Place, Random, engine, ready_and_wait, role, serve};
use handoff_ipc::parcel::Writer as ParcelWriter;
use handoff_ipc::queue::{Descriptor, MessageQueue, Reader, Synchronized, Writer};
use handoff_ipc::{Code, Error, Result, Service, Status, Transaction};

const TAKE: Code = 1;
/// Messages that the queue holds; no power of two, so that batches break at every place of it.
const CAPACITY: usize = 4093;
/// Messages that are written or read at once, at most.
const BATCH: u64 = 64;
/// The other side is dead, or a wake-up was lost.
const LIMIT: Option<Duration> = Some(Duration::from_secs(120));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    number: u64,
    filling: u64,
    checksum: u64,
}
handoff_ipc::queue_item!(Message { number: u64, filling: u64, checksum: u64 });

impl Message {
    const NONE: Message = Message { number: 0, filling: 0, checksum: 0 };

    fn new(number: u64, filling: u64) -> Self {
        Message { number, filling, checksum: checksum(number, filling) }
    }
}

fn checksum(number: u64, filling: u64) -> u64 {
    (number.rotate_left(32) ^ filling).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn messages() -> u64 {
    std::env::var("HANDOFF_SOAK_MESSAGES").map_or(1_000_000, |count| count.parse().expect("a number"))
}

/// The reading process.
struct Taker;

impl Service for Taker {
    fn descriptor(&self) -> &str {
        "test.ISoak"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, reply, .. } = transaction;
        if code != TAKE {
            return Err(transaction.unknown(self.descriptor()));
        }
        let queue = MessageQueue::attach(data.read::<Descriptor<Message, Synchronized>>()?)?;
        let taken = take(&mut queue.reader()?, data.read()?);
        reply.write(&taken.map_err(|wrong| Error::from(Status::service_specific(1, wrong)))?)
    }
}

/// Reads so many and gives the sum of their checksums, or what is wrong with the first bad one.
fn take(queue: &mut Reader<Message, Synchronized>, count: u64) -> std::result::Result<u64, String> {
    let (mut random, mut sum, mut next) = (Random(7), 0_u64, 0);
    let mut batch = [Message::NONE; BATCH as usize];
    while next < count {
        let wanted = (1 + random.below(BATCH)).min(count - next) as usize;
        let batch = &mut batch[..wanted];
        queue.read_blocking(batch, LIMIT).map_err(|error| format!("after {next} messages: {error}"))?;
        for message in batch {
            if message.number != next || message.checksum != checksum(message.number, message.filling) {
                return Err(format!("message {next} came as {message:?}"));
            }
            sum = sum.wrapping_add(message.checksum);
            next += 1;
        }
    }
    Ok(sum)
}

/// Writes so many and gives the sum of their checksums.
fn send(queue: &mut Writer<Message, Synchronized>, count: u64) -> u64 {
    let (mut random, mut sum, mut next) = (Random(11), 0_u64, 0);
    let mut batch = [Message::NONE; BATCH as usize];
    while next < count {
        let filled = (1 + random.below(BATCH)).min(count - next);
        let batch = &mut batch[..filled as usize];
        for message in &mut *batch {
            *message = Message::new(next, random.next());
            sum = sum.wrapping_add(message.checksum);
            next += 1;
        }
        queue.write_blocking(batch, LIMIT).unwrap_or_else(|error| panic!("before message {next}: {error}"));
    }
    sum
}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((_, socket)) = role() else { return };
    let _engine = serve(&socket, Taker);
    ready_and_wait();
}

#[test]
fn no_message_is_lost_between_two_processes() {
    let count = messages();
    let place = Place::new();
    let _peer = Peer::start("server", &place.socket());
    let engine = engine(&place.socket());
    let root = engine.context_object().unwrap();
    let queue = MessageQueue::<Message, Synchronized>::with_event_flag(CAPACITY).unwrap();
    let descriptor = queue.descriptor().unwrap();
    let began = Instant::now();
    let (sent, taken) = std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let ask = |w: &mut ParcelWriter<'_>| {
                w.write(&descriptor)?;
                w.write(&count)
            };
            root.transaction(TAKE).call(ask, |r| r.read::<u64>())
        });
        let sent = send(&mut queue.writer().unwrap(), count);
        (sent, taking.join().unwrap())
    });
    assert_eq!(taken.unwrap(), sent, "the sum of the checksums");
    let seconds = began.elapsed().as_secs_f64();
    println!("{count} messages in {seconds:.1} s ({:.1} million/s), none lost", count as f64 / seconds / 1e6);
}

#[test]
fn a_changed_message_is_noticed() {
    let queue = MessageQueue::<Message, Synchronized>::with_event_flag(8).unwrap();
    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    writer.write(&[Message::new(0, 1), Message { filling: 3, ..Message::new(1, 2) }]).unwrap();
    let wrong = take(&mut reader, 2).unwrap_err();
    assert!(wrong.contains("message 1"), "{wrong}");
    writer.write(&[Message::new(0, 1), Message::new(2, 2)]).unwrap();
    assert!(take(&mut reader, 2).unwrap_err().contains("message 1"));
}
