//! Both ends of a queue in one process: the cases that FMQ's own unit tests cover, as tests of ours.
//!
//! Descriptors that a hostile peer could send are tested beside `queue/memory.rs`, counters beside
//! `handoff_sync::ring`, two processes in `queue_processes.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use handoff_ipc::queue::{
    Blocking, Builder, EventFlag, Flavor, Item, MessageQueue, NOT_EMPTY, NOT_FULL, QueueError, Reader, Role,
    Synchronized, Unsynchronized, Writer,
};

/// As many messages as libfmq's tests have: no power of two, so that a wrong modulo shows.
const CAPACITY: usize = 2047;

fn numbers(count: usize) -> Vec<u16> {
    (0..count).map(|n| (n * 31) as u16).collect()
}

fn ends<F: Flavor>() -> (Writer<u16, F>, Reader<u16, F>) {
    let queue = Builder::<u16, F>::new(CAPACITY).event_flag().build().unwrap();
    (queue.writer().unwrap(), queue.reader().unwrap())
}

fn read<F: Flavor>(reader: &mut Reader<u16, F>, count: usize) -> Result<Vec<u16>, QueueError> {
    let mut items = vec![0; count];
    reader.read(&mut items).map(|()| items)
}

/// What holds for both flavours.
macro_rules! both_flavours {
    ($module:ident, $flavor:ty) => {
        mod $module {
            use super::*;

            #[test]
            fn a_few_messages_arrive() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&numbers(16)).unwrap();
                assert_eq!(reader.available(), Ok(16));
                assert_eq!(read(&mut reader, 16).unwrap(), numbers(16));
                assert_eq!(reader.available(), Ok(0));
            }

            #[test]
            fn a_few_messages_arrive_through_transactions() {
                let (mut writer, mut reader) = ends::<$flavor>();
                let mut room = writer.begin(16).unwrap();
                assert_eq!(room.span().len(), 16);
                room.span().put_all(&numbers(16));
                room.commit(16).unwrap();
                let there = reader.begin(16).unwrap();
                let mut items = [0; 16];
                there.span().get_all(&mut items);
                there.commit(16).unwrap();
                assert_eq!(items[..], numbers(16));
            }

            #[test]
            fn a_few_messages_arrive_slot_by_slot() {
                let (mut writer, mut reader) = ends::<$flavor>();
                let mut room = writer.begin(16).unwrap();
                for (index, item) in numbers(16).iter().enumerate() {
                    room.span().put(index, item);
                }
                room.commit(16).unwrap();
                let there = reader.begin(16).unwrap();
                let items: Vec<u16> = (0..16).map(|index| there.span().get(index).unwrap()).collect();
                assert_eq!(there.span().get(16), None);
                there.commit(16).unwrap();
                assert_eq!(items, numbers(16));
            }

            #[test]
            fn an_empty_queue_cannot_be_read() {
                let (_writer, mut reader) = ends::<$flavor>();
                assert_eq!(reader.available(), Ok(0));
                assert_eq!(read(&mut reader, 2), Err(QueueError::Empty(0)));
                assert_eq!(reader.begin(1).err(), Some(QueueError::Empty(0)));
            }

            #[test]
            fn a_queue_of_messages_can_be_filled() {
                let (mut writer, mut reader) = ends::<$flavor>();
                assert_eq!(writer.available(), Ok(CAPACITY));
                writer.write(&numbers(CAPACITY)).unwrap();
                assert_eq!(writer.available(), Ok(0));
                assert_eq!(reader.available(), Ok(CAPACITY));
                assert_eq!(read(&mut reader, CAPACITY).unwrap(), numbers(CAPACITY));
            }

            #[test]
            fn more_than_a_queue_holds_is_never_written() {
                let (mut writer, mut reader) = ends::<$flavor>();
                let too_many = QueueError::TooMany { wanted: CAPACITY + 1, capacity: CAPACITY };
                assert_eq!(writer.write(&numbers(CAPACITY + 1)), Err(too_many));
                assert_eq!(writer.begin(CAPACITY + 1).err(), Some(too_many));
                assert!(matches!(writer.begin(usize::MAX).err(), Some(QueueError::TooMany { .. })));
                assert_eq!(reader.available(), Ok(0));
                assert_eq!(read(&mut reader, CAPACITY + 1), Err(too_many));
                assert_eq!(read(&mut reader, 1), Err(QueueError::Empty(0)));
            }

            #[test]
            fn nothing_is_read_in_part() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&numbers(5)).unwrap();
                assert_eq!(read(&mut reader, 6), Err(QueueError::Empty(5)));
                assert_eq!(read(&mut reader, 5).unwrap(), numbers(5));
            }

            #[test]
            fn one_write_is_read_in_many_reads() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&numbers(CAPACITY)).unwrap();
                let mut items = Vec::new();
                for _ in 0..89 {
                    items.extend(read(&mut reader, 23).unwrap());
                }
                assert_eq!(items, numbers(CAPACITY));
            }

            #[test]
            fn many_writes_are_read_in_one_read() {
                let (mut writer, mut reader) = ends::<$flavor>();
                for piece in numbers(CAPACITY).chunks(89) {
                    writer.write(piece).unwrap();
                }
                assert_eq!(read(&mut reader, CAPACITY).unwrap(), numbers(CAPACITY));
            }

            #[test]
            fn messages_go_round_the_end() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&numbers(CAPACITY / 2)).unwrap();
                assert_eq!(read(&mut reader, CAPACITY / 2).unwrap(), numbers(CAPACITY / 2));
                writer.write(&numbers(CAPACITY)).unwrap();
                assert_eq!(read(&mut reader, CAPACITY).unwrap(), numbers(CAPACITY));
            }

            #[test]
            fn transactions_go_round_the_end() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&numbers(CAPACITY / 2)).unwrap();
                read(&mut reader, CAPACITY / 2).unwrap();
                let mut room = writer.begin(CAPACITY).unwrap();
                let [first, second] = room.span().runs();
                assert_eq!(first.1, (CAPACITY - CAPACITY / 2) * u16::SIZE);
                assert_eq!(second.1, CAPACITY / 2 * u16::SIZE);
                for (index, item) in numbers(CAPACITY).iter().enumerate() {
                    room.span().put(index, item);
                }
                room.commit(CAPACITY).unwrap();
                let there = reader.begin(CAPACITY).unwrap();
                assert_eq!(there.span().runs().map(|run| run.len()), [first.1, second.1]);
                let items: Vec<u16> = (0..CAPACITY).map(|index| there.span().get(index).unwrap()).collect();
                there.commit(CAPACITY).unwrap();
                assert_eq!(items, numbers(CAPACITY));
            }

            #[test]
            fn part_of_a_transaction_may_be_committed_and_no_more_than_all() {
                let (mut writer, mut reader) = ends::<$flavor>();
                let mut room = writer.begin(10).unwrap();
                room.span().put_all(&numbers(10));
                room.commit(4).unwrap();
                assert_eq!(reader.available(), Ok(4));
                reader.begin(4).unwrap().commit(1).unwrap();
                assert_eq!(read(&mut reader, 3).unwrap(), numbers(4)[1..]);
                let beyond = QueueError::BeyondTransaction { wanted: 3, held: 2 };
                assert_eq!(writer.begin(2).unwrap().commit(3), Err(beyond));
                drop(writer.begin(2).unwrap());
                assert_eq!(reader.available(), Ok(0), "a dropped transaction wrote nothing");
            }

            #[test]
            fn no_messages_can_always_be_written_and_read() {
                let (mut writer, mut reader) = ends::<$flavor>();
                writer.write(&[]).unwrap();
                reader.read(&mut []).unwrap();
                writer.begin(0).unwrap().commit(0).unwrap();
                reader.begin(0).unwrap().commit(0).unwrap();
                assert_eq!(reader.available(), Ok(0));
            }

            #[test]
            fn a_queue_is_empty_again_after_a_reset() {
                let queue = MessageQueue::<u16, $flavor>::with_event_flag(8).unwrap();
                queue.writer().unwrap().write(&[1, 2, 3]).unwrap();
                let writer = queue.writer().unwrap();
                assert_eq!(queue.reset(), Err(QueueError::InUse("writer")));
                drop(writer);
                queue.reset().unwrap();
                assert_eq!(queue.reader().unwrap().available(), Ok(0));
            }

            #[test]
            fn a_misaligned_write_counter_breaks_it_and_nothing_else() {
                let queue = MessageQueue::<u16, $flavor>::with_event_flag(8).unwrap();
                let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
                writer.write(&[1]).unwrap();
                scribble(&queue, Role::Write, 3);
                assert!(matches!(writer.write(&[2]), Err(QueueError::Broken(_))));
                assert!(matches!(writer.begin(1).err(), Some(QueueError::Broken(_))));
                assert!(matches!(reader.available(), Err(QueueError::Broken(_))));
                assert!(matches!(reader.read(&mut [0]), Err(QueueError::Broken(_))));
                scribble(&queue, Role::Write, 2);
                assert_eq!(reader.available(), Ok(1));
            }

            #[test]
            fn an_odd_number_of_bytes_leaves_the_flag_aligned() {
                for builder in [Builder::<u8, $flavor>::new(4097), Builder::new(4097).compact()] {
                    let queue = builder.event_flag().build().unwrap();
                    let flag = queue.event_flag().unwrap();
                    flag.wake(0x8000_0001).unwrap();
                    assert_eq!(flag.wait(u32::MAX, None), Ok(0x8000_0001));
                }
            }

            #[test]
            fn there_is_one_writer() {
                let queue = MessageQueue::<u16, $flavor>::new(8).unwrap();
                let writer = queue.writer().unwrap();
                assert_eq!(queue.writer().err(), Some(QueueError::InUse("writer")));
                drop(writer);
                queue.writer().unwrap();
            }
        }
    };
}

both_flavours!(synchronized, Synchronized);
both_flavours!(unsynchronized, Unsynchronized);

/// Overwrites a counter, as a hostile peer would.
fn scribble<T: Item, F: Flavor>(queue: &MessageQueue<T, F>, role: Role, value: u64) {
    use std::os::unix::fs::FileExt;
    let descriptor = queue.descriptor().unwrap();
    let grantor = descriptor.grantors()[role as usize];
    let fd = descriptor.fds()[grantor.fd_index as usize].try_clone().unwrap();
    std::fs::File::from(fd).write_all_at(&value.to_ne_bytes(), grantor.offset as u64).unwrap();
}

#[test]
fn a_full_synchronized_queue_takes_no_more_and_keeps_what_it_has() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    writer.write(&numbers(CAPACITY)).unwrap();
    assert_eq!(writer.write(&[9]), Err(QueueError::Full(0)));
    assert_eq!(writer.begin(1).err(), Some(QueueError::Full(0)));
    assert_eq!(read(&mut reader, CAPACITY).unwrap(), numbers(CAPACITY));
    writer.write(&[9]).unwrap();
}

#[test]
fn there_is_one_synchronized_reader_and_any_number_of_others() {
    let queue = MessageQueue::<u16, Synchronized>::new(8).unwrap();
    let reader = queue.reader().unwrap();
    assert_eq!(queue.reader().err(), Some(QueueError::InUse("reader")));
    drop(reader);
    queue.reader().unwrap();

    let queue = MessageQueue::<u16, Unsynchronized>::new(8).unwrap();
    let mut readers: Vec<_> = (0..3).map(|_| queue.reader().unwrap()).collect();
    queue.writer().unwrap().write(&[1, 2]).unwrap();
    for reader in &mut readers {
        assert_eq!(read(reader, 2).unwrap(), [1, 2]);
    }
}

#[test]
fn an_overwritten_reader_is_told_and_goes_on_with_the_newest() {
    let (mut writer, mut reader) = ends::<Unsynchronized>();
    writer.write(&numbers(CAPACITY)).unwrap();
    writer.write(&[1]).unwrap();
    assert_eq!(read(&mut reader, 1), Err(QueueError::Overflow(CAPACITY as u64 + 1)));
    assert_eq!(read(&mut reader, 1), Err(QueueError::Empty(0)));
    writer.write(&[2, 3]).unwrap();
    assert_eq!(read(&mut reader, 2).unwrap(), [2, 3]);
}

#[test]
fn an_overwritten_transaction_is_told_when_it_is_committed() {
    let (mut writer, mut reader) = ends::<Unsynchronized>();
    writer.write(&numbers(CAPACITY)).unwrap();
    let there = reader.begin(CAPACITY).unwrap();
    let mut room = writer.begin(1).unwrap();
    room.span().put(0, &7);
    room.commit(1).unwrap();
    assert_eq!(there.commit(CAPACITY), Err(QueueError::Overflow(CAPACITY as u64 + 1)));
    assert_eq!(reader.available(), Ok(0));
}

#[test]
fn a_write_that_has_only_begun_is_an_overflow_for_a_reader_one_ring_behind() {
    let (mut writer, mut reader) = ends::<Unsynchronized>();
    writer.write(&numbers(CAPACITY)).unwrap();
    let there = reader.begin(1).unwrap();
    let mut room = writer.begin(1).unwrap();
    room.span().put(0, &7);
    assert!(matches!(there.commit(1), Err(QueueError::Overflow(_))), "its message may be torn");
    drop(room);
}

#[test]
fn a_reader_may_go_to_the_newest_end() {
    let (mut writer, mut reader) = ends::<Unsynchronized>();
    writer.write(&numbers(100)).unwrap();
    assert_eq!(reader.skip_to_newest(), Ok(100));
    writer.write(&[5]).unwrap();
    assert_eq!(read(&mut reader, 1).unwrap(), [5]);
}

#[test]
fn counters_out_of_range_break_a_synchronized_queue_and_nothing_else() {
    for (role, value) in
        [(Role::Write, 72), (Role::Write, u64::MAX - 7), (Role::Read, 8), (Role::Read, 1 << 63)]
    {
        let queue = MessageQueue::<u64, Synchronized>::with_event_flag(8).unwrap();
        let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
        scribble(&queue, role, value);
        assert!(matches!(writer.available(), Err(QueueError::Broken(_))), "{role:?} {value}");
        assert!(matches!(reader.read(&mut [0; 8]), Err(QueueError::Broken(_))), "{role:?} {value}");
        scribble(&queue, role, 0);
        writer.write(&[1; 8]).unwrap();
        reader.read(&mut [0; 8]).unwrap();
    }
}

#[test]
fn counters_may_wrap_round_2_to_the_64() {
    let queue = MessageQueue::<u64, Synchronized>::new(8).unwrap();
    scribble(&queue, Role::Write, u64::MAX - 15);
    scribble(&queue, Role::Read, u64::MAX - 15);
    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    for turn in 0..100 {
        writer.write(&[turn; 5]).unwrap();
        let mut items = [0; 5];
        reader.read(&mut items).unwrap();
        assert_eq!(items, [turn; 5]);
    }
}

#[test]
fn typed_messages_arrive() {
    #[derive(Debug, Clone, PartialEq)]
    struct Sample {
        at: i64,
        channel: u8,
        values: [f32; 3],
    }
    handoff_ipc::queue_item!(Sample { at: i64, channel: u8, values: [f32; 3] });

    let queue = MessageQueue::<Sample, Synchronized>::new(3).unwrap();
    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    for turn in 0..10 {
        let sample = |n: i64| Sample { at: -n, channel: n as u8, values: [n as f32, 0.5, -1.0] };
        writer.write(&[sample(turn), sample(turn + 1)]).unwrap();
        let mut read = [sample(0), sample(0)];
        reader.read(&mut read).unwrap();
        assert_eq!(read, [sample(turn), sample(turn + 1)]);
    }
}

#[test]
fn a_wait_ends_when_its_bit_is_raised_and_takes_no_other() {
    let flag = Arc::new(EventFlag::new().unwrap());
    let waiter = {
        let flag = Arc::clone(&flag);
        thread::spawn(move || flag.wait(0b0110, None))
    };
    flag.wake(0b1001).unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(!waiter.is_finished(), "other bits wake nobody");
    flag.wake(0b0100).unwrap();
    assert_eq!(waiter.join().unwrap(), Ok(0b0100));
    assert_eq!(flag.take(u32::MAX), Ok(0b1001));
}

#[test]
fn every_waiter_of_a_bit_is_served_in_the_end() {
    let flag = Arc::new(EventFlag::new().unwrap());
    let waiters: Vec<_> = (0..32)
        .map(|bit| {
            let flag = Arc::clone(&flag);
            thread::spawn(move || flag.wait(1 << bit, None))
        })
        .collect();
    for bit in 0..32 {
        flag.wake(1 << bit).unwrap();
    }
    for (bit, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.join().unwrap(), Ok(1 << bit));
    }
}

#[test]
fn a_wait_for_nothing_or_for_too_long_fails() {
    let flag = EventFlag::new().unwrap();
    assert_eq!(flag.wait(0, None), Err(QueueError::NoBits));
    assert_eq!(flag.wake(0), Err(QueueError::NoBits));
    let began = Instant::now();
    assert_eq!(flag.wait(1, Some(Duration::from_millis(30))), Err(QueueError::TimedOut));
    assert!(began.elapsed() >= Duration::from_millis(30));
}

#[test]
fn a_flag_must_be_a_word_of_writable_memory() {
    let memory = Arc::new(handoff_ipc::SharedMemory::new(4096).unwrap());
    for offset in [1, 2, 4094, 4096, usize::MAX - 3] {
        assert!(EventFlag::over(Arc::clone(&memory), offset).is_err(), "{offset}");
    }
    let (mine, theirs) =
        (EventFlag::over(Arc::clone(&memory), 8).unwrap(), EventFlag::over(memory, 8).unwrap());
    mine.wake(4).unwrap();
    assert_eq!(theirs.take(4), Ok(4));
}

#[test]
fn a_blocked_reader_wakes_for_a_write() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    let blocked = thread::spawn(move || {
        let mut items = vec![0; 10];
        reader.read_blocking(&mut items, None).map(|()| items)
    });
    thread::sleep(Duration::from_millis(10));
    // Too few first: it goes on waiting.
    writer.write_blocking(&numbers(10)[..4], None).unwrap();
    thread::sleep(Duration::from_millis(10));
    assert!(!blocked.is_finished());
    writer.write_blocking(&numbers(10)[4..], None).unwrap();
    assert_eq!(blocked.join().unwrap().unwrap(), numbers(10));
}

#[test]
fn a_blocked_writer_wakes_for_a_read() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    writer.write(&numbers(CAPACITY)).unwrap();
    let blocked = thread::spawn(move || writer.write_blocking(&[7, 8], None));
    thread::sleep(Duration::from_millis(10));
    assert!(!blocked.is_finished());
    reader.read_blocking(&mut [0; 1], None).unwrap();
    reader.read_blocking(&mut [0; 1], None).unwrap();
    blocked.join().unwrap().unwrap();
    assert_eq!(reader.available(), Ok(CAPACITY));
}

#[test]
fn blocking_by_hand_uses_the_same_flag() {
    let queue = MessageQueue::<u16, Synchronized>::with_event_flag(4).unwrap();
    let (mut writer, mut reader, flag) =
        (queue.writer().unwrap(), queue.reader().unwrap(), queue.event_flag().unwrap());
    let blocked = thread::spawn(move || {
        let mut item = [0];
        while reader.read(&mut item) == Err(QueueError::Empty(0)) {
            flag.wait(NOT_EMPTY, None).unwrap();
        }
        flag.wake(NOT_FULL).unwrap();
        item[0]
    });
    writer.write_blocking(&[3], None).unwrap();
    assert_eq!(blocked.join().unwrap(), 3);
    assert_eq!(queue.event_flag().unwrap().wait(NOT_FULL, None), Ok(NOT_FULL));
}

#[test]
fn blocking_ends_in_time() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    let (long, short) = (Some(Duration::from_secs(60)), Some(Duration::from_millis(20)));
    assert_eq!(reader.read_blocking(&mut [0], short), Err(QueueError::TimedOut));
    writer.write_blocking(&numbers(CAPACITY), long).unwrap();
    assert_eq!(writer.write_blocking(&[0], short), Err(QueueError::TimedOut));
    reader.read_blocking(&mut [0], Some(Duration::ZERO)).unwrap();
}

#[test]
fn what_can_never_succeed_does_not_block() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    let too_many = QueueError::TooMany { wanted: CAPACITY + 1, capacity: CAPACITY };
    assert_eq!(writer.write_blocking(&numbers(CAPACITY + 1), None), Err(too_many));
    assert_eq!(reader.read_blocking(&mut vec![0; CAPACITY + 1], None), Err(too_many));
    let no_bits = Blocking { wait_for: 0, ..Blocking::reading(None) };
    assert_eq!(reader.read_blocking_with(&mut [0], &no_bits), Err(QueueError::NoBits));
    let plain = MessageQueue::<u16, Synchronized>::new(4).unwrap();
    assert_eq!(plain.reader().unwrap().read_blocking(&mut [0], None), Err(QueueError::NoEventFlag));
    assert_eq!(plain.writer().unwrap().write_blocking(&[0], None), Err(QueueError::NoEventFlag));
    reader.read_blocking(&mut [], None).unwrap();
    writer.write_blocking(&[], None).unwrap();
}

#[test]
fn bits_and_a_flag_of_one_s_own_serve_several_queues() {
    let flag = Arc::new(EventFlag::new().unwrap());
    let queues: Vec<_> = (0..2).map(|_| MessageQueue::<u32, Synchronized>::new(1).unwrap()).collect();
    let readers: Vec<_> = queues
        .iter()
        .zip([0b01, 0b10])
        .map(|(queue, bit)| {
            let (mut reader, flag) = (queue.reader().unwrap(), Arc::clone(&flag));
            thread::spawn(move || {
                let how = Blocking { wait_for: bit, notify: bit << 4, ..Blocking::reading(None) };
                let mut sum = 0;
                for _ in 0..500 {
                    let mut item = [0];
                    reader.read_blocking_with(&mut item, &how.on(&flag)).unwrap();
                    sum += item[0];
                }
                sum
            })
        })
        .collect();
    let mut writers: Vec<_> = queues.iter().map(|queue| queue.writer().unwrap()).collect();
    for value in 1..=500 {
        for (writer, bit) in writers.iter_mut().zip([0b01, 0b10]) {
            let how = Blocking { wait_for: bit << 4, notify: bit, ..Blocking::writing(None) };
            writer.write_blocking_with(&[value], &how.on(&flag)).unwrap();
        }
    }
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 500 * 501 / 2);
    }
}

#[test]
fn spinning_ends_find_each_other() {
    let (mut writer, mut reader) = ends::<Synchronized>();
    assert_eq!(reader.read_spinning(&mut [0], 10), Err(QueueError::Empty(0)));
    let spinning = thread::spawn(move || {
        let mut item = [0];
        reader.read_spinning(&mut item, u64::MAX).unwrap();
        let how = Blocking { spin: Duration::from_millis(5), ..Blocking::reading(None) };
        reader.read_blocking_with(&mut item, &how).unwrap();
        item[0]
    });
    writer.write_spinning(&[1], 10).unwrap();
    thread::sleep(Duration::from_millis(10));
    writer.write_blocking(&[2], None).unwrap();
    assert_eq!(spinning.join().unwrap(), 2);
}

#[test]
fn spinning_ends_on_one_cpu_let_each_other_run() {
    let cpu = handoff_placement::affinity(handoff_placement::Tid::current()).unwrap().first().unwrap();
    let (mut there, mut reader) = ends::<Synchronized>();
    let (mut back, mut answers) = ends::<Synchronized>();
    let pin = move || handoff_placement::fast::pin_current(cpu).unwrap();
    // In less looks than this no time slice ends.
    const LOOKS: u64 = 20_000;
    let other = thread::spawn(move || {
        pin();
        let mut item = [0];
        for _ in 0..200 {
            reader.read_spinning(&mut item, u64::MAX).unwrap();
            back.write(&item).unwrap();
        }
    });
    let mut gave_up = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            pin();
            let mut item = [0];
            for value in 1..=200 {
                there.write(&[value]).unwrap();
                while answers.read_spinning(&mut item, LOOKS).is_err() {
                    gave_up += 1;
                }
                assert_eq!(item[0], value);
            }
        });
    });
    other.join().unwrap();
    assert!(gave_up < 100, "{gave_up} of 200 answers came later than that");
}

/// Unsynchronized readers on other threads see each message at most once, in order, and whole.
#[test]
fn readers_that_are_overtaken_never_see_a_torn_message() {
    let queue = MessageQueue::<[u64; 16], Unsynchronized>::new(4).unwrap();
    let seen: Arc<[AtomicU64; 2]> = Arc::default();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|which| {
            let mut reader = queue.reader().unwrap();
            let (done, seen) = (Arc::clone(&done), Arc::clone(&seen));
            thread::spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut item = [[0; 16]];
                    match reader.read(&mut item) {
                        Ok(()) => {
                            assert!(item[0].iter().all(|word| *word == item[0][0]), "torn: {item:?}");
                            assert!(item[0][0] > last);
                            last = item[0][0];
                            seen[which].fetch_add(1, Ordering::Relaxed);
                        }
                        Err(QueueError::Empty(_) | QueueError::Overflow(_)) => thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    let mut writer = queue.writer().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut value = 0;
    while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < 1000) && Instant::now() < until {
        for _ in 0..value % 7 + 1 {
            value += 1;
            writer.write(&[[value; 16]]).unwrap();
        }
        thread::yield_now();
    }
    done.store(true, Ordering::Relaxed);
    for (reader, seen) in readers.into_iter().zip(seen.iter()) {
        reader.join().unwrap();
        assert!(seen.load(Ordering::Relaxed) > 0);
    }
}
