//! Reads and writes that wait.

use std::time::Duration;

use handoff_sync::event_word::now;

use super::descriptor::Synchronized;
use super::error::QueueError;
use super::event_flag::{EventFlag, NOT_EMPTY, NOT_FULL, deadline};
use super::item::Item;
use super::reader::Reader;
use super::writer::Writer;

/// How a blocking read or write waits, and what it tells the other end.
#[derive(Debug, Clone, Copy)]
pub struct Blocking<'a> {
    /// Bits to wait for; not 0.
    pub wait_for: u32,
    /// Bits to raise afterwards; 0 for none.
    pub notify: u32,
    /// How long to wait at most; `None` for ever.
    pub timeout: Option<Duration>,
    /// The flag that both ends use, where that is not the queue's own.
    pub flag: Option<&'a EventFlag>,
    /// How long to look again and again before sleeping. It saves both ends their system calls if
    /// the other one runs on another CPU, and costs CPU time if it does not.
    pub spin: Duration,
}

impl<'a> Blocking<'a> {
    /// What a reader usually does.
    pub fn reading(timeout: Option<Duration>) -> Self {
        Blocking { wait_for: NOT_EMPTY, notify: NOT_FULL, timeout, flag: None, spin: Duration::ZERO }
    }

    /// What a writer usually does.
    pub fn writing(timeout: Option<Duration>) -> Self {
        Blocking { wait_for: NOT_FULL, notify: NOT_EMPTY, timeout, flag: None, spin: Duration::ZERO }
    }

    /// With another flag than the queue's own.
    #[must_use]
    pub fn on(mut self, flag: &'a EventFlag) -> Self {
        self.flag = Some(flag);
        self
    }

    /// Runs `attempt` until it does not say that it has to wait any longer.
    #[inline]
    fn run(
        &self,
        own: Option<&EventFlag>,
        mut attempt: impl FnMut() -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        if self.wait_for == 0 {
            return Err(QueueError::NoBits);
        }
        let flag = self.flag.or(own).ok_or(QueueError::NoEventFlag)?;
        match attempt() {
            Err(QueueError::Full(_) | QueueError::Empty(_)) => self.wait(flag, &mut attempt)?,
            other => other?,
        }
        if self.notify != 0 { flag.wake(self.notify) } else { Ok(()) }
    }

    #[cold]
    fn wait(
        &self,
        flag: &EventFlag,
        attempt: &mut impl FnMut() -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        let until = self.timeout.map(deadline);
        if !self.spin.is_zero() {
            let spun = deadline(self.spin);
            while now() < until.map_or(spun, |until| until.min(spun)) {
                for _ in 0..64 {
                    match attempt() {
                        Err(QueueError::Full(_) | QueueError::Empty(_)) => std::hint::spin_loop(),
                        other => return other,
                    }
                }
            }
        }
        flag.retry(self.wait_for, until, || match attempt() {
            Err(QueueError::Full(_) | QueueError::Empty(_)) => None,
            done => Some(done),
        })?
    }
}

impl<T: Item> Reader<T, Synchronized> {
    /// Reads, and sleeps while there are too few messages. Tells a waiting writer of the room.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`], [`QueueError::NoEventFlag`]; else as [`Reader::read`].
    #[inline]
    pub fn read_blocking(&mut self, items: &mut [T], timeout: Option<Duration>) -> Result<(), QueueError> {
        self.read_blocking_with(items, &Blocking::reading(timeout))
    }

    /// [`Reader::read_blocking`] with bits, a flag or a spin of the caller's choice.
    ///
    /// # Errors
    /// [`QueueError::NoBits`]; else as [`Reader::read_blocking`].
    #[inline]
    pub fn read_blocking_with(&mut self, items: &mut [T], how: &Blocking<'_>) -> Result<(), QueueError> {
        let own = self.flag.take();
        let done = how.run(own.as_ref(), || self.read(items));
        self.flag = own;
        done
    }
}

impl<T: Item> Writer<T, Synchronized> {
    /// Writes, and sleeps while there is not room enough. Tells a waiting reader of the messages.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`], [`QueueError::NoEventFlag`]; else as [`Writer::write`].
    #[inline]
    pub fn write_blocking(&mut self, items: &[T], timeout: Option<Duration>) -> Result<(), QueueError> {
        self.write_blocking_with(items, &Blocking::writing(timeout))
    }

    /// [`Writer::write_blocking`] with bits, a flag or a spin of the caller's choice.
    ///
    /// # Errors
    /// [`QueueError::NoBits`]; else as [`Writer::write_blocking`].
    #[inline]
    pub fn write_blocking_with(&mut self, items: &[T], how: &Blocking<'_>) -> Result<(), QueueError> {
        let own = self.flag.take();
        let done = how.run(own.as_ref(), || self.write(items));
        self.flag = own;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_raised_again_and_again_keep_nobody_past_the_time() {
        let (flag, timeout) = (EventFlag::new().unwrap(), Duration::from_millis(5));
        let (mut attempts, mut until, mut late) = (0, None, 0);
        let done = Blocking::reading(Some(timeout)).run(Some(&flag), || {
            flag.wake(NOT_EMPTY).unwrap();
            attempts += 1;
            // The wait has begun by the second.
            if attempts > 1 {
                late += u32::from(now() > *until.get_or_insert_with(|| deadline(timeout)));
            }
            // One that was about to begin in time, and the last.
            if late > 2 { Ok(()) } else { Err(QueueError::Empty(0)) }
        });
        assert_eq!(done, Err(QueueError::TimedOut));
    }
}
