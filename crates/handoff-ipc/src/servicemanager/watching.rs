//! Hearing of registrations: the object that the manager calls, and the handle that ends it.

use std::collections::HashMap;
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

/// The first of each user, then the second of each, and so on: who waits thousands of times is not before the others.
pub(super) fn in_turns<T>(of_users: impl IntoIterator<Item = (u32, T)>) -> Vec<T> {
    let mut turns: HashMap<u32, usize> = HashMap::new();
    let in_turn = |(user, one)| {
        let turn = turns.entry(user).or_default();
        *turn += 1;
        (*turn, one)
    };
    let mut all: Vec<(usize, T)> = of_users.into_iter().map(in_turn).collect();
    all.sort_by_key(|(turn, _)| *turn);
    all.into_iter().map(|(_, one)| one).collect()
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
pub(super) struct WatchRecord {
    pub(super) id: u64,
    pub(super) name: Arc<str>,
    pub(super) callback: Binder,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_thousands_of_times_is_not_before_the_others() {
        let many = (0..4096).map(|number| (1, number));
        let told = in_turns(many.chain([(2, 5000), (2, 5001), (3, 6000)]));
        assert_eq!(told[..5], [0, 5000, 6000, 1, 5001]);
        assert!(told[5..].iter().copied().eq(2..4096), "each once, in their order");
    }
}
