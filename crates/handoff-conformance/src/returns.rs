//! Returns of a driver as they were read, and their names.

use std::fmt;

use handoff_ipc::binder::uapi::{self, TRANSACTION, Transaction};

/// One return: its number, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) number: u32,
    pub(crate) body: Vec<u8>,
}

const NAMES: [(u32, &str); 21] = [
    (uapi::BR_ERROR, "BR_ERROR"),
    (uapi::BR_OK, "BR_OK"),
    (uapi::BR_TRANSACTION, "BR_TRANSACTION"),
    (uapi::BR_TRANSACTION_SEC_CTX, "BR_TRANSACTION_SEC_CTX"),
    (uapi::BR_REPLY, "BR_REPLY"),
    (uapi::BR_DEAD_REPLY, "BR_DEAD_REPLY"),
    (uapi::BR_TRANSACTION_COMPLETE, "BR_TRANSACTION_COMPLETE"),
    (uapi::BR_INCREFS, "BR_INCREFS"),
    (uapi::BR_ACQUIRE, "BR_ACQUIRE"),
    (uapi::BR_RELEASE, "BR_RELEASE"),
    (uapi::BR_DECREFS, "BR_DECREFS"),
    (uapi::BR_NOOP, "BR_NOOP"),
    (uapi::BR_SPAWN_LOOPER, "BR_SPAWN_LOOPER"),
    (uapi::BR_DEAD_BINDER, "BR_DEAD_BINDER"),
    (uapi::BR_CLEAR_DEATH_NOTIFICATION_DONE, "BR_CLEAR_DEATH_NOTIFICATION_DONE"),
    (uapi::BR_FAILED_REPLY, "BR_FAILED_REPLY"),
    (uapi::BR_FROZEN_REPLY, "BR_FROZEN_REPLY"),
    (uapi::BR_ONEWAY_SPAM_SUSPECT, "BR_ONEWAY_SPAM_SUSPECT"),
    (uapi::BR_TRANSACTION_PENDING_FROZEN, "BR_TRANSACTION_PENDING_FROZEN"),
    (uapi::BR_FROZEN_BINDER, "BR_FROZEN_BINDER"),
    (uapi::BR_CLEAR_FREEZE_NOTIFICATION_DONE, "BR_CLEAR_FREEZE_NOTIFICATION_DONE"),
];

/// The name of a return.
pub(crate) fn name_of(number: u32) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("return {number:#x}"), |(_, name)| (*name).to_owned())
}

/// The names of returns, as one text.
pub(crate) fn names_of(returns: &[u32]) -> String {
    if returns.is_empty() {
        return "nothing".to_owned();
    }
    returns.iter().map(|number| name_of(*number)).collect::<Vec<_>>().join(", ")
}

impl Return {
    /// Everything in a read buffer; `None` if the last one is cut.
    pub(crate) fn all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (number, rest) = bytes.split_first_chunk::<4>()?;
            let number = u32::from_ne_bytes(*number);
            let (body, rest) = rest.split_at_checked((number >> 16 & 0x3fff) as usize)?;
            all.push(Return { number, body: body.to_vec() });
            bytes = rest;
        }
        Some(all)
    }

    /// The transaction that it brings.
    pub(crate) fn transaction(&self) -> Option<Transaction> {
        self.body.first_chunk::<TRANSACTION>().map(Transaction::from_bytes)
    }

    /// The number at `index`, of those of 64 bits.
    pub(crate) fn long(&self, index: usize) -> u64 {
        let bytes = self.body.get(index * 8..index * 8 + 8);
        bytes.and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self.number))
    }
}
