//! How a queue is made.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use super::descriptor::{Descriptor, Flavor, Grantor};
use super::item::Item;
use super::message_queue::MessageQueue;
use crate::shm::region::Region;
use crate::{Error, Result};

/// Words that different processes write are so far apart: two cache lines, which processors fetch
/// together.
const APART: usize = 128;

/// Makes a [`MessageQueue`] with more than its usual parts.
///
/// ```
/// use handoff_ipc::queue::{Builder, MessageQueue, Unsynchronized};
///
/// let queue: MessageQueue<[u8; 64], Unsynchronized> = Builder::new(1000).event_flag().build()?;
/// assert_eq!(queue.capacity(), 1000);
/// # Ok::<(), handoff_ipc::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct Builder<T, F> {
    capacity: usize,
    event_flag: bool,
    compact: bool,
    ring: Option<OwnedFd>,
    kind: PhantomData<fn() -> (T, F)>,
}

impl<T: Item, F: Flavor> Builder<T, F> {
    /// Of a queue that holds `capacity` messages.
    pub fn new(capacity: usize) -> Self {
        Builder { capacity, event_flag: false, compact: false, ring: None, kind: PhantomData }
    }

    /// With an event flag, which blocking and waiting need.
    pub fn event_flag(mut self) -> Self {
        self.event_flag = true;
        self
    }

    /// Laid out as `libfmq` does it itself: counters side by side, then the ring, then the flag. Any
    /// other layout can be read by `libfmq` as well, because the descriptor says where everything
    /// is, and by default the counters lie on cache lines of their own, which is faster.
    pub fn compact(mut self) -> Self {
        self.compact = true;
        self
    }

    /// With the ring in memory of the caller's, from its first byte: a device's buffer, say. A peer
    /// that does not trust this process takes only a memfd whose size is sealed.
    pub fn ring_in(mut self, memory: OwnedFd) -> Self {
        self.ring = Some(memory);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// If the capacity is 0 or too large, the caller's memory is too small, or the kernel has no
    /// memory or descriptors left.
    pub fn build(self) -> Result<MessageQueue<T, F>> {
        const { assert!(T::SIZE > 0, "a message has at least one byte") };
        let size = self.capacity.checked_mul(T::SIZE).filter(|size| *size <= isize::MAX as usize / 2);
        let size = size.filter(|size| *size > 0).ok_or_else(|| {
            Error::BadQueue(format!("{} messages of {} bytes cannot be held", self.capacity, T::SIZE))
        })?;
        let mut plan =
            MemoryLayout { end: 0, align: if self.compact { 8 } else { APART }, grantors: Vec::new() };
        plan.add(8)?;
        plan.add(8)?;
        // The flag's place in the list is behind the ring's, whatever its place in memory. The reserve
        // counter stands behind it, so a queue that has that one has a flag as well.
        let flag = match (self.event_flag || !F::SYNCHRONIZED, self.compact) {
            (true, false) => Some(plan.place(0, 4)?),
            _ => None,
        };
        let reserve = match (F::SYNCHRONIZED, self.compact) {
            // Beside the write counter: the writer writes both.
            (false, false) => Some(Grantor { fd_index: 0, offset: (APART + 8) as i32, extent: 8 }),
            _ => None,
        };
        match self.ring {
            Some(_) => plan.grantors.push(Grantor { fd_index: 1, offset: 0, extent: size as i64 }),
            None => plan.add(size)?,
        }
        match flag {
            Some(flag) => plan.grantors.push(flag),
            None if self.event_flag => plan.add(4)?,
            None => {}
        }
        plan.grantors.extend(reserve);
        let (_, file) = Region::create("handoff-queue", plan.end.next_multiple_of(4096))?;
        let fds: Vec<OwnedFd> = std::iter::once(file).chain(self.ring).collect();
        // The ring's memory is the caller's own: that is whom to trust.
        let made = Descriptor::from_parts(plan.grantors, fds, T::SIZE as i32, F::FLAGS).trusting_memory();
        MessageQueue::attach(made)
    }
}

/// Where everything goes in the queue's own memory.
struct MemoryLayout {
    end: usize,
    align: usize,
    grantors: Vec<Grantor>,
}

impl MemoryLayout {
    fn place(&mut self, fd_index: i32, size: usize) -> Result<Grantor> {
        let offset = self.end.next_multiple_of(self.align);
        self.end = offset + size;
        let offset = i32::try_from(offset).map_err(|_| {
            Error::BadQueue("this layout puts the event flag behind 2 GiB; do without `compact`".into())
        })?;
        Ok(Grantor { fd_index, offset, extent: size as i64 })
    }

    fn add(&mut self, size: usize) -> Result<()> {
        let grantor = self.place(0, size)?;
        self.grantors.push(grantor);
        Ok(())
    }
}
