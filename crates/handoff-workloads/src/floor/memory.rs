//! Floors over shared memory: futex, spinning, yielding; and the plain copy.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::{futex, sched_yield};

use super::session::{Hop, SLOT};
use crate::sys::shared::SharedRegion;

/// Whose turn it is, the first word of the slot.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;

/// How a side waits for its turn and tells the other of it.
pub(super) trait Wait: Sync {
    /// Returns when `turn` is no longer `other`.
    fn wait(turn: &AtomicU32, other: u32) -> rustix::io::Result<()>;
    /// Called after `turn` was given away.
    fn wake(turn: &AtomicU32) -> rustix::io::Result<()>;
}

/// `FUTEX_WAKE`, then `FUTEX_WAIT`.
pub(super) struct Futex;
/// A loop that reads the word.
pub(super) struct Spin;
/// A loop of `sched_yield` and a read.
pub(super) struct Yield;

impl Wait for Futex {
    fn wait(turn: &AtomicU32, other: u32) -> rustix::io::Result<()> {
        while turn.load(Ordering::Acquire) == other {
            match futex::wait(turn, futex::Flags::empty(), other, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wake(turn: &AtomicU32) -> rustix::io::Result<()> {
        futex::wake(turn, futex::Flags::empty(), 1).map(drop)
    }
}

impl Wait for Spin {
    fn wait(turn: &AtomicU32, other: u32) -> rustix::io::Result<()> {
        while turn.load(Ordering::Acquire) == other {
            hint::spin_loop();
        }
        Ok(())
    }

    fn wake(_: &AtomicU32) -> rustix::io::Result<()> {
        Ok(())
    }
}

impl Wait for Yield {
    fn wait(turn: &AtomicU32, other: u32) -> rustix::io::Result<()> {
        while turn.load(Ordering::Acquire) == other {
            sched_yield();
        }
        Ok(())
    }

    fn wake(_: &AtomicU32) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// A slot in shared memory: the turn, the request and the reply, in one cache line while small.
pub(super) struct Slot<'a, W> {
    region: &'a SharedRegion,
    payload: &'a [u8],
    reply: usize,
    wait: std::marker::PhantomData<W>,
}

const REQUEST: usize = SLOT + 8;

impl<'a, W: Wait> Slot<'a, W> {
    /// Bytes that a slot for `payload` bytes takes.
    pub(super) fn size(payload: usize) -> usize {
        8 + 2 * payload.next_multiple_of(8)
    }

    pub(super) fn new(region: &'a SharedRegion, payload: &'a [u8]) -> Self {
        let reply = REQUEST + payload.len().next_multiple_of(8);
        Slot { region, payload, reply, wait: std::marker::PhantomData }
    }
}

impl<W: Wait> Hop for Slot<'_, W> {
    fn client(&self, _: &mut [u8]) -> rustix::io::Result<()> {
        let turn = self.region.u32(SLOT);
        self.region.write(REQUEST, self.payload);
        turn.store(SERVER, Ordering::Release);
        W::wake(turn)?;
        W::wait(turn, SERVER)
    }

    fn server(&self, _: &mut [u8]) -> rustix::io::Result<()> {
        let turn = self.region.u32(SLOT);
        W::wait(turn, CLIENT)?;
        self.region.copy_within(REQUEST, self.reply, self.payload.len());
        turn.store(CLIENT, Ordering::Release);
        W::wake(turn)
    }
}

/// One copy between two private buffers.
pub(super) struct Memcpy<'a>(pub(super) &'a [u8]);

impl Hop for Memcpy<'_> {
    fn client(&self, scratch: &mut [u8]) -> rustix::io::Result<()> {
        scratch.copy_from_slice(hint::black_box(self.0));
        hint::black_box(scratch);
        Ok(())
    }

    fn server(&self, _: &mut [u8]) -> rustix::io::Result<()> {
        Ok(())
    }
}
