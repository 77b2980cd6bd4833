//! What can go wrong with a call: transport errors, and the status a service answers with.

use std::fmt;
use std::io;
use std::time::Duration;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call, connection or parcel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process that holds the object is gone. Sent at once to every caller that waits for it.
    #[error("the process that serves this object has died")]
    Dead,
    /// The process that holds the object is frozen: it serves nobody until it is thawed.
    #[error("the process that serves this object is frozen")]
    Frozen,
    /// The call's deadline passed before the reply came. A late reply is dropped.
    #[error("the call did not return within its deadline of {0:?}")]
    DeadlineExpired(Duration),
    /// The object does not know this transaction code.
    #[error("{descriptor} has no transaction with code {code}")]
    UnknownTransaction {
        /// Interface descriptor of the object that refused.
        descriptor: String,
        /// The code that was sent.
        code: u32,
    },
    /// The caller means another interface than the object has. Nothing was sent.
    #[error("the object has the interface {found}, not {expected}")]
    WrongInterface {
        /// Descriptor of the interface that the caller means.
        expected: String,
        /// Descriptor of the interface that the object has.
        found: String,
    },
    /// The handle names no object that this process may call.
    #[error("the peer offers no object {0:#x} to this process")]
    UnknownObject(u64),
    /// A parcel is larger than the engine carries.
    #[error(
        "a parcel of {size} bytes is larger than the {limit} bytes a transaction carries; \
         put the data in a SharedMemory and send its handle"
    )]
    TooLarge {
        /// Bytes that the parcel needs.
        size: usize,
        /// Bytes that the engine can carry.
        limit: usize,
    },
    /// A parcel does not hold what the reader asked of it.
    #[error("bad parcel at byte {at}: {what}")]
    BadParcel {
        /// Offset in the parcel's data, in bytes.
        at: usize,
        /// What was expected and what was found.
        what: String,
    },
    /// The peer broke the engine's protocol; its connection was closed.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// The peer was built with a release that speaks another version of the `shm` engine's protocol. Nothing was sent.
    #[error(
        "the peer speaks version {theirs} of the shm protocol and this process version {ours}: \
         build both with the same release of handoff-ipc, then restart the one that was built again"
    )]
    OtherVersion {
        /// Version that the peer named in its greeting.
        theirs: u32,
        /// Version that this process speaks.
        ours: u32,
    },
    /// Two processes called each other back, each call inside of the one before, and the thread that was to serve
    /// the last one waits for too many already, or has too little stack left.
    #[error(
        "the call is nested too deeply: two processes call each other back, and this thread cannot serve one call more"
    )]
    TooDeep,
    /// The caller may not do this.
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    /// No service is registered under this name.
    #[error("no service is registered as {0:?}")]
    NoSuchService(String),
    /// A living process has registered this name.
    #[error(
        "the name {name:?} is taken by process {pid} of user {uid}: stop that process, or ask for the name with `replace`"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The process that has it; 0 where it is not visible to the manager.
        pid: u32,
        /// That process's effective user.
        uid: u32,
    },
    /// The oneway queue towards this peer is full: it does not keep up.
    #[error("the peer's oneway queue is full{0}; slow down or retry")]
    OnewayFull(OnewayBacklog),
    /// A descriptor is not of a queue that can be used, or a queue cannot be made so.
    #[error("no usable message queue: {0}")]
    BadQueue(String),
    /// A message queue could not be read or written.
    #[error(transparent)]
    Queue(#[from] crate::queue::QueueError),
    /// The service answered with an exception.
    #[error("{0}")]
    Status(Status),
    /// The runtime that serves the object failed, and no handler: a caller gets the error inside.
    #[error(transparent)]
    Runtime(Box<Error>),
    /// The engine cannot do this.
    #[error("the {engine} engine cannot {what}")]
    Unsupported {
        /// Name of the engine.
        engine: &'static str,
        /// What was asked for.
        what: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// An operating-system error with what was being done.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { what: what.into(), source: source.into() }
    }

    /// Whether the connection failed: the other side is gone, was not there, or broke off in the middle. A later attempt may
    /// succeed, as when a service manager is back.
    pub fn is_disconnection(&self) -> bool {
        matches!(self, Error::Dead | Error::Io { .. } | Error::Protocol(_))
    }

    /// The `status_t` that the kernel driver's protocol and this engine's replies carry for this
    /// error (negated errno values, as in Android's `utils/Errors.h`).
    pub fn to_status_t(&self) -> i32 {
        match self {
            Error::Dead => -32,                           // DEAD_OBJECT = -EPIPE
            Error::Frozen => -32,                         // as libbinder calls it
            Error::DeadlineExpired(_) => -110,            // TIMED_OUT
            Error::UnknownTransaction { .. } => -74,      // UNKNOWN_TRANSACTION = -EBADMSG
            Error::WrongInterface { .. } => -0x7fff_ffff, // BAD_TYPE
            Error::UnknownObject(_) => -2,                // NAME_NOT_FOUND
            Error::NoSuchService(_) => -2,
            Error::TooLarge { .. } => -0x7fff_fffe, // FAILED_TRANSACTION
            Error::BadParcel { .. } => -22,         // BAD_VALUE
            Error::BadQueue(_) | Error::Queue(_) => -22,
            Error::Protocol(_) | Error::OtherVersion { .. } => -71,
            Error::TooDeep => -40, // -ELOOP, which Android has no use for
            Error::PermissionDenied(_) => -1,
            Error::NameTaken { .. } => -17,   // ALREADY_EXISTS
            Error::OnewayFull(_) => -11,      // WOULD_BLOCK
            Error::Unsupported { .. } => -38, // INVALID_OPERATION
            Error::Status(_) => -0x8000_0000, // UNKNOWN_ERROR
            Error::Runtime(error) => error.to_status_t(),
            Error::Io { source, .. } => match source.raw_os_error() {
                Some(number) => -number,
                None => other_status(source).unwrap_or(-5),
            },
        }
    }

    /// What a caller gets for the error that its service's handler failed with: an exception ([`Error::Status`]) with
    /// the error's text. Where Android answers with a `status_t` and no exception, the error stays: the request
    /// cannot be read, its code is unknown, the reply is too large, or the runtime failed and no handler.
    pub(crate) fn for_caller(self) -> Self {
        let (exception, text) = match self {
            Error::Status(_)
            | Error::UnknownTransaction { .. }
            | Error::BadParcel { .. }
            | Error::TooLarge { .. } => return self,
            Error::Runtime(error) => return *error,
            Error::PermissionDenied(why) => (ExceptionCode::Security, why),
            Error::Unsupported { .. } => (ExceptionCode::UnsupportedOperation, self.to_string()),
            // The service itself is alive: its caller must not take this for its death.
            Error::Dead => {
                (ExceptionCode::IllegalState, "a process that this service depends on has died".to_owned())
            }
            _ => (ExceptionCode::IllegalState, self.to_string()),
        };
        Error::Status(Status::new(exception, text))
    }

    /// The error that a peer meant by a `status_t` in a reply to `code` of `descriptor`.
    pub fn from_status_t(status: i32, descriptor: &str, code: u32) -> Self {
        match status {
            -32 => Error::Dead,
            -74 => Error::UnknownTransaction { descriptor: descriptor.to_owned(), code },
            -22 => {
                Error::BadParcel { at: 0, what: "the peer could not read the request it was sent".to_owned() }
            }
            -40 => Error::TooDeep,
            -1 => Error::PermissionDenied("the peer refused the call".to_owned()),
            -11 => Error::OnewayFull(OnewayBacklog::Unknown),
            other => Error::Io {
                what: "the peer failed while it served the call".to_owned(),
                source: if (1..4096).contains(&other.unsigned_abs()) {
                    io::Error::from_raw_os_error(other.unsigned_abs() as i32)
                } else {
                    io::Error::other(OtherStatus(other))
                },
            },
        }
    }
}

/// A `status_t` that is no error number of the system: services of the NDK answer with such.
#[derive(Debug, thiserror::Error)]
#[error("status {0}")]
struct OtherStatus(i32);

fn other_status(error: &io::Error) -> Option<i32> {
    Some(error.get_ref()?.downcast_ref::<OtherStatus>()?.0)
}

/// What waits in a oneway queue that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnewayBacklog {
    /// So many calls, on the `local` engine.
    Calls(usize),
    /// Calls of so many bytes together, on the `shm` engine.
    Bytes(usize),
    /// The `binder` engine does not tell.
    Unknown,
}

impl fmt::Display for OnewayBacklog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnewayBacklog::Calls(count) => write!(f, " ({count} calls wait there)"),
            OnewayBacklog::Bytes(count) => write!(f, " ({count} bytes wait there)"),
            OnewayBacklog::Unknown => Ok(()),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Status(status)
    }
}

/// Exception codes of AIDL (`binder/Status.h`), the number that heads every reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ExceptionCode {
    /// The call succeeded.
    None = 0,
    /// The caller lacks a permission.
    Security = -1,
    /// A parcelable could not be decoded.
    BadParcelable = -2,
    /// An argument is out of its range.
    IllegalArgument = -3,
    /// A null was passed where none is allowed.
    NullPointer = -4,
    /// The service is not in a state to do this.
    IllegalState = -5,
    /// Network on the main thread (kept for wire compatibility).
    NetworkMainThread = -6,
    /// The service does not implement this.
    UnsupportedOperation = -7,
    /// The service's own error number says more.
    ServiceSpecific = -8,
    /// A parcelable exception (kept for wire compatibility).
    Parcelable = -9,
    /// The transport failed.
    TransactionFailed = -129,
}

impl ExceptionCode {
    /// The code for a number read from a reply; numbers of other versions become
    /// [`ExceptionCode::TransactionFailed`].
    pub fn from_raw(raw: i32) -> Self {
        use ExceptionCode::*;
        [
            None,
            Security,
            BadParcelable,
            IllegalArgument,
            NullPointer,
            IllegalState,
            NetworkMainThread,
            UnsupportedOperation,
            ServiceSpecific,
            Parcelable,
        ]
        .into_iter()
        .find(|code| *code as i32 == raw)
        .unwrap_or(TransactionFailed)
    }
}

/// The exception a service answers with: a code, an optional message and, for
/// [`ExceptionCode::ServiceSpecific`], the service's own number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    exception: ExceptionCode,
    service_specific: i32,
    message: Option<String>,
}

impl Status {
    /// An exception with a message.
    pub fn new(exception: ExceptionCode, message: impl Into<String>) -> Self {
        Status { exception, service_specific: 0, message: Some(message.into()) }
    }

    /// The service's own error number, with a message.
    pub fn service_specific(code: i32, message: impl Into<String>) -> Self {
        Status {
            exception: ExceptionCode::ServiceSpecific,
            service_specific: code,
            message: Some(message.into()),
        }
    }

    pub(crate) fn from_parts(
        exception: ExceptionCode,
        service_specific: i32,
        message: Option<String>,
    ) -> Self {
        Status { exception, service_specific, message }
    }

    /// Which exception.
    pub fn exception(&self) -> ExceptionCode {
        self.exception
    }

    /// The service's own number; 0 unless the exception is [`ExceptionCode::ServiceSpecific`].
    pub fn service_specific_code(&self) -> i32 {
        self.service_specific
    }

    /// The message, where the service gave one.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exception {
            ExceptionCode::ServiceSpecific => {
                write!(f, "service-specific error {}", self.service_specific)?;
            }
            other => write!(f, "{other:?} exception")?,
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Status {}
