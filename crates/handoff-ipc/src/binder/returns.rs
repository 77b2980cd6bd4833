//! What the driver tells this process (`BR_*`), and how it is read out of a read buffer.

use super::uapi::{
    BR_ACQUIRE, BR_CLEAR_DEATH_NOTIFICATION_DONE, BR_CLEAR_FREEZE_NOTIFICATION_DONE, BR_DEAD_BINDER,
    BR_DEAD_REPLY, BR_DECREFS, BR_ERROR, BR_FAILED_REPLY, BR_FROZEN_BINDER, BR_FROZEN_REPLY, BR_INCREFS,
    BR_NOOP, BR_OK, BR_ONEWAY_SPAM_SUSPECT, BR_RELEASE, BR_REPLY, BR_SPAWN_LOOPER, BR_TRANSACTION,
    BR_TRANSACTION_COMPLETE, BR_TRANSACTION_PENDING_FROZEN, BR_TRANSACTION_SEC_CTX, TRANSACTION,
};
use crate::{Error, Result};

/// A return; a transaction stays where it was read to until somebody wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Return<'a> {
    Error(i32),
    Ok,
    /// A call to serve, and where its caller's security context stands, if it was asked for.
    Transaction(&'a [u8; TRANSACTION], Option<u64>),
    Reply(&'a [u8; TRANSACTION]),
    DeadReply,
    Complete,
    IncRefs(u64, u64),
    Acquire(u64, u64),
    Release(u64, u64),
    DecRefs(u64, u64),
    Noop,
    SpawnLooper,
    DeadBinder(u64),
    ClearDeathDone(u64),
    FailedReply,
    FrozenReply,
    OnewaySpamSuspect,
    PendingFrozen,
    /// The process behind a reference was frozen, or thawed.
    FrozenBinder {
        cookie: u64,
        frozen: bool,
    },
    ClearFreezeDone(u64),
    /// One that this version has no use for, of a newer kernel.
    Unknown(u32),
}

/// A read buffer that returns are taken out of.
pub(super) struct Returns<'a>(&'a [u8]);

impl<'a> Returns<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Returns(bytes)
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        match self.0.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.0 = rest;
                Ok(head)
            }
            None => Err(half()),
        }
    }

    #[inline]
    fn word(&mut self) -> Result<u32> {
        self.take().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    fn long(&mut self) -> Result<u64> {
        self.take().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// The next return; `None` at the end.
    // A few instructions where it is used, and a copy of its result through memory where it is called.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<Return<'a>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let number = self.word()?;
        // What every call brings; everything else is out of its way.
        Ok(Some(match number {
            BR_NOOP => Return::Noop,
            BR_TRANSACTION_COMPLETE => Return::Complete,
            BR_TRANSACTION => Return::Transaction(self.take()?, None),
            BR_REPLY => Return::Reply(self.take()?),
            _ => self.other(number)?,
        }))
    }

    #[inline(never)]
    fn other(&mut self, number: u32) -> Result<Return<'a>> {
        let found = match number {
            BR_TRANSACTION_SEC_CTX => Return::Transaction(self.take()?, Some(self.long()?)),
            BR_ERROR => Return::Error(self.word()? as i32),
            BR_OK => Return::Ok,
            BR_DEAD_REPLY => Return::DeadReply,
            BR_INCREFS => Return::IncRefs(self.long()?, self.long()?),
            BR_ACQUIRE => Return::Acquire(self.long()?, self.long()?),
            BR_RELEASE => Return::Release(self.long()?, self.long()?),
            BR_DECREFS => Return::DecRefs(self.long()?, self.long()?),
            BR_SPAWN_LOOPER => Return::SpawnLooper,
            BR_DEAD_BINDER => Return::DeadBinder(self.long()?),
            BR_CLEAR_DEATH_NOTIFICATION_DONE => Return::ClearDeathDone(self.long()?),
            BR_FAILED_REPLY => Return::FailedReply,
            BR_FROZEN_REPLY => Return::FrozenReply,
            BR_ONEWAY_SPAM_SUSPECT => Return::OnewaySpamSuspect,
            BR_TRANSACTION_PENDING_FROZEN => Return::PendingFrozen,
            BR_FROZEN_BINDER => {
                let (cookie, frozen, _reserved) = (self.long()?, self.word()?, self.word()?);
                Return::FrozenBinder { cookie, frozen: frozen != 0 }
            }
            BR_CLEAR_FREEZE_NOTIFICATION_DONE => Return::ClearFreezeDone(self.long()?),
            // The number says how much belongs to it, so it can be passed over.
            _ => {
                let size = (number >> 16 & 0x3fff) as usize;
                self.0 = self
                    .0
                    .get(size..)
                    .ok_or_else(|| Error::Protocol(format!("the driver returned half of {number:#x}")))?;
                Return::Unknown(number)
            }
        };
        Ok(found)
    }
}

#[cold]
fn half() -> Error {
    Error::Protocol("the driver returned half a command".into())
}

#[cfg(test)]
mod tests {
    use super::super::uapi::{Transaction, ior};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn returns_are_read_one_after_the_other() {
        let data = Transaction { code: 7, data_size: 12, ..Transaction::default() };
        let mut bytes = BR_NOOP.to_ne_bytes().to_vec();
        bytes.extend(0x8040_7203u32.to_ne_bytes());
        bytes.extend(data.to_bytes());
        bytes.extend(0x8048_7202u32.to_ne_bytes());
        bytes.extend(data.to_bytes());
        bytes.extend(9u64.to_ne_bytes());
        bytes.extend(0x8010_7215u32.to_ne_bytes());
        bytes.extend(5u64.to_ne_bytes());
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        let newer = ior(b'r', 40, 8);
        bytes.extend(newer.to_ne_bytes());
        bytes.extend([0; 8]);
        let mut returns = Returns::new(&bytes);
        assert_eq!(returns.next().unwrap(), Some(Return::Noop));
        assert_eq!(returns.next().unwrap(), Some(Return::Reply(&data.to_bytes())));
        assert_eq!(returns.next().unwrap(), Some(Return::Transaction(&data.to_bytes(), Some(9))));
        assert_eq!(returns.next().unwrap(), Some(Return::FrozenBinder { cookie: 5, frozen: true }));
        assert_eq!(returns.next().unwrap(), Some(Return::Unknown(newer)), "of a newer kernel");
        assert_eq!(returns.next().unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error_or_at_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut returns = Returns::new(&bytes);
            while let Ok(Some(_)) = returns.next() {}
        }
    }
}
