//! Oneway calls of a peer between their arrival and their service: how many bytes of them may wait.
//!
//! While there are more, nothing further is read from a connection that brings one, so that the sender is refused at
//! last. Calls that came before their turn wait for one that is still on its way, and make no room by themselves: that
//! one is let in beside them, and without it the session ends.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{Attempt, Socket, Wait};
use super::inbound::Frame;
use crate::identity::CallingIdentity;
use crate::ledger::{self, Charge, Resource};
use crate::locked::lock;
use crate::{Error, Result};

/// Bytes of a session's oneway calls that may wait.
const MOST: u64 = 10 << 20;
/// How often the share of the peer's user is looked at, which other sessions use, too.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a call that others wait for may be behind them on the way.
const BEHIND: Duration = Duration::from_secs(5);

/// The oneway calls of one session that wait.
pub(super) struct SessionQueue {
    peer: CallingIdentity,
    held: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    bytes: u64,
    // Of those, the ones of calls that came before their turn.
    early: u64,
    is_over: bool,
}

impl QueueState {
    /// Whether nothing of it will be served before another call comes.
    fn is_stuck(&self) -> bool {
        self.early > 0 && self.early == self.bytes
    }
}

/// A call that waits or is served.
pub(super) struct Admission {
    waiting: Arc<SessionQueue>,
    bytes: u64,
    is_early: bool,
    _charge: Charge,
}

/// A call that came, and what counts it.
pub(super) struct Arrival {
    pub(super) frame: Frame,
    pub(super) admitted: Admission,
}

impl SessionQueue {
    pub(super) fn new(peer: CallingIdentity) -> Arc<Self> {
        Arc::new(SessionQueue { peer, held: Mutex::default(), changed: Condvar::new() })
    }

    /// Waits until there is room for a call of so many bytes that came on a connection. `is_next` says whether others
    /// may wait for it.
    pub(super) fn admit(
        self: &Arc<Self>,
        bytes: u64,
        socket: &Socket,
        wait: Wait,
        is_next: impl Fn() -> bool,
    ) -> Result<Attempt<Admission>> {
        let mut stuck_since = None;
        loop {
            // Before the lock: whoever knows it has a lock of its own, and counts here while it has.
            let is_next = is_next();
            let held = lock(&self.held);
            if held.is_over {
                return Err(Error::Dead);
            }
            let fits = held.bytes == 0 || held.bytes + bytes <= MOST || held.is_stuck() && is_next;
            if fits {
                match ledger::charge(self.peer, Resource::Oneway, bytes) {
                    Ok(charge) => return Ok(Attempt::Done(self.count(held, bytes, charge))),
                    // What others hold may stay for ever. What the session itself holds is served, and makes room.
                    Err(_) if socket.is_ended()? => return Err(Error::Dead),
                    Err(_) => {}
                }
            }
            if wait.is_over() {
                return Ok(Attempt::Late);
            }
            if !held.is_stuck() {
                stuck_since = None;
            } else if stuck_since.get_or_insert_with(Instant::now).elapsed() >= BEHIND {
                let what =
                    format!("a oneway call does not come for which {} bytes of others wait", held.bytes);
                return Err(Error::Protocol(what));
            }
            let again = match wait {
                Wait::Until(end) => end.saturating_duration_since(Instant::now()).min(LOOK_AGAIN),
                Wait::Forever | Wait::No => LOOK_AGAIN,
            };
            drop(self.changed.wait_timeout(held, again).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn count(
        self: &Arc<Self>,
        mut held: std::sync::MutexGuard<'_, QueueState>,
        bytes: u64,
        charge: Charge,
    ) -> Admission {
        held.bytes += bytes;
        Admission { waiting: Arc::clone(self), bytes, is_early: false, _charge: charge }
    }

    /// The session is over: whoever waits sees it.
    pub(super) fn end(&self) {
        lock(&self.held).is_over = true;
        self.changed.notify_all();
    }
}

impl Admission {
    /// Whether the call waits for another one, rather than for its service.
    pub(super) fn set_early(&mut self, is_early: bool) {
        if std::mem::replace(&mut self.is_early, is_early) == is_early {
            return;
        }
        let mut held = lock(&self.waiting.held);
        held.early = if is_early { held.early + self.bytes } else { held.early - self.bytes };
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.set_early(false);
        lock(&self.waiting.held).bytes -= self.bytes;
        self.waiting.changed.notify_all();
    }
}
