//! Calls of this process that no thread waits for.
//!
//! Each has a slot of its own, like a thread's call. The word says that nobody waits there (`word.rs`,
//! `CALLER_AWAY`), so whoever replied sends one control message, after the reply and its descriptors,
//! and the poller wakes the task. The end of the peer wakes all of them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::caller_slot::CallerSlot;
use super::client;
use super::pending::Fate;
use super::request::Request;
use super::word::{self, Reply};
use crate::call::OutCall;
use crate::locked::lock;
use crate::object::{ReadFn, Remote, WriteFn};
use crate::shm::link::Link;
use crate::shm::remote::RemoteNode;
use crate::shm::sync::{self, WakeAction};
use crate::shm::wire::Message;
use crate::{Error, Result};

/// Marks slots for such calls: threads do not take them.
const CLASS: u64 = 1 << 33;

/// The peer says that a reply stands in a slot. On the poller's thread.
pub(crate) fn done(link: &Arc<Link>, slot: u32) {
    link.outstanding.done(slot, |shared| is_free(link, shared));
}

/// Whether the server is done with a request that was given up; then what it brought is given back.
fn is_free(link: &Arc<Link>, shared: &CallerSlot) -> bool {
    let Ok(mut claimed) = shared.claim() else { return false };
    let slot = claimed.parts().0;
    let free = word::is_free(slot.word());
    if free {
        client::discard_reply(link, shared.id(), slot);
    }
    free
}

/// Where an object of another process on this engine is called.
pub(crate) fn address(remote: &dyn Remote) -> Option<(Arc<Link>, u64)> {
    let remote = remote.as_any().downcast_ref::<RemoteNode>()?;
    Some((Arc::clone(&remote.link), remote.node))
}

struct Outgoing {
    link: Arc<Link>,
    // Both are there until the slot is given back.
    slot: Option<(Arc<CallerSlot>, OwnedSemaphorePermit)>,
    // A request stands in the slot, and its reply was not taken.
    posted: bool,
}

/// Makes a call to `node` of the link's peer. Dropped on the way, it is given up: what the server does
/// for it is done all the same, and its slot serves again afterwards.
pub(crate) async fn transact(
    link: Arc<Link>,
    node: u64,
    call: &OutCall,
    write: impl FnOnce(&mut crate::parcel::Writer<'_>) -> Result<()>,
    read: impl FnOnce(&mut crate::parcel::Reader<'_>) -> Result<()>,
) -> Result<()> {
    // Waiting for one's turn counts.
    let deadline = call.deadline.map(|wait| (Instant::now() + wait, wait));
    let mut outgoing = match deadline {
        None => Outgoing::open(link).await?,
        Some((end, wait)) => {
            timeout_at(end, Outgoing::open(link)).await.map_err(|_| Error::DeadlineExpired(wait))??
        }
    };
    let mut write = Some(write);
    outgoing.post(node, call.code, deadline, &mut |to| write.take().map_or(Ok(()), |write| write(to)))?;
    match deadline {
        None => poll_fn(|context| outgoing.poll(context)).await?,
        Some((end, wait)) => {
            let reply = poll_fn(|context| outgoing.poll(context));
            match timeout_at(end, reply).await {
                Ok(reply) => reply?,
                Err(_) => outgoing.expire(wait)?,
            }
        }
    }
    let mut read = Some(read);
    outgoing.take(call.code, deadline, &mut |from| read.take().map_or(Ok(()), |read| read(from)))
}

impl Outgoing {
    async fn open(link: Arc<Link>) -> Result<Self> {
        let turns = Arc::clone(&link.outstanding.turns);
        let turn = turns.acquire_owned().await.map_err(|_| Error::Dead)?;
        let free = lock(&link.outstanding.calls).free.pop();
        let shared = match free {
            Some(shared) => shared,
            None => client::open(&link, CLASS)?,
        };
        Ok(Outgoing { link, slot: Some((shared, turn)), posted: false })
    }

    fn shared(&self) -> Result<Arc<CallerSlot>> {
        self.slot.as_ref().map(|(shared, _)| Arc::clone(shared)).ok_or(Error::Dead)
    }

    #[allow(unsafe_code)]
    fn post(
        &mut self,
        node: u64,
        code: u32,
        deadline: Option<(Instant, Duration)>,
        write: WriteFn<'_>,
    ) -> Result<()> {
        let shared = self.shared()?;
        let mut claimed = shared.claim()?;
        let slot = claimed.parts().0;
        let left = deadline.map(|(end, _)| end.saturating_duration_since(Instant::now()));
        let request = Request { code, node, caller: client::me(), deadline: left };
        // SAFETY: the slot is this call's alone, and no request is under way in it.
        unsafe { request.put(&self.link, &shared, slot, write, || 0)? };
        self.posted = true;
        match word::post_away(slot.word()) {
            WakeAction::Nothing => {}
            WakeAction::Wake => sync::wake(slot.word()),
            WakeAction::Notify => self.link.send(Message::Call { slot: shared.id() }, Vec::new())?,
        }
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shared = match self.shared() {
            Ok(shared) => shared,
            Err(error) => return Poll::Ready(Err(error)),
        };
        // First this, then a look: what comes in between wakes the task again.
        let waker = context.waker().clone();
        let before = lock(&self.link.outstanding.calls).by_slot.insert(shared.id(), Fate::Awaited(waker));
        drop(before);
        let Ok(mut claimed) = shared.claim() else { return Poll::Ready(Err(Error::Dead)) };
        match word::poll_away(claimed.parts().0.word()) {
            Reply::Pending => Poll::Pending,
            Reply::Ready => Poll::Ready(Ok(())),
            Reply::Dead if shared.is_dead() => Poll::Ready(Err(Error::Dead)),
            // Among them a nested call, for which a task has no thread.
            Reply::Nested | Reply::Broken | Reply::Dead => Poll::Ready(Err(client::broken(&self.link))),
        }
    }

    /// The deadline passed. `Ok` if the reply came just before.
    fn expire(&mut self, wait: Duration) -> Result<()> {
        let shared = self.shared()?;
        let answered = {
            let mut claimed = shared.claim()?;
            word::poll_away(claimed.parts().0.word()) == Reply::Ready
        };
        // Given up where `self` is dropped.
        if answered { Ok(()) } else { Err(Error::DeadlineExpired(wait)) }
    }

    fn take(&mut self, code: u32, deadline: Option<(Instant, Duration)>, read: ReadFn<'_>) -> Result<()> {
        let deadline = deadline.map(|(end, wait)| (end.into_std(), wait));
        let shared = self.shared()?;
        let mut claimed = shared.claim()?;
        self.posted = false;
        shared.count(true, false);
        client::take_reply(&self.link, &shared, claimed.parts().0, code, deadline, read)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let Some((shared, turn)) = self.slot.take() else { return };
        let calls = &self.link.outstanding.calls;
        let Ok(mut claimed) = shared.claim() else {
            drop(lock(calls).by_slot.remove(&shared.id()));
            return;
        };
        let slot = claimed.parts().0;
        if self.posted {
            // Under the lock that the news of the reply takes: it finds the slot given up, or the reply
            // was there before.
            let mut calls = lock(calls);
            if word::abandon_away(slot.word()) == Reply::Pending {
                drop(claimed);
                let before = calls.by_slot.insert(shared.id(), Fate::GivenUp(shared, turn));
                drop(calls);
                drop(before);
                return;
            }
            drop(calls);
            client::discard_reply(&self.link, shared.id(), slot);
        }
        drop(claimed);
        let mut calls = lock(calls);
        let before = calls.by_slot.remove(&shared.id());
        calls.free.push(shared);
        drop(calls);
        drop((before, turn));
    }
}
