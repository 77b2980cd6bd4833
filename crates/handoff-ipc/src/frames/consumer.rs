//! The side that looks at frames.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{About, Bits, DESCRIPTOR, LOOK, MOST, NEWS, SUBSCRIBE, UNSUBSCRIBE, bit};
use crate::death::DeathRegistration;
use crate::interface::InterfaceId;
use crate::locked::lock;
use crate::object::{Binder, Service, Transaction};
use crate::parcel::SharedBytes;
use crate::queue::EventFlag;
use crate::{Error, Result, SharedMemory};

/// One subscription to a pool.
pub struct FrameConsumer {
    pub(super) shared: Arc<Shared>,
    // Frames that are ready and were not given out.
    waiting: u32,
    last: u64,
    // The producer said so, or its process has ended.
    gone: bool,
    _death: Option<DeathRegistration>,
}

/// What frames that are held need.
pub(super) struct Shared {
    pool: Binder,
    token: Binder,
    size: u64,
    buffers: Vec<SharedMemory>,
    about: SharedMemory,
    pub(super) bits: Bits,
    pub(super) bell: EventFlag,
    // Taken by whoever gives a frame back.
    held: Mutex<u32>,
}

/// Stands for the consumer: when its process ends, the producer hears of it.
struct Token;

impl Service for Token {
    fn descriptor(&self) -> &str {
        "handoff.IFrameConsumer"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        Err(transaction.unknown(self.descriptor()))
    }
}

impl FrameConsumer {
    /// Subscribes to a pool: from now on this gets its frames.
    ///
    /// # Errors
    /// [`Error::WrongInterface`] if the object is no pool, [`Error::Protocol`] if it shares memory that cannot be; [`Error::Status`] with
    /// `Security` if it has enough consumers; as [`CallBuilder::call`](crate::CallBuilder::call) otherwise.
    pub fn subscribe(pool: &Binder) -> Result<Self> {
        pool.check_interface(InterfaceId::new(DESCRIPTOR))?;
        let token = Binder::new(Token);
        let subscribed = pool.transaction(SUBSCRIBE).call(
            |to| to.write(&token),
            |from| {
                let count =
                    usize::try_from(from.read::<i32>()?).ok().filter(|count| (2..=MOST).contains(count));
                let count = count.ok_or_else(|| from.bad("a pool of so many frames"))?;
                let size: i64 = from.read()?;
                let buffers: Vec<SharedMemory> = (0..count).map(|_| from.read()).collect::<Result<_>>()?;
                let size = u64::try_from(size).ok();
                let fits = |size: &u64| buffers.iter().all(|buffer| buffer.len() as u64 >= *size);
                let size = size.filter(fits).ok_or_else(|| from.bad("frames larger than their buffers"))?;
                let (about, page, bell) = (from.read()?, from.read()?, from.read()?);
                Ok(Shared {
                    pool: pool.clone(),
                    token: token.clone(),
                    size,
                    buffers,
                    about,
                    bits: Bits::over(page)?,
                    bell: EventFlag::over(Arc::new(bell), 0)?,
                    held: Mutex::new(0),
                })
            },
        )?;
        let shared = Arc::new(subscribed);
        let ready = shared.bits.ready.clone();
        let death = if pool.is_local() {
            None
        } else {
            Some(pool.link_to_death(move || ready.wake(NEWS).unwrap_or(()))?)
        };
        Ok(FrameConsumer { shared, waiting: 0, last: 0, gone: false, _death: death })
    }

    /// The oldest frame that was not looked at yet; waits for one. No `timeout` waits for ever.
    ///
    /// # Errors
    /// [`Error::DeadlineExpired`]; [`Error::Dead`] once the producer is gone and nothing is left;
    /// [`Error::Protocol`] if what it says of a frame cannot be.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Frame> {
        let began = Instant::now();
        loop {
            if let Some(frame) = self.take(Duration::ZERO)? {
                return Ok(frame);
            }
            if self.gone || !self.shared.pool.is_alive() {
                return Err(Error::Dead);
            }
            let left = match timeout {
                None => LOOK,
                Some(timeout) => match timeout.checked_sub(began.elapsed()) {
                    None => return Err(Error::DeadlineExpired(timeout)),
                    Some(left) => left.min(LOOK),
                },
            };
            if let Some(frame) = self.take(left)? {
                return Ok(frame);
            }
        }
    }

    /// The oldest frame that is ready, waiting so long at the most.
    fn take(&mut self, wait: Duration) -> Result<Option<Frame>> {
        let all = self.shared.buffers.iter().enumerate().fold(0, |bits, (index, _)| bits | bit(index));
        let ready = &self.shared.bits.ready;
        let bits = if wait.is_zero() || self.waiting != 0 {
            ready.take(all | NEWS)?
        } else {
            // None in time: the caller looks at its own time.
            ready.wait(all | NEWS, Some(wait)).unwrap_or(0)
        };
        self.gone |= bits & NEWS != 0;
        self.waiting |= bits & all;
        // What is held already was made ready again by a producer that breaks its word.
        self.waiting &= !*lock(&self.shared.held);
        let mut oldest: Option<(usize, About)> = None;
        for index in (0..self.shared.buffers.len()).filter(|index| self.waiting & bit(*index) != 0) {
            let about = About::read(&self.shared.about, index)?;
            if oldest.is_none_or(|(_, other)| about.sequence < other.sequence) {
                oldest = Some((index, about));
            }
        }
        let Some((index, about)) = oldest else { return Ok(None) };
        self.waiting &= !bit(index);
        *lock(&self.shared.held) |= bit(index);
        let missed = about.sequence.saturating_sub(self.last.saturating_add(1));
        let missed = if self.last == 0 { 0 } else { missed };
        let frame = Frame { shared: Arc::clone(&self.shared), index, about, missed };
        if about.len > self.shared.size {
            // Given back where it is dropped.
            return Err(Error::Protocol(format!(
                "a frame of {} bytes in a buffer of {}",
                about.len, self.shared.size
            )));
        }
        self.last = about.sequence;
        Ok(Some(frame))
    }
}

impl fmt::Debug for FrameConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameConsumer({} buffers of {} bytes)", self.shared.buffers.len(), self.shared.size)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A producer that is gone needs no news.
        drop(self.pool.transaction(UNSUBSCRIBE).oneway(|to| to.write(&self.token)));
    }
}

/// A frame that this process looks at. Dropped, it is given back; the subscription stays until the last is.
pub struct Frame {
    shared: Arc<Shared>,
    index: usize,
    about: About,
    missed: u64,
}

impl Frame {
    /// Its number: each published frame has the next one.
    pub fn sequence(&self) -> u64 {
        self.about.sequence
    }

    /// Frames between the one before and this that this consumer did not get: it held too many.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// When it was published, by `CLOCK_MONOTONIC`.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.about.time_ns)
    }

    /// Its contents, which only the producer could change.
    pub fn bytes(&self) -> SharedBytes<'_> {
        let all = self.shared.buffers[self.index].bytes();
        // The length was checked against the buffer.
        all.slice(0, self.about.len as usize).unwrap_or_else(|| SharedBytes::from_slice(&[]))
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.about.sequence, self.about.len)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        *lock(&self.shared.held) &= !bit(self.index);
        // Fails for no bits only.
        let _ = self.shared.bits.returned.wake(bit(self.index));
        let _ = self.shared.bell.wake(1);
    }
}
