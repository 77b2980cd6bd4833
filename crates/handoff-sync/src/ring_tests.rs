//! The counters against a model of a bounded queue, and scribbled over.

use proptest::prelude::*;

use super::*;

struct Words {
    read: AtomicU64,
    write: AtomicU64,
    reserve: AtomicU64,
}

fn words(read: u64, write: u64) -> Words {
    Words { read: read.into(), write: write.into(), reserve: write.into() }
}

impl Words {
    fn counters(&self) -> Counters<'_> {
        Counters { read: &self.read, write: &self.write, reserve: Some(&self.reserve) }
    }
}

const SHAPE: Shape = Shape { size: 24, quantum: 8 };

/// Bytes that a writer may write at least, as an end finds it out that wants `want`.
fn free(cursor: &mut Cursor, words: &Words, shape: Shape, want: u64) -> Result<u64, Fault> {
    if cursor.granted(&words.write, want) { Ok(want) } else { cursor.free(words.counters(), shape) }
}

/// As [`free`], of a reader.
fn ready(cursor: &mut Cursor, words: &Words, shape: Shape, want: u64) -> Result<u64, Fault> {
    if cursor.granted(&words.read, want) { Ok(want) } else { cursor.ready(words.counters(), shape) }
}

#[test]
fn a_full_ring_has_no_room_and_an_empty_one_no_messages() {
    let words = words(0, 0);
    let (mut writer, mut reader) = (Cursor::default(), Cursor::default());
    assert_eq!(ready(&mut reader, &words, SHAPE, 8), Ok(0));
    assert_eq!(free(&mut writer, &words, SHAPE, 24), Ok(24));
    writer.publish(words.counters(), SHAPE, 24);
    assert_eq!(free(&mut writer, &words, SHAPE, 8), Ok(0));
    assert_eq!(ready(&mut reader, &words, SHAPE, 8), Ok(24));
    reader.consume(words.counters(), SHAPE, 8);
    assert_eq!((reader.offset(), writer.offset()), (8, 0));
    assert_eq!(free(&mut writer, &words, SHAPE, 8), Ok(8));
}

#[test]
fn an_end_goes_on_where_another_one_stopped() {
    let words = words(80, 96);
    let (mut writer, mut reader) = (Cursor::default(), Cursor::default());
    assert_eq!(free(&mut writer, &words, SHAPE, 8), Ok(8));
    assert_eq!(writer.offset(), 96 % 24);
    assert_eq!(ready(&mut reader, &words, SHAPE, 8), Ok(16));
    assert_eq!(reader.offset(), 80 % 24);
}

#[test]
fn counters_that_cannot_be_are_faults() {
    let apart = words(0, 32);
    assert_eq!(Cursor::default().free(apart.counters(), SHAPE), Err(Fault::Apart { read: 0, write: 32 }));
    assert_eq!(Cursor::default().ready(apart.counters(), SHAPE), Err(Fault::Apart { read: 0, write: 32 }));
    let behind = words(16, 8);
    assert!(matches!(Cursor::default().ready(behind.counters(), SHAPE), Err(Fault::Apart { .. })));
    let crooked = words(0, 9);
    assert_eq!(Cursor::default().free(crooked.counters(), SHAPE), Err(Fault::Misaligned(9)));
    assert_eq!(Cursor::default().ready(crooked.counters(), SHAPE), Err(Fault::Misaligned(9)));
    assert_eq!(Cursor::default().behind(crooked.counters(), SHAPE), Err(Fault::Misaligned(9)));
}

#[test]
fn a_reader_that_was_overtaken_stands_at_the_newest_end() {
    let words = words(0, 48);
    let mut reader = Cursor::default();
    assert_eq!(reader.behind(words.counters(), SHAPE), Err(Fault::Overflow(48)));
    assert_eq!(reader.behind(words.counters(), SHAPE), Ok(0));
    assert_eq!(reader.offset(), 0);
}

#[test]
fn a_writer_that_has_begun_to_overwrite_is_seen() {
    let words = words(0, 0);
    let (mut writer, mut reader) = (Cursor::default(), Cursor::default());
    writer.publish(words.counters(), SHAPE, 24);
    assert_eq!(reader.behind(words.counters(), SHAPE), Ok(24));
    // The reader is just one ring behind: FMQ's own counters do not show what happens now.
    writer.claim(words.counters(), 8);
    assert_eq!(reader.keep(words.counters(), SHAPE, 8), Err(Fault::Overflow(24)));
}

#[test]
fn a_reserve_that_nobody_keeps_is_left_aside() {
    let words = words(0, 48);
    words.reserve.store(0, Ordering::Relaxed);
    let mut reader = Cursor::default();
    let _ = reader.behind(words.counters(), SHAPE);
    words.write.store(56, Ordering::Relaxed);
    assert_eq!(reader.behind(words.counters(), SHAPE), Ok(8));
    assert_eq!(reader.keep(words.counters(), SHAPE, 8), Ok(()));
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64),
    Read(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![(1..6_u64).prop_map(Step::Write), (1..6_u64).prop_map(Step::Read)];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn a_synchronized_ring_is_a_bounded_queue(
        messages in 1..5_u64,
        quantum in 1..9_u64,
        start in 0..1000_u64,
        steps in steps(),
    ) {
        let shape = Shape { size: messages * quantum, quantum };
        let words = words(start * quantum, start * quantum);
        let (mut writer, mut reader) = (Cursor::default(), Cursor::default());
        let (mut written, mut read) = (start, start);
        for step in steps {
            let held = written - read;
            match step {
                Step::Write(n) => {
                    let free = free(&mut writer, &words, shape, n * quantum).unwrap();
                    prop_assert!(free <= (messages - held) * quantum);
                    prop_assert_eq!(free >= n * quantum, messages - held >= n);
                    if free >= n * quantum {
                        prop_assert_eq!(writer.offset(), written % messages * quantum);
                        writer.publish(words.counters(), shape, n * quantum);
                        written += n;
                    }
                }
                Step::Read(n) => {
                    let there = ready(&mut reader, &words, shape, n * quantum).unwrap();
                    prop_assert!(there <= held * quantum);
                    prop_assert_eq!(there >= n * quantum, held >= n);
                    if there >= n * quantum {
                        prop_assert_eq!(reader.offset(), read % messages * quantum);
                        reader.consume(words.counters(), shape, n * quantum);
                        read += n;
                    }
                }
            }
        }
    }

    #[test]
    fn no_counter_leads_out_of_the_ring(
        messages in 1..9_u64,
        quantum in 1..100_u64,
        scribbles in proptest::collection::vec((0..3_u8, any::<u64>(), 1..9_u64), 1..60),
    ) {
        let shape = Shape { size: messages * quantum, quantum };
        let words = words(0, 0);
        let (mut writer, mut reader, mut other) = (Cursor::default(), Cursor::default(), Cursor::default());
        for (which, value, n) in scribbles {
            [&words.read, &words.write, &words.reserve][usize::from(which)].store(value, Ordering::Relaxed);
            let bytes = n.min(messages) * quantum;
            if free(&mut writer, &words, shape, bytes).is_ok_and(|free| free >= bytes) {
                writer.publish(words.counters(), shape, bytes);
            }
            if ready(&mut reader, &words, shape, bytes).is_ok_and(|there| there >= bytes) {
                reader.consume(words.counters(), shape, bytes);
            }
            if other.behind(words.counters(), shape).is_ok_and(|there| there >= bytes) {
                let _ = other.keep(words.counters(), shape, bytes);
            }
            for cursor in [writer, reader, other] {
                prop_assert!(cursor.offset() < shape.size && cursor.offset().is_multiple_of(quantum));
            }
        }
    }
}
