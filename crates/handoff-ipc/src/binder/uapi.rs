//! The driver's numbers and structures, as in `include/uapi/linux/android/binder.h` and `binderfs.h`.

const fn ioc(direction: u32, kind: u8, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (kind as u32) << 8 | number
}
pub(super) const fn io(kind: u8, number: u32) -> u32 {
    ioc(0, kind, number, 0)
}
pub(super) const fn iow(kind: u8, number: u32, size: usize) -> u32 {
    ioc(1, kind, number, size)
}
pub(super) const fn ior(kind: u8, number: u32, size: usize) -> u32 {
    ioc(2, kind, number, size)
}
pub(super) const fn iowr(kind: u8, number: u32, size: usize) -> u32 {
    ioc(3, kind, number, size)
}

/// Bytes that parcels on their way to this process may take together: the most that the driver
/// gives (`SZ_4M` in `binder_alloc.c`). Half of it is for oneway calls at most.
pub(super) const BUFFER: usize = 4 << 20;
/// Bytes of `struct binder_transaction_data`.
pub(super) const TRANSACTION: usize = 64;
/// Bytes of `struct binder_ptr_cookie`.
pub(super) const PTR_COOKIE: usize = 16;
/// Bytes of the packed `struct binder_handle_cookie`.
pub(super) const HANDLE_COOKIE: usize = 12;
/// Bytes of `struct binder_frozen_state_info`.
pub(super) const FROZEN_STATE: usize = 16;

pub(super) const BINDER_WRITE_READ: u32 = iowr(b'b', 1, 48);
pub(super) const BINDER_SET_MAX_THREADS: u32 = iow(b'b', 5, 4);
pub(super) const BINDER_SET_CONTEXT_MGR: u32 = iow(b'b', 7, 4);
pub(super) const BINDER_THREAD_EXIT: u32 = iow(b'b', 8, 4);
pub(super) const BINDER_VERSION: u32 = iowr(b'b', 9, 4);
pub(super) const BINDER_SET_CONTEXT_MGR_EXT: u32 = iow(b'b', 13, 24);
pub(super) const BINDER_FREEZE: u32 = iow(b'b', 14, 12);
pub(super) const BINDER_GET_FROZEN_INFO: u32 = iowr(b'b', 15, 12);
pub(super) const BINDER_ENABLE_ONEWAY_SPAM_DETECTION: u32 = iow(b'b', 16, 4);
pub(super) const BINDER_GET_EXTENDED_ERROR: u32 = iowr(b'b', 17, 12);

/// Of a binderfs's control file: makes a device.
pub(super) const BINDER_CTL_ADD: u32 = iowr(b'b', 1, 264);

/// Commands that are asked for by number when a kernel is probed.
pub(super) const BC_TRANSACTION_SG: u32 = iow(b'c', 17, TRANSACTION + 8);
pub(super) const BC_REQUEST_FREEZE_NOTIFICATION: u32 = iow(b'c', 19, HANDLE_COOKIE);

/// `BINDER_CURRENT_PROTOCOL_VERSION` of 64-bit kernels.
pub(super) const PROTOCOL_VERSION: i32 = 8;

/// Nobody waits for the reply.
pub(super) const TF_ONE_WAY: u32 = 0x01;
/// The payload is a 32-bit status.
pub(super) const TF_STATUS_CODE: u32 = 0x08;
/// The reply may carry descriptors.
pub(super) const TF_ACCEPT_FDS: u32 = 0x10;
/// The kernel clears the parcel's buffer when it is freed.
pub(super) const TF_CLEAR_BUF: u32 = 0x20;

pub(super) const TYPE_BINDER: u32 = u32::from_be_bytes([b's', b'b', b'*', 0x85]);
pub(super) const TYPE_HANDLE: u32 = u32::from_be_bytes([b's', b'h', b'*', 0x85]);
pub(super) const TYPE_FD: u32 = u32::from_be_bytes([b'f', b'd', b'*', 0x85]);

/// In `flat_binder_object.flags`: the least urgent nice that it is served at is 19 minus nothing
/// asked for (libbinder's default 0x7f), and it takes descriptors.
pub(super) const OBJECT_FLAGS: u32 = 0x7f | 0x100;
/// Android's kernels: calls inherit the caller's real-time priority. Others ignore the bit.
pub(super) const FLAG_INHERIT_RT: u32 = 0x800;
/// Calls come with their caller's security context.
pub(super) const FLAG_SECURITY_CONTEXT: u32 = 0x1000;

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

impl Transaction {
    /// As the structure stands in memory.
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; TRANSACTION] {
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
    pub(super) fn from_bytes(bytes: &[u8; TRANSACTION]) -> Self {
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
