//! Every interleaving of one writer and one reader, with loom: `cargo xtask test` runs it with
//! `RUSTFLAGS="--cfg loom"`. The ring's bytes are atomics here: what is checked is that they are
//! never read before they were written, nor after they were written over.

use std::num::NonZeroU32;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Data;
use loom::thread;

use super::*;
use crate::event_word;
use crate::futex::AtomicU32;

const NOT_FULL: NonZeroU32 = NonZeroU32::new(1).unwrap();
const NOT_EMPTY: NonZeroU32 = NonZeroU32::new(2).unwrap();

struct Queue {
    read: AtomicU64,
    write: AtomicU64,
    reserve: AtomicU64,
    flag: AtomicU32,
    ring: [Data; 2],
}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Queue {
            read: AtomicU64::new(0),
            write: AtomicU64::new(0),
            reserve: AtomicU64::new(0),
            flag: AtomicU32::new(0),
            ring: [Data::new(0), Data::new(0)],
        })
    }

    fn counters(&self) -> Counters<'_> {
        Counters { read: &self.read, write: &self.write, reserve: Some(&self.reserve) }
    }

    fn put(&self, at: u64, value: u32) {
        self.ring[at as usize].store(value, Ordering::Relaxed);
    }

    fn get(&self, at: u64) -> u32 {
        self.ring[at as usize].load(Ordering::Relaxed)
    }
}

#[test]
fn messages_arrive_in_order_and_none_is_lost() {
    loom::model(|| {
        const SHAPE: Shape = Shape { size: 1, quantum: 1 };
        let queue = Queue::new();
        let writer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut cursor = Cursor::default();
                for value in 1..=2 {
                    while !cursor.granted(&queue.write, 1)
                        && cursor.free(queue.counters(), SHAPE).unwrap() == 0
                    {
                        thread::yield_now();
                    }
                    queue.put(cursor.offset(), value);
                    cursor.publish(queue.counters(), SHAPE, 1);
                }
            })
        };
        let mut cursor = Cursor::default();
        for value in 1..=2 {
            while !cursor.granted(&queue.read, 1) && cursor.ready(queue.counters(), SHAPE).unwrap() == 0 {
                thread::yield_now();
            }
            assert_eq!(queue.get(cursor.offset()), value);
            cursor.consume(queue.counters(), SHAPE, 1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn no_wake_is_lost_when_both_block() {
    loom::model(|| {
        const SHAPE: Shape = Shape { size: 1, quantum: 1 };
        let queue = Queue::new();
        let writer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut cursor = Cursor::default();
                for value in 1..=2 {
                    while !cursor.granted(&queue.write, 1)
                        && cursor.free(queue.counters(), SHAPE).unwrap() == 0
                    {
                        event_word::wait(&queue.flag, NOT_FULL, None).unwrap();
                    }
                    queue.put(cursor.offset(), value);
                    cursor.publish(queue.counters(), SHAPE, 1);
                    event_word::wake(&queue.flag, NOT_EMPTY);
                }
            })
        };
        let mut cursor = Cursor::default();
        for value in 1..=2 {
            while !cursor.granted(&queue.read, 1) && cursor.ready(queue.counters(), SHAPE).unwrap() == 0 {
                event_word::wait(&queue.flag, NOT_EMPTY, None).unwrap();
            }
            assert_eq!(queue.get(cursor.offset()), value);
            cursor.consume(queue.counters(), SHAPE, 1);
            event_word::wake(&queue.flag, NOT_FULL);
        }
        writer.join().unwrap();
    });
}

/// A message of two words, written twice into a ring of one message: what the reader keeps is whole.
#[test]
fn an_unsynchronized_reader_keeps_no_torn_message() {
    loom::model(|| {
        const SHAPE: Shape = Shape { size: 2, quantum: 2 };
        let queue = Queue::new();
        let writer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut cursor = Cursor::default();
                for value in 1..=2 {
                    cursor.locate(queue.counters(), SHAPE).unwrap();
                    cursor.claim(queue.counters(), 2);
                    queue.put(0, value);
                    queue.put(1, value);
                    cursor.publish(queue.counters(), SHAPE, 2);
                }
            })
        };
        let mut cursor = Cursor::default();
        for _ in 0..2 {
            match cursor.behind(queue.counters(), SHAPE) {
                Ok(0) | Err(Fault::Overflow(_)) => {}
                Ok(_) => {
                    let message = [queue.get(0), queue.get(1)];
                    let at = cursor.at;
                    if cursor.keep(queue.counters(), SHAPE, 2).is_ok() {
                        assert_eq!(message, [at as u32 / 2 + 1; 2]);
                    }
                }
                Err(other) => unreachable!("{other:?}"),
            }
        }
        writer.join().unwrap();
    });
}
