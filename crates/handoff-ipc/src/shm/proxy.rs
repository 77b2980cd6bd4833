//! Calls to an object of another process: in a slot if somebody waits, through the ring if nobody does.

use std::any::Any;

use super::remote::RemoteNode;
use super::{client, oneway};
use crate::Result;
use crate::call::OutCall;
use crate::death::DeathRegistration;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::{ReadFn, Remote, WriteFn};

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

    fn owner(&self) -> Option<CallingIdentity> {
        Some(self.link.peer())
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
