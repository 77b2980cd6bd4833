//! Objects on a link: those that the peer may call, and proxies for those of the peer.

use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::Link;
use super::tables::Export;
use crate::interface::Interfaces;
use crate::ledger::{self, Resource};
use crate::locked::lock;
use crate::object::LocalNode;
use crate::shm::remote::RemoteNode;
use crate::shm::wire::Message;
use crate::{Result, pool};

/// An object of this process that the peer called: its number, that of the table's state, and itself.
pub(crate) type Called = (u64, u32, Arc<LocalNode>);

impl Link {
    /// The peer is the service manager: it is given objects, and is no client of them.
    pub(crate) fn goes_to_manager(&self) {
        self.to_manager.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_to_manager(&self) -> bool {
        self.to_manager.load(Ordering::Relaxed)
    }

    /// Gives the peer one more reference to an object of this process.
    pub(crate) fn export(&self, node: &Arc<LocalNode>) -> Result<u64> {
        let mut exports = lock(&self.exports);
        match exports.entry(node.id()) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(new) => {
                let charge = ledger::charge(self.peer, Resource::Exports, 1)?;
                new.insert(Export { node: Arc::clone(node), count: 1, _charge: charge });
                if !self.is_to_manager() {
                    node.note_given();
                }
            }
        }
        Ok(node.id())
    }

    /// The object of this process that the peer calls `id`, if it was ever given to it.
    pub(crate) fn exported(&self, id: u64) -> Option<Arc<LocalNode>> {
        lock(&self.exports).get(&id).map(|export| Arc::clone(&export.node))
    }

    /// Makes `called` the object of this process that the peer calls `id`. True if it was that already, and the table has
    /// not changed: then nothing is locked.
    #[inline]
    pub(crate) fn find_exported(&self, called: &mut Option<Called>, id: u64) -> bool {
        let version = self.exports_version.load(Ordering::Acquire);
        if called.as_ref().is_some_and(|known| (known.0, known.1) == (id, version)) {
            return true;
        }
        *called = self.exported(id).map(|node| (id, version, node));
        false
    }

    /// One reference more to an object that the peer has; false if it has none.
    pub(crate) fn hold(&self, id: u64) -> bool {
        lock(&self.exports).get_mut(&id).map(|export| export.count += 1).is_some()
    }

    /// Takes references back; without one left the peer does not know the object any longer.
    pub(crate) fn unexport(&self, id: u64, count: u32) {
        let mut exports = lock(&self.exports);
        let Some(export) = exports.get_mut(&id) else { return };
        export.count = export.count.saturating_sub(count.into());
        if export.count == 0 {
            let gone = exports.remove(&id);
            drop(exports);
            self.exports_version.fetch_add(1, Ordering::AcqRel);
            // The service's own `drop` may do anything: never under a lock, nor on the poller's thread.
            if let Some(last) = gone.and_then(|export| Arc::into_inner(export.node)) {
                pool::run_for(self.peer.uid, Box::new(move || drop(last)));
            }
        }
    }

    /// The proxy for an object of the peer, of which this process was just given one reference. `stated`: the
    /// interfaces that the peer says it has.
    pub(crate) fn proxy(self: &Arc<Self>, node: u64, stated: Option<Interfaces>) -> Arc<RemoteNode> {
        let proxy = self.counted_proxy(node);
        proxy.state_interfaces(stated);
        proxy
    }

    fn counted_proxy(self: &Arc<Self>, node: u64) -> Arc<RemoteNode> {
        let mut proxies = lock(&self.proxies);
        if let Some(known) = proxies.get(&node).and_then(Weak::upgrade) {
            known.add_reference();
            return known;
        }
        let new = Arc::new(RemoteNode::new(Arc::clone(self), node));
        proxies.insert(node, Arc::downgrade(&new));
        new
    }

    /// The last proxy for an object of the peer is gone.
    pub(crate) fn forget(&self, node: u64, count: u32) {
        let mut proxies = lock(&self.proxies);
        if proxies.get(&node).is_some_and(|known| known.strong_count() == 0) {
            proxies.remove(&node);
        }
        drop(proxies);
        self.release(node, count);
    }

    /// Gives references back to the peer.
    pub(crate) fn release(&self, node: u64, count: u32) {
        if count > 0 && !self.is_dead() {
            // A peer that is gone needs no references back.
            drop(self.send(Message::Release { node, count }, Vec::new()));
        }
    }
}
