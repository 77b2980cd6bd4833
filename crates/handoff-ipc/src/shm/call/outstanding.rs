//! Calls of this process that no thread waits for.
//!
//! Each has a slot of its own, like a thread's call. The word says that nobody waits there (`handoff_sync::word`,
//! `CALLER_AWAY`), so whoever replied sends one control message, after the reply and its descriptors,
//! and the poller wakes the task. The end of the peer wakes all of them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use handoff_sync::futex::{self, WakeAction};
use handoff_sync::word::{self, Reply};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use super::caller_slot::CallerSlot;
use super::client;
use super::pending::Fate;
use super::request::{Arguments, Request};
use super::slot::Meta;
use crate::call::OutCall;
use crate::locked::lock;
use crate::object::Remote;
use crate::parcel::{Reader, Writer};
use crate::shm::link::Link;
use crate::shm::objects;
use crate::shm::remote::RemoteNode;
use crate::shm::wire::Message;
use crate::{Error, Result, pool};

/// Marks slots for such calls: threads do not take them.
const CLASS: u64 = 1 << 33;

/// The peer says that a reply stands in a slot. On the poller's thread.
pub(crate) fn done(link: &Arc<Link>, slot: u32) {
    link.outstanding.done(slot, |shared| {
        let settled_on = Arc::clone(link);
        let settled = move || settled_on.outstanding.done(slot, |_| true);
        shared.settle(|slot| client::discard_reply(link, shared.id(), slot), settled)
    });
}

/// Where an object of another process on this engine is called.
pub(crate) fn address(remote: &dyn Remote) -> Option<(Arc<Link>, u64)> {
    let remote = remote.as_any().downcast_ref::<RemoteNode>()?;
    Some((Arc::clone(&remote.link), remote.node))
}

struct AsyncRequest {
    link: Arc<Link>,
    // Both are there until the slot is given back.
    slot: Option<(Arc<CallerSlot>, OwnedSemaphorePermit)>,
    // A request with so many bytes of arguments stands in the slot, and its reply was not taken.
    posted: Option<u32>,
    secret: bool,
}

/// When a call is given up, and how long that is after it began.
type Deadline = Option<(Instant, Duration)>;

async fn within<T>(deadline: Deadline, work: impl Future<Output = Result<T>>) -> Result<T> {
    match deadline {
        None => work.await,
        Some((end, wait)) => timeout_at(end, work).await.map_err(|_| Error::DeadlineExpired(wait))?,
    }
}

/// Runs what may wait for a peer of that user on a thread of the pool: the executor's threads run other tasks, too.
async fn on_pool<T: Send + 'static>(
    user: u32,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (send, receive) = oneshot::channel();
    pool::run_for(
        user,
        Box::new(move || {
            // The task may have given up meanwhile.
            if !send.is_closed() {
                drop(send.send(catch_unwind(AssertUnwindSafe(work))));
            }
        }),
    );
    match receive.await.map_err(|_| Error::Dead)? {
        Ok(outcome) => outcome,
        Err(panic) => resume_unwind(panic),
    }
}

/// Makes a call to `node` of the link's peer. Dropped on the way, it is given up: what the server does
/// for it is done all the same, and its slot serves again afterwards.
pub(crate) async fn transact<R: Send + 'static>(
    link: Arc<Link>,
    node: u64,
    call: &OutCall,
    write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<R> + Send + 'static,
) -> Result<R> {
    // Waiting for one's turn counts.
    let deadline = call.deadline.map(|wait| (Instant::now() + wait, wait));
    let code = call.code;
    let mut outgoing = within(deadline, AsyncRequest::open(link)).await?;
    outgoing.secret = call.clear_buffers;
    let arguments = outgoing.write(write)?;
    match objects::asked(&outgoing.link, &arguments.objects) {
        None => outgoing.post(node, code, deadline, arguments)?,
        Some(owner) => {
            let post = move || {
                outgoing.post(node, code, deadline, arguments)?;
                Ok(outgoing)
            };
            outgoing = within(deadline, on_pool(owner, post)).await?;
        }
    }
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
    let header = outgoing.header()?;
    let server = outgoing.link.peer().uid;
    let take = move || outgoing.take(header, code, deadline, read);
    if header.2.has(Meta::OBJECTS) { within(deadline, on_pool(server, take)).await } else { take() }
}

impl AsyncRequest {
    async fn open(link: Arc<Link>) -> Result<Self> {
        let turns = Arc::clone(&link.outstanding.turns);
        let turn = turns.acquire_owned().await.map_err(|_| Error::Dead)?;
        let free = lock(&link.outstanding.calls).free.pop();
        let shared = match free {
            Some(shared) => shared,
            None => client::open(&link, CLASS)?,
        };
        Ok(AsyncRequest { link, slot: Some((shared, turn)), posted: None, secret: false })
    }

    fn shared(&self) -> Result<Arc<CallerSlot>> {
        self.slot.as_ref().map(|(shared, _)| Arc::clone(shared)).ok_or(Error::Dead)
    }

    #[allow(unsafe_code)]
    fn write(&self, write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Result<Arguments> {
        let shared = self.shared()?;
        let mut claimed = shared.claim()?;
        let mut write = Some(write);
        let mut write = |to: &mut Writer<'_>| write.take().map_or(Ok(()), |write| write(to));
        // SAFETY: the slot is this call's alone, and no request is under way in it.
        unsafe { Arguments::write(claimed.parts().0, &mut write) }
    }

    fn post(&mut self, node: u64, code: u32, deadline: Deadline, arguments: Arguments) -> Result<()> {
        let shared = self.shared()?;
        let mut claimed = shared.claim()?;
        let slot = claimed.parts().0;
        let left = deadline.map(|(end, _)| end.saturating_duration_since(Instant::now()));
        let request = Request { code, node, caller: client::me(), deadline: left, secret: self.secret };
        let mut sent = 0;
        let waits = |len| {
            sent = len;
            0
        };
        request.put_around(&self.link, &shared, slot, arguments, waits)?;
        self.posted = Some(sent);
        match word::post_away(slot.word()) {
            WakeAction::Nothing => {}
            WakeAction::Wake => futex::wake(slot.word()),
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
    fn expire(&self, wait: Duration) -> Result<()> {
        let shared = self.shared()?;
        let answered = {
            let mut claimed = shared.claim()?;
            word::poll_away(claimed.parts().0.word()) == Reply::Ready
        };
        // Given up where `self` is dropped.
        if answered { Ok(()) } else { Err(Error::DeadlineExpired(wait)) }
    }

    /// What the reply says of itself: read once, since the peer can change it.
    fn header(&self) -> Result<(i32, u32, Meta)> {
        Ok(self.shared()?.claim()?.parts().0.read_reply())
    }

    fn take<R>(
        mut self,
        header: (i32, u32, Meta),
        code: u32,
        deadline: Deadline,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let deadline = deadline.map(|(end, wait)| (end.into_std(), wait));
        let shared = self.shared()?;
        let mut claimed = shared.claim()?;
        let sent = self.posted.take().unwrap_or(0);
        shared.count(true, false);
        let (mut read, mut result) = (Some(read), None);
        let mut read = |from: &mut Reader<'_>| {
            result = read.take().map(|read| read(from)).transpose()?;
            Ok(())
        };
        let taken =
            client::take_reply(&self.link, &shared, claimed.parts().0, header, code, deadline, &mut read);
        if self.secret {
            claimed.parts().0.clear_call(sent);
        }
        taken?;
        result.ok_or_else(|| Error::Protocol("a reply was never read".into()))
    }
}

impl Drop for AsyncRequest {
    fn drop(&mut self) {
        let Some((shared, turn)) = self.slot.take() else { return };
        let calls = &self.link.outstanding.calls;
        let Ok(mut claimed) = shared.claim() else {
            drop(lock(calls).by_slot.remove(&shared.id()));
            return;
        };
        let slot = claimed.parts().0;
        if let Some(sent) = self.posted {
            // Under the lock that the news of the reply takes: it finds the slot given up, or the reply
            // was there before.
            let mut calls = lock(calls);
            if word::abandon_away(slot.word()) == Reply::Pending {
                shared.keep_arguments(client::charge_arguments(&self.link, sent));
                if self.secret {
                    shared.clear_later(sent);
                }
                drop(claimed);
                let before = calls.by_slot.insert(shared.id(), Fate::GivenUp(shared, turn));
                drop(calls);
                drop(before);
                return;
            }
            drop(calls);
            client::discard_reply(&self.link, shared.id(), slot);
            if self.secret {
                slot.clear_call(sent);
            }
        }
        drop(claimed);
        let mut calls = lock(calls);
        let before = calls.by_slot.remove(&shared.id());
        calls.free.push(shared);
        drop(calls);
        drop((before, turn));
    }
}
