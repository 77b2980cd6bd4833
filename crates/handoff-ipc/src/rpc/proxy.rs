//! Calls to an object of the peer.

use std::any::Any;

use super::calls;
use super::remote::RpcRemote;
use crate::Result;
use crate::binder::token;
use crate::call::OutCall;
use crate::code::is_user_code;
use crate::death::DeathRegistration;
use crate::engine_kind::EngineKind;
use crate::identity::CallingIdentity;
use crate::object::{ReadFn, Remote, WriteFn};
use crate::stats;

impl RpcRemote {
    /// What stands in front of a call's arguments: the name of the object's interface, which is asked for once.
    fn token(&self, call: &OutCall) -> Result<&[u8]> {
        if let Some(known) = self.token.get() {
            return Ok(known);
        }
        let descriptor = self.interfaces.descriptor(self, call.deadline)?;
        Ok(self.token.get_or_init(|| token::name(descriptor)))
    }
}

impl Remote for RpcRemote {
    fn engine(&self) -> EngineKind {
        EngineKind::Rpc
    }

    fn transact(&self, call: &OutCall, write: WriteFn<'_>, read: ReadFn<'_>) -> Result<()> {
        self.interfaces.check_call(self, call)?;
        let token = if is_user_code(call.code) { Some(self.token(call)?) } else { None };
        stats::RPC_CALLS.add();
        calls::transact(self.session(), self.address(), call, token, write, read)
    }

    fn check_interface(&self, call: &OutCall) -> Result<()> {
        self.interfaces.check_call(self, call)
    }

    fn owner(&self) -> Option<CallingIdentity> {
        Some(self.session().identity())
    }

    fn link_to_death(&self, died: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration> {
        Ok(self.session().link_to_death(died))
    }

    fn is_alive(&self) -> bool {
        !self.session().is_over()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
