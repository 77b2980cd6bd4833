//! The side that fills frames.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{ABOUT, About, Bits, DESCRIPTOR, LOOK, MOST, NEWS, SUBSCRIBE, UNSUBSCRIBE, bit};
use crate::death::DeathRegistration;
use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::object::{Binder, Service, Transaction};
use crate::parcel::Writer;
use crate::queue::EventFlag;
use crate::{Error, Result, SharedMemory};

/// How a pool is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOptions {
    /// Buffers, 2 to 31.
    pub count: usize,
    /// Bytes of each.
    pub size: usize,
    /// Frames that one consumer may hold at a time; it misses further ones.
    pub max_held: usize,
    /// Consumers of one user at a time. One process may have three quarters of them, and at least two; all users
    /// together may have twice as many, each half of what the others leave.
    pub max_consumers: usize,
    /// Takes a frame from a consumer that holds it for longer, when the pool has no other left: what the consumer
    /// reads there may then be a later frame. `None`: never.
    pub reclaim_after: Option<Duration>,
    /// Buffers of huge pages; see [`SharedMemory::with_huge_pages`].
    pub huge_pages: bool,
}

impl FrameOptions {
    /// So many buffers of `size` bytes, of which a consumer may hold all but two, for up to 16 consumers of a user.
    pub fn new(count: usize, size: usize) -> Self {
        FrameOptions {
            count,
            size,
            max_held: count.saturating_sub(2).max(1),
            max_consumers: 16,
            reclaim_after: None,
            huge_pages: false,
        }
    }
}

/// A producer's buffers and who looks at them. Clones are the same one.
#[derive(Clone)]
pub struct FramePool {
    inner: Arc<Inner>,
    binder: Binder,
}

struct Inner {
    options: FrameOptions,
    buffers: Vec<SharedMemory>,
    // Read-only for everybody else.
    about: SharedMemory,
    // Consumers ring when they give a frame back. A hint: all may write to it.
    bell: EventFlag,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sequence: u64,
    // Buffers that are being filled.
    filling: u32,
    consumers: Vec<Consumer>,
}

struct Consumer {
    token: Binder,
    who: CallingIdentity,
    bits: Bits,
    held: u32,
    since: [Option<Instant>; MOST],
    missed: u64,
    _death: Option<DeathRegistration>,
}

/// Bit of the bell.
const RUNG: u32 = 1;

impl FramePool {
    /// A pool, which nobody looks at yet.
    ///
    /// # Errors
    /// [`Error::BadQueue`] for counts that cannot be; if there is no memory, or there are no huge pages.
    pub fn new(options: FrameOptions) -> Result<Self> {
        if !(2..=MOST).contains(&options.count) || options.max_held == 0 || options.max_consumers == 0 {
            return Err(Error::BadQueue(format!(
                "a pool of {} frames, of which a consumer may hold {}, for {} consumers: 2 to {MOST} frames, \
                 and at least 1 of the others",
                options.count, options.max_held, options.max_consumers
            )));
        }
        let buffer = || {
            let memory = if options.huge_pages {
                SharedMemory::with_huge_pages(options.size)?
            } else {
                SharedMemory::new(options.size)?
            };
            memory.freeze()?;
            Ok(memory)
        };
        let about = SharedMemory::new(options.count * ABOUT)?;
        about.freeze()?;
        let inner = Arc::new(Inner {
            options,
            buffers: (0..options.count).map(|_| buffer()).collect::<Result<_>>()?,
            about,
            bell: EventFlag::new()?,
            state: Mutex::default(),
        });
        let binder = Binder::new(PoolService(Arc::downgrade(&inner)));
        Ok(FramePool { inner, binder })
    }

    /// What consumers subscribe with: register it, or send it to them.
    pub fn binder(&self) -> Binder {
        self.binder.clone()
    }

    /// A buffer that nobody looks at, to be filled; waits for one. No `timeout` waits for ever.
    ///
    /// # Errors
    /// [`Error::DeadlineExpired`] if none was given back in that time.
    pub fn acquire(&self, timeout: Option<Duration>) -> Result<FrameSlot<'_>> {
        let began = Instant::now();
        loop {
            if let Some(index) = self.inner.take_free() {
                return Ok(FrameSlot { pool: &self.inner, index });
            }
            let left = match timeout {
                None => LOOK,
                Some(timeout) => match timeout.checked_sub(began.elapsed()) {
                    None => return Err(Error::DeadlineExpired(timeout)),
                    Some(left) => left.min(LOOK),
                },
            };
            // Whatever comes of it, the consumers' own words are looked at.
            let _ = self.inner.bell.wait(RUNG, Some(left));
        }
    }

    /// Consumers, now.
    pub fn consumers(&self) -> usize {
        lock(&self.inner.state).consumers.len()
    }

    /// Frames that consumers missed because they held too many, of those that are there now.
    pub fn missed(&self) -> u64 {
        lock(&self.inner.state).consumers.iter().map(|consumer| consumer.missed).sum()
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FramePool({:?}, {} consumers)", self.inner.options, self.consumers())
    }
}

impl Inner {
    /// The state, once what consumers gave back was taken.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        for consumer in &mut state.consumers {
            // Of all bits that it may set, those of frames that it holds.
            let returned = consumer.bits.returned.take(u32::MAX).unwrap_or(0) & consumer.held;
            consumer.held &= !returned;
        }
        state
    }

    fn take_free(&self) -> Option<usize> {
        let mut state = self.settled();
        let mut taken = state.filling;
        for consumer in &state.consumers {
            taken |= consumer.held;
        }
        let free = (0..self.options.count).find(|index| taken & bit(*index) == 0);
        let free = free.or_else(|| self.reclaim(&mut state));
        if let Some(index) = free {
            state.filling |= bit(index);
        }
        free
    }

    /// A buffer that all who hold it have held for too long.
    fn reclaim(&self, state: &mut State) -> Option<usize> {
        let timeout = self.options.reclaim_after?;
        let overdue = |index: usize| {
            state.filling & bit(index) == 0
                && state
                    .consumers
                    .iter()
                    .filter(|consumer| consumer.held & bit(index) != 0)
                    .all(|consumer| consumer.since[index].is_some_and(|since| since.elapsed() > timeout))
        };
        let index = (0..self.options.count).find(|index| overdue(*index))?;
        for consumer in &mut state.consumers {
            consumer.held &= !bit(index);
        }
        Some(index)
    }

    fn publish(&self, index: usize, len: usize) -> Result<usize> {
        if len > self.options.size {
            return Err(Error::TooLarge { size: len, limit: self.options.size });
        }
        let mut state = self.settled();
        state.filling &= !bit(index);
        state.sequence += 1;
        let now = clock_gettime(ClockId::Monotonic);
        let time_ns = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        let about = About { sequence: state.sequence, time_ns, len: len as u64 };
        self.about.write_at(index * ABOUT, &about.to_bytes())?;
        let mut reached = 0;
        for consumer in &mut state.consumers {
            if consumer.held.count_ones() as usize >= self.options.max_held {
                consumer.missed += 1;
                continue;
            }
            consumer.held |= bit(index);
            consumer.since[index] = Some(Instant::now());
            // What it left of an earlier round of this buffer says nothing of this one.
            consumer.bits.returned.take(bit(index))?;
            consumer.bits.ready.wake(bit(index))?;
            reached += 1;
        }
        Ok(reached)
    }

    fn subscribe(
        self: &Arc<Self>,
        who: CallingIdentity,
        token: Binder,
        reply: &mut Writer<'_>,
    ) -> Result<()> {
        token.check_owner(who)?;
        let page = SharedMemory::new(4096)?;
        let bits = Bits::over(page.try_clone()?)?;
        let mut state = lock(&self.state);
        let consumers = state.consumers.iter().map(|consumer| consumer.who);
        check_share(self.options.max_consumers, consumers, who)?;
        if state.consumers.iter().any(|consumer| consumer.token == token) {
            return Err(Error::PermissionDenied("this consumer has subscribed already".into()));
        }
        let (pool, gone) = (Arc::downgrade(self), token.clone());
        let death = if token.is_local() {
            None
        } else {
            Some(token.link_to_death(move || {
                if let Some(pool) = pool.upgrade() {
                    pool.forget(&gone);
                }
            })?)
        };
        let consumer = Consumer { token, who, bits, held: 0, since: [None; MOST], missed: 0, _death: death };
        state.consumers.push(consumer);
        drop(state);
        reply.write(&(self.options.count as i32))?;
        reply.write(&(self.options.size as i64))?;
        for buffer in &self.buffers {
            reply.write(buffer)?;
        }
        reply.write(&self.about)?;
        reply.write(&page)?;
        match self.bell.memory() {
            Some(bell) => reply.write(bell),
            None => Err(Error::BadQueue("the bell has no memory of its own".into())),
        }
    }

    /// A consumer wants no more, or has died: what it held is free.
    fn forget(&self, token: &Binder) {
        let mut state = lock(&self.state);
        let at = state.consumers.iter().position(|consumer| consumer.token == *token);
        let gone = at.map(|at| state.consumers.swap_remove(at));
        drop(state);
        drop(gone);
        let _ = self.bell.wake(RUNG);
    }
}

/// Whether one more consumer of `who` is within its process's and its user's share.
fn check_share(
    max: usize,
    consumers: impl Iterator<Item = CallingIdentity>,
    who: CallingIdentity,
) -> Result<()> {
    let (mut all, mut user, mut process) = (0, 0, 0);
    for consumer in consumers {
        all += 1;
        if consumer.uid == who.uid {
            user += 1;
            process += usize::from(consumer.pid == who.pid);
        }
    }
    let of_user = (2 * max).saturating_sub(all - user) / 2;
    let of_process = (max / 4 * 3).max(2).min(max);
    if user >= of_user || process >= of_process {
        return Err(Error::PermissionDenied(format!(
            "the pool has {process} consumers of process {} and {user} of user {}, and takes no more of them",
            who.pid, who.uid
        )));
    }
    Ok(())
}

impl Drop for Inner {
    fn drop(&mut self) {
        for consumer in &lock(&self.state).consumers {
            // Those in this process are told by nothing else.
            let _ = consumer.bits.ready.wake(NEWS);
        }
    }
}

/// How consumers reach the pool. It does not keep it alive.
struct PoolService(Weak<Inner>);

impl Service for PoolService {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let pool = self.0.upgrade().ok_or(Error::Dead)?;
        match transaction.code() {
            SUBSCRIBE => {
                pool.subscribe(transaction.caller(), transaction.data.read()?, &mut transaction.reply)
            }
            UNSUBSCRIBE => {
                pool.forget(&transaction.data.read()?);
                Ok(())
            }
            _ => Err(transaction.unknown(DESCRIPTOR)),
        }
    }
}

/// A buffer that is being filled. Dropped, it is free again, and nobody sees what was written.
#[derive(Debug)]
#[must_use = "it is free again as soon as it is dropped"]
pub struct FrameSlot<'a> {
    pool: &'a Inner,
    index: usize,
}

impl FrameSlot<'_> {
    /// Copies bytes in.
    ///
    /// # Errors
    /// If they reach past the end.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.memory().write_at(offset, bytes)
    }

    /// The buffer, as for a device that fills it.
    pub fn memory(&self) -> &SharedMemory {
        &self.pool.buffers[self.index]
    }

    /// Hands the first `len` bytes to all consumers; gives how many that are. Those that hold too many miss it.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the buffer is smaller.
    pub fn publish(self, len: usize) -> Result<usize> {
        let reached = self.pool.publish(self.index, len)?;
        // It is no longer being filled: another thread may have it already.
        std::mem::forget(self);
        Ok(reached)
    }
}

impl Drop for FrameSlot<'_> {
    fn drop(&mut self) {
        lock(&self.pool.state).filling &= !bit(self.index);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inner")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_and_no_user_takes_all_places_of_consumers() {
        let mut consumers: Vec<CallingIdentity> = Vec::new();
        let mut subscribe = |uid: u32, pid: u32| {
            let who = CallingIdentity { pid, uid, gid: 0 };
            let fits = check_share(16, consumers.iter().copied(), who).is_ok();
            if fits {
                consumers.push(who);
            }
            fits
        };
        let mut taken = |uid: u32, pid: u32| (0..100).filter(|_| subscribe(uid, pid)).count();
        assert_eq!([taken(1, 1), taken(1, 2), taken(1, 3)], [12, 4, 0]);
        assert_eq!([taken(2, 4), taken(3, 5)], [8, 4], "others find places");
        let one = CallingIdentity { pid: 1, uid: 1, gid: 0 };
        assert!(check_share(1, std::iter::empty(), one).is_ok());
        assert!(check_share(1, std::iter::once(one), one).is_err());
    }
}
