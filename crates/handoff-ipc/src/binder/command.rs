//! What this process tells the driver (`BC_*`), and how it stands in a write buffer.

use super::uapi::{
    BC_ACQUIRE, BC_ACQUIRE_DONE, BC_CLEAR_DEATH_NOTIFICATION, BC_CLEAR_FREEZE_NOTIFICATION,
    BC_DEAD_BINDER_DONE, BC_DECREFS, BC_ENTER_LOOPER, BC_FREE_BUFFER, BC_FREEZE_NOTIFICATION_DONE,
    BC_INCREFS, BC_INCREFS_DONE, BC_REGISTER_LOOPER, BC_RELEASE, BC_REPLY, BC_REPLY_SG,
    BC_REQUEST_DEATH_NOTIFICATION, BC_REQUEST_FREEZE_NOTIFICATION, BC_TRANSACTION, BC_TRANSACTION_SG,
    TRANSACTION, Transaction,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// A call; with `gathered`, the bytes that buffers outside of the parcel take there.
    Transaction {
        data: Transaction,
        gathered: u64,
    },
    /// The answer to the call that this thread was given last.
    Reply {
        data: Transaction,
        gathered: u64,
    },
    FreeBuffer(u64),
    IncRefs(u32),
    Acquire(u32),
    Release(u32),
    DecRefs(u32),
    IncRefsDone(u64, u64),
    AcquireDone(u64, u64),
    RegisterLooper,
    EnterLooper,
    RequestDeath {
        handle: u32,
        cookie: u64,
    },
    ClearDeath {
        handle: u32,
        cookie: u64,
    },
    DeadBinderDone(u64),
    RequestFreezeNews {
        handle: u32,
        cookie: u64,
    },
    ClearFreezeNews {
        handle: u32,
        cookie: u64,
    },
    FreezeNewsDone(u64),
}

impl Command {
    /// Appends the command to a write buffer.
    // Where it is used the command is known, and nothing but its bytes is left.
    #[inline(always)]
    pub(super) fn put(self, out: &mut Vec<u8>) {
        use Command::*;
        match self {
            Transaction { data, gathered: 0 } => put_transaction(out, BC_TRANSACTION, &data),
            Transaction { data, gathered } => {
                put_transaction(out, BC_TRANSACTION_SG, &data);
                put_long(out, gathered);
            }
            Reply { data, gathered: 0 } => put_transaction(out, BC_REPLY, &data),
            Reply { data, gathered } => {
                put_transaction(out, BC_REPLY_SG, &data);
                put_long(out, gathered);
            }
            FreeBuffer(buffer) => put_with_long(out, BC_FREE_BUFFER, buffer),
            IncRefs(handle) => put_with_word(out, BC_INCREFS, handle),
            Acquire(handle) => put_with_word(out, BC_ACQUIRE, handle),
            Release(handle) => put_with_word(out, BC_RELEASE, handle),
            DecRefs(handle) => put_with_word(out, BC_DECREFS, handle),
            IncRefsDone(object, cookie) => put_with_pair(out, BC_INCREFS_DONE, object, cookie),
            AcquireDone(object, cookie) => put_with_pair(out, BC_ACQUIRE_DONE, object, cookie),
            RegisterLooper => put_word(out, BC_REGISTER_LOOPER),
            EnterLooper => put_word(out, BC_ENTER_LOOPER),
            RequestDeath { handle, cookie } => {
                put_with_handle(out, BC_REQUEST_DEATH_NOTIFICATION, handle, cookie);
            }
            ClearDeath { handle, cookie } => {
                put_with_handle(out, BC_CLEAR_DEATH_NOTIFICATION, handle, cookie);
            }
            DeadBinderDone(cookie) => put_with_long(out, BC_DEAD_BINDER_DONE, cookie),
            RequestFreezeNews { handle, cookie } => {
                put_with_handle(out, BC_REQUEST_FREEZE_NOTIFICATION, handle, cookie);
            }
            ClearFreezeNews { handle, cookie } => {
                put_with_handle(out, BC_CLEAR_FREEZE_NOTIFICATION, handle, cookie);
            }
            FreezeNewsDone(cookie) => put_with_long(out, BC_FREEZE_NOTIFICATION_DONE, cookie),
        }
    }
}

fn put_word(out: &mut Vec<u8>, word: u32) {
    out.extend_from_slice(&word.to_ne_bytes());
}

fn put_long(out: &mut Vec<u8>, long: u64) {
    out.extend_from_slice(&long.to_ne_bytes());
}

fn put_with_word(out: &mut Vec<u8>, command: u32, value: u32) {
    put_word(out, command);
    put_word(out, value);
}

fn put_with_long(out: &mut Vec<u8>, command: u32, value: u64) {
    put_word(out, command);
    put_long(out, value);
}

fn put_with_pair(out: &mut Vec<u8>, command: u32, first: u64, second: u64) {
    put_word(out, command);
    put_long(out, first);
    put_long(out, second);
}

fn put_with_handle(out: &mut Vec<u8>, command: u32, handle: u32, cookie: u64) {
    put_word(out, command);
    put_word(out, handle);
    put_long(out, cookie);
}

#[inline]
fn put_transaction(out: &mut Vec<u8>, command: u32, data: &Transaction) {
    // One piece: the vector's length is checked once.
    let mut bytes = [0; 4 + TRANSACTION];
    bytes[..4].copy_from_slice(&command.to_ne_bytes());
    bytes[4..].copy_from_slice(&data.to_bytes());
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_long_as_their_numbers_say() {
        let data = Transaction::default();
        let (handle, cookie) = (1, 2);
        for command in [
            Command::Transaction { data, gathered: 0 },
            Command::Transaction { data, gathered: 8 },
            Command::Reply { data, gathered: 0 },
            Command::Reply { data, gathered: 8 },
            Command::FreeBuffer(1),
            Command::IncRefs(1),
            Command::Acquire(1),
            Command::Release(1),
            Command::DecRefs(1),
            Command::IncRefsDone(1, 2),
            Command::AcquireDone(1, 2),
            Command::RegisterLooper,
            Command::EnterLooper,
            Command::RequestDeath { handle, cookie },
            Command::ClearDeath { handle, cookie },
            Command::DeadBinderDone(1),
            Command::RequestFreezeNews { handle, cookie },
            Command::ClearFreezeNews { handle, cookie },
            Command::FreezeNewsDone(1),
        ] {
            let mut out = Vec::new();
            command.put(&mut out);
            let number = u32::from_ne_bytes(out[..4].try_into().unwrap());
            assert_eq!(out.len() - 4, (number >> 16 & 0x3fff) as usize, "{command:?}");
            assert_eq!(number >> 8 & 0xff, u32::from(b'c'), "{command:?}");
        }
    }

    #[test]
    fn numbers_are_the_kernels() {
        let first = |command: Command| {
            let mut out = Vec::new();
            command.put(&mut out);
            u32::from_ne_bytes(out[..4].try_into().unwrap())
        };
        let data = Transaction::default();
        assert_eq!(first(Command::Transaction { data, gathered: 0 }), 0x4040_6300);
        assert_eq!(first(Command::Reply { data, gathered: 1 }), 0x4048_6312);
        assert_eq!(first(Command::RequestDeath { handle: 1, cookie: 2 }), 0x400c_630e);
        assert_eq!(first(Command::FreezeNewsDone(1)), 0x4008_6315);
    }
}
