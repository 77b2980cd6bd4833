//! An object of another process on the `shm` engine.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::link::Link;
use super::{client, oneway};
use crate::Result;
use crate::engine::{DeathRegistration, EngineKind, OutCall, ReadFn, Remote, WriteFn};
use crate::interface::{Interfaces, KnownInterfaces};
use crate::object::CallingIdentity;

/// A proxy: the link, and the number that the peer gave its object.
pub(crate) struct RemoteNode {
    pub(crate) link: Arc<Link>,
    pub(crate) node: u64,
    // References that the peer gave this process, all to be given back together.
    references: AtomicU32,
    interfaces: KnownInterfaces,
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

impl Remote for RemoteNode {
    fn engine(&self) -> EngineKind {
        EngineKind::Shm
    }

    #[inline]
    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
        self.interfaces.check_call(self, call)?;
        if call.oneway { oneway::send(self, call, write) } else { client::transact(self, call, write, read) }
    }

    fn check_interface(&self, call: &OutCall) -> Result<()> {
        self.interfaces.check_call(self, call)
    }

    fn is_of_own_user(&self) -> bool {
        self.link.peer().uid == CallingIdentity::own_cached().uid
    }

    fn link_to_death(&self, died: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration> {
        self.link.link_to_death(died)
    }

    fn is_alive(&self) -> bool {
        !self.link.is_dead()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
