//! Descriptors that a hostile peer could send, and the layouts of those that we make.

use proptest::prelude::*;

use super::*;
use crate::queue::{Builder, Descriptor, Flavor, MessageQueue, Synchronized, Unsynchronized};

type Sync = Descriptor<u16, Synchronized>;

/// A good descriptor with one thing changed.
fn attach(change: impl FnOnce(&mut Sync)) -> Result<MessageQueue<u16, Synchronized>> {
    let queue = MessageQueue::<u16, Synchronized>::with_event_flag(64).unwrap();
    let mut descriptor = queue.descriptor().unwrap();
    change(&mut descriptor);
    MessageQueue::attach(descriptor)
}

fn refused(change: impl FnOnce(&mut Sync)) -> String {
    attach(change).expect_err("a bad descriptor").to_string()
}

#[test]
fn a_good_descriptor_is_a_queue() {
    let queue = attach(|_| ()).unwrap();
    assert_eq!(queue.capacity(), 64);
    assert!(queue.event_flag().is_some());
}

#[test]
fn extents_that_cannot_be_are_refused() {
    for (role, extent) in [(2, -1), (2, i64::MAX), (2, 0), (0, 0), (0, 4), (1, -8), (3, 2), (2, 1 << 40)] {
        refused(|descriptor| descriptor.grantors[role].extent = extent);
    }
    assert!(refused(|d| d.grantors[2].extent = 127).contains("whole number"));
}

#[test]
fn descriptors_that_are_not_there_are_refused() {
    for (role, index) in [(0, 1), (1, -1), (2, i32::MAX), (3, i32::MIN)] {
        assert!(refused(|d| d.grantors[role].fd_index = index).contains("descriptor"));
    }
    assert!(refused(|d| d.fds.clear()).contains("descriptor 0 of 0"));
}

#[test]
fn offsets_out_of_the_memory_or_off_a_word_are_refused() {
    for (role, offset) in [(0, 4), (1, 129), (2, -8), (3, i32::MIN)] {
        assert!(refused(|d| d.grantors[role].offset = offset).contains("multiple of 8"));
    }
    assert!(refused(|d| d.grantors[2].offset = i32::MAX - 7).contains("bytes"));
    assert!(refused(|d| d.grantors[1].offset = 0).contains("lies over another part"));
    assert!(refused(|d| d.grantors[3].offset = d.grantors[2].offset).contains("lies over another part"));
}

#[test]
fn another_message_or_flavour_is_refused() {
    for quantum in [-2, 0, 1, 4, i32::MIN, i32::MAX] {
        assert!(refused(|d| d.quantum = quantum).contains("bytes"));
    }
    for flags in [0, -1, Unsynchronized::FLAGS, 3] {
        assert!(refused(|d| d.flags = flags).contains("flavour"));
    }
}

#[test]
fn too_few_parts_are_refused() {
    assert!(refused(|d| d.grantors.clear()).contains("0 parts"));
    assert!(refused(|d| d.grantors.truncate(2)).contains("2 parts"));
    let without_flag = attach(|d| d.grantors.truncate(3)).unwrap();
    assert!(without_flag.event_flag().is_none());
}

#[test]
fn memory_that_could_shrink_is_refused_unless_it_is_trusted() {
    let loose = || {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        file
    };
    assert!(refused(|d| d.fds = vec![loose()]).contains("not sealed"));
    let queue = MessageQueue::<u16, Synchronized>::new(64).unwrap();
    let mut descriptor = queue.descriptor().unwrap();
    descriptor.fds = vec![loose()];
    let trusting = MessageQueue::attach(descriptor.trusting_memory()).unwrap();
    trusting.writer().unwrap().write(&[1]).unwrap();
    let pipe = || rustix::pipe::pipe().unwrap().0;
    refused(|d| d.fds = vec![pipe()]);
    assert!(attach(|d| d.fds = vec![pipe()]).is_err());
}

#[test]
fn the_ring_may_lie_in_memory_of_the_user_s() {
    let (_, ring) = Region::create("ring", 4096).unwrap();
    let queue = Builder::<u16, Synchronized>::new(2048).event_flag().ring_in(ring).build().unwrap();
    let descriptor = queue.descriptor().unwrap();
    assert_eq!(descriptor.grantors()[Role::Data as usize].fd_index, 1);
    assert_eq!(descriptor.fds().len(), 2);
    let theirs = MessageQueue::attach(descriptor).unwrap();
    queue.writer().unwrap().write(&[7; 2048]).unwrap();
    let mut read = [0; 2048];
    theirs.reader().unwrap().read(&mut read).unwrap();
    assert_eq!(read, [7; 2048]);

    let (_, small) = Region::create("ring", 4094).unwrap();
    let too_small = Builder::<u16, Synchronized>::new(2048).ring_in(small).build();
    assert!(too_small.unwrap_err().to_string().contains("at least 4096 are due"));
}

#[test]
fn the_layouts_are_as_documented() {
    let offsets = |builder: Builder<u8, Unsynchronized>| {
        let queue = builder.build().unwrap();
        let grantors = queue.descriptor().unwrap().grantors().to_vec();
        grantors.iter().map(|grantor| (grantor.offset, grantor.extent)).collect::<Vec<_>>()
    };
    // libfmq's own: read, write, ring, flag on the next word.
    assert_eq!(offsets(Builder::new(13).compact().event_flag()), [(0, 8), (8, 8), (16, 13), (32, 4)]);
    assert_eq!(offsets(Builder::new(13).compact()), [(0, 8), (8, 8), (16, 13)]);
    assert_eq!(offsets(Builder::new(13)), [(0, 8), (128, 8), (384, 13), (256, 4), (136, 8)]);
}

#[test]
fn queues_that_cannot_be_held_are_refused() {
    for capacity in [0, usize::MAX, usize::MAX / 8, isize::MAX as usize / 16] {
        assert!(MessageQueue::<u64, Synchronized>::new(capacity).is_err(), "{capacity}");
    }
}

/// Mostly numbers near those that are right.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![(-2..80_i64).prop_map(|n| n * 8), 0..5000_i64, any::<i64>(), Just(i64::MAX), Just(i64::MIN)]
}

proptest! {
    #[test]
    fn whatever_a_descriptor_says_its_queue_stays_inside_its_memory(
        parts in proptest::collection::vec((-1..3_i32, number(), number()), 0..7),
        words in proptest::collection::vec(any::<u64>(), 4),
    ) {
        let (_, file) = Region::create("proptest", 4096).unwrap();
        let grantors: Vec<Grantor> = parts
            .into_iter()
            .map(|(fd_index, offset, extent)| Grantor { fd_index, offset: offset as i32, extent })
            .collect();
        let memory = crate::SharedMemory::from_fd(file.try_clone().unwrap(), 4096).unwrap();
        for (index, word) in words.iter().enumerate() {
            memory.write_at(index * 64, &word.to_ne_bytes()).unwrap();
        }
        let descriptor = Descriptor::<u16, Synchronized>::from_parts(grantors, vec![file], 2, 1);
        if let Ok(queue) = MessageQueue::attach(descriptor) {
            let size = queue.capacity();
            prop_assert!((1..=2048).contains(&size));
            let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
            let mut items = vec![0; size];
            for count in [1, size] {
                let _ = (writer.write(&items[..count]), reader.read(&mut items[..count]));
            }
        }
    }
}
