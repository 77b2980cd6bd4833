//! The two ends of a queue in two processes: the cases that FMQ's own client tests cover, as tests of
//! ours. The descriptor travels in a parcel: on the `shm` engine here, on the driver in the guest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Random, World, ready_and_wait, role, serve};
use handoff_ipc::parcel::{Reader as ParcelReader, Writer as ParcelWriter};
use handoff_ipc::queue::{
    Blocking, Builder, Descriptor, EventFlag, MessageQueue, QueueError, Reader, Synchronized, Unsynchronized,
    Writer,
};
use handoff_ipc::{Code, Result, Service, SharedMemory, Transaction};

const ATTACH_SYNC: Code = 1;
const ATTACH_UNSYNC: Code = 2;
const WRITE: Code = 3;
const READ: Code = 4;
const WRITE_UNSYNC: Code = 5;
const READ_UNSYNC: Code = 6;
const READ_BLOCKING: Code = 7;
const WRITE_BLOCKING: Code = 8;
const MAKE_SYNC: Code = 9;
const ADD_READER: Code = 10;
const SCRIBBLE: Code = 11;

const CAPACITY: usize = 1023;

type SyncEnds = (Writer<u16, Synchronized>, Reader<u16, Synchronized>);
type UnsyncEnds = (Writer<u16, Unsynchronized>, Vec<Reader<u16, Unsynchronized>>);

/// The other process: attaches to what it is sent, and reads or writes when asked.
#[derive(Default)]
struct Other {
    sync: Mutex<Option<SyncEnds>>,
    unsync: Mutex<Option<UnsyncEnds>>,
    queues: Mutex<HashMap<i32, MessageQueue<u16, Unsynchronized>>>,
    flag: Mutex<Option<Arc<SharedMemory>>>,
}

fn numbers(count: i32) -> Vec<u16> {
    (0..count).map(|n| (n * 31) as u16).collect()
}

fn outcome(reply: &mut ParcelWriter<'_>, result: Result<(), QueueError>) -> Result<()> {
    reply.write(&result.map_or_else(|error| error.to_string(), |()| "ok".to_owned()))
}

impl Service for Other {
    fn descriptor(&self) -> &str {
        "test.IMessageQueue"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Transaction { data, reply, .. } = transaction;
        match transaction.call.code() {
            ATTACH_SYNC => {
                let queue = MessageQueue::attach(data.read::<Descriptor<u16, Synchronized>>()?)?;
                *self.flag.lock().unwrap() = data.read::<Option<Flag>>()?.map(|flag| Arc::new(flag.0));
                *self.sync.lock().unwrap() = Some((queue.writer()?, queue.reader()?));
                Ok(())
            }
            MAKE_SYNC => {
                let queue = MessageQueue::<u16, Synchronized>::with_event_flag(CAPACITY)?;
                queue.writer()?.write(&numbers(data.read()?))?;
                reply.write(&queue.descriptor()?)
            }
            ATTACH_UNSYNC => {
                let queue = MessageQueue::attach(data.read::<Descriptor<u16, Unsynchronized>>()?)?;
                *self.unsync.lock().unwrap() = Some((queue.writer()?, vec![queue.reader()?]));
                self.queues.lock().unwrap().insert(0, queue);
                Ok(())
            }
            ADD_READER => {
                let reader = self.queues.lock().unwrap()[&0].reader()?;
                self.unsync.lock().unwrap().as_mut().unwrap().1.push(reader);
                Ok(())
            }
            WRITE => {
                let written = self.sync.lock().unwrap().as_mut().unwrap().0.write(&numbers(data.read()?));
                outcome(reply, written)
            }
            READ => {
                let count: i32 = data.read()?;
                let mut items = vec![0; count as usize];
                let read = self.sync.lock().unwrap().as_mut().unwrap().1.read(&mut items);
                assert!(read.is_err() || items == numbers(count));
                outcome(reply, read)
            }
            WRITE_UNSYNC => {
                let written = self.unsync.lock().unwrap().as_mut().unwrap().0.write(&numbers(data.read()?));
                outcome(reply, written)
            }
            READ_UNSYNC => {
                let (which, count): (i32, i32) = (data.read()?, data.read()?);
                let mut items = vec![0; count as usize];
                let read = self.unsync.lock().unwrap().as_mut().unwrap().1[which as usize].read(&mut items);
                assert!(read.is_err() || items == numbers(count));
                outcome(reply, read)
            }
            // `turns` times `count`, with these bits.
            READ_BLOCKING => {
                let (count, turns): (i32, i32) = (data.read()?, data.read()?);
                let (wait_for, notify): (u32, u32) = (data.read()?, data.read()?);
                let how = Blocking { wait_for, notify, ..Blocking::reading(Some(Duration::from_secs(60))) };
                let flag = self.own_flag()?;
                let mut ends = self.sync.lock().unwrap();
                let mut done = Ok(());
                for _ in 0..turns {
                    let mut items = vec![0; count as usize];
                    let reader = &mut ends.as_mut().unwrap().1;
                    done = reader.read_blocking_with(&mut items, &Blocking { flag: flag.as_ref(), ..how });
                    if done.is_err() {
                        break;
                    }
                }
                outcome(reply, done)
            }
            WRITE_BLOCKING => {
                let (count, turns): (i32, i32) = (data.read()?, data.read()?);
                let (wait_for, notify): (u32, u32) = (data.read()?, data.read()?);
                let how = Blocking { wait_for, notify, ..Blocking::writing(Some(Duration::from_secs(60))) };
                let flag = self.own_flag()?;
                let mut ends = self.sync.lock().unwrap();
                let mut done = Ok(());
                for _ in 0..turns {
                    let writer = &mut ends.as_mut().unwrap().0;
                    let how = Blocking { flag: flag.as_ref(), ..how };
                    done = writer.write_blocking_with(&numbers(count), &how);
                    if done.is_err() {
                        break;
                    }
                }
                outcome(reply, done)
            }
            SCRIBBLE => {
                let descriptor = data.read::<Descriptor<u16, Synchronized>>()?;
                std::thread::spawn(move || scribble_for_ever(&descriptor));
                Ok(())
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

/// Writes anything anywhere into a queue's first page: counters, flag, ring.
fn scribble_for_ever(descriptor: &Descriptor<u16, Synchronized>) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(descriptor.fds()[0].try_clone().unwrap());
    let mut numbers = Random(0x9e37_79b9_7f4a_7c15);
    loop {
        let random = numbers.next();
        let (value, at) = match random % 4 {
            0 => (random, random >> 8),
            1 => (random % 5000 * 2, (random >> 20) % 2 * 128),
            2 => (u64::MAX - random % 64, (random >> 20) % 2 * 128),
            // Now and then what could be right.
            _ => (0, (random >> 20) % 4 * 128),
        };
        let at = at % 4088 / 8 * 8;
        file.write_all_at(&value.to_ne_bytes(), at).unwrap();
        // Nobody takes its size away: it is sealed.
        assert!(random % 1024 != 0 || file.set_len(0).is_err());
    }
}

impl Other {
    fn own_flag(&self) -> Result<Option<EventFlag>> {
        let memory = self.flag.lock().unwrap().clone();
        memory.map(|memory| EventFlag::over(memory, 0)).transpose()
    }
}

/// Memory that may be absent.
struct Flag(SharedMemory);

impl handoff_ipc::parcel::Parcelable for Flag {
    fn write_to(&self, to: &mut ParcelWriter<'_>) -> Result<()> {
        to.write(&self.0)
    }
    fn read_from(from: &mut ParcelReader<'_>) -> Result<Self> {
        from.read().map(Flag)
    }
}
impl handoff_ipc::parcel::Nullable for Flag {}

#[test]
#[ignore = "a process of another test"]
fn role_main() {
    let Some((_, socket)) = role() else { return };
    let _engine = serve(&socket, Other::default());
    ready_and_wait();
}

fn world() -> World {
    World::of("server")
}

/// Queues of which the other process has both ends as well.
impl World {
    fn sync(&self, queue: &MessageQueue<u16, Synchronized>, flag: Option<SharedMemory>) -> SyncEnds {
        let (descriptor, flag) = (queue.descriptor().unwrap(), flag.map(Flag));
        let send = |w: &mut ParcelWriter<'_>| {
            w.write(&descriptor)?;
            w.write(&flag)
        };
        self.root.transaction(ATTACH_SYNC).call(send, |_| Ok(())).unwrap();
        (queue.writer().unwrap(), queue.reader().unwrap())
    }

    fn unsync(&self) -> (MessageQueue<u16, Unsynchronized>, Writer<u16, Unsynchronized>) {
        let queue = MessageQueue::<u16, Unsynchronized>::with_event_flag(CAPACITY).unwrap();
        let descriptor = queue.descriptor().unwrap();
        self.root.transaction(ATTACH_UNSYNC).call(|w| w.write(&descriptor), |_| Ok(())).unwrap();
        let writer = queue.writer().unwrap();
        (queue, writer)
    }

    fn ask(&self, code: Code, arguments: &[i32]) -> String {
        let send = |w: &mut ParcelWriter<'_>| arguments.iter().try_for_each(|argument| w.write(argument));
        self.root.transaction(code).call(send, |r| r.read()).unwrap()
    }
}

fn sync_world() -> (World, Writer<u16, Synchronized>, Reader<u16, Synchronized>) {
    let world = world();
    let queue = MessageQueue::with_event_flag(CAPACITY).unwrap();
    let (writer, reader) = world.sync(&queue, None);
    (world, writer, reader)
}

const FULL: i32 = CAPACITY as i32;

#[test]
fn a_few_messages_cross_each_way() {
    let (world, mut writer, mut reader) = sync_world();
    assert_eq!(world.ask(WRITE, &[16]), "ok");
    let mut items = [0; 16];
    reader.read(&mut items).unwrap();
    assert_eq!(items[..], numbers(16));
    writer.write(&numbers(16)).unwrap();
    assert_eq!(world.ask(READ, &[16]), "ok");
}

#[test]
fn a_few_messages_cross_in_transactions() {
    let (world, mut writer, mut reader) = sync_world();
    assert_eq!(world.ask(WRITE, &[16]), "ok");
    let there = reader.begin(16).unwrap();
    let items: Vec<u16> = (0..16).map(|index| there.span().get(index).unwrap()).collect();
    there.commit(16).unwrap();
    assert_eq!(items, numbers(16));
    let mut room = writer.begin(16).unwrap();
    room.span().put_all(&numbers(16));
    room.commit(16).unwrap();
    assert_eq!(world.ask(READ, &[16]), "ok");
}

#[test]
fn an_empty_queue_is_empty_for_both() {
    let (world, _writer, mut reader) = sync_world();
    assert_eq!(reader.available(), Ok(0));
    assert_eq!(reader.read(&mut [0; 2]), Err(QueueError::Empty(0)));
    assert_eq!(world.ask(READ, &[2]), QueueError::Empty(0).to_string());
}

#[test]
fn a_full_queue_is_full_for_both() {
    let (world, mut writer, _reader) = sync_world();
    writer.write(&numbers(FULL)).unwrap();
    assert_eq!(writer.available(), Ok(0));
    assert_eq!(writer.write(&[1]), Err(QueueError::Full(0)));
    assert_eq!(world.ask(WRITE, &[1]), QueueError::Full(0).to_string());
    assert_eq!(world.ask(READ, &[FULL]), "ok");
    assert_eq!(writer.available(), Ok(CAPACITY));
}

#[test]
fn a_whole_ring_crosses() {
    let (world, _writer, mut reader) = sync_world();
    assert_eq!(world.ask(WRITE, &[FULL]), "ok");
    let mut items = vec![0; CAPACITY];
    reader.read(&mut items).unwrap();
    assert_eq!(items, numbers(FULL));
}

#[test]
fn more_than_a_ring_does_not() {
    let (world, _writer, mut reader) = sync_world();
    assert!(world.ask(WRITE, &[FULL + 1]).contains("capacity"));
    assert_eq!(reader.available(), Ok(0));
    assert!(reader.read(&mut [0]).is_err());
}

#[test]
fn one_write_there_is_many_reads_here_and_the_other_way_round() {
    let (world, mut writer, mut reader) = sync_world();
    assert_eq!(world.ask(WRITE, &[FULL]), "ok");
    let mut items = Vec::new();
    for _ in 0..33 {
        let mut piece = [0; 31];
        reader.read(&mut piece).unwrap();
        items.extend(piece);
    }
    assert_eq!(items, numbers(FULL));
    for piece in numbers(FULL).chunks(31) {
        writer.write(piece).unwrap();
    }
    assert_eq!(world.ask(READ, &[FULL]), "ok");
}

#[test]
fn messages_cross_round_the_end() {
    let (world, mut writer, _reader) = sync_world();
    writer.write(&numbers(FULL / 2)).unwrap();
    assert_eq!(world.ask(READ, &[FULL / 2]), "ok");
    let mut room = writer.begin(CAPACITY).unwrap();
    room.span().put_all(&numbers(FULL));
    room.commit(CAPACITY).unwrap();
    assert_eq!(world.ask(READ, &[FULL]), "ok");
}

#[test]
fn blocking_ends_wake_each_other_across_processes() {
    for (count_here, turns_here, count_there, turns_there) in
        [(64, 100, 64, 100), (64, 100, 128, 50), (128, 50, 64, 100), (CAPACITY as i32, 3, 3, CAPACITY as i32)]
    {
        let (world, mut writer, _reader) = sync_world();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| world.ask(READ_BLOCKING, &[count_there, turns_there, 2, 1]));
            for _ in 0..turns_here {
                writer.write_blocking(&numbers(count_here), Some(Duration::from_secs(60))).unwrap();
            }
            assert_eq!(there.join().unwrap(), "ok");
        });
    }
}

#[test]
fn a_blocking_writer_there_feeds_a_reader_here() {
    let (world, _writer, mut reader) = sync_world();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| world.ask(WRITE_BLOCKING, &[100, 50, 1, 2]));
        for _ in 0..50 {
            let mut items = [0; 100];
            reader.read_blocking(&mut items, Some(Duration::from_secs(60))).unwrap();
            assert_eq!(items[..], numbers(100));
        }
        assert_eq!(there.join().unwrap(), "ok");
    });
}

#[test]
fn blocking_with_no_messages_returns_at_once() {
    let (world, mut writer, mut reader) = sync_world();
    writer.write_blocking(&[], None).unwrap();
    reader.read_blocking(&mut [], None).unwrap();
    assert_eq!(world.ask(READ_BLOCKING, &[0, 1, 2, 1]), "ok");
    assert_eq!(world.ask(WRITE_BLOCKING, &[0, 1, 1, 2]), "ok");
}

#[test]
fn blocking_without_bits_or_over_capacity_fails_there_as_here() {
    let (world, ..) = sync_world();
    assert_eq!(world.ask(READ_BLOCKING, &[1, 1, 0, 1]), QueueError::NoBits.to_string());
    assert!(world.ask(WRITE_BLOCKING, &[FULL + 1, 1, 1, 2]).contains("capacity"));
}

#[test]
fn a_flag_in_memory_of_its_own_crosses_with_other_bits() {
    let world = world();
    // A queue without a flag: both ends use the one in the memory.
    let queue = MessageQueue::<u16, Synchronized>::new(CAPACITY).unwrap();
    let memory = SharedMemory::new(4096).unwrap();
    let mine = Arc::new(memory.try_clone().unwrap());
    let (mut writer, _reader) = world.sync(&queue, Some(memory));
    let flag = EventFlag::over(mine, 0).unwrap();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| world.ask(READ_BLOCKING, &[700, 20, 1 << 20, 1 << 10]));
        for _ in 0..20 {
            let how = Blocking {
                wait_for: 1 << 10,
                notify: 1 << 20,
                ..Blocking::writing(Some(Duration::from_secs(60)))
            };
            writer.write_blocking_with(&numbers(700), &how.on(&flag)).unwrap();
        }
        assert_eq!(there.join().unwrap(), "ok");
    });
}

#[test]
fn a_ring_in_the_user_s_memory_crosses() {
    let world = world();
    let sealed = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&sealed, 4096).unwrap();
    let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW;
    rustix::fs::fcntl_add_seals(&sealed, seals).unwrap();
    let queue = Builder::<u16, Synchronized>::new(2000).event_flag().ring_in(sealed).build().unwrap();
    let (mut writer, _reader) = world.sync(&queue, None);
    writer.write(&numbers(2000)).unwrap();
    assert_eq!(world.ask(READ, &[2000]), "ok");
}

#[test]
fn libfmq_s_own_layout_crosses() {
    let world = world();
    let queue = Builder::<u16, Synchronized>::new(CAPACITY).event_flag().compact().build().unwrap();
    let (mut writer, _reader) = world.sync(&queue, None);
    for _ in 0..10 {
        writer.write(&numbers(700)).unwrap();
        assert_eq!(world.ask(READ, &[700]), "ok");
    }
}

#[test]
fn a_queue_comes_back_in_a_reply() {
    let world = world();
    let made = world
        .root
        .transaction(MAKE_SYNC)
        .call(|w| w.write(&5), |r| r.read::<Descriptor<u16, Synchronized>>());
    let queue = MessageQueue::attach(made.unwrap()).unwrap();
    let mut items = [0; 5];
    queue.reader().unwrap().read(&mut items).unwrap();
    assert_eq!(items[..], numbers(5));
}

#[test]
fn a_queue_of_another_kind_is_refused_there() {
    let world = world();
    let queue = MessageQueue::<u32, Synchronized>::new(8).unwrap();
    let descriptor = queue.descriptor().unwrap();
    let send = |w: &mut ParcelWriter<'_>| {
        w.write(&descriptor)?;
        w.write(&None::<Flag>)
    };
    assert!(world.root.transaction(ATTACH_SYNC).call(send, |_| Ok(())).is_err());
    let queue = MessageQueue::<u16, Unsynchronized>::new(8).unwrap();
    let descriptor = queue.descriptor().unwrap();
    let send = |w: &mut ParcelWriter<'_>| {
        w.write(&descriptor)?;
        w.write(&None::<Flag>)
    };
    assert!(world.root.transaction(ATTACH_SYNC).call(send, |_| Ok(())).is_err());
}

#[test]
fn unsynchronized_messages_cross_each_way() {
    let world = world();
    let (queue, mut writer) = world.unsync();
    let mut reader = queue.reader().unwrap();
    assert_eq!(reader.available(), Ok(0));
    assert_eq!(world.ask(READ_UNSYNC, &[0, 2]), QueueError::Empty(0).to_string());
    assert_eq!(world.ask(WRITE_UNSYNC, &[16]), "ok");
    let mut items = [0; 16];
    reader.read(&mut items).unwrap();
    assert_eq!(items[..], numbers(16));
    assert_eq!(world.ask(READ_UNSYNC, &[0, 16]), "ok");
    writer.write(&numbers(FULL)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, FULL]), "ok");
}

#[test]
fn unsynchronized_messages_cross_in_pieces_and_round_the_end() {
    let world = world();
    let (_queue, mut writer) = world.unsync();
    for piece in numbers(FULL).chunks(31) {
        writer.write(piece).unwrap();
    }
    assert_eq!(world.ask(READ_UNSYNC, &[0, FULL]), "ok");
    writer.write(&numbers(FULL / 2)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, FULL / 2]), "ok");
    writer.write(&numbers(FULL)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, FULL]), "ok");
}

#[test]
fn a_full_unsynchronized_queue_is_overwritten_and_its_reader_recovers() {
    let world = world();
    let (_queue, mut writer) = world.unsync();
    writer.write(&numbers(FULL)).unwrap();
    assert_eq!(writer.available(), Ok(0));
    writer.write(&numbers(1)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, 1]), QueueError::Overflow(FULL as u64 + 1).to_string());
    writer.write(&numbers(9)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, 9]), "ok");
}

#[test]
fn more_than_an_unsynchronized_ring_is_never_written() {
    let world = world();
    let (queue, _writer) = world.unsync();
    assert!(world.ask(WRITE_UNSYNC, &[FULL + 1]).contains("capacity"));
    assert_eq!(queue.reader().unwrap().available(), Ok(0));
}

#[test]
fn every_reader_sees_every_message() {
    let world = world();
    let (queue, mut writer) = world.unsync();
    world.root.transaction(ADD_READER).call(|_| Ok(()), |_| Ok(())).unwrap();
    let mut mine = queue.reader().unwrap();
    writer.write(&numbers(100)).unwrap();
    assert_eq!(world.ask(READ_UNSYNC, &[0, 100]), "ok");
    assert_eq!(world.ask(READ_UNSYNC, &[1, 100]), "ok");
    let mut items = [0; 100];
    mine.read(&mut items).unwrap();
    assert_eq!(items[..], numbers(100));
}

#[test]
fn every_reader_is_told_of_an_overflow_and_recovers() {
    let world = world();
    let (queue, mut writer) = world.unsync();
    world.root.transaction(ADD_READER).call(|_| Ok(()), |_| Ok(())).unwrap();
    let mut mine = queue.reader().unwrap();
    assert_eq!(world.ask(WRITE_UNSYNC, &[FULL]), "ok");
    assert_eq!(world.ask(WRITE_UNSYNC, &[1]), "ok");
    let overflow = QueueError::Overflow(FULL as u64 + 1);
    assert_eq!(mine.available(), Err(overflow));
    for which in [0, 1] {
        assert_eq!(world.ask(READ_UNSYNC, &[which, 1]), overflow.to_string());
    }
    writer.write(&numbers(FULL)).unwrap();
    for which in [0, 1] {
        assert_eq!(world.ask(READ_UNSYNC, &[which, FULL]), "ok");
    }
    assert_eq!(mine.available(), Ok(CAPACITY));
}

#[test]
fn a_hostile_peer_harms_neither_a_writer_nor_a_reader() {
    let world = world();
    let queue = MessageQueue::<u16, Synchronized>::with_event_flag(CAPACITY).unwrap();
    let descriptor = queue.descriptor().unwrap();
    world.root.transaction(SCRIBBLE).call(|w| w.write(&descriptor), |_| Ok(())).unwrap();
    // The same memory as an unsynchronized queue, for a reader that is told of overflows.
    let parts = queue.descriptor().unwrap();
    let fds = parts.fds().iter().map(|fd| fd.try_clone().unwrap()).collect();
    let others = Descriptor::<u16, Unsynchronized>::from_parts(parts.grantors().to_vec(), fds, 2, 2);
    let others = MessageQueue::attach(others).unwrap();

    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    let mut follower = others.reader().unwrap();
    let (mut fine, mut refused) = (0_u32, 0_u32);
    let mut items = vec![0; CAPACITY];
    let soon = Some(Duration::from_micros(100));
    let began = Instant::now();
    // Longer if the two processes had no CPU at the same time.
    while began.elapsed() < Duration::from_millis(1500) || fine == 0 || refused == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{fine} went through, {refused} were refused");
        for count in [1, 7, CAPACITY] {
            for outcome in [
                writer.write_blocking(&items[..count], soon),
                reader.read_blocking(&mut items[..count], soon),
                reader.begin(count).and_then(|there| {
                    there.span().get_all(&mut items[..count]);
                    there.commit(count)
                }),
                writer.begin(count).and_then(|mut room| {
                    room.span().put_all(&items[..count]);
                    room.commit(count)
                }),
                follower.read(&mut items[..count]),
            ] {
                match outcome {
                    Ok(()) => fine += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
}
