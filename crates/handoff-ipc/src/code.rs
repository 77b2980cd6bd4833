//! Numbers of transactions: an interface's own, and those that every object answers.

/// Number of a transaction of an interface: AIDL counts from 1 in the order of declaration.
pub type Code = u32;

/// `IBinder::FIRST_CALL_TRANSACTION`.
pub(crate) const FIRST_CALL: Code = 1;
/// `IBinder::LAST_CALL_TRANSACTION`.
pub(crate) const LAST_CALL: Code = 0x00ff_ffff;
/// `IBinder::PING_TRANSACTION`.
pub(crate) const PING: Code = u32::from_be_bytes(*b"_PNG");
/// `IBinder::INTERFACE_TRANSACTION`.
pub(crate) const INTERFACE: Code = u32::from_be_bytes(*b"_NTF");
/// The descriptors of an object's interface and of all that this one extends: Handoff's own.
pub(crate) const INTERFACE_CHAIN: Code = u32::from_be_bytes(*b"_CHN");
/// `IBinder::DUMP_TRANSACTION`, here with the arguments in the request and text in the reply.
pub(crate) const DUMP: Code = u32::from_be_bytes(*b"_DMP");

/// `IBinder::SHELL_COMMAND_TRANSACTION`: `shell.rs` has the request.
pub(crate) const SHELL_COMMAND: Code = u32::from_be_bytes(*b"_CMD");

/// `IBinder::EXTENSION_TRANSACTION`: another object that adds to this one.
pub(crate) const EXTENSION: Code = u32::from_be_bytes(*b"_EXT");

/// True if `code` may be one of an interface's own transactions.
pub fn is_user_code(code: Code) -> bool {
    (FIRST_CALL..=LAST_CALL).contains(&code)
}
