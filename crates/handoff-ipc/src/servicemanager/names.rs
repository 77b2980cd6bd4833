//! Hearing that a name of this process was taken by another one, or came back: the object that goes to the manager with
//! each registration, and to nobody else.

use std::sync::Weak;

use super::code;
use super::connection::Connection;
use crate::Result;
use crate::object::{Binder, Service, Transaction};

const DESCRIPTOR: &str = "handoff.INameListener";

/// What became of a name that this process registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameChange {
    /// Another process asked for it with [`replace`](super::ServiceOptions::replace). It comes back when that one ends.
    Lost {
        /// The process that has the name now; 0 where it is not visible to the manager.
        pid: u32,
        /// That process's effective user.
        uid: u32,
    },
    /// The process that had taken it is gone.
    Regained,
}

pub(super) struct NameListener(pub(super) Weak<Connection>);

impl NameListener {
    pub(super) fn binder(connection: &Weak<Connection>) -> Binder {
        Binder::new(NameListener(Weak::clone(connection)))
    }
}

impl Service for NameListener {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        if transaction.code() != code::NAME_CHANGED {
            return Err(transaction.unknown(DESCRIPTOR));
        }
        let data = &mut transaction.data;
        let (name, is_lost): (String, bool) = (data.read()?, data.read()?);
        let (pid, uid) = (data.read()?, data.read()?);
        let change = if is_lost { NameChange::Lost { pid, uid } } else { NameChange::Regained };
        if let Some(connection) = self.0.upgrade() {
            connection.name_changed(&name, change);
        }
        Ok(())
    }
}
