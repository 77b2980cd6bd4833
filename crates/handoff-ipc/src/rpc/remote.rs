//! An object of the peer, as the session names it; `proxy.rs` calls it.

use std::sync::{Arc, OnceLock};

use super::session::Session;
use super::wire::Address;
use crate::known_interfaces::KnownInterfaces;

/// A proxy: the session, and the object's address in it.
pub(super) struct RpcRemote {
    session: Arc<Session>,
    address: Address,
    /// The name of the object's interface as it stands in front of each call's arguments.
    pub(super) token: OnceLock<Box<[u8]>>,
    pub(super) interfaces: KnownInterfaces,
}

impl RpcRemote {
    pub(super) fn new(session: &Arc<Session>, address: Address) -> Arc<Self> {
        let (token, interfaces) = (OnceLock::new(), KnownInterfaces::default());
        Arc::new(RpcRemote { session: Arc::clone(session), address, token, interfaces })
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(super) fn address(&self) -> Address {
        self.address
    }

    pub(super) fn is_of(&self, session: &Session) -> bool {
        std::ptr::eq(&raw const *self.session, session)
    }
}

impl Drop for RpcRemote {
    fn drop(&mut self) {
        self.session.forget(self.address);
    }
}
