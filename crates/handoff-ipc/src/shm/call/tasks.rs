//! Requests that a task serves: no thread stays at the slot while the handler waits.

use std::cell::Cell;
use std::sync::Arc;

use super::super::server_slot::ServerSlot;
use super::super::slot::{Area, Header, Meta, ParcelExtent, STAGE};
use crate::dispatch::{self, UnderWay};
use crate::object::{LocalNode, Reply, Request, Response};
use crate::parcel::{Object, Reader};
use crate::shm::link::Link;
use crate::shm::objects;
use crate::{Context, Error, Result, pool};

/// If a request for a service that is served by tasks stands in the slot: begins one. On the poller's
/// thread, which must not wait: one with objects is left to a thread of the pool.
pub(super) fn take_over(slot: &Arc<ServerSlot>, link: &Arc<Link>) -> bool {
    let header = slot.slot.read_request();
    if header.meta.has(Meta::OBJECTS) {
        return false;
    }
    match link.exported(header.node).filter(|node| node.asynchronous().is_some()) {
        Some(node) => {
            begin(slot, link, &node, &header);
            true
        }
        None => false,
    }
}

/// Serves the request in the slot, whose header was read, by a task. Whoever calls this has the slot's presence, and
/// gives it up.
///
/// The arguments are read by the task; those with objects here, on a thread of the pool: their descriptors may have to
/// be waited for, and processes to be met, and the executor's threads are other callers' too.
pub(super) fn begin(slot: &Arc<ServerSlot>, link: &Arc<Link>, node: &Arc<LocalNode>, header: &Header) {
    let context = node.context();
    let turn = ServerTurn {
        slot: Arc::clone(slot),
        link: Arc::clone(link),
        context,
        answered: false,
        frees: Cell::new(false),
        _counted: UnderWay::begin(),
    };
    let Some(asynchronous) = node.asynchronous() else { return };
    let runtime = asynchronous.runtime();
    let early = header.meta.has(Meta::OBJECTS).then(|| {
        let _inside = runtime.enter();
        turn.read(node, header)
    });
    let (node, header) = (Arc::clone(node), *header);
    // A runtime that has shut down drops the task, which answers all the same.
    drop(runtime.spawn(async move {
        let outcome = match early.unwrap_or_else(|| turn.read(&node, &header)) {
            Ok(response) => dispatch::finish(response).await,
            Err(error) => Err(error),
        };
        turn.answer(outcome);
    }));
}

/// The server's turn in a slot, from the request to the reply.
struct ServerTurn {
    slot: Arc<ServerSlot>,
    link: Arc<Link>,
    context: Option<Context>,
    answered: bool,
    // The arguments took more memory than the caller's share has room for.
    frees: Cell<bool>,
    // Until the reply was handed over.
    _counted: UnderWay,
}

impl ServerTurn {
    /// Has the service read the arguments, from where they are.
    fn read(&self, node: &LocalNode, header: &Header) -> Result<Response> {
        self.slot.read_by_now();
        let Some(asynchronous) = node.asynchronous() else { return Err(Error::UnknownObject(header.node)) };
        let data = self
            .slot
            .slot
            .payload(Area::A, header.meta, header.len)
            .ok_or(Error::TooLarge { size: header.len as usize, limit: super::super::slot::MAX_PAYLOAD })?;
        let call = self.slot.call(&self.link, header);
        self.frees.set(!self.slot.count_request(&self.link, header.len));
        let mut arrived;
        let data = if header.meta.has(Meta::OBJECTS) {
            arrived = self.slot.arrived(&self.link, call.deadline)?;
            Reader::with_objects(data, &mut arrived)
        } else {
            Reader::new(data)
        };
        dispatch::begin(asynchronous.service(), &mut Request { call, data })
    }

    /// Not here, but on a thread of the pool: what waits for the owner of an object, who may never answer, and what gives
    /// memory back, for which the kernel waits for whoever writes to it.
    fn answer(mut self, outcome: Result<Reply>) {
        let caller = self.link.peer().uid;
        if self.frees.take() {
            let runtime = tokio::runtime::Handle::current();
            return pool::run_for(
                caller,
                Box::new(move || {
                    let _inside = runtime.enter();
                    self.slot.slot.free_payload(Area::A);
                    let (reply, objects, outcome) = self.write(outcome);
                    self.hand_over(reply, objects, outcome);
                }),
            );
        }
        let (reply, objects, outcome) = self.write(outcome);
        let waits_for = objects::asked(&self.link, &objects)
            .or_else(|| (!self.slot.holds_reply(Area::A, reply.len)).then_some(caller));
        match waits_for {
            None => self.hand_over(reply, objects, outcome),
            Some(user) => pool::run_for(user, Box::new(move || self.hand_over(reply, objects, outcome))),
        }
    }

    #[allow(unsafe_code)]
    fn write(&self, outcome: Result<Reply>) -> (ParcelExtent, Vec<(u32, Object)>, Result<()>) {
        let slot = &self.slot.slot;
        let mut stage = STAGE;
        // SAFETY: it is this side's turn until `hand_over`, `presence` lets one task in, and the arguments
        // were read: nothing borrows them.
        let mut reply = unsafe { slot.writer(Area::A, &mut stage) };
        let outcome = dispatch::write_outcome(outcome, &mut reply);
        (slot.put_down(Area::A, &mut reply), reply.take_objects(), outcome)
    }

    fn hand_over(&mut self, reply: ParcelExtent, objects: Vec<(u32, Object)>, outcome: Result<()>) {
        self.answered = true;
        let objects = (!objects.is_empty()).then_some(move || objects);
        self.slot.put_reply(&self.link, Area::A, || self.context, reply, objects, outcome);
        self.slot.finish(&self.link, false, false);
        if self.slot.presence.quit() {
            self.slot.rung(&self.link);
        }
    }
}

impl Drop for ServerTurn {
    fn drop(&mut self) {
        if !self.answered {
            // The runtime that was to serve the call is gone, and the service with it.
            let (reply, objects, outcome) = self.write(Err(Error::Dead));
            self.hand_over(reply, objects, outcome);
        }
    }
}
