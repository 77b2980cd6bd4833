//! Requests that a task serves: no thread stays at the slot while the handler waits.

use std::sync::Arc;

use super::super::server_slot::ServerSlot;
use super::super::slot::{Area, Meta, STAGE};
use crate::dispatch::{self, UnderWay};
use crate::object::{LocalNode, Reply, Request, Response};
use crate::parcel::Reader;
use crate::shm::link::Link;
use crate::{Context, Error, Result};

/// If a request for a service that is served by tasks stands in the slot: begins one. On the poller's
/// thread, which must not wait; the task reads the arguments.
pub(super) fn take_over(slot: &Arc<ServerSlot>, link: &Arc<Link>) -> bool {
    let node = link.exported(slot.slot.read_request().node);
    match node.filter(|node| node.asynchronous().is_some()) {
        Some(node) => {
            begin(slot, link, &node);
            true
        }
        None => false,
    }
}

/// Serves the request in the slot by a task. Whoever calls this has the slot's presence, and gives it up.
pub(super) fn begin(slot: &Arc<ServerSlot>, link: &Arc<Link>, node: &Arc<LocalNode>) {
    let context = node.context();
    let turn = Turn {
        slot: Arc::clone(slot),
        link: Arc::clone(link),
        context,
        answered: false,
        _counted: UnderWay::begin(),
    };
    let Some(asynchronous) = node.asynchronous() else { return };
    let (node, runtime) = (Arc::clone(node), asynchronous.runtime().clone());
    // A runtime that has shut down drops the task, which answers all the same.
    drop(runtime.spawn(async move {
        let outcome = match turn.read(&node) {
            Ok(response) => dispatch::finish(response).await,
            Err(error) => Err(error),
        };
        turn.answer(outcome);
    }));
}

/// The server's turn in a slot, from the request to the reply.
struct Turn {
    slot: Arc<ServerSlot>,
    link: Arc<Link>,
    context: Option<Context>,
    answered: bool,
    // Until the reply was handed over.
    _counted: UnderWay,
}

impl Turn {
    /// Has the service read the arguments, from where they are.
    fn read(&self, node: &LocalNode) -> Result<Response> {
        self.slot.read_by_now();
        let header = self.slot.slot.read_request();
        // The same as before, unless the peer changed it since.
        if node.id() != header.node {
            return Err(Error::UnknownObject(header.node));
        }
        let Some(asynchronous) = node.asynchronous() else { return Err(Error::UnknownObject(header.node)) };
        let data = self
            .slot
            .slot
            .payload(Area::A, header.meta, header.len)
            .ok_or(Error::TooLarge { size: header.len as usize, limit: super::super::slot::MAX_PAYLOAD })?;
        let call = self.slot.call(&self.link, &header);
        let mut arrived;
        let data = if header.meta.has(Meta::OBJECTS) {
            arrived = self.slot.arrived(&self.link, call.deadline)?;
            Reader::with_objects(data, &mut arrived)
        } else {
            Reader::new(data)
        };
        dispatch::begin(asynchronous.service(), &mut Request { call, data })
    }

    fn answer(mut self, outcome: Result<Reply>) {
        self.reply(outcome);
    }

    #[allow(unsafe_code)]
    fn reply(&mut self, outcome: Result<Reply>) {
        self.answered = true;
        let slot = &self.slot.slot;
        let mut stage = STAGE;
        // SAFETY: it is this side's turn until the exchange below, `presence` lets one task in, and the
        // arguments were read: nothing borrows them.
        let mut reply = unsafe { slot.writer(Area::A, &mut stage) };
        let outcome = dispatch::write_outcome(outcome, &mut reply);
        self.slot.put_reply(&self.link, Area::A, || self.context, &mut reply, outcome);
        self.slot.finish(&self.link, false, false);
        if self.slot.presence.quit() {
            self.slot.rung(&self.link);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.answered {
            // The runtime that was to serve the call is gone, and the service with it.
            self.reply(Err(Error::Dead));
        }
    }
}
