//! The driver's interface: numbers and structures of `include/uapi/linux/android/binder.h`, and how
//! commands and returns are put into and read out of their streams.

use crate::{Error, Result};

const fn ioc(direction: u32, kind: u8, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (kind as u32) << 8 | number
}
const fn io(kind: u8, number: u32) -> u32 {
    ioc(0, kind, number, 0)
}
const fn iow(kind: u8, number: u32, size: usize) -> u32 {
    ioc(1, kind, number, size)
}
const fn ior(kind: u8, number: u32, size: usize) -> u32 {
    ioc(2, kind, number, size)
}
const fn iowr(kind: u8, number: u32, size: usize) -> u32 {
    ioc(3, kind, number, size)
}

/// Bytes of `struct binder_transaction_data`.
const TRANSACTION: usize = 64;
/// Bytes of `struct binder_ptr_cookie`.
const PTR_COOKIE: usize = 16;
/// Bytes of the packed `struct binder_handle_cookie`.
const HANDLE_COOKIE: usize = 12;

pub(super) const BINDER_WRITE_READ: u32 = iowr(b'b', 1, 48);
pub(super) const BINDER_SET_MAX_THREADS: u32 = iow(b'b', 5, 4);
pub(super) const BINDER_SET_CONTEXT_MGR: u32 = iow(b'b', 7, 4);
pub(super) const BINDER_THREAD_EXIT: u32 = iow(b'b', 8, 4);
pub(super) const BINDER_VERSION: u32 = iowr(b'b', 9, 4);
pub(super) const BINDER_SET_CONTEXT_MGR_EXT: u32 = iow(b'b', 13, 24);
pub(super) const BINDER_ENABLE_ONEWAY_SPAM_DETECTION: u32 = iow(b'b', 16, 4);
pub(super) const BINDER_GET_EXTENDED_ERROR: u32 = iowr(b'b', 17, 12);

/// `BINDER_CURRENT_PROTOCOL_VERSION` of 64-bit kernels.
pub(super) const PROTOCOL_VERSION: i32 = 8;

/// Nobody waits for the reply.
pub(super) const TF_ONE_WAY: u32 = 0x01;
/// The payload is a 32-bit status.
pub(super) const TF_STATUS_CODE: u32 = 0x08;
/// The reply may carry descriptors.
pub(super) const TF_ACCEPT_FDS: u32 = 0x10;

pub(super) const TYPE_BINDER: u32 = u32::from_be_bytes([b's', b'b', b'*', 0x85]);
pub(super) const TYPE_HANDLE: u32 = u32::from_be_bytes([b's', b'h', b'*', 0x85]);
pub(super) const TYPE_FD: u32 = u32::from_be_bytes([b'f', b'd', b'*', 0x85]);

/// In `flat_binder_object.flags`: the least urgent nice that it is served at is 19 minus nothing
/// asked for (libbinder's default 0x7f), and it takes descriptors.
pub(super) const OBJECT_FLAGS: u32 = 0x7f | 0x100;
/// Android's kernels: calls inherit the caller's real-time priority. Others ignore the bit.
pub(super) const FLAG_INHERIT_RT: u32 = 0x800;

/// `struct binder_transaction_data`, with the target as its number: a handle on the way out, an
/// object's number on the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Transaction {
    pub(super) target: u64,
    pub(super) cookie: u64,
    pub(super) code: u32,
    pub(super) flags: u32,
    pub(super) sender_pid: i32,
    pub(super) sender_euid: u32,
    pub(super) data_size: u64,
    pub(super) offsets_size: u64,
    pub(super) buffer: u64,
    pub(super) offsets: u64,
}

/// What this process tells the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Transaction(Transaction),
    Reply(Transaction),
    FreeBuffer(u64),
    IncRefs(u32),
    Acquire(u32),
    Release(u32),
    DecRefs(u32),
    IncRefsDone(u64, u64),
    AcquireDone(u64, u64),
    RegisterLooper,
    EnterLooper,
    RequestDeath { handle: u32, cookie: u64 },
    ClearDeath { handle: u32, cookie: u64 },
    DeadBinderDone(u64),
}

impl Command {
    /// Appends the command to a write buffer.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        use Command::*;
        let word = |out: &mut Vec<u8>, word: u32| out.extend_from_slice(&word.to_ne_bytes());
        let long = |out: &mut Vec<u8>, long: u64| out.extend_from_slice(&long.to_ne_bytes());
        let with_word = |out: &mut Vec<u8>, number, value| {
            word(out, iow(b'c', number, 4));
            word(out, value);
        };
        let with_pair = |out: &mut Vec<u8>, number, first, second| {
            word(out, iow(b'c', number, PTR_COOKIE));
            long(out, first);
            long(out, second);
        };
        let with_handle = |out: &mut Vec<u8>, number, handle, cookie| {
            word(out, iow(b'c', number, HANDLE_COOKIE));
            word(out, handle);
            long(out, cookie);
        };
        match self {
            Transaction(data) => {
                word(out, iow(b'c', 0, TRANSACTION));
                data.put(out);
            }
            Reply(data) => {
                word(out, iow(b'c', 1, TRANSACTION));
                data.put(out);
            }
            FreeBuffer(buffer) => {
                word(out, iow(b'c', 3, 8));
                long(out, buffer);
            }
            IncRefs(handle) => with_word(out, 4, handle),
            Acquire(handle) => with_word(out, 5, handle),
            Release(handle) => with_word(out, 6, handle),
            DecRefs(handle) => with_word(out, 7, handle),
            IncRefsDone(object, cookie) => with_pair(out, 8, object, cookie),
            AcquireDone(object, cookie) => with_pair(out, 9, object, cookie),
            RegisterLooper => word(out, io(b'c', 11)),
            EnterLooper => word(out, io(b'c', 12)),
            RequestDeath { handle, cookie } => with_handle(out, 14, handle, cookie),
            ClearDeath { handle, cookie } => with_handle(out, 15, handle, cookie),
            DeadBinderDone(cookie) => {
                word(out, iow(b'c', 16, 8));
                long(out, cookie);
            }
        }
    }
}

/// What the driver tells this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Return {
    Error(i32),
    Ok,
    Transaction(Transaction),
    Reply(Transaction),
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
    /// A return that this version knows the size of and has no use for.
    Other(u32),
}

/// A read buffer that returns are taken out of.
pub(super) struct Returns<'a>(&'a [u8]);

impl<'a> Returns<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Returns(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| Error::Protocol("the driver returned half a command".into()))?;
        self.0 = rest;
        Ok(*head)
    }

    fn word(&mut self) -> Result<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn long(&mut self) -> Result<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    /// The next return; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Return>> {
        const BR_TRANSACTION: u32 = ior(b'r', 2, TRANSACTION);
        const BR_TRANSACTION_SEC_CTX: u32 = ior(b'r', 2, TRANSACTION + 8);
        const BR_REPLY: u32 = ior(b'r', 3, TRANSACTION);
        const BR_ERROR: u32 = ior(b'r', 0, 4);
        const BR_INCREFS: u32 = ior(b'r', 7, PTR_COOKIE);
        const BR_ACQUIRE: u32 = ior(b'r', 8, PTR_COOKIE);
        const BR_RELEASE: u32 = ior(b'r', 9, PTR_COOKIE);
        const BR_DECREFS: u32 = ior(b'r', 10, PTR_COOKIE);
        const BR_DEAD_BINDER: u32 = ior(b'r', 15, 8);
        const BR_CLEAR_DEATH_NOTIFICATION_DONE: u32 = ior(b'r', 16, 8);
        if self.0.is_empty() {
            return Ok(None);
        }
        let number = self.word()?;
        let found = match number {
            BR_ERROR => Return::Error(self.word()?.cast_signed()),
            BR_TRANSACTION => Return::Transaction(Transaction::take(self)?),
            BR_TRANSACTION_SEC_CTX => {
                let data = Transaction::take(self)?;
                self.long()?;
                Return::Transaction(data)
            }
            BR_REPLY => Return::Reply(Transaction::take(self)?),
            BR_INCREFS => Return::IncRefs(self.long()?, self.long()?),
            BR_ACQUIRE => Return::Acquire(self.long()?, self.long()?),
            BR_RELEASE => Return::Release(self.long()?, self.long()?),
            BR_DECREFS => Return::DecRefs(self.long()?, self.long()?),
            BR_DEAD_BINDER => Return::DeadBinder(self.long()?),
            BR_CLEAR_DEATH_NOTIFICATION_DONE => Return::ClearDeathDone(self.long()?),
            _ => match (number & 0xff, number >> 16 & 0x3fff) {
                (1, 0) => Return::Ok,
                (5, 0) => Return::DeadReply,
                (6, 0) => Return::Complete,
                (12, 0) => Return::Noop,
                (13, 0) => Return::SpawnLooper,
                (17, 0) => Return::FailedReply,
                (18, 0) => Return::FrozenReply,
                (19, 0) => Return::OnewaySpamSuspect,
                (20, 0) => Return::PendingFrozen,
                // The number says how much belongs to it: later ones can be passed over.
                (_, size) => {
                    let size = size as usize;
                    self.0 = self
                        .0
                        .get(size..)
                        .ok_or_else(|| Error::Protocol(format!("the driver returned half of {number:#x}")))?;
                    Return::Other(number)
                }
            },
        };
        Ok(Some(found))
    }
}

impl Transaction {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.target.to_ne_bytes());
        out.extend_from_slice(&self.cookie.to_ne_bytes());
        out.extend_from_slice(&self.code.to_ne_bytes());
        out.extend_from_slice(&self.flags.to_ne_bytes());
        out.extend_from_slice(&self.sender_pid.to_ne_bytes());
        out.extend_from_slice(&self.sender_euid.to_ne_bytes());
        for long in [self.data_size, self.offsets_size, self.buffer, self.offsets] {
            out.extend_from_slice(&long.to_ne_bytes());
        }
    }

    fn take(from: &mut Returns<'_>) -> Result<Self> {
        Ok(Transaction {
            target: from.long()?,
            cookie: from.long()?,
            code: from.word()?,
            flags: from.word()?,
            sender_pid: from.word()?.cast_signed(),
            sender_euid: from.word()?,
            data_size: from.long()?,
            offsets_size: from.long()?,
            buffer: from.long()?,
            offsets: from.long()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(BINDER_WRITE_READ, 0xc030_6201);
        assert_eq!(BINDER_VERSION, 0xc004_6209);
        assert_eq!(BINDER_SET_CONTEXT_MGR_EXT, 0x4018_620d);
        let mut out = Vec::new();
        Command::Transaction(Transaction::default()).put(&mut out);
        assert_eq!(out.len(), 68);
        assert_eq!(out[..4], 0x4040_6300u32.to_ne_bytes());
        out.clear();
        Command::RequestDeath { handle: 1, cookie: 2 }.put(&mut out);
        assert_eq!(out.len(), 16, "the structure is packed");
        assert_eq!(out[..4], 0x400c_630eu32.to_ne_bytes());
    }

    #[test]
    fn returns_are_read_one_after_the_other() {
        let data = Transaction { code: 7, data_size: 12, ..Transaction::default() };
        let mut bytes = io(b'r', 12).to_ne_bytes().to_vec();
        bytes.extend(ior(b'r', 3, 64).to_ne_bytes());
        data.put(&mut bytes);
        bytes.extend(ior(b'r', 22, 8).to_ne_bytes());
        bytes.extend([0; 8]);
        let mut returns = Returns::new(&bytes);
        assert_eq!(returns.next().unwrap(), Some(Return::Noop));
        assert_eq!(returns.next().unwrap(), Some(Return::Reply(data)));
        assert_eq!(returns.next().unwrap(), Some(Return::Other(ior(b'r', 22, 8))), "of a newer kernel");
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
