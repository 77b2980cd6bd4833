//! An object of another process, as the `shm` engine names it; `proxy.rs` calls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::link::Link;
use crate::interface::Interfaces;
use crate::known_interfaces::KnownInterfaces;

/// A proxy: the link, and the number that the peer gave its object.
pub(crate) struct RemoteNode {
    pub(crate) link: Arc<Link>,
    pub(crate) node: u64,
    // References that the peer gave this process, all to be given back together.
    references: AtomicU32,
    pub(super) interfaces: KnownInterfaces,
}

impl RemoteNode {
    pub(crate) fn new(link: Arc<Link>, node: u64) -> Self {
        let interfaces = KnownInterfaces::default();
        RemoteNode { link, node, references: AtomicU32::new(1), interfaces }
    }

    /// The peer states these interfaces of its object.
    pub(crate) fn state_interfaces(&self, stated: Option<Interfaces>) {
        self.interfaces.state(stated);
    }

    pub(crate) fn add_reference(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for RemoteNode {
    fn drop(&mut self) {
        self.link.forget(self.node, *self.references.get_mut());
    }
}
