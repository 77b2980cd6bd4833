//! Hearing of registrations: the object that the manager calls, and the handle that ends it.

use std::sync::{Arc, Weak};

use super::connection::Connection;
use super::{CALLBACK_DESCRIPTOR, code};
use crate::Result;
use crate::object::{Binder, Service, Transaction};

pub(super) type OnRegistration = dyn Fn(&str, Binder) + Send + Sync;

/// `IServiceCallback`, served by whoever waits.
pub(super) struct Callback(pub(super) Box<OnRegistration>);

impl Service for Callback {
    fn descriptor(&self) -> &str {
        CALLBACK_DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let code = transaction.code();
        let Transaction { data, .. } = transaction;
        match code {
            code::ON_REGISTRATION => {
                let (name, binder): (String, Binder) = (data.read()?, data.read()?);
                (self.0)(&name, binder);
                Ok(())
            }
            _ => Err(transaction.unknown(CALLBACK_DESCRIPTOR)),
        }
    }
}

/// Somebody hears of the registrations of a name for as long as this is held.
#[must_use = "dropping it at once ends the watch"]
#[derive(Debug)]
pub struct Watch {
    pub(super) connection: Weak<Connection>,
    pub(super) id: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            Connection::end_watch(&connection, self.id);
        }
    }
}

/// A watch as the connection remembers it, to repeat it to a manager that was restarted.
#[derive(Clone)]
pub(super) struct Remembered {
    pub(super) id: u64,
    pub(super) name: Arc<str>,
    pub(super) callback: Binder,
}
