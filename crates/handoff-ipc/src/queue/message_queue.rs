//! A queue as one process has it.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::builder::Builder;
use super::descriptor::{Descriptor, Flavor, Grantor};
use super::error::QueueError;
use super::event_flag::EventFlag;
use super::item::Item;
use super::memory::{Memory, Share};
use super::reader::Reader;
use super::writer::Writer;
use crate::{Error, Result};

/// A queue of messages of type `T` between processes, in the flavour `F`
/// ([`Synchronized`](super::Synchronized) or [`Unsynchronized`](super::Unsynchronized)).
///
/// It has two ends, [`MessageQueue::writer`] and [`MessageQueue::reader`], which may be used in one
/// process or in two. See the [module](super) for an example.
pub struct MessageQueue<T, F> {
    memory: Arc<Memory>,
    grantors: Vec<Grantor>,
    fds: Vec<OwnedFd>,
    kind: PhantomData<fn() -> (T, F)>,
}

impl<T: Item, F: Flavor> MessageQueue<T, F> {
    /// A queue that holds `capacity` messages.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(capacity: usize) -> Result<Self> {
        Builder::new(capacity).build()
    }

    /// A queue that holds `capacity` messages, whose ends can block.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn with_event_flag(capacity: usize) -> Result<Self> {
        Builder::new(capacity).event_flag().build()
    }

    /// A queue that another process made. Its counters are left as they are.
    ///
    /// # Errors
    /// If the descriptor is not of such a queue, or does not describe memory that is safe to use.
    pub fn attach(descriptor: Descriptor<T, F>) -> Result<Self> {
        let Descriptor { grantors, fds, quantum, flags, trusting, .. } = descriptor;
        if usize::try_from(quantum) != Ok(T::SIZE) {
            let what = format!("its messages have {quantum} bytes, not {} as those wanted", T::SIZE);
            return Err(Error::BadQueue(what));
        }
        if flags != F::FLAGS {
            return Err(Error::BadQueue(format!("its flavour is {flags}, not {} as that wanted", F::FLAGS)));
        }
        let memory = Arc::new(Memory::map(&grantors, &fds, T::SIZE, trusting)?);
        Ok(MessageQueue { memory, grantors, fds, kind: PhantomData })
    }

    /// What another process attaches to.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn descriptor(&self) -> Result<Descriptor<T, F>> {
        let fds = self.fds.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>();
        let fds = fds.map_err(|error| Error::io("cannot duplicate the descriptors of a queue", error))?;
        Ok(Descriptor::from_parts(self.grantors.clone(), fds, T::SIZE as i32, F::FLAGS))
    }

    /// Messages that it holds.
    pub fn capacity(&self) -> usize {
        (self.memory.shape().size / T::SIZE as u64) as usize
    }

    /// The event flag, if it was made with one.
    pub fn event_flag(&self) -> Option<EventFlag> {
        EventFlag::of(&self.memory)
    }

    /// The writing end. There is one at a time in a process, and should be one in all: two that
    /// write at the same time lose messages.
    ///
    /// # Errors
    /// [`QueueError::InUse`].
    pub fn writer(&self) -> Result<Writer<T, F>, QueueError> {
        let end = End::take(&self.memory, &self.memory.writing, "writer")?;
        Ok(Writer::new(end))
    }

    /// A reading end. Of a synchronized queue there is one at a time in a process, and should be one
    /// in all. Those of an unsynchronized queue are independent; each begins with the oldest message
    /// that is still there, or with an overflow where the first ones are gone
    /// ([`Reader::skip_to_newest`] goes past that).
    ///
    /// # Errors
    /// [`QueueError::InUse`].
    pub fn reader(&self) -> Result<Reader<T, F>, QueueError> {
        let end = match F::SYNCHRONIZED {
            true => End::take(&self.memory, &self.memory.reading, "reader")?,
            false => End { share: Share::of(&self.memory), what: "" },
        };
        Ok(Reader::new(end))
    }

    /// Empties the queue: both counters and the event flag are 0 as in a new one. No end may be in
    /// use, here or elsewhere.
    ///
    /// # Errors
    /// [`QueueError::InUse`], as far as this process knows.
    pub fn reset(&self) -> Result<(), QueueError> {
        let _writer = End::take(&self.memory, &self.memory.writing, "writer")?;
        let _reader = End::take(&self.memory, &self.memory.reading, "reader")?;
        let share = Share::of(&self.memory);
        let counters = share.counters();
        for counter in [Some(counters.read), Some(counters.write), counters.reserve].into_iter().flatten() {
            counter.store(0, Ordering::SeqCst);
        }
        if let Some(flag) = self.memory.flag() {
            flag.store(0, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl<T: Item, F: Flavor> fmt::Debug for MessageQueue<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageQueue")
            .field("capacity", &self.capacity())
            .field("message_bytes", &T::SIZE)
            .field("synchronized", &F::SYNCHRONIZED)
            .field("event_flag", &self.event_flag())
            .finish()
    }
}

/// An end's share in the memory; gives its role back when it goes.
#[derive(Debug)]
pub(super) struct End {
    pub(super) share: Share,
    what: &'static str,
}

impl End {
    fn take(memory: &Arc<Memory>, taken: &AtomicBool, what: &'static str) -> Result<Self, QueueError> {
        match taken.swap(true, Ordering::Acquire) {
            true => Err(QueueError::InUse(what)),
            false => Ok(End { share: Share::of(memory), what }),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        match self.what {
            "writer" => self.share.memory().writing.store(false, Ordering::Release),
            "reader" => self.share.memory().reading.store(false, Ordering::Release),
            _ => {}
        }
    }
}
