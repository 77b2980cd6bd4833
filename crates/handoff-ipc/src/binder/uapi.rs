//! The driver's numbers and structures, as in `include/uapi/linux/android/binder.h` and `binderfs.h`: for the engine,
//! and for the conformance suite, which speaks to the driver without it.

const fn ioc(direction: u32, kind: u8, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (kind as u32) << 8 | number
}
pub const fn io(kind: u8, number: u32) -> u32 {
    ioc(0, kind, number, 0)
}
pub const fn iow(kind: u8, number: u32, size: usize) -> u32 {
    ioc(1, kind, number, size)
}
pub const fn ior(kind: u8, number: u32, size: usize) -> u32 {
    ioc(2, kind, number, size)
}
pub const fn iowr(kind: u8, number: u32, size: usize) -> u32 {
    ioc(3, kind, number, size)
}

/// Bytes that parcels on their way to this process may take together: the most that the driver
/// gives (`SZ_4M` in `binder_alloc.c`). Half of it is for oneway calls at most.
pub const BUFFER: usize = 4 << 20;
/// Bytes of `struct binder_transaction_data`.
pub const TRANSACTION: usize = 64;
/// Bytes of `struct binder_ptr_cookie`.
pub const PTR_COOKIE: usize = 16;
/// Bytes of the packed `struct binder_handle_cookie`.
pub const HANDLE_COOKIE: usize = 12;
/// Bytes of `struct binder_frozen_state_info`.
pub const FROZEN_STATE: usize = 16;

pub const BINDER_WRITE_READ: u32 = iowr(b'b', 1, 48);
pub const BINDER_SET_IDLE_TIMEOUT: u32 = iow(b'b', 3, 8);
pub const BINDER_SET_MAX_THREADS: u32 = iow(b'b', 5, 4);
pub const BINDER_SET_IDLE_PRIORITY: u32 = iow(b'b', 6, 4);
pub const BINDER_SET_CONTEXT_MGR: u32 = iow(b'b', 7, 4);
pub const BINDER_THREAD_EXIT: u32 = iow(b'b', 8, 4);
pub const BINDER_VERSION: u32 = iowr(b'b', 9, 4);
pub const BINDER_GET_NODE_DEBUG_INFO: u32 = iowr(b'b', 11, 24);
pub const BINDER_GET_NODE_INFO_FOR_REF: u32 = iowr(b'b', 12, 24);
pub const BINDER_SET_CONTEXT_MGR_EXT: u32 = iow(b'b', 13, 24);
pub const BINDER_FREEZE: u32 = iow(b'b', 14, 12);
pub const BINDER_GET_FROZEN_INFO: u32 = iowr(b'b', 15, 12);
pub const BINDER_ENABLE_ONEWAY_SPAM_DETECTION: u32 = iow(b'b', 16, 4);
pub const BINDER_GET_EXTENDED_ERROR: u32 = iowr(b'b', 17, 12);

/// Of a binderfs's control file: makes a device.
pub const BINDER_CTL_ADD: u32 = iowr(b'b', 1, 264);

// Commands: what a process tells the driver.
pub const BC_TRANSACTION: u32 = iow(b'c', 0, TRANSACTION);
pub const BC_REPLY: u32 = iow(b'c', 1, TRANSACTION);
pub const BC_FREE_BUFFER: u32 = iow(b'c', 3, 8);
pub const BC_INCREFS: u32 = iow(b'c', 4, 4);
pub const BC_ACQUIRE: u32 = iow(b'c', 5, 4);
pub const BC_RELEASE: u32 = iow(b'c', 6, 4);
pub const BC_DECREFS: u32 = iow(b'c', 7, 4);
pub const BC_INCREFS_DONE: u32 = iow(b'c', 8, PTR_COOKIE);
pub const BC_ACQUIRE_DONE: u32 = iow(b'c', 9, PTR_COOKIE);
pub const BC_REGISTER_LOOPER: u32 = io(b'c', 11);
pub const BC_ENTER_LOOPER: u32 = io(b'c', 12);
pub const BC_EXIT_LOOPER: u32 = io(b'c', 13);
pub const BC_REQUEST_DEATH_NOTIFICATION: u32 = iow(b'c', 14, HANDLE_COOKIE);
pub const BC_CLEAR_DEATH_NOTIFICATION: u32 = iow(b'c', 15, HANDLE_COOKIE);
pub const BC_DEAD_BINDER_DONE: u32 = iow(b'c', 16, 8);
pub const BC_TRANSACTION_SG: u32 = iow(b'c', 17, TRANSACTION + 8);
pub const BC_REPLY_SG: u32 = iow(b'c', 18, TRANSACTION + 8);
pub const BC_REQUEST_FREEZE_NOTIFICATION: u32 = iow(b'c', 19, HANDLE_COOKIE);
pub const BC_CLEAR_FREEZE_NOTIFICATION: u32 = iow(b'c', 20, HANDLE_COOKIE);
pub const BC_FREEZE_NOTIFICATION_DONE: u32 = iow(b'c', 21, 8);

// Returns: what the driver tells a process.
pub const BR_ERROR: u32 = ior(b'r', 0, 4);
pub const BR_OK: u32 = io(b'r', 1);
pub const BR_TRANSACTION: u32 = ior(b'r', 2, TRANSACTION);
pub const BR_TRANSACTION_SEC_CTX: u32 = ior(b'r', 2, TRANSACTION + 8);
pub const BR_REPLY: u32 = ior(b'r', 3, TRANSACTION);
pub const BR_DEAD_REPLY: u32 = io(b'r', 5);
pub const BR_TRANSACTION_COMPLETE: u32 = io(b'r', 6);
pub const BR_INCREFS: u32 = ior(b'r', 7, PTR_COOKIE);
pub const BR_ACQUIRE: u32 = ior(b'r', 8, PTR_COOKIE);
pub const BR_RELEASE: u32 = ior(b'r', 9, PTR_COOKIE);
pub const BR_DECREFS: u32 = ior(b'r', 10, PTR_COOKIE);
pub const BR_NOOP: u32 = io(b'r', 12);
pub const BR_SPAWN_LOOPER: u32 = io(b'r', 13);
pub const BR_DEAD_BINDER: u32 = ior(b'r', 15, 8);
pub const BR_CLEAR_DEATH_NOTIFICATION_DONE: u32 = ior(b'r', 16, 8);
pub const BR_FAILED_REPLY: u32 = io(b'r', 17);
pub const BR_FROZEN_REPLY: u32 = io(b'r', 18);
pub const BR_ONEWAY_SPAM_SUSPECT: u32 = io(b'r', 19);
pub const BR_TRANSACTION_PENDING_FROZEN: u32 = io(b'r', 20);
pub const BR_FROZEN_BINDER: u32 = ior(b'r', 21, FROZEN_STATE);
pub const BR_CLEAR_FREEZE_NOTIFICATION_DONE: u32 = ior(b'r', 22, 8);

/// `BINDER_CURRENT_PROTOCOL_VERSION` of 64-bit kernels.
pub const PROTOCOL_VERSION: i32 = 8;

/// The bytes stand for an earlier oneway call's that was not delivered yet (`TF_UPDATE_TXN`).
pub const TF_UPDATE_TXN: u32 = 0x40;
/// In `binder_buffer_object.flags`: the buffer is pointed to from within another one.
pub const BUFFER_FLAG_HAS_PARENT: u32 = 0x01;
/// Nobody waits for the reply.
pub const TF_ONE_WAY: u32 = 0x01;
/// The payload is a 32-bit status.
pub const TF_STATUS_CODE: u32 = 0x08;
/// The reply may carry descriptors.
pub const TF_ACCEPT_FDS: u32 = 0x10;
/// The kernel clears the parcel's buffer when it is freed.
pub const TF_CLEAR_BUF: u32 = 0x20;

pub const TYPE_BINDER: u32 = u32::from_be_bytes([b's', b'b', b'*', 0x85]);
pub const TYPE_HANDLE: u32 = u32::from_be_bytes([b's', b'h', b'*', 0x85]);
pub const TYPE_WEAK_BINDER: u32 = u32::from_be_bytes([b'w', b'b', b'*', 0x85]);
pub const TYPE_WEAK_HANDLE: u32 = u32::from_be_bytes([b'w', b'h', b'*', 0x85]);
pub const TYPE_PTR: u32 = crate::parcel::TYPE_PTR;
pub const TYPE_FDA: u32 = crate::parcel::TYPE_FDA;
pub const TYPE_FD: u32 = u32::from_be_bytes([b'f', b'd', b'*', 0x85]);

/// In `flat_binder_object.flags`: it takes descriptors.
pub const FLAG_ACCEPTS_FDS: u32 = 0x100;
/// In `flat_binder_object.flags`: the least urgent nice that it is served at is 19 minus nothing
/// asked for (libbinder's default 0x7f), and it takes descriptors.
pub const OBJECT_FLAGS: u32 = 0x7f | 0x100;
/// Android's kernels: calls inherit the caller's real-time priority. Others ignore the bit.
pub const FLAG_INHERIT_RT: u32 = 0x800;
/// Calls come with their caller's security context.
pub const FLAG_SECURITY_CONTEXT: u32 = 0x1000;

/// `struct binder_transaction_data`, with the target as its number: a handle on the way out, an
/// object's number on the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transaction {
    pub target: u64,
    pub cookie: u64,
    pub code: u32,
    pub flags: u32,
    pub sender_pid: i32,
    pub sender_euid: u32,
    pub data_size: u64,
    pub offsets_size: u64,
    pub buffer: u64,
    pub offsets: u64,
}

impl Transaction {
    /// As the structure stands in memory.
    #[inline]
    pub fn to_bytes(self) -> [u8; TRANSACTION] {
        let mut bytes = [0; TRANSACTION];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.target.to_ne_bytes());
        put(8, &self.cookie.to_ne_bytes());
        put(16, &self.code.to_ne_bytes());
        put(20, &self.flags.to_ne_bytes());
        put(24, &self.sender_pid.to_ne_bytes());
        put(28, &self.sender_euid.to_ne_bytes());
        put(32, &self.data_size.to_ne_bytes());
        put(40, &self.offsets_size.to_ne_bytes());
        put(48, &self.buffer.to_ne_bytes());
        put(56, &self.offsets.to_ne_bytes());
        bytes
    }

    /// The inverse of [`Transaction::to_bytes`].
    #[inline]
    pub fn from_bytes(bytes: &[u8; TRANSACTION]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(eight)
        };
        Transaction {
            target: long(0),
            cookie: long(8),
            code: word(16),
            flags: word(20),
            sender_pid: word(24) as i32,
            sender_euid: word(28),
            data_size: long(32),
            offsets_size: long(40),
            buffer: long(48),
            offsets: long(56),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(BINDER_WRITE_READ, 0xc030_6201);
        assert_eq!(BINDER_VERSION, 0xc004_6209);
        assert_eq!(BINDER_SET_CONTEXT_MGR_EXT, 0x4018_620d);
        assert_eq!(BINDER_FREEZE, 0x400c_620e);
        assert_eq!(BINDER_CTL_ADD, 0xc108_6201);
        assert_eq!(BC_TRANSACTION_SG, 0x4048_6311);
    }

    #[test]
    fn a_transaction_is_read_as_it_was_put() {
        let data = Transaction {
            target: 1,
            cookie: 2,
            code: 3,
            flags: 4,
            sender_pid: -5,
            sender_euid: 6,
            data_size: 7,
            offsets_size: 8,
            buffer: 9,
            offsets: 10,
        };
        assert_eq!(Transaction::from_bytes(&data.to_bytes()), data);
    }
}
